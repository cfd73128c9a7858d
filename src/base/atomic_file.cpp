#include "base/atomic_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "weft/error.h"

namespace weft::base {

AtomicFile::AtomicFile(std::filesystem::path path) : path_(std::move(path)) {
  // A name of a writer that was killed may be taken: the next number is free.
  for (int i = 0; fd_ < 0; ++i) {
    temporary_ = path_;
    temporary_ += ".tmp-" + std::to_string(::getpid()) + "-" + std::to_string(i);
    fd_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd_ < 0 && errno != EEXIST) fail("create");
  }
}

AtomicFile::~AtomicFile() {
  if (fd_ < 0) return;
  ::close(fd_);
  ::unlink(temporary_.c_str());
}

void AtomicFile::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd_, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail("write");
    bytes = bytes.subspan(static_cast<std::size_t>(n));
  }
}

void AtomicFile::commit() {
  if (::fsync(fd_) != 0) fail("write");
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) fail("replace");
  ::close(std::exchange(fd_, -1));
  // The folder holds the new name. Some file systems cannot sync one, and then there is nothing more to do.
  const std::filesystem::path folder = path_.has_parent_path() ? path_.parent_path() : ".";
  const int folder_fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
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
