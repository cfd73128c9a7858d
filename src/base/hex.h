#pragma once
// Hashes as hexadecimal digits, in names of files.
#include <cstdint>
#include <string>

#include "base/hash.h"

namespace weft::base {

/// 32 lower-case digits, the upper half first.
inline std::string to_hex(const Hash128& hash) {
  std::string text;
  for (const std::uint64_t half : {hash.high, hash.low})
    for (int shift = 60; shift >= 0; shift -= 4) text += "0123456789abcdef"[half >> shift & 15];
  return text;
}

}  // namespace weft::base
