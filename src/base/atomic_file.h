#pragma once
// A file that appears whole or not at all: written beside its place under another name, brought to the disk,
// renamed.
#include <cstddef>
#include <filesystem>
#include <span>

namespace weft::base {

class AtomicFile {
 public:
  /// Throws Error kIo where the folder cannot be written.
  explicit AtomicFile(std::filesystem::path path);
  ~AtomicFile();  ///< Leaves what stood at `path`, unless commit() has returned.
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  /// Throws Error kIo.
  void write(std::span<const std::byte> bytes);
  void commit();

 private:
  [[noreturn]] void fail(const char* action) const;

  std::filesystem::path path_;
  std::filesystem::path temporary_;
  int fd_ = -1;
};

}  // namespace weft::base
