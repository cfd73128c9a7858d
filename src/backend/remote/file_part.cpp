#include "backend/remote/file_part.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <string_view>

#include "base/to_size.h"

namespace weft::remote {
namespace {

/// The number at the beginning of the string, which is removed together with the next character.
std::optional<std::uint64_t> take_hex(std::string_view& text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, 16);
  if (error != std::errc() || end == text.data() + text.size()) return std::nullopt;
  text.remove_prefix(to_size(end - text.data()) + 1);
  return value;
}

}  // namespace

std::optional<FilePart> file_part(std::span<const std::byte> bytes) {
  const auto first = reinterpret_cast<std::uintptr_t>(bytes.data());
  std::ifstream maps("/proc/self/maps");
  // "begin-end rights offset device inode   path", numbers in hexadecimal.
  for (std::string line; std::getline(maps, line);) {
    std::string_view rest = line;
    const auto begin = take_hex(rest);
    const auto end = take_hex(rest);
    if (!begin || !end || first < *begin || first >= *end) continue;
    rest.remove_prefix(std::min(rest.find(' ') + 1, rest.size()));
    const auto offset = take_hex(rest);
    const std::size_t path = rest.find('/');
    // What the system writes otherwise than it is, or has marked as deleted, is not looked for.
    if (!offset || path == rest.npos || bytes.size() > *end - first || rest.find('\\') != rest.npos ||
        rest.ends_with(" (deleted)"))
      return std::nullopt;
    return FilePart{.path = std::string(rest.substr(path)), .offset = *offset + (first - *begin)};
  }
  return std::nullopt;
}

}  // namespace weft::remote
