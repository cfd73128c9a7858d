#pragma once
// Masks of lanes: bit j is cell j of a page.
#include <bit>
#include <cstdint>

#include "weft/graph/extent.h"

namespace weft::kv {

inline std::uint64_t bit(int lane) { return std::uint64_t{1} << lane; }

/// Lanes [begin, end), both within 0 to 64.
inline std::uint64_t lanes(int begin, int end) {
  if (begin >= end) return 0;
  const std::uint64_t low = end - begin == kPageCells ? ~std::uint64_t{0} : bit(end - begin) - 1;
  return low << begin;
}

/// Calls f with each lane, in ascending order.
template <typename F>
void for_each_lane(std::uint64_t mask, F f) {
  for (; mask != 0; mask &= mask - 1) f(std::countr_zero(mask));
}

}  // namespace weft::kv
