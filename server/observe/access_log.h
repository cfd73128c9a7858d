#pragma once
// One line of JSON a request: who, what, how long. Never what was asked or answered.
#include <cstdio>
#include <memory>
#include <mutex>
#include <string>

#include "api/generation.h"

namespace weft::server {

struct AccessRecord {
  std::string id;
  std::string method;
  std::string path;
  std::string peer;
  std::string model;
  double ms = 0.0;
  Outcome outcome;
};

/// Any number of threads.
class AccessLog {
 public:
  /// "-": standard error. Throws Error kIo where the file cannot be opened.
  explicit AccessLog(const std::string& path);
  ~AccessLog();
  AccessLog(const AccessLog&) = delete;
  AccessLog& operator=(const AccessLog&) = delete;

  void add(const AccessRecord& record);
  /// The file may have been moved away. False, and the old one stays, where it cannot be opened.
  bool reopen();

 private:
  const std::string path_;
  std::mutex mutex_;
  std::FILE* file_;
};

}  // namespace weft::server
