#pragma once
// The results of a batch in a file that only grows: one JSON object a line, in the order in which they came.
// A writer that was killed may leave a part of a line, which recover() cuts off.
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

#include "base/descriptor.h"
#include "files/file_store.h"

namespace weft::server {

/// Used by one thread.
class BatchOutput {
 public:
  /// Opens or creates the file, whose bytes are of `owner`. Throws ApiError 507.
  BatchOutput(std::filesystem::path path, Space& space, std::string owner);
  ~BatchOutput();  ///< The file stays, but does not count any more.
  BatchOutput(const BatchOutput&) = delete;
  BatchOutput& operator=(const BatchOutput&) = delete;

  const std::filesystem::path& path() const { return path_; }
  bool empty() const { return bytes_ == 0; }
  /// Passes the custom_id of each line to `takes`. The file is cut before the first line that is not whole,
  /// and the first that `takes` refuses. Returns the number of lines. Throws ApiError 507.
  std::size_t recover(const std::function<bool(const std::string& custom_id)>& takes);
  /// Adds a line as a whole or not at all. Throws ApiError 413 or 507.
  void append(std::string line);
  /// Whether lines may not be on the disk yet.
  bool is_dirty() const { return is_dirty_; }
  /// Throws ApiError 507.
  void sync();

 private:
  void cut(std::uint64_t bytes);
  [[noreturn]] void fail() const;

  const std::filesystem::path path_;
  Space& space_;
  const std::string owner_;
  const base::Descriptor file_;
  std::uint64_t bytes_ = 0;
  bool is_dirty_ = false;
};

}  // namespace weft::server
