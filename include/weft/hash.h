// Since 0.1
#pragma once
#include <cstdint>

#pragma GCC visibility push(default)

namespace weft {

/// 128 bits that identify contents. Not cryptographic: safe against accidents, not against forgery. All
/// zeros: not known.
struct Hash128 {
  std::uint64_t low = 0;
  std::uint64_t high = 0;
  friend bool operator==(const Hash128&, const Hash128&) = default;
};

}  // namespace weft

#pragma GCC visibility pop
