#pragma once
// The cells of the K and V cache. Elements of a cache type are loaded and stored, and a token's row is
// written to its cell. A new type starts here. Quantised cells are written by cache_rows.cpp, and read a page
// at a time, as floats (quantised_cells.inl). Needs vec_<isa>.h and WEFT_CPU_ISA.
#include <cstddef>
#include <cstdint>

#include "backend/cpu/kernels/attention_scratch.h"
#include "backend/cpu/kernels/kernels.h"
#include "backend/cpu/kernels/pairs.inl"
#include "backend/cpu/layout/cache_rows.h"

namespace weft::cpu::WEFT_CPU_ISA::attend {

inline constexpr int kKeys = kCacheKeys;
static_assert(kKeys % kLanes == 0);

/// Cells that are multiplied as floats, one at a time.
struct SingleCells {
  using Factor = float;
  using Vector = F32;
  static constexpr int kTogether = 1;
  static constexpr bool kInMemory = true;  ///< Whether the next page is prefetched.
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

/// The copy of a page that becomes floats before it is multiplied.
struct CopiedCells : F32Cells {
  static constexpr bool kInMemory = false;
};

/// Two cells (of V) or dims (of K) at a time, by factors of the same type: both are rounded to it.
struct BF16Cells {
  using Element = std::uint16_t;
  using Factor = std::uint16_t;
  using Vector = Pairs;
  static constexpr int kTogether = 2;
  static constexpr bool kInMemory = true;
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
