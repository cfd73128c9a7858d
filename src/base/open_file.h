#pragma once
// A regular file, open for reading.
#include <cstddef>
#include <filesystem>
#include <span>

namespace weft::base {

class OpenFile {
 public:
  /// Throws Error kNotFound or kIo, which names the path; also for what is no regular file, without waiting
  /// for anybody who might write to it.
  explicit OpenFile(const std::filesystem::path& path);
  ~OpenFile();
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;

  const std::filesystem::path& path() const { return path_; }
  int descriptor() const { return descriptor_; }
  std::size_t size() const { return size_; }
  /// Reads from that byte on and says how many it got: fewer than asked for where the file ends. Throws Error
  /// kIo. From any thread.
  std::size_t read_at(std::size_t offset, std::span<std::byte> to) const;
  /// Throws Error of what went wrong last, "cannot `action` `path`: reason".
  [[noreturn]] void fail(const char* action) const;

 private:
  const std::filesystem::path path_;
  int descriptor_ = -1;
  std::size_t size_ = 0;
};

}  // namespace weft::base
