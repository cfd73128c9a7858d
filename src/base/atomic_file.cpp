#include "base/atomic_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "base/to_size.h"
#include "weft/error.h"

namespace weft::base {
namespace {

namespace fs = std::filesystem;

constexpr int kMaxLinks = 40;         // The system's limit.
constexpr int kMaxTemporaries = 256;  // Per path, one for each living writer.

[[noreturn]] void refuse(const fs::path& path, const std::string& reason) {
  throw Error(ErrorCode::kIo, "cannot write " + path.string() + ": " + reason);
}

fs::path folder_of(const fs::path& path) { return path.has_parent_path() ? path.parent_path() : "."; }

fs::path numbered(const fs::path& path, int number) {
  fs::path name = path;
  return name += ".tmp-" + std::to_string(number);
}

/// Where links lead to, whether or not anything is there.
fs::path follow_links(const fs::path& path) {
  fs::path place = path;
  std::error_code error;
  for (int i = 0; fs::is_symlink(fs::symlink_status(place, error)); ++i) {
    if (i == kMaxLinks) refuse(path, "it has too many levels of symbolic links");
    place = folder_of(place) / fs::read_symlink(place, error);
    if (error) refuse(path, error.message());
  }
  return place;
}

/// Whether the name still refers to that open file.
bool is_at(const fs::path& path, int fd) {
  struct stat named{}, opened{};
  return ::fstat(fd, &opened) == 0 && ::lstat(path.c_str(), &named) == 0 && named.st_ino == opened.st_ino &&
         named.st_dev == opened.st_dev;
}

}  // namespace

bool remove_abandoned(const fs::path& temporary) {
  const int fd = ::open(temporary.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (fd < 0) return false;
  // Only the holder of the file's lock may remove it or give the name to another file.
  const bool removed =
      ::flock(fd, LOCK_EX | LOCK_NB) == 0 && is_at(temporary, fd) && ::unlink(temporary.c_str()) == 0;
  ::close(fd);
  return removed;
}

AtomicFile::AtomicFile(const fs::path& path, unsigned new_mode) : path_(follow_links(path)) {
  struct stat old{};
  const bool replaces = ::stat(path_.c_str(), &old) == 0;
  if (replaces && !S_ISREG(old.st_mode)) refuse(path, "it is not a regular file; name another path");
  const mode_t mode = replaces ? old.st_mode & 0777 : new_mode;
  if (!open_without_name(mode)) open_with_name(mode);
  if (replaces) ::fchmod(fd_, mode);  // The process's mask is for new files.
}

// Its name comes from /proc, which is not everywhere.
bool AtomicFile::open_without_name(unsigned mode) {
#ifdef O_TMPFILE
  fd_ = ::open(folder_of(path_).c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, mode);
  if (fd_ < 0) return false;
  if (::access(("/proc/self/fd/" + std::to_string(fd_)).c_str(), F_OK) == 0) {
    ::flock(fd_, LOCK_EX | LOCK_NB);
    return true;
  }
  ::close(std::exchange(fd_, -1));
#endif
  return false;
}

void AtomicFile::open_with_name(unsigned mode) {
  for (int i = 0; i < kMaxTemporaries; ++i) {
    temporary_ = numbered(path_, i);
    remove_abandoned(temporary_);
    fd_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
    if (fd_ < 0 && errno == EEXIST) continue;
    if (fd_ < 0) fail("create");
    // A writer that checks whether the file is abandoned may hold the lock for an instant, and decides before
    // it releases it. Where files cannot be locked, no file counts as abandoned.
    while (::flock(fd_, LOCK_EX) != 0 && errno == EINTR) {
    }
    if (is_at(temporary_, fd_)) return;
    ::close(std::exchange(fd_, -1));  // Somebody took it for abandoned before it was locked.
  }
  errno = EEXIST;
  fail("create");
}

AtomicFile::~AtomicFile() {
  if (fd_ < 0) return;
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
  ::close(fd_);
}

void AtomicFile::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd_, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail("write");
    bytes = bytes.subspan(to_size(n));
  }
}

// A name that is there cannot be linked over, so the file has one of its own for an instant.
void AtomicFile::link() {
  const std::string file = "/proc/self/fd/" + std::to_string(fd_);
  for (int i = 0; i < kMaxTemporaries; ++i) {
    const fs::path name = numbered(path_, i);
    remove_abandoned(name);
    if (::linkat(AT_FDCWD, file.c_str(), AT_FDCWD, name.c_str(), AT_SYMLINK_FOLLOW) == 0) {
      temporary_ = name;
      return;
    }
    if (errno != EEXIST) break;
  }
  fail("write");
}

void AtomicFile::commit() {
  if (::fsync(fd_) != 0) fail("write");
  if (temporary_.empty()) link();
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) fail("replace");
  ::close(std::exchange(fd_, -1));
  // The folder holds the new name. Some file systems cannot sync one, and then there is nothing more to do.
  const int folder_fd = ::open(folder_of(path_).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder_fd < 0) return;
  ::fsync(folder_fd);
  ::close(folder_fd);
}

void AtomicFile::fail(const char* action) const {
  const int error = errno;
  throw Error(ErrorCode::kIo,
              "cannot " + std::string(action) + " " + path_.string() + ": " + std::strerror(error));
}

}  // namespace weft::base
