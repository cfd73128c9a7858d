#pragma once
// Bytes as letters (RFC 4648), as JSON carries them.
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace weft::base {

/// In the standard alphabet, padded.
std::string to_base64(std::span<const std::byte> bytes);
/// Nothing if `text` is not base64 (either alphabet, padded or not).
std::optional<std::vector<std::byte>> from_base64(std::string_view text);

}  // namespace weft::base
