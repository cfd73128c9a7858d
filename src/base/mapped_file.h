#pragma once
// A whole file mapped read-only. The bytes stay valid as long as the object lives, moving keeps them in
// place; but the file is somebody else's: where it is cut in the meantime, or its disk fails, the system ends
// a process that touches them (SIGBUS). So they are read through `read`, which throws then, by all that can
// take a copy.
#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>

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

  /// Copies a part of bytes() from the file, without touching the mapping. Throws Error kIo where the file
  /// has been cut or cannot be read. From any thread.
  void read(std::span<const std::byte> part, std::span<std::byte> to) const;

 private:
  std::unique_ptr<const OpenFile> file_;
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace weft::base
