#pragma once
// A whole file, mapped read-only. The bytes stay in place as long as the object lives, also when it is moved.
//
// Other processes may change the file at any time. Bytes that are gone (the file was cut, its disk failed)
// read as zeros then, and lost() is true (base/mapping_guard.h). Code that can take a copy uses `read`, which
// throws in that case. Code that reads the mapping itself checks a FileWatch after each use.
#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

#include "base/mapping_guard.h"
#include "base/open_file.h"

namespace weft::base {

class MappedFile {
 public:
  MappedFile() = default;
  /// Throws Error kNotFound or kIo. An empty file gives an empty span; others begin at a multiple of 2 MiB,
  /// so that large pages can take their place.
  explicit MappedFile(const std::filesystem::path& path);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;

  std::span<const std::byte> bytes() const { return {data_, size_}; }
  bool holds(std::span<const std::byte> part) const;
  const OpenFile& file() const { return *file_; }  ///< Not of an object made without a path.
  /// Whether a thread touched bytes that are gone: all of bytes() may be zeros since. Any thread.
  bool lost() const { return guard_ != nullptr && guard_->lost(); }

  /// Copies a part of bytes() from the file, without touching the mapping. Throws Error kIo where the file
  /// has been cut or cannot be read. From any thread.
  void read(std::span<const std::byte> part, std::span<std::byte> to) const;
  /// Throws Error kIo where bytes are lost, or the file was written to since it was opened.
  void check_unchanged() const;
  /// What is wrong with a file that is lost(): names it.
  std::string loss() const;

 private:
  std::unique_ptr<const OpenFile> file_;
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
  std::unique_ptr<const MappingGuard> guard_;
};

}  // namespace weft::base
