// Since 0.1
#pragma once
#include <cstdint>

#pragma GCC visibility push(default)

namespace weft {

/// A 128-bit hash that identifies content. It is not cryptographic: it detects accidental changes, not
/// forgery. All zeros: unknown.
struct Hash128 {
  std::uint64_t low = 0;
  std::uint64_t high = 0;
  friend bool operator==(const Hash128&, const Hash128&) = default;
};

}  // namespace weft

#pragma GCC visibility pop
