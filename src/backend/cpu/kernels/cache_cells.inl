#pragma once
// The cells of the K and V cache: how elements of a cache type load and store (a new type starts here), and
// how a token's row is written to its cell. Quantised cells are written by cache_rows.cpp, and read a page at
// a time, as floats. Needs vec_<isa>.h and WEFT_CPU_ISA.
#include <cstddef>
#include <cstdint>

#include "backend/cpu/kernels/attention_scratch.h"
#include "backend/cpu/kernels/kernels.h"
#include "backend/cpu/kernels/pairs.inl"
#include "backend/cpu/layout/cache_rows.h"
#include "backend/cpu/layout/packed_layout.h"

namespace weft::cpu::WEFT_CPU_ISA::attend {

inline constexpr int kKeys = kCacheKeys;
static_assert(kKeys % kLanes == 0);

/// Cells that are multiplied as floats, one at a time.
struct SingleCells {
  using Factor = float;
  using Vector = F32;
  static constexpr int kTogether = 1;
  static Vector spread(const Factor* p) { return broadcast(*p); }
  static F32 add_products(Vector factor, Vector cells, F32 sum) { return fma(factor, cells, sum); }
};
struct F16Cells : SingleCells {
  using Element = std::uint16_t;
  static F32 load(const Element* p) { return load_f16(p); }
  static void store(Element* p, F32 a) { store_f16(p, a); }
  static Vector load_vector(const Element* p) { return load(p); }
};
struct F32Cells : SingleCells {
  using Element = float;
  static F32 load(const Element* p) { return WEFT_CPU_ISA::load(p); }
  static void store(Element* p, F32 a) { WEFT_CPU_ISA::store(p, a); }
  static Vector load_vector(const Element* p) { return load(p); }
};

/// Two cells (of V) or dims (of K) at a time, by factors of the same type: both are rounded to it.
struct BF16Cells {
  using Element = std::uint16_t;
  using Factor = std::uint16_t;
  using Vector = Pairs;
  static constexpr int kTogether = 2;
  static F32 load(const Element* p) { return load_bf16(p); }
  static void store(Element* p, F32 a) { store_bf16(p, a); }
  static Vector load_vector(const Element* p) { return load_pairs(p); }
  static Vector spread(const Factor* p) { return broadcast_pair(p); }
  static F32 add_products(Vector factors, Vector cells, F32 sum) {
    return WEFT_CPU_ISA::add_products(factors, cells, sum);
  }
};

/// Calls f with the cells of a float type. They define how elements are read and written as floats, and how
/// attention multiplies kTogether of them in each lane.
template <class F>
static inline void with_cells(DType type, F f) {
  if (type == DType::kF16) return f(F16Cells{});
  if (type == DType::kBF16) return f(BF16Cells{});
  f(F32Cells{});
}

/// Prefetches the line `ahead` bytes after p: the same place of the next page. One row or a few use a page
/// faster than memory delivers it, and the machine's own prefetching knows nothing of page tables. Into the
/// second level: the first has too few misses in flight to keep memory busy (measured: 13 against 23 GB/s on
/// one Zen 4 core).
static inline void prefetch(const void* p, std::ptrdiff_t ahead) {
  __builtin_prefetch(
      reinterpret_cast<const void*>(reinterpret_cast<std::uintptr_t>(p) + static_cast<std::uintptr_t>(ahead)),
      0, 2);
}

/// The same for all of a head's part of a page.
static inline void prefetch_head(const std::byte* head, std::size_t bytes, std::ptrdiff_t ahead) {
  for (std::size_t i = 0; i < bytes; i += 64) prefetch(head + i, ahead);
}

/// Converts n elements; the last vector, if it is not whole, through a copy.
template <class Cells>
static void cells_to_floats(const typename Cells::Element* from, std::ptrdiff_t ahead, int n, float* to) {
  int i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    WEFT_CPU_ISA::store(to + i, Cells::load(from + i));
    prefetch(from + i, ahead);
  }
  if (i < n) {
    typename Cells::Element rest[kLanes] = {};
    for (int j = 0; j < n - i; ++j) rest[j] = from[i + j];
    store_partial(to + i, Cells::load(rest), n - i);
  }
}

// ---- Quantised cells as floats: code * scale, or code * scale + min, as the scalar codec has it. ----

using Bytes = std::uint8_t __attribute__((vector_size(16)));
using Words = std::uint16_t __attribute__((vector_size(32)));
inline constexpr int kUnitsAtOnce = 16;  ///< Units that become floats at once.
static_assert(kUnitsAtOnce == kKeys && kUnitsAtOnce % kLanes == 0);

template <class Vector, class T>
static inline __attribute__((always_inline)) void load_all(const T* from, Vector& to) {
  __builtin_memcpy(&to, from, sizeof(to));
}

template <DType kType>
struct QuantisedUnits {
  static constexpr int kPerUnit = cache_unit_dims(kType);
  static constexpr int kUnits = kCacheBlock / kPerUnit;  ///< Of a block.
  static constexpr int kWords = cache_block_words(kType);
  static constexpr bool kHasMin = has_cache_min(kType), kHasFifth = has_cache_fifth_bits(kType);
  static constexpr int kFifthWord = kHasMin ? 2 : 1;
  static constexpr int kOffset = kType == DType::kQ4_0     ? 8
                                 : kType == DType::kQ5_0   ? 16
                                 : kType == DType::kIQ4_NL ? 128
                                                           : 0;

  /// Elements number `part` of 16 units, without their scale. The lowest bits of `fifth` are bit 4 of codes.
  static inline __attribute__((always_inline)) void load(const std::uint8_t* units, int part,
                                                         const Words& fifth,
                                                         F32 (&to)[kUnitsAtOnce / kLanes]) {
    Bytes bytes;
    load_all(units, bytes);
    if constexpr (kPerUnit == 2) bytes = part == 0 ? bytes & 15 : bytes >> 4;
    if constexpr (kHasFifth) bytes |= __builtin_convertvector((fifth & 1) << 4, Bytes);
    if constexpr (kType == DType::kIQ4_NL) {
#if defined(__clang__)
      for (int i = 0; i < kUnitsAtOnce; ++i) bytes[i] = kIQ4Table.of[bytes[i]];
#else
      Bytes table;
      load_all(kIQ4Table.of, table);
      bytes = __builtin_shuffle(table, bytes);
#endif
    }
    std::int8_t codes[kUnitsAtOnce];
    bytes -= static_cast<std::uint8_t>(kOffset);
    __builtin_memcpy(codes, &bytes, sizeof(codes));
    float values[kUnitsAtOnce];
    for (int i = 0; i < kUnitsAtOnce; ++i) values[i] = static_cast<float>(codes[i]);
    for (int v = 0; v < kUnitsAtOnce / kLanes; ++v) to[v] = WEFT_CPU_ISA::load(values + v * kLanes);
  }
};

template <class F>
static inline void with_units(DType type, F f) {
  if (type == DType::kQ8_0) return f(QuantisedUnits<DType::kQ8_0>{});
  if (type == DType::kQ4_1) return f(QuantisedUnits<DType::kQ4_1>{});
  if (type == DType::kQ5_0) return f(QuantisedUnits<DType::kQ5_0>{});
  if (type == DType::kQ5_1) return f(QuantisedUnits<DType::kQ5_1>{});
  if (type == DType::kIQ4_NL) return f(QuantisedUnits<DType::kIQ4_NL>{});
  f(QuantisedUnits<DType::kQ4_0>{});
}

/// The words of one head's part of a page, after its units.
template <class Units>
static inline const std::uint16_t* words_of(const std::byte* head, int dim) {
  return reinterpret_cast<const std::uint16_t*>(head + static_cast<std::ptrdiff_t>(kPageCells) * dim /
                                                           Units::kPerUnit);
}

/// K of one head of a page, as F32Cells would hold it: [4 groups][dim][16 keys].
template <class Units>
static void quantised_keys_to_floats(const std::byte* head, int dim, float* to) {
  constexpr int kVectors = kUnitsAtOnce / kLanes;
  const auto* units = reinterpret_cast<const std::uint8_t*>(head);
  const std::uint16_t* words = words_of<Units>(head, dim);
  for (int block = 0; block < kPageCells / kKeys * (dim / kCacheBlock); ++block) {
    F32 scales[kVectors], mins[kVectors];
    Words fifth[2] = {};
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      scales[v] = load_f16(words + v * kLanes);
      if constexpr (Units::kHasMin) mins[v] = load_f16(words + kKeys + v * kLanes);
    }
    if constexpr (Units::kHasFifth) {
      load_all(words + Units::kFifthWord * kKeys, fifth[0]);
      load_all(words + (Units::kFifthWord + 1) * kKeys, fifth[1]);
    }
    for (int u = 0; u < Units::kUnits; ++u, units += kKeys) {
#pragma GCC unroll 2
      for (int part = 0; part < Units::kPerUnit; ++part) {
        float* const out = to + (u + part * Units::kUnits) * kKeys;
        F32 values[kVectors];
        Units::load(units, part, fifth[part], values);
        if constexpr (Units::kHasFifth) fifth[part] >>= 1;
#pragma GCC unroll 4
        for (int v = 0; v < kVectors; ++v) {
          values[v] = values[v] * scales[v];
          if constexpr (Units::kHasMin) values[v] = values[v] + mins[v];
          store(out + v * kLanes, values[v]);
        }
      }
    }
    words += Units::kWords * kKeys;
    to += kCacheBlock * kKeys;
  }
}

/// V of one cell of a head: dim floats.
template <class Units>
static void quantised_value_to_floats(const std::byte* head, int cell, int dim, float* to) {
  constexpr int kVectors = kUnitsAtOnce / kLanes;
  constexpr Words kBits = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  const auto* units =
      reinterpret_cast<const std::uint8_t*>(head) + static_cast<std::ptrdiff_t>(cell) * dim / Units::kPerUnit;
  const std::uint16_t* words =
      words_of<Units>(head, dim) + static_cast<std::ptrdiff_t>(cell) * (dim / kCacheBlock) * Units::kWords;
  const auto spread = [](std::uint16_t half) {
    std::uint16_t same[kLanes];
    for (std::uint16_t& one : same) one = half;
    return load_f16(same);
  };
  for (int block = 0; block < dim / kCacheBlock; ++block, units += Units::kUnits, to += kCacheBlock) {
    const F32 scale = spread(words[0]);
    F32 min = zero();
    if constexpr (Units::kHasMin) min = spread(words[1]);
#pragma GCC unroll 2
    for (int half = 0; half < kCacheBlock / kUnitsAtOnce; ++half) {
      Words fifth = {};
      if constexpr (Units::kHasFifth) fifth = (Words{} + words[Units::kFifthWord + half]) >> kBits;
      const int part = Units::kPerUnit == 2 ? half : 0;
      F32 values[kVectors];
      Units::load(units + (Units::kPerUnit == 2 ? 0 : half * kUnitsAtOnce), part, fifth, values);
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) {
        values[v] = values[v] * scale;
        if constexpr (Units::kHasMin) values[v] = values[v] + min;
        store(to + half * kUnitsAtOnce + v * kLanes, values[v]);
      }
    }
    words += Units::kWords;
  }
}

/// One token's row of heads x dim floats; element (head, d) goes to cells[head * 64 * dim + place_of(d)].
template <class Cells>
static inline void scatter(const float* row, int n_heads, int dim, std::byte* page, Places places) {
  auto* const cells = reinterpret_cast<typename Cells::Element*>(page);
  for (int head = 0; head < n_heads; ++head) {
    auto* const to = cells + static_cast<std::ptrdiff_t>(head) * kPageCells * dim;
    const float* const from = row + static_cast<std::ptrdiff_t>(head) * dim;
    for (int d = 0; d < dim; d += kLanes) {
      const int n = dim - d < kLanes ? dim - d : kLanes;
      typename Cells::Element values[kLanes];
      Cells::store(values, n == kLanes ? load(from + d) : load_partial(from + d, n));
      for (int i = 0; i < n; ++i) to[place_of(places, d + i)] = values[i];
    }
  }
}

/// The opposite of scatter.
template <class Cells>
static inline void gather(const std::byte* page, int n_heads, int dim, float* row, Places places) {
  const auto* const cells = reinterpret_cast<const typename Cells::Element*>(page);
  for (int head = 0; head < n_heads; ++head) {
    const auto* const from = cells + static_cast<std::ptrdiff_t>(head) * kPageCells * dim;
    float* const to = row + static_cast<std::ptrdiff_t>(head) * dim;
    for (int d = 0; d < dim; d += kLanes) {
      const int n = dim - d < kLanes ? dim - d : kLanes;
      typename Cells::Element values[kLanes] = {};
      for (int i = 0; i < n; ++i) values[i] = from[place_of(places, d + i)];
      store_partial(to + d, Cells::load(values), n);
    }
  }
}

/// The page of a cell.
template <class Byte>
static inline Byte* page_of(const CacheShape& shape, std::int64_t cell, Byte* cache) {
  return cache + static_cast<std::size_t>(cell / kPageCells) *
                     cache_page_bytes(shape.dtype, shape.n_heads, shape.head_dim);
}
static inline Places places_of(const CacheShape& shape, CacheRole role, std::int64_t cell) {
  return cache_places(role, is_paired_cache(shape.dtype), cell, shape.head_dim);
}

static inline void store_cell(const CacheShape& shape, CacheRole role, const float* row, std::int64_t cell,
                              std::byte* cache) {
  if (is_quantised_cache(shape.dtype)) return quantise_cell(shape, role, row, cell, cache);
  with_cells(shape.dtype, [&](auto cells) {
    scatter<decltype(cells)>(row, shape.n_heads, shape.head_dim, page_of(shape, cell, cache),
                             places_of(shape, role, cell));
  });
}
static inline void load_cell(const CacheShape& shape, CacheRole role, const std::byte* cache,
                             std::int64_t cell, float* row) {
  if (is_quantised_cache(shape.dtype)) return unpack_cell(shape, role, cache, cell, row);
  with_cells(shape.dtype, [&](auto cells) {
    gather<decltype(cells)>(page_of(shape, cell, cache), shape.n_heads, shape.head_dim, row,
                            places_of(shape, role, cell));
  });
}

}  // namespace weft::cpu::WEFT_CPU_ISA::attend

namespace weft::cpu::WEFT_CPU_ISA {

static inline CacheShape k_shape(const CacheLayout& layout) {
  return {layout.k_type, layout.n_kv_heads, layout.k_head_dim};
}
static inline CacheShape v_shape(const CacheLayout& layout) {
  return {layout.v_type, layout.n_kv_heads, layout.v_head_dim};
}

static void store_k(const CacheLayout& layout, const float* row, std::int64_t cell, std::byte* k_cache) {
  attend::store_cell(k_shape(layout), CacheRole::kKeys, row, cell, k_cache);
}

static void load_k(const CacheLayout& layout, const std::byte* k_cache, std::int64_t cell, float* row) {
  attend::load_cell(k_shape(layout), CacheRole::kKeys, k_cache, cell, row);
}

static void store_v(const CacheLayout& layout, const float* row, std::int64_t cell, std::byte* v_cache) {
  attend::store_cell(v_shape(layout), CacheRole::kValues, row, cell, v_cache);
}

static void copy_k(const CacheLayout& layout, std::int64_t from, std::int64_t to, std::byte* k_cache) {
  copy_cell(k_shape(layout), CacheRole::kKeys, from, to, k_cache);
}

static void copy_v(const CacheLayout& layout, std::int64_t from, std::int64_t to, std::byte* v_cache) {
  copy_cell(v_shape(layout), CacheRole::kValues, from, to, v_cache);
}

}  // namespace weft::cpu::WEFT_CPU_ISA
