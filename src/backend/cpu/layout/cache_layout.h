#pragma once
// The layout of a cache's bytes. Pages of 64 cells, and in a page the heads one after another. A head's part
// has first the units of all cells, then the words of all cells if the type has any. A unit is what one cell
// has of one dim (of two dims where codes have four bits, as in a block of GGUF). A GGUF block of 32 dims has
// words of 16 bits before its units. The first is the scale. Q4_1 and Q5_1 then have the minimum. Q5_0 and
// Q5_1 end with the fifth bits of codes: a word for dims 0 to 15, and one for dims 16 to 31.
//
// K is blocked by 16 keys for the vector unit: [4 groups][n][16 keys]; V is [64 keys][n], for units and for
// words alike. Types that are multiplied in pairs have two neighbours of a sum next to each other: in K two
// dims, [4 groups] [n / 2][16 keys][2], in V two keys, [32 pairs][n][2]. Static constexpr arithmetic, so that
// no shared inline function comes of it.
//
// Caches of BF16 have the layout of the instruction that multiplies pairs. Keys are stored by pairs of dims,
// values by pairs of cells. Queries and weights are rounded to the same type. Other instruction sets do the
// same in two steps (pairs.inl). Attention is 1.7 to 1.9 times as fast as over F16, and the KL divergence to
// the model in F32 is the same. So it is the default on a processor with that instruction.
#include <cstddef>
#include <cstdint>

#include "base/to_size.h"
#include "weft/dtype.h"
#include "weft/graph/extent.h"
#include "weft/graph/kinds.h"

namespace weft::cpu {

inline constexpr int kCacheKeys = 16;  ///< Of a group in the K layout.

/// Dims of a block of the quantised types.
inline constexpr int kCacheBlock = 32;
static constexpr bool has_cache_min(DType type) { return type == DType::kQ4_1 || type == DType::kQ5_1; }
static constexpr bool has_cache_fifth_bits(DType type) {
  return type == DType::kQ5_0 || type == DType::kQ5_1;
}
static constexpr bool is_quantised_cache(DType type) {
  return type == DType::kQ8_0 || type == DType::kQ4_0 || type == DType::kIQ4_NL || has_cache_min(type) ||
         has_cache_fifth_bits(type);
}
/// Words of a block.
static constexpr int cache_block_words(DType type) {
  return is_quantised_cache(type) ? 1 + (has_cache_min(type) ? 1 : 0) + (has_cache_fifth_bits(type) ? 2 : 0)
                                  : 0;
}
/// Dims of a unit.
static constexpr int cache_unit_dims(DType type) {
  return is_quantised_cache(type) && type != DType::kQ8_0 ? 2 : 1;
}

/// Bytes of a unit; the place that a new cache type starts from, with cache_cells.inl.
static constexpr std::size_t cache_unit_bytes(DType type) {
  return type == DType::kF32 ? 4 : is_quantised_cache(type) ? 1 : 2;
}
/// The number of units and words of a cell in one head. Quantised types need whole blocks.
static constexpr std::size_t cache_units(DType type, int head_dim) {
  return to_size(head_dim / cache_unit_dims(type));
}
static constexpr std::size_t cache_words(DType type, int head_dim) {
  return to_size(head_dim / kCacheBlock * cache_block_words(type));
}
static constexpr std::size_t kCacheWordBytes = 2;

static constexpr std::size_t cache_page_bytes(DType type, int n_kv_heads, int head_dim) {
  return to_size(n_kv_heads) * kPageCells *
         (cache_units(type, head_dim) * cache_unit_bytes(type) +
          cache_words(type, head_dim) * kCacheWordBytes);
}

/// Types whose elements are multiplied in pairs; heads must have an even number of them.
static constexpr bool is_paired_cache(DType type) { return type == DType::kBF16; }

/// A cell's part of n units (or words) of one head.
struct Places {
  std::ptrdiff_t first;
  std::ptrdiff_t pair_step;  ///< From a unit to the next but one ...
  std::ptrdiff_t odd_step;   ///< ... and from an even one to the next.
};
static constexpr std::ptrdiff_t place_of(const Places& places, std::ptrdiff_t i) {
  return places.first + i / 2 * places.pair_step + i % 2 * places.odd_step;
}
static constexpr Places cache_places(CacheRole role, bool paired, std::int64_t cell, std::ptrdiff_t n) {
  const std::ptrdiff_t lane = cell % kPageCells;
  if (role == CacheRole::kValues)
    return paired ? Places{lane / 2 * 2 * n + lane % 2, 4, 2} : Places{lane * n, 2, 1};
  const std::ptrdiff_t group = lane / kCacheKeys * n * kCacheKeys, key = lane % kCacheKeys;
  return paired ? Places{group + 2 * key, 2 * kCacheKeys, 1}
                : Places{group + key, 2 * kCacheKeys, kCacheKeys};
}

}  // namespace weft::cpu
