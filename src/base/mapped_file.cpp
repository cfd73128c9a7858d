#include "base/mapped_file.h"

#include <sys/mman.h>

#include <cerrno>
#include <functional>
#include <string>
#include <utility>

#include "base/check.h"
#include "base/memory.h"
#include "base/to_size.h"
#include "weft/error.h"

namespace weft::base {

MappedFile::MappedFile(const std::filesystem::path& path) : file_(std::make_unique<OpenFile>(path)) {
  if (file_->size() == 0) return;
  void* const place = reserve(file_->size(), kLargePage);
  void* const mapped = ::mmap(place, file_->size(), PROT_READ,
                              MAP_PRIVATE | (place != nullptr ? MAP_FIXED : 0), file_->descriptor(), 0);
  if (mapped == MAP_FAILED) {
    const int error = errno;
    if (place != nullptr) ::munmap(place, file_->size());
    errno = error;
    file_->fail("map");
  }
  data_ = static_cast<const std::byte*>(mapped);
  size_ = file_->size();
  guard_ = std::make_unique<const MappingGuard>(bytes());
}

MappedFile::~MappedFile() {
  guard_.reset();
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : file_(std::move(other.file_)),
      data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)),
      guard_(std::move(other.guard_)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(file_, other.file_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  std::swap(guard_, other.guard_);
  return *this;
}

bool MappedFile::holds(std::span<const std::byte> part) const {
  const std::less_equal<const std::byte*> before;
  return data_ != nullptr && before(data_, part.data()) && before(part.data() + part.size(), data_ + size_);
}

void MappedFile::read(std::span<const std::byte> part, std::span<std::byte> to) const {
  WEFT_CHECK(to.size() == part.size());
  if (part.empty()) return;
  WEFT_CHECK(holds(part));
  const auto offset = to_size(part.data() - data_);
  const std::size_t n = file_->read_at(offset, to);
  if (n < to.size()) {
    throw Error(ErrorCode::kIo, "cannot read " + file_->path().string() + ": it had " +
                                    std::to_string(size_) +
                                    " bytes when it was opened, but has lost those from byte " +
                                    std::to_string(offset + n) + " on; do not change it while it is in use");
  }
}

void MappedFile::check_unchanged() const {
  if (lost()) throw Error(ErrorCode::kIo, loss());
  file_->check_unchanged();
}

std::string MappedFile::loss() const {
  return "cannot read " + file_->path().string() +
         " any more: it was truncated, or its disk failed, while it was in use; open it again when it is "
         "complete";
}

}  // namespace weft::base
