#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace weft::remote {

struct FilePart {
  std::string path = {};
  std::uint64_t offset = 0;
};

/// Where bytes of memory lie in a file, which this process has mapped and which still has its name. Asks the
/// system, as whoever mapped it may be another library's copy of this code. Nothing where they do not.
std::optional<FilePart> file_part(std::span<const std::byte> bytes);

}  // namespace weft::remote
