#include "base/read_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

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

std::vector<std::byte> read_file(const std::filesystem::path& path, std::uint64_t max_bytes) {
  // A pipe that nobody writes to would block an open that waits.
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) fail(path, "open");
  const Descriptor descriptor{fd};
  struct stat status{};
  if (::fstat(fd, &status) != 0) fail(path, "read");
  if (!S_ISREG(status.st_mode)) throw Error(ErrorCode::kIo, path.string() + " is not a regular file");
  const auto size = static_cast<std::uint64_t>(status.st_size);
  if (size > max_bytes)
    throw Error(ErrorCode::kInvalidFile, path.string() + " has " + std::to_string(size) +
                                             " bytes, expected at most " + std::to_string(max_bytes));
  std::vector<std::byte> bytes(size);
  std::size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t n = ::read(fd, bytes.data() + done, bytes.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail(path, "read");
    if (n == 0) break;
    done += static_cast<std::size_t>(n);
  }
  bytes.resize(done);  // Shorter where somebody cut it in the meantime.
  return bytes;
}

}  // namespace weft::base
