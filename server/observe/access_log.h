#pragma once
// One line of JSON for each request: client, path, model, times. Never prompts or responses.
#include <cstdio>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "api/served_request.h"

namespace weft::server {

struct AccessRecord {
  const HttpRequest& request;
  std::string id = {};
  std::string key = {};  ///< The name of the client's key.
  std::string model = {};
  double ms = 0.0;
  std::size_t n_bytes = 0;  ///< Size of the response, with its head.
  Outcome outcome;
};

/// Any number of threads.
class AccessLog {
 public:
  using Warn = std::function<void(const std::string&)>;

  /// "-": standard error. `warn` may be empty. It is called once when lines begin to be lost, as on a full
  /// disk. Throws Error kIo where the file cannot be opened.
  explicit AccessLog(const std::string& path, Warn warn = nullptr);
  ~AccessLog();
  AccessLog(const AccessLog&) = delete;
  AccessLog& operator=(const AccessLog&) = delete;

  void add(const AccessRecord& record);
  /// The file may have been moved away. False, and the old one stays, where it cannot be opened.
  bool reopen();

 private:
  const std::string path_;
  const Warn warn_;
  std::mutex mutex_;
  std::FILE* file_;
  bool loses_lines_ = false;
};

}  // namespace weft::server
