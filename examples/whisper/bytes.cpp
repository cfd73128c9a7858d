#include "bytes.h"

#include <weft/error.h>

#include <fstream>

namespace whisper {

std::vector<std::byte> read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file) throw weft::Error(weft::ErrorCode::kNotFound, path.string() + ": cannot be opened");
  const auto size = static_cast<std::streamoff>(file.tellg());
  if (size < 0) throw weft::Error(weft::ErrorCode::kIo, path.string() + ": is not a file");
  std::vector<std::byte> bytes(static_cast<std::size_t>(size));
  file.seekg(0);
  if (!file.read(reinterpret_cast<char*>(bytes.data()), size))
    throw weft::Error(weft::ErrorCode::kIo, path.string() + ": cannot be read");
  return bytes;
}

std::span<const std::byte> ByteReader::take(std::size_t n) {
  if (n > rest_.size()) fail("ends too early");
  const auto taken = rest_.first(n);
  rest_ = rest_.subspan(n);
  return taken;
}

void ByteReader::fail(const std::string& reason) const {
  throw weft::Error(weft::ErrorCode::kInvalidFile, name_ + ": " + reason);
}

}  // namespace whisper
