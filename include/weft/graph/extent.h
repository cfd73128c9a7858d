// Since 0.1
#pragma once
// Extents: how attention finds a sequence's cells.
//
// A cell holds one token's K and V; cells come in pages of 64. A sequence is a list of extents in the order
// of their positions. An extent has the cells of one page that the sequence holds, and their positions.
#include <cstdint>

#pragma GCC visibility push(default)

namespace weft {

inline constexpr int kPageCells = 64;

/// If its bit is set, cell j of the page has the position (j + offset) / divisor + base. In tensors: six
/// 32-bit words.
struct Extent {
  std::uint64_t mask = 0;
  std::int32_t page = -1;
  std::int32_t base = 0;
  std::int32_t divisor = 1;
  std::int32_t offset = 0;

  std::int32_t position(int lane) const { return (lane + offset) / divisor + base; }
  /// The first lane (0 to 64) whose position is not before `pos`.
  int lane_of(std::int64_t pos) const {
    const std::int64_t lane = (pos - base) * divisor - offset;
    return static_cast<int>(lane < 0 ? 0 : lane > kPageCells ? kPageCells : lane);
  }
  std::int32_t first() const { return position(__builtin_ctzll(mask)); }
  std::int32_t last() const { return position(kPageCells - 1 - __builtin_clzll(mask)); }
};

/// Cells of one page that a row of a step does not see, in addition to the mask of order and windows. Entries
/// of a row are consecutive; the list ends with an entry of no row (-1). In tensors: four 32-bit words.
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
