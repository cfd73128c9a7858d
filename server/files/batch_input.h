#pragma once
// The input of a batch: a file with one request a line.
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/open_file.h"
#include "files/batch.h"

namespace weft::server {

/// Whether batches may have requests to the endpoint.
bool is_batch_endpoint(std::string_view endpoint);
/// Their names, for messages.
std::string batch_endpoints();

struct BatchLine {
  std::string custom_id = {};
  Json body = {};
};

/// Used by one thread.
class BatchInput {
 public:
  static constexpr std::size_t kMostLineBytes = std::size_t{16} << 20;  ///< As the body of a request.
  static constexpr std::size_t kMostIdBytes = 512;
  static constexpr std::size_t kMostErrors = 50;  ///< That check() returns.

  BatchInput(std::shared_ptr<const base::OpenFile> file, std::string endpoint, std::size_t most_lines)
      : file_(std::move(file)), endpoint_(std::move(endpoint)), most_lines_(most_lines) {}

  struct Checked {
    std::vector<BatchError> errors = {};                      ///< Empty: all lines are requests.
    std::unordered_map<std::string, std::size_t> by_id = {};  ///< Requests by custom_id.
  };
  /// Reads all lines. Blank ones are skipped. Ends early where `stopped` returns true. Throws Error kIo.
  Checked check(const std::function<bool()>& stopped);

  // After a check without errors:
  std::size_t size() const { return places_.size(); }  ///< Requests.
  /// Throws Error kIo, also if the file has changed since the check.
  BatchLine line(std::size_t index) const;

 private:
  BatchLine parse(std::string_view text) const;

  struct Place {
    std::size_t offset = 0, size = 0;
  };
  const std::shared_ptr<const base::OpenFile> file_;
  const std::string endpoint_;
  const std::size_t most_lines_;
  std::vector<Place> places_;
};

}  // namespace weft::server
