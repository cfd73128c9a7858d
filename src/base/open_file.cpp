#include "base/open_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <ctime>
#include <string>

#include "base/to_size.h"
#include "weft/error.h"

namespace weft::base {
namespace {

constexpr std::int64_t kSettledSeconds = 2;  // The coarsest clock of a file system.

Hash128 identity_of(const struct stat& status) {
  const std::int64_t age = std::int64_t{::time(nullptr)} - status.st_ctim.tv_sec;
  if (age <= kSettledSeconds) return {};
  // Some file systems have no time of the last change, and report the time of the last write in whole seconds
  // instead. Images of squashfs, FAT and archives are made with arbitrary times.
  const bool is_made_up = status.st_ctim.tv_sec == status.st_mtim.tv_sec && status.st_ctim.tv_nsec == 0 &&
                          status.st_mtim.tv_nsec == 0;
  if (is_made_up) return {};
  // The device's number is left out: a disk may get another one each time it is mounted.
  Hasher hasher;
  for (const auto value : {std::int64_t(status.st_ino), std::int64_t{status.st_size},
                           std::int64_t{status.st_mtim.tv_sec}, std::int64_t{status.st_mtim.tv_nsec},
                           std::int64_t{status.st_ctim.tv_sec}, std::int64_t{status.st_ctim.tv_nsec}})
    hasher.add_value(value);
  return hasher.result();
}

OpenFile::Stamp stamp_of(const struct stat& status) {
  const auto ns = [](const timespec& time) {
    return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
  };
  return {to_size(status.st_size), ns(status.st_mtim), ns(status.st_ctim)};
}

}  // namespace

// Opening a pipe without a writer would block.
OpenFile::OpenFile(const std::filesystem::path& path)
    : path_(path), descriptor_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
  if (descriptor_ < 0) fail("open");
  try {
    struct stat status{};
    if (::fstat(descriptor_, &status) != 0) fail("read");
    if (!S_ISREG(status.st_mode)) throw Error(ErrorCode::kIo, path.string() + " is not a regular file");
    stamp_ = stamp_of(status);
    identity_ = identity_of(status);
  } catch (...) {
    ::close(descriptor_);
    throw;
  }
}

OpenFile::~OpenFile() { ::close(descriptor_); }

std::optional<OpenFile::Stamp> OpenFile::stamp_now() const {
  struct stat status{};
  if (::fstat(descriptor_, &status) != 0) return std::nullopt;
  return stamp_of(status);
}

void OpenFile::check_unchanged() const {
  const std::optional<Stamp> now = stamp_now();
  if (!now) fail("read");
  if (now->size == stamp_.size && now->written_ns == stamp_.written_ns) return;
  throw Error(
      ErrorCode::kIo,
      path_.string() +
          " was modified after it was opened; do not change a file in use, but rename a new one to its name");
}

std::size_t OpenFile::read_at(std::size_t offset, std::span<std::byte> to) const {
  std::size_t done = 0;
  while (done < to.size()) {
    const ssize_t n =
        ::pread(descriptor_, to.data() + done, to.size() - done, static_cast<off_t>(offset + done));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail("read");
    if (n == 0) break;
    done += to_size(n);
  }
  return done;
}

void OpenFile::fail(const char* action) const {
  const int error = errno;
  throw Error(error == ENOENT ? ErrorCode::kNotFound : ErrorCode::kIo,
              "cannot " + std::string(action) + " " + path_.string() + ": " + std::strerror(error));
}

}  // namespace weft::base
