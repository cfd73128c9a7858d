#pragma once
// Attention over extents, each a page. Needs vec_<isa>.h and WEFT_CPU_ISA.
//
// A call handles query rows: the tile's batch rows times the heads that share a KV head (m rows in all; all
// heads of a batch row see the same cells). For each page, in position order:
//   scores   S = Q K^T log2(e), exponents of 2; lanes are keys, a block of query rows shares the loads
//   weights  P = 2^(S - top), page by page from nothing; what a row does not see weighs exactly 0
//   sums     O = P V; lanes are V's dims, then merged: O_new = O keep + O_page take
// This is flash attention (arXiv 2205.14135), with each page's part kept apart until it is merged.
// Every element of S and O is one chain of multiply-adds in order (of dims, of keys), one or a pair of them
// at a time. So blocks of any shape give the same bits. A row that sees no cell of a page keeps its state
// unchanged.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "backend/cpu/kernels/attention_page.inl"
#include "backend/cpu/kernels/attention_scratch.h"
#include "backend/cpu/kernels/cache_cells.inl"
#include "backend/cpu/kernels/kernels.h"
#include "backend/cpu/kernels/quantised_cells.inl"
#include "backend/cpu/kernels/rows.inl"

namespace weft::cpu::WEFT_CPU_ISA::attend {

// ---- The walk over extents ----

class Tile {
 public:
  Tile(const AttentionArgs& args, const AttentionTile& tile, int kv_head, std::byte* scratch)
      : args_(args),
        tile_(tile),
        kv_head_(kv_head),
        group_(args.n_heads / args.layout.n_kv_heads),
        k_dim_(args.layout.k_head_dim),
        v_dim_(args.layout.v_head_dim),
        padded_v_dim_(static_cast<int>(attention_padded(static_cast<std::size_t>(v_dim_)))),
        k_page_bytes_(cache_page_bytes(args.layout.k_type, args.layout.n_kv_heads, k_dim_)),
        v_page_bytes_(cache_page_bytes(args.layout.v_type, args.layout.n_kv_heads, v_dim_)),
        at_(attention_scratch(static_cast<std::size_t>(tile.n_rows * group_), args.layout)),
        scratch_(reinterpret_cast<float*>(scratch)) {}

  void run() {
    scale_queries();
    begin();
    for_each_page([&](std::int64_t, int i, int first, int last) { add_extent(i, first, last); });
    finish();
  }

  void run_partials(Range pages, float* partials) {
    scale_queries();
    const AttentionPartial layout = partial_layout();
    for_each_page([&](std::int64_t n, int i, int first, int last) {
      if (n < pages.begin || n >= pages.end) return;
      partial_ = partials + n * static_cast<std::ptrdiff_t>(layout.size);
      for (std::size_t r = layout.top; r < layout.total; r += kLanes)
        store(partial_ + r, broadcast(-kInfinity));
      for (std::size_t r = layout.total; r < layout.values; r += kLanes) store(partial_ + r, zero());
      add_extent(i, first, last);
    });
  }

  void run_merge(const float* partials) {
    begin();
    const AttentionPartial layout = partial_layout();
    const int m = tile_.n_rows * group_;
    for_each_page([&](std::int64_t n, int, int, int) {
      const float* const page = partials + n * static_cast<std::ptrdiff_t>(layout.size);
      bool seen = false;
      for (int r = 0; r < m; ++r) seen |= page[layout.top + static_cast<std::size_t>(r)] != -kInfinity;
      if (!seen) return;
      merge_totals(m, page + layout.top, page + layout.total, part(at_.top), part(at_.total), part(at_.keep),
                   part(at_.take));
      for (int r = 0; r < m; ++r) {
        if (page[layout.top + static_cast<std::size_t>(r)] == -kInfinity) continue;
        const F32 keep = broadcast(part(at_.keep)[r]);
        const F32 take = broadcast(part(at_.take)[r]);
        const std::ptrdiff_t at = static_cast<std::ptrdiff_t>(r) * padded_v_dim_;
        float* const sums = part(at_.sums) + at;
        const float* const values = page + layout.values + at;
        for (int d = 0; d < padded_v_dim_; d += kLanes)
          store(sums + d, WEFT_CPU_ISA::fma(load(values + d), take, load(sums + d) * keep));
      }
    });
    finish();
  }

 private:
  /// Calls f(page, extent, segments [first, last)) in order. What all sequences share is read once for all
  /// rows, the rest sequence by sequence. To a row it is the same.
  template <class F>
  void for_each_page(F f) {
    std::int64_t n = 0;
    for (int i = 0; i < tile_.n_shared; ++i) f(n++, i, 0, tile_.n_segments);
    for (int segment = 0; segment < tile_.n_segments; ++segment) {
      for (int i = tile_.n_shared; i < tile_.segments[segment].n_extents; ++i)
        f(n++, i, segment, segment + 1);
    }
  }

  AttentionPartial partial_layout() const {
    return attention_partial(static_cast<std::size_t>(tile_.n_rows * group_),
                             static_cast<std::size_t>(v_dim_));
  }

  /// Adds extent i of segments [begin, end), which is in the same page for all of them.
  void add_extent(int i, int begin, int end) {
    // Rows that see nothing at either end (causality, windows) take no part.
    int first = -1;
    int last = -1;
    for (int s = begin; s < end; ++s) {
      const AttentionSegment& segment = tile_.segments[s];
      for (int r = segment.row_begin; r < segment.row_begin + segment.n_rows; ++r) {
        visible_[r] = visible_cells(args_, tile_.rows[r], segment.extents[i]);
        if (visible_[r] == 0) continue;
        if (first < 0) first = r;
        last = r;
      }
    }
    if (first < 0) return;
    const AttentionSegment& segment = tile_.segments[begin];
    pages_ahead_ = i + 1 < segment.n_extents ? segment.extents[i + 1].page - segment.extents[i].page : 0;
    add_page(segment.extents[i], first, last + 1);
  }

  float* part(std::size_t offset) const { return scratch_ + offset; }
  template <class Cells>
  typename Cells::Factor* weights_of() const {
    return reinterpret_cast<typename Cells::Factor*>(part(Cells::kTogether == 2 ? at_.rounded : at_.scores));
  }

  /// Query row i is batch row i / group, head i % group of the group. What caps scores wants them as they
  /// are.
  void scale_queries() {
    const F32 scale = broadcast(args_.softcap > 0.0f ? args_.scale : args_.scale * kLog2E);
    float* q = part(at_.queries);
    for (int r = 0; r < tile_.n_rows; ++r) {
      const float* from = args_.q + static_cast<std::ptrdiff_t>(tile_.rows[r]) * args_.q_stride +
                          static_cast<std::ptrdiff_t>(kv_head_) * group_ * k_dim_;
      for_each_vector(static_cast<std::int64_t>(group_) * k_dim_,
                      [&](std::int64_t i, auto at) { store(q + i, load(from + i, at) * scale, at); });
      q += static_cast<std::ptrdiff_t>(group_) * k_dim_;
    }
    if (!is_paired_cache(args_.layout.k_type)) return;
    // In place: each write follows the read of its place.
    q = part(at_.queries);
    auto* const rounded = reinterpret_cast<std::uint16_t*>(q);
    const std::ptrdiff_t n = static_cast<std::ptrdiff_t>(tile_.n_rows) * group_ * k_dim_;
    for (std::ptrdiff_t i = 0; i < n; i += kLanes) store_bf16(rounded + i, load(q + i));
  }

  /// Nothing seen so far.
  void begin() {
    for (std::size_t i = at_.sums; i < at_.top; i += kLanes) store(part(i), zero());
    for (std::size_t i = at_.top; i < at_.total; i += kLanes) store(part(i), broadcast(-kInfinity));
    for (std::size_t i = at_.total; i < at_.k_page; i += kLanes) store(part(i), zero());
  }

  void finish() {
    for (int r = 0; r < tile_.n_rows; ++r) {
      for (int g = 0; g < group_; ++g) {
        const std::ptrdiff_t i = static_cast<std::ptrdiff_t>(r) * group_ + g;
        float total = part(at_.total)[i];
        if (args_.sinks != nullptr && total != 0.0f)
          total += std::exp2(args_.sinks[kv_head_ * group_ + g] * kLog2E - part(at_.top)[i]);
        const F32 inverse = broadcast(total == 0.0f ? 0.0f : 1.0f / total);
        const float* sums = part(at_.sums) + i * padded_v_dim_;
        float* out = args_.out + static_cast<std::ptrdiff_t>(tile_.rows[r]) * args_.out_stride +
                     (static_cast<std::ptrdiff_t>(kv_head_) * group_ + g) * v_dim_;
        for_each_vector(v_dim_,
                        [&](std::int64_t d, auto at) { store(out + d, load(sums + d, at) * inverse, at); });
      }
    }
  }

  /// Adds a page's cells to batch rows [first, last).
  void add_page(const Extent& extent, int first, int last) {
    const std::int32_t page = extent.page;
    std::uint64_t any = 0;
    std::uint64_t all = ~std::uint64_t{0};
    for (int r = first; r < last; ++r) {
      any |= visible_[r];
      all &= visible_[r];
    }
    const CacheLayout& layout = args_.layout;
    const std::byte* const k =
        args_.k_cache + static_cast<std::size_t>(page) * k_page_bytes_ +
        static_cast<std::size_t>(kv_head_) * cache_page_bytes(layout.k_type, 1, k_dim_);
    const std::byte* const v =
        args_.v_cache + static_cast<std::size_t>(page) * v_page_bytes_ +
        static_cast<std::size_t>(kv_head_) * cache_page_bytes(layout.v_type, 1, v_dim_);

    // Hidden cells must not be multiplied by their weight 0: they may contain anything, NaN included. If all
    // rows see the same run (of whole pairs), V is read in place; otherwise through a copy with hidden cells
    // zeroed. If a cell has a non-finite number and only some rows see it, one way is left: row by row.
    const bool paired_v = is_paired_cache(layout.v_type);
    const bool whole = !paired_v || ((any ^ (any >> 1)) & 0x5555555555555555) == 0;
    const bool same = any == all && is_run(any) && whole && v_dim_ == padded_v_dim_;
    const bool one_block = (last - first) * group_ <= kBlockRows;
    const std::ptrdiff_t k_ahead = pages_ahead_ * static_cast<std::ptrdiff_t>(k_page_bytes_);
    const std::ptrdiff_t v_ahead = pages_ahead_ * static_cast<std::ptrdiff_t>(v_page_bytes_);
    const bool copy_v = !same || must_convert(layout.v_type, one_block);
    if (copy_v) {
      const bool finite = paired_v ? copy_pairs(reinterpret_cast<const std::uint16_t*>(v), v_ahead, any, all)
                                   : copy_values(v, v_ahead, any, all);
      if (!finite && last - first > 1) {
        for (int r = first; r < last; ++r) {
          if (visible_[r] != 0) add_page(extent, r, r + 1);
        }
        return;
      }
    }
    if (must_convert(layout.k_type, one_block)) {
      copy_keys(k, k_ahead);
      score<CopiedCells>(reinterpret_cast<const std::byte*>(part(at_.k_page)), {}, first, last);
    } else {
      with_cells(layout.k_type, [&](auto cells) {
        score<decltype(cells)>(k, {k_ahead, distance(k, v)}, first, last);
        if (kAskAgain<decltype(cells)>) prefetch_head(k, cache_page_bytes(layout.k_type, 1, k_dim_), k_ahead);
      });
    }
    if (args_.slopes != nullptr) add_distances(extent, first, last);
    if (args_.distance_bias != nullptr) add_bias(extent, first, last);
    weigh_rows(first, last);
    if (copy_v) {
      const auto* const copy = reinterpret_cast<const std::byte*>(part(at_.v_page));
      if (paired_v) return add_values<BF16Cells>(copy, 0, padded_v_dim_, first, last);
      add_values<CopiedCells>(copy, 0, padded_v_dim_, first, last);
    } else {
      with_cells(layout.v_type,
                 [&](auto cells) { add_values<decltype(cells)>(v, v_ahead, v_dim_, first, last); });
    }
  }

  /// Between caches, for prefetching only.
  static std::ptrdiff_t distance(const std::byte* from, const std::byte* to) {
    return static_cast<std::ptrdiff_t>(reinterpret_cast<std::uintptr_t>(to) -
                                       reinterpret_cast<std::uintptr_t>(from));
  }

  /// Whether a page becomes floats before it is multiplied: once for all blocks, where it is not so for one.
  static bool must_convert(DType type, bool one_block) {
    return is_quantised_cache(type) || (type == DType::kF16 && !one_block);
  }

  void copy_keys(const std::byte* k, std::ptrdiff_t ahead) {
    float* const to = part(at_.k_page);
    const DType type = args_.layout.k_type;
    if (is_quantised_cache(type)) {
      with_units(type, [&](auto units) { quantised_keys_to_floats<decltype(units)>(k, ahead, k_dim_, to); });
      return;
    }
    with_cells(type, [&](auto cells) {
      using Cells = decltype(cells);
      cells_to_floats<Cells>(reinterpret_cast<const typename Cells::Element*>(k), ahead, kPageCells * k_dim_,
                             to);
    });
  }

  /// Copies the cells of `any` and zeroes the others. Returns false if a cell that only some rows see has a
  /// non-finite number.
  bool copy_values(const std::byte* v, std::ptrdiff_t ahead, std::uint64_t any, std::uint64_t all) {
    bool finite = true;
    if (is_quantised_cache(args_.layout.v_type)) {
      with_units(args_.layout.v_type, [&](auto units) {
        const QuantisedValues<decltype(units)> values(v, ahead, v_dim_, part(at_.v_words));
        finite = copy_each_value(any, all, [&](int cell, float* to) { values.to_floats(cell, to); });
      });
    } else {
      with_cells(args_.layout.v_type, [&](auto cells) {
        using Cells = decltype(cells);
        const auto* const from = reinterpret_cast<const typename Cells::Element*>(v);
        finite = copy_each_value(any, all, [&](int cell, float* to) {
          cells_to_floats<Cells>(from + static_cast<std::ptrdiff_t>(cell) * v_dim_, ahead, v_dim_, to);
        });
      });
    }
    return finite;
  }

  /// `copy` copies one cell.
  template <class Copy>
  bool copy_each_value(std::uint64_t any, std::uint64_t all, Copy copy) {
    F32 traces = zero();  // 0 * x is 0, or NaN where x is not finite.
    for (int cell = 0; cell < kPageCells; ++cell) {
      float* const to = part(at_.v_page) + static_cast<std::ptrdiff_t>(cell) * padded_v_dim_;
      const std::uint64_t bit = std::uint64_t{1} << cell;
      for (int d = (any & bit) != 0 ? v_dim_ / kLanes * kLanes : 0; d < padded_v_dim_; d += kLanes) {
        store(to + d, zero());
      }
      if ((any & bit) == 0) continue;
      copy(cell, to);
      if ((all & bit) != 0) continue;
      for (int d = 0; d < padded_v_dim_; d += kLanes) traces += load(to + d) * zero();
    }
    return reduce_add(traces) == 0.0f;
  }

  /// The same of pairs of cells, as they are.
  bool copy_pairs(const std::uint16_t* v, std::ptrdiff_t ahead, std::uint64_t any, std::uint64_t all) {
    const auto mask = [](std::uint64_t bits, int cell) -> std::uint16_t {
      return (bits >> cell & 1) != 0 ? 0xffff : 0;
    };
    unsigned infinite = 0;
    for (int cell = 0; cell < kPageCells; cell += 2, v += 2 * v_dim_) {
      auto* const to = reinterpret_cast<std::uint16_t*>(part(at_.v_page)) +
                       static_cast<std::ptrdiff_t>(cell) * padded_v_dim_;
      const std::uint16_t seen[2] = {mask(any, cell), mask(any, cell + 1)};
      const std::uint16_t by_some[2] = {mask(any & ~all, cell), mask(any & ~all, cell + 1)};
      for (int i = 0; i < 2 * v_dim_; i += 2) {
        to[i] = v[i] & seen[0];
        to[i + 1] = v[i + 1] & seen[1];
      }
      for (int i = 2 * v_dim_; i < 2 * padded_v_dim_; ++i) to[i] = 0;
      for (int i = 0; i < 2 * v_dim_; i += 32) prefetch(v + i, ahead);
      if ((by_some[0] | by_some[1]) == 0) continue;
      // Adding one to an exponent of all ones leaves the highest bit.
      for (int i = 0; i < 2 * v_dim_; i += 2) {
        infinite |= (to[i] & by_some[0] & 0x7f80u) + 0x80u;
        infinite |= (to[i + 1] & by_some[1] & 0x7f80u) + 0x80u;
      }
    }
    return (infinite & 0x8000u) == 0;
  }

  /// Calls f(begin, n) for blocks of about equal size that cover the query rows of batch rows [first, last).
  template <class F>
  void for_each_block(int first, int last, F f) const {
    int left = (last - first) * group_;
    int n_blocks = (left + kBlockRows - 1) / kBlockRows;
    for (int begin = first * group_; n_blocks > 0; --n_blocks) {
      const int n = (left + n_blocks - 1) / n_blocks;
      f(begin, n);
      begin += n;
      left -= n;
    }
  }

  /// The run of cells that query rows [begin, begin + n) see.
  Run seen_by(int begin, int n) const {
    std::uint64_t bits = 0;
    for (int r = begin / group_; r <= (begin + n - 1) / group_; ++r) bits |= visible_[r];
    return run_of(bits);
  }

  template <class Cells>
  void score(const std::byte* k, Ahead ahead, int first, int last) {
    for_each_block(first, last, [&](int begin, int n) {
      const auto* const queries = reinterpret_cast<const typename Cells::Factor*>(part(at_.queries));
      score_block<Cells>(n, queries + static_cast<std::ptrdiff_t>(begin) * k_dim_,
                         reinterpret_cast<const typename Cells::Element*>(k), ahead, k_dim_,
                         seen_by(begin, n),
                         part(at_.scores) + static_cast<std::ptrdiff_t>(begin) * kPageCells);
      ahead = {};  // Other blocks find it done.
    });
  }

  /// ALiBi.
  void add_distances(const Extent& extent, int first, int last) {
    for (int r = first; r < last; ++r) {
      const std::int32_t position = args_.positions[tile_.rows[r]];
      float distances[kPageCells];
      for (int cell = 0; cell < kPageCells; ++cell) {
        const std::int32_t away = (cell + extent.offset) / extent.divisor + extent.base - position;
        distances[cell] = static_cast<float>(away < 0 ? away : -away);
      }
      for (int g = 0; g < group_; ++g) {
        const F32 slope = broadcast(args_.slopes[kv_head_ * group_ + g] * kLog2E);
        float* const scores = part(at_.scores) + (static_cast<std::ptrdiff_t>(r) * group_ + g) * kPageCells;
        for (int cell = 0; cell < kPageCells; cell += kLanes)
          store(scores + cell, WEFT_CPU_ISA::fma(load(distances + cell), slope, load(scores + cell)));
      }
    }
  }

  /// What a table has for each head and distance.
  void add_bias(const Extent& extent, int first, int last) {
    const int farthest = args_.n_distances - 1;
    for (int r = first; r < last; ++r) {
      const std::int32_t position = args_.positions[tile_.rows[r]];
      int distances[kPageCells];
      for (int cell = 0; cell < kPageCells; ++cell) {
        const std::int64_t away = std::int64_t{extent.position(cell)} - position;
        distances[cell] = static_cast<int>(std::min<std::int64_t>(away < 0 ? -away : away, farthest));
      }
      for (int g = 0; g < group_; ++g) {
        const float* const bias =
            args_.distance_bias + static_cast<std::ptrdiff_t>(kv_head_ * group_ + g) * args_.n_distances;
        float own[kPageCells];
        for (int cell = 0; cell < kPageCells; ++cell) own[cell] = bias[distances[cell]];
        float* const scores = part(at_.scores) + (static_cast<std::ptrdiff_t>(r) * group_ + g) * kPageCells;
        for (int cell = 0; cell < kPageCells; cell += kLanes)
          store(scores + cell, WEFT_CPU_ISA::fma(load(own + cell), broadcast(kLog2E), load(scores + cell)));
      }
    }
  }

  void weigh_rows(int first, int last) {
    // merge_totals works on whole vectors; rows outside [first, last) must look as if they saw nothing.
    const int begin = first * group_ / kLanes * kLanes;
    const int end = static_cast<int>(attention_padded(static_cast<std::size_t>(last * group_)));
    for (int i = begin; i < end; i += kLanes) {
      store(part(at_.page_top) + i, broadcast(-kInfinity));
      store(part(at_.page_total) + i, zero());
    }
    const auto weigh_all = [&](auto cells, auto* weights) {
      for (int r = first; r < last; ++r) {
        for (int i = r * group_; i < (r + 1) * group_; ++i) {
          const std::ptrdiff_t at = static_cast<std::ptrdiff_t>(i) * kPageCells;
          weigh<decltype(cells)>(part(at_.scores) + at, weights + at, visible_[r], args_.softcap,
                                 part(at_.page_top)[i], part(at_.page_total)[i]);
        }
      }
    };
    if (is_paired_cache(args_.layout.v_type)) {
      weigh_all(BF16Cells{}, weights_of<BF16Cells>());
    } else {
      weigh_all(F32Cells{}, weights_of<F32Cells>());
    }
    if (partial_ != nullptr) {
      const AttentionPartial layout = partial_layout();
      for (int i = first * group_; i < last * group_; ++i) {
        partial_[layout.top + static_cast<std::size_t>(i)] = part(at_.page_top)[i];
        partial_[layout.total + static_cast<std::size_t>(i)] = part(at_.page_total)[i];
      }
      return;
    }
    merge_totals(end - begin, part(at_.page_top) + begin, part(at_.page_total) + begin, part(at_.top) + begin,
                 part(at_.total) + begin, part(at_.keep) + begin, part(at_.take) + begin);
  }

  template <class Cells>
  void add_values(const std::byte* v, std::ptrdiff_t ahead, int v_stride, int first, int last) {
    for_each_block(first, last, [&](int begin, int n) {
      const bool merged = partial_ == nullptr;
      const Merge merge{part(at_.page_top) + begin, merged ? part(at_.keep) + begin : nullptr,
                        part(at_.take) + begin};
      float* const sums = merged ? part(at_.sums) : partial_ + partial_layout().values;
      weigh_values_block<Cells>(n, weights_of<Cells>() + static_cast<std::ptrdiff_t>(begin) * kPageCells,
                                reinterpret_cast<const typename Cells::Element*>(v), ahead, v_stride,
                                seen_by(begin, n), merge, padded_v_dim_,
                                sums + static_cast<std::ptrdiff_t>(begin) * padded_v_dim_);
      ahead = 0;
    });
  }

  const AttentionArgs& args_;
  const AttentionTile& tile_;
  int kv_head_;
  int group_;
  int k_dim_;
  int v_dim_;
  int padded_v_dim_;
  std::size_t k_page_bytes_;
  std::size_t v_page_bytes_;
  AttentionScratch at_;
  float* scratch_;
  float* partial_ = nullptr;      ///< Where the current page's part is kept; null: it is merged at once
  std::int32_t pages_ahead_ = 0;  ///< From the current page to the next one
  std::uint64_t visible_[kAttentionRows];
};

}  // namespace weft::cpu::WEFT_CPU_ISA::attend

namespace weft::cpu::WEFT_CPU_ISA {

static void attention(const AttentionArgs& args, const AttentionTile& tile, int kv_head, std::byte* scratch) {
  attend::Tile(args, tile, kv_head, scratch).run();
}
static void attention_partials(const AttentionArgs& args, const AttentionTile& tile, int kv_head, Range pages,
                               float* partials, std::byte* scratch) {
  attend::Tile(args, tile, kv_head, scratch).run_partials(pages, partials);
}
static void attention_merge(const AttentionArgs& args, const AttentionTile& tile, int kv_head,
                            const float* partials, std::byte* scratch) {
  attend::Tile(args, tile, kv_head, scratch).run_merge(partials);
}

}  // namespace weft::cpu::WEFT_CPU_ISA
