#include "base/mapped_file.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <utility>

#include "base/memory.h"
#include "base/open_file.h"

namespace weft::base {

MappedFile::MappedFile(const std::filesystem::path& path) {
  const OpenFile file(path);
  if (file.size() == 0) return;
  void* const place = reserve(file.size(), kLargePage);
  void* const mapped = ::mmap(place, file.size(), PROT_READ, MAP_PRIVATE | (place != nullptr ? MAP_FIXED : 0),
                              file.descriptor(), 0);
  if (mapped == MAP_FAILED) {
    const int error = errno;
    if (place != nullptr) ::munmap(place, file.size());
    errno = error;
    file.fail("map");
  }
  data_ = static_cast<const std::byte*>(mapped);
  size_ = file.size();
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

void MappedFile::release(std::span<const std::byte> part) const {
  const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto begin = (reinterpret_cast<std::uintptr_t>(part.data()) + page - 1) / page * page;
  const auto end = reinterpret_cast<std::uintptr_t>(part.data() + part.size()) / page * page;
  if (begin < end) ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
}

}  // namespace weft::base
