// Since 0.1
#pragma once
// Extents: the block table of paged attention.
//
// A cell of the KV cache holds one token's keys and values; a page is 64 cells. A sequence is a list of
// extents, ordered by position. An extent describes the cells of one page that the sequence holds, and their
// positions. A lane is a cell's index in its page.
#include <cstdint>

#pragma GCC visibility push(default)

namespace weft {

inline constexpr int kPageCells = 64;

/// Cell j of the page belongs to the sequence if bit j of `mask` is set. Its position is (j + offset) /
/// divisor + base. In tensors an extent is six 32-bit words.
struct Extent {
  std::uint64_t mask = 0;
  std::int32_t page = -1;
  std::int32_t base = 0;
  std::int32_t divisor = 1;
  std::int32_t offset = 0;

  std::int32_t position(int lane) const { return (lane + offset) / divisor + base; }
  /// The first lane whose position is at least `pos`; 64: none.
  int lane_of(std::int64_t pos) const {
    const std::int64_t lane = (pos - base) * divisor - offset;
    return static_cast<int>(lane < 0 ? 0 : lane > kPageCells ? kPageCells : lane);
  }
  std::int32_t first() const { return position(__builtin_ctzll(mask)); }
  std::int32_t last() const { return position(kPageCells - 1 - __builtin_clzll(mask)); }
};

/// Cells of one page that a row of a step does not attend to, in addition to the causal and window masks.
/// Entries of a row are consecutive, and the list ends with an entry whose row is -1. In tensors an entry is
/// four 32-bit words.
struct HiddenCells {
  std::int32_t row = -1;
  std::int32_t page = -1;
  std::uint64_t mask = 0;
};
inline constexpr int kHiddenWords = 4;
static_assert(sizeof(HiddenCells) == kHiddenWords * sizeof(std::int32_t));

inline constexpr int kExtentWords = 6;
static_assert(sizeof(Extent) == kExtentWords * sizeof(std::int32_t));

}  // namespace weft

#pragma GCC visibility pop
