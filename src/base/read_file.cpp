#include "base/read_file.h"

#include <unistd.h>

#include <cerrno>
#include <string>

#include "base/open_file.h"
#include "weft/error.h"

namespace weft::base {

std::vector<std::byte> read_file(const std::filesystem::path& path, std::uint64_t max_bytes) {
  const OpenFile file(path);
  const std::uint64_t size = file.size();
  if (size > max_bytes)
    throw Error(ErrorCode::kInvalidFile, path.string() + " has " + std::to_string(size) +
                                             " bytes, expected at most " + std::to_string(max_bytes));
  std::vector<std::byte> bytes(size);
  std::size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t n = ::read(file.descriptor(), bytes.data() + done, bytes.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) file.fail("read");
    if (n == 0) break;
    done += static_cast<std::size_t>(n);
  }
  bytes.resize(done);  // Shorter where somebody cut it in the meantime.
  return bytes;
}

}  // namespace weft::base
