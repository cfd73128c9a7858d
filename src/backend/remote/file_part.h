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

/// The place of memory's bytes in a file that this process has mapped and that still has its name. Asks the
/// system, as the mapping may belong to another library's copy of this code. Nothing if they are not in a
/// file.
std::optional<FilePart> file_part(std::span<const std::byte> bytes);

}  // namespace weft::remote
