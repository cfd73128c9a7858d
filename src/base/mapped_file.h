#pragma once
// A whole file mapped read-only. The bytes stay valid as long as the object lives; moving keeps them in
// place.
#include <cstddef>
#include <filesystem>
#include <span>

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

  /// Tells the system that this part will not be read again soon, so its pages can go.
  void release(std::span<const std::byte> part) const;

 private:
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace weft::base
