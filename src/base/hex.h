#pragma once
// Bytes and hashes as hexadecimal digits, in names of files.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/hash.h"

namespace weft::base {

/// 32 lower-case digits, the upper half first.
inline std::string to_hex(const Hash128& hash) {
  std::string text;
  for (const std::uint64_t half : {hash.high, hash.low})
    for (int shift = 60; shift >= 0; shift -= 4) text += "0123456789abcdef"[half >> shift & 15];
  return text;
}

/// Two lower-case digits for each byte.
inline std::string to_hex(std::span<const std::uint8_t> bytes) {
  std::string text;
  for (const std::uint8_t byte : bytes)
    text += {"0123456789abcdef"[byte >> 4], "0123456789abcdef"[byte & 15]};
  return text;
}

/// A hash from its digits; nothing for any other string.
inline std::optional<Hash128> from_hex(std::string_view text) {
  constexpr std::size_t kDigits = 32;
  if (text.size() != kDigits) return std::nullopt;
  Hash128 hash;
  for (std::size_t i = 0; i < kDigits; ++i) {
    const std::size_t digit = std::string_view("0123456789abcdef").find(text[i]);
    if (digit == std::string_view::npos) return std::nullopt;
    std::uint64_t& half = i < kDigits / 2 ? hash.high : hash.low;
    half = half << 4 | digit;
  }
  return hash;
}

}  // namespace weft::base
