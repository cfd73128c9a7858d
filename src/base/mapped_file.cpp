#include "base/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <utility>

#include "base/memory.h"
#include "weft/error.h"

namespace weft::base {
namespace {

[[noreturn]] void fail(const std::filesystem::path& path, const char* action) {
  const int error = errno;
  throw Error(error == ENOENT ? ErrorCode::kNotFound : ErrorCode::kIo,
              "cannot " + std::string(action) + " " + path.string() + ": " + std::strerror(error));
}

struct Descriptor {
  int fd;
  ~Descriptor() { ::close(fd); }
};

}  // namespace

MappedFile::MappedFile(const std::filesystem::path& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) fail(path, "open");
  const Descriptor descriptor{fd};
  struct stat status{};
  if (::fstat(fd, &status) != 0) fail(path, "read");
  if (!S_ISREG(status.st_mode)) throw Error(ErrorCode::kIo, path.string() + " is not a regular file");
  size_ = static_cast<std::size_t>(status.st_size);
  if (size_ == 0) return;
  void* const place = reserve(size_, kLargePage);
  void* const mapped =
      ::mmap(place, size_, PROT_READ, MAP_PRIVATE | (place != nullptr ? MAP_FIXED : 0), fd, 0);
  if (mapped == MAP_FAILED) fail(path, "map");
  data_ = static_cast<const std::byte*>(mapped);
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
