#pragma once
// The cells of the K and V cache: how elements of a cache type load and store (a new type starts here), and
// the writing of a token's row into its cell. Needs vec_<isa>.h and WEFT_CPU_ISA.
#include <cstddef>
#include <cstdint>

#include "backend/cpu/attention_scratch.h"
#include "backend/cpu/kernels.h"

namespace weft::cpu::WEFT_CPU_ISA::attend {

inline constexpr int kKeys = 16;  ///< Of a group in the K layout.
static_assert(kKeys % kLanes == 0);

struct F16Cells {
  using Element = std::uint16_t;
  static F32 load(const Element* p) { return load_f16(p); }
  static void store(Element* p, F32 a) { store_f16(p, a); }
};
struct F32Cells {
  using Element = float;
  static F32 load(const Element* p) { return WEFT_CPU_ISA::load(p); }
  static void store(Element* p, F32 a) { WEFT_CPU_ISA::store(p, a); }
};

/// Calls f with the cells of a type.
template <class F>
static inline void with_cells(DType type, F f) {
  if (type == DType::kF16) return f(F16Cells{});
  f(F32Cells{});
}

/// Asks for the place `ahead` bytes behind p: the same place of the next page. One row or a few use a page
/// faster than memory delivers it, and the machine's own prefetching knows nothing of page tables. Into the
/// second level: the first has too few misses in flight to keep memory busy (measured: 13 against 23 GB/s on
/// one Zen 4 core).
static inline void prefetch(const void* p, std::ptrdiff_t ahead) {
  __builtin_prefetch(
      reinterpret_cast<const void*>(reinterpret_cast<std::uintptr_t>(p) + static_cast<std::uintptr_t>(ahead)),
      0, 2);
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

/// One token's row of heads x dim floats; element (head, d) goes to cells[head * 64 * dim + place(d)].
template <class Cells, class Place>
static inline void scatter(const float* row, int n_heads, int dim, std::byte* page, Place place) {
  auto* const cells = reinterpret_cast<typename Cells::Element*>(page);
  for (int head = 0; head < n_heads; ++head) {
    auto* const to = cells + static_cast<std::ptrdiff_t>(head) * kPageCells * dim;
    const float* const from = row + static_cast<std::ptrdiff_t>(head) * dim;
    for (int d = 0; d < dim; d += kLanes) {
      const int n = dim - d < kLanes ? dim - d : kLanes;
      typename Cells::Element values[kLanes];
      Cells::store(values, n == kLanes ? load(from + d) : load_partial(from + d, n));
      for (int i = 0; i < n; ++i) to[place(d + i)] = values[i];
    }
  }
}

/// The opposite of scatter.
template <class Cells, class Place>
static inline void gather(const std::byte* page, int n_heads, int dim, float* row, Place place) {
  const auto* const cells = reinterpret_cast<const typename Cells::Element*>(page);
  for (int head = 0; head < n_heads; ++head) {
    const auto* const from = cells + static_cast<std::ptrdiff_t>(head) * kPageCells * dim;
    float* const to = row + static_cast<std::ptrdiff_t>(head) * dim;
    for (int d = 0; d < dim; d += kLanes) {
      const int n = dim - d < kLanes ? dim - d : kLanes;
      typename Cells::Element values[kLanes] = {};
      for (int i = 0; i < n; ++i) values[i] = from[place(d + i)];
      store_partial(to + d, Cells::load(values), n);
    }
  }
}

/// Where a cell's elements lie in its page's part of one head: first + d * step.
struct Places {
  std::ptrdiff_t first;
  std::ptrdiff_t step;
};
static inline Places k_places(std::int64_t cell, int dim) {
  const std::ptrdiff_t offset = cell % kPageCells;
  return {offset / kKeys * dim * kKeys + offset % kKeys, kKeys};
}
static inline Places v_places(std::int64_t cell, int dim) { return {cell % kPageCells * dim, 1}; }

/// Copies a cell's elements as they are.
static inline void copy_cell(DType type, int n_heads, int dim, const std::byte* from_page, Places from,
                             std::byte* to_page, Places to) {
  with_cells(type, [&](auto cells) {
    using Element = typename decltype(cells)::Element;
    for (std::ptrdiff_t head = 0; head < n_heads; ++head) {
      const auto* const f = reinterpret_cast<const Element*>(from_page) + head * kPageCells * dim + from.first;
      auto* const t = reinterpret_cast<Element*>(to_page) + head * kPageCells * dim + to.first;
      for (std::ptrdiff_t d = 0; d < dim; ++d) t[d * to.step] = f[d * from.step];
    }
  });
}

/// The page that a cell lies in.
template <class Byte>
static inline Byte* page_of(DType type, int n_heads, int dim, std::int64_t cell, Byte* cache) {
  return cache + static_cast<std::size_t>(cell / kPageCells) * cache_page_bytes(type, n_heads, dim);
}

}  // namespace weft::cpu::WEFT_CPU_ISA::attend

namespace weft::cpu::WEFT_CPU_ISA {

static void store_k(const CacheLayout& layout, const float* row, std::int64_t cell, std::byte* k_cache) {
  using namespace attend;
  const int dim = layout.k_head_dim;
  const Places places = k_places(cell, dim);
  std::byte* const page = page_of(layout.k_type, layout.n_kv_heads, dim, cell, k_cache);
  with_cells(layout.k_type, [&](auto cells) {
    scatter<decltype(cells)>(row, layout.n_kv_heads, dim, page, [&](int d) { return places.first + d * kKeys; });
  });
}

static void load_k(const CacheLayout& layout, const std::byte* k_cache, std::int64_t cell, float* row) {
  using namespace attend;
  const int dim = layout.k_head_dim;
  const Places places = k_places(cell, dim);
  const std::byte* const page = page_of(layout.k_type, layout.n_kv_heads, dim, cell, k_cache);
  with_cells(layout.k_type, [&](auto cells) {
    gather<decltype(cells)>(page, layout.n_kv_heads, dim, row, [&](int d) { return places.first + d * kKeys; });
  });
}

static void store_v(const CacheLayout& layout, const float* row, std::int64_t cell, std::byte* v_cache) {
  using namespace attend;
  const int dim = layout.v_head_dim;
  const Places places = v_places(cell, dim);
  std::byte* const page = page_of(layout.v_type, layout.n_kv_heads, dim, cell, v_cache);
  with_cells(layout.v_type, [&](auto cells) {
    scatter<decltype(cells)>(row, layout.n_kv_heads, dim, page, [&](int d) { return places.first + d; });
  });
}

static void copy_k(const CacheLayout& layout, std::int64_t from, std::int64_t to, std::byte* k_cache) {
  using namespace attend;
  const int dim = layout.k_head_dim;
  copy_cell(layout.k_type, layout.n_kv_heads, dim, page_of(layout.k_type, layout.n_kv_heads, dim, from, k_cache),
            k_places(from, dim), page_of(layout.k_type, layout.n_kv_heads, dim, to, k_cache), k_places(to, dim));
}

static void copy_v(const CacheLayout& layout, std::int64_t from, std::int64_t to, std::byte* v_cache) {
  using namespace attend;
  const int dim = layout.v_head_dim;
  copy_cell(layout.v_type, layout.n_kv_heads, dim, page_of(layout.v_type, layout.n_kv_heads, dim, from, v_cache),
            v_places(from, dim), page_of(layout.v_type, layout.n_kv_heads, dim, to, v_cache), v_places(to, dim));
}

}  // namespace weft::cpu::WEFT_CPU_ISA
