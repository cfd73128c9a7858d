#include "base/read_file.h"

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
  bytes.resize(file.read_at(0, bytes));  // Shorter if it was truncated in the meantime.
  return bytes;
}

}  // namespace weft::base
