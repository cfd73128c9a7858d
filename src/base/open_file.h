#pragma once
// A regular file, open for reading.
#include <cstddef>
#include <filesystem>

namespace weft::base {

class OpenFile {
 public:
  /// Throws Error kNotFound or kIo, which names the path; also for what is no regular file, without waiting
  /// for anybody who might write to it.
  explicit OpenFile(const std::filesystem::path& path);
  ~OpenFile();
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;

  int descriptor() const { return descriptor_; }
  std::size_t size() const { return size_; }
  /// Throws Error of what went wrong last, "cannot `action` `path`: reason".
  [[noreturn]] void fail(const char* action) const;

 private:
  const std::filesystem::path path_;
  int descriptor_ = -1;
  std::size_t size_ = 0;
};

}  // namespace weft::base
