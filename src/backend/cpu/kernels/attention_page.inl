#pragma once
// Attention over one page: which cells rows see, their scores, weights and sums of values. attention.inl
// describes how pages are merged. Needs vec_<isa>.h and WEFT_CPU_ISA.
#include <cstddef>
#include <cstdint>

#include "backend/cpu/kernels/attention_scratch.h"
#include "backend/cpu/kernels/cache_cells.inl"
#include "backend/cpu/kernels/kernels.h"
#include "backend/cpu/kernels/rows.inl"

namespace weft::cpu::WEFT_CPU_ISA::attend {

inline constexpr float kInfinity = __builtin_inff();
inline constexpr float kLog2E = 0x1.715476p+0f;
static_assert(kAttentionPad % kLanes == 0);

/// Memory to prefetch at each step of the walk over a page's keys, as distances from there: the next page's
/// keys, and the values of this page.
struct Ahead {
  std::ptrdiff_t next_keys = 0;
  std::ptrdiff_t values = 0;
};
/// A processor drops prefetches while all its misses are in flight. Loads of half a line ask twice for each
/// line; where one takes it whole, lines are asked for once more shortly before they are needed.
template <class Cells>
inline constexpr bool kAskAgain =
    Cells::kInMemory && kLanes * Cells::kTogether * sizeof(typename Cells::Element) >= 64;

/// The most query rows that a block holds, with two vectors of sums each.
inline constexpr int kBlockRows = kRegisters * 3 / 8;

// ---- Which cells of a page a row sees. ----

static inline std::uint64_t bits_from(std::int64_t first) {
  return first <= 0 ? ~std::uint64_t{0} : first >= kPageCells ? 0 : ~std::uint64_t{0} << first;
}

/// Extent::lane_of without its bounds; here so that no shared inline function comes of it.
static inline std::int64_t lane_of(const Extent& extent, std::int64_t position) {
  return (position - extent.base) * extent.divisor - extent.offset;
}

static inline std::uint64_t visible_cells(const AttentionArgs& args, std::int32_t row, const Extent& extent) {
  std::uint64_t bits = extent.mask & ~bits_from(lane_of(extent, args.ends[row]));
  if (args.window > 0) bits &= bits_from(lane_of(extent, first_seen(args, args.positions[row])));
  if (args.hidden_first[row] >= 0) {
    for (const HiddenCells* hidden = args.hidden + args.hidden_first[row]; hidden->row == row; ++hidden)
      if (hidden->page == extent.page) bits &= ~hidden->mask;
  }
  return bits;
}

/// The cells [begin, end) from the first to the last bit.
struct Run {
  int begin = 0;
  int end = 0;
};
static inline Run run_of(std::uint64_t bits) {
  if (bits == 0) return {};
  return {__builtin_ctzll(bits), kPageCells - __builtin_clzll(bits)};
}
static inline bool is_run(std::uint64_t bits) {
  const std::uint64_t from_zero = bits >> __builtin_ctzll(bits);
  return (from_zero & (from_zero + 1)) == 0;
}

// ---- S = Q K^T ----

/// One block: scores of kRows query rows with the keys of kVectors vectors from `first_key` on.
template <int kRows, int kVectors, class Cells>
static inline void score_keys(const typename Cells::Factor* q, const typename Cells::Element* k,
                              const Ahead& ahead, int dim, int first_key, float* scores) {
  constexpr int kTogether = Cells::kTogether;
  const typename Cells::Element* keys[kVectors];
  F32 sums[kRows][kVectors];
#pragma GCC unroll 4
  for (int v = 0; v < kVectors; ++v) {
    const int key = first_key + v * kLanes;
    keys[v] = k + static_cast<std::ptrdiff_t>(key / kKeys) * dim * kKeys + key % kKeys * kTogether;
#pragma GCC unroll 12
    for (int r = 0; r < kRows; ++r) sums[r][v] = zero();
  }
  for (int d = 0; d < dim; d += kTogether) {
    typename Cells::Vector x[kVectors];
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      x[v] = Cells::load_vector(keys[v] + static_cast<std::ptrdiff_t>(d) * kKeys);
      if constexpr (Cells::kInMemory)
        prefetch(keys[v] + static_cast<std::ptrdiff_t>(d) * kKeys, ahead.next_keys);
      if constexpr (kAskAgain<Cells>)
        prefetch(keys[v] + static_cast<std::ptrdiff_t>(d) * kKeys, ahead.values);
    }
#pragma GCC unroll 12
    for (int r = 0; r < kRows; ++r) {
      const typename Cells::Vector a = Cells::spread(q + static_cast<std::ptrdiff_t>(r) * dim + d);
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) sums[r][v] = Cells::add_products(a, x[v], sums[r][v]);
    }
  }
#pragma GCC unroll 12
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      WEFT_CPU_ISA::store(scores + r * kPageCells + first_key + v * kLanes, sums[r][v]);
    }
  }
}

/// Vectors next to each other: four if there are enough registers for four in each row, otherwise two.
template <int kRows>
inline constexpr int kVectorsOf = 4 * kRows + 4 + 1 <= kRegisters ? 4 : 2;

/// Scores of `rows` (1 to kRows) query rows with the keys of a run, rounded outwards to whole steps.
template <class Cells, int kRows = kBlockRows>
static void score_block(int rows, const typename Cells::Factor* q, const typename Cells::Element* k,
                        const Ahead& ahead, int dim, Run run, float* scores) {
  if constexpr (kRows > 1) {
    if (rows < kRows) return score_block<Cells, kRows - 1>(rows, q, k, ahead, dim, run, scores);
  }
  constexpr int kStep = kVectorsOf<kRows> * kLanes;
  for (int key = run.begin / kStep * kStep; key < run.end; key += kStep) {
    score_keys<kRows, kVectorsOf<kRows>, Cells>(q, k, ahead, dim, key, scores);
  }
}

// ---- P = 2^(S - top) ----

/// What cells of V are multiplied by: weights as they are kept.
template <class Cells>
static inline F32 keep_weights(F32 exponents, typename Cells::Factor* to) {
  if constexpr (Cells::kTogether == 2) {
    store_bf16(to, exp2_coarse(exponents));
    return load_bf16(to);
  } else {
    const F32 weights = exp2(exponents);
    store(to, weights);
    return weights;
  }
}

/// Whether any element of the vectors is NaN.
template <int kVectors>
static inline bool any_nan(const F32 (&x)[kVectors]) {
  alignas(64) float lanes[kLanes];
  bool any = false;
  for (const F32& one : x) {
    WEFT_CPU_ISA::store(lanes, one);
    for (const float lane : lanes) any |= lane != lane;
  }
  return any;
}

/// Turns a query row's scores into weights of V's cells, which may take the scores' place. `top` is -infinity
/// where the row sees nothing, and NaN where all that it sees has NaN for a score.
template <class Cells>
static inline void weigh(const float* scores, typename Cells::Factor* weights, std::uint64_t visible,
                         float cap, float& top, float& total) {
  constexpr int kVectors = kPageCells / kLanes;
  const F32 lowest = broadcast(-kInfinity);
  F32 s[kVectors];
#pragma GCC unroll 16
  for (int v = 0; v < kVectors; ++v) s[v] = load(scores + v * kLanes);
  if (cap > 0.0f) {
    const F32 c = broadcast(cap);
    const F32 inverse = broadcast(1.0f / cap);
    for (int v = 0; v < kVectors; ++v) s[v] = softcap(s[v], c, inverse) * broadcast(kLog2E);
  }
  if (visible != ~std::uint64_t{0}) {
#pragma GCC unroll 16
    for (int v = 0; v < kVectors; ++v) {
      s[v] = select_bits(static_cast<std::uint32_t>(visible >> (v * kLanes)), s[v], lowest);
    }
  }
  F32 largest[4];
#pragma GCC unroll 4
  for (int j = 0; j < 4; ++j) {
    largest[j] = s[j];
#pragma GCC unroll 16
    for (int v = j + 4; v < kVectors; v += 4) largest[j] = max(largest[j], s[v]);
  }
  top = reduce_max(max(max(largest[0], largest[1]), max(largest[2], largest[3])));
  if (top == -kInfinity) {
    // The maximum passes over NaN.
    const bool lost = visible != 0 && any_nan(s);
    if (lost) top = __builtin_nanf("");
    total = lost ? top : 0.0f;
    for (int i = 0; i < kPageCells; ++i) weights[i] = 0;
    return;
  }
  const F32 top_lanes = broadcast(top);
  F32 sums[4];
#pragma GCC unroll 16
  for (int v = 0; v < kVectors; ++v) {
    s[v] = keep_weights<Cells>(s[v] - top_lanes, weights + v * kLanes);
    if (v < 4) {
      sums[v] = s[v];
    } else {
      sums[v % 4] += s[v];
    }
  }
  total = reduce_add((sums[0] + sums[1]) + (sums[2] + sums[3]));
}

/// Merges the maxima and sums of a page into those so far, and gives the factors for the weighted V.
static void merge_totals(int n, const float* page_top, const float* page_total, float* top, float* total,
                         float* keep, float* take) {
  const F32 lowest = broadcast(-3.0e38f);  // Keeps -inf - -inf out: such rows have nothing to scale.
  for (int i = 0; i < n; i += kLanes) {    // All arrays are padded.
    const F32 old_top = load(top + i);
    const F32 new_top = max(old_top, load(page_top + i));
    const F32 base = max(new_top, lowest);
    const F32 k = exp2(old_top - base);
    const F32 t = exp2(load(page_top + i) - base);
    store(top + i, new_top);
    store(total + i, fma(load(page_total + i), t, load(total + i) * k));
    store(keep + i, k);
    store(take + i, t);
  }
}

// ---- O = O keep + (P V) take ----

struct Merge {
  const float* page_top;
  const float* keep;
  const float* take;
};

/// kVectors vectors of dims of kRows query rows. Without factors a page's values are left unmerged.
template <int kRows, int kVectors, class Cells>
static inline void weigh_values(const typename Cells::Factor* weights, const typename Cells::Element* v,
                                std::ptrdiff_t ahead, std::ptrdiff_t v_stride, Run run, const Merge& merge,
                                std::ptrdiff_t stride, float* sums) {
  constexpr int kTogether = Cells::kTogether;
  F32 page[kRows][kVectors];
#pragma GCC unroll 12
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int j = 0; j < kVectors; ++j) page[r][j] = zero();
  }
  for (int key = run.begin / kTogether * kTogether; key < run.end; key += kTogether) {
    typename Cells::Vector x[kVectors];
#pragma GCC unroll 4
    for (int j = 0; j < kVectors; ++j) {
      x[j] = Cells::load_vector(v + key * v_stride + j * kLanes * kTogether);
      if constexpr (Cells::kInMemory) prefetch(v + key * v_stride + j * kLanes * kTogether, ahead);
    }
#pragma GCC unroll 12
    for (int r = 0; r < kRows; ++r) {
      const typename Cells::Vector a = Cells::spread(weights + r * kPageCells + key);
#pragma GCC unroll 4
      for (int j = 0; j < kVectors; ++j) page[r][j] = Cells::add_products(a, x[j], page[r][j]);
    }
  }
#pragma GCC unroll 12
  for (int r = 0; r < kRows; ++r) {
    if (merge.page_top[r] == -kInfinity) continue;
    if (merge.keep == nullptr) {
#pragma GCC unroll 4
      for (int j = 0; j < kVectors; ++j) WEFT_CPU_ISA::store(sums + r * stride + j * kLanes, page[r][j]);
      continue;
    }
    const F32 keep = broadcast(merge.keep[r]);
    const F32 take = broadcast(merge.take[r]);
#pragma GCC unroll 4
    for (int j = 0; j < kVectors; ++j) {
      float* const sum = sums + r * stride + j * kLanes;
      WEFT_CPU_ISA::store(sum, fma(page[r][j], take, WEFT_CPU_ISA::load(sum) * keep));
    }
  }
}

template <class Cells, int kRows = kBlockRows>
static void weigh_values_block(int rows, const typename Cells::Factor* weights,
                               const typename Cells::Element* v, std::ptrdiff_t ahead,
                               std::ptrdiff_t v_stride, Run run, const Merge& merge, int dims, float* sums) {
  if constexpr (kRows > 1) {
    if (rows < kRows) {
      return weigh_values_block<Cells, kRows - 1>(rows, weights, v, ahead, v_stride, run, merge, dims, sums);
    }
  }
  constexpr int kVectors = kVectorsOf<kRows>;
  int d = 0;
  for (; d + kVectors * kLanes <= dims; d += kVectors * kLanes) {
    weigh_values<kRows, kVectors, Cells>(weights, v + d * Cells::kTogether, ahead, v_stride, run, merge, dims,
                                         sums + d);
  }
  for (; d < dims; d += kLanes) {
    weigh_values<kRows, 1, Cells>(weights, v + d * Cells::kTogether, ahead, v_stride, run, merge, dims,
                                  sums + d);
  }
}

}  // namespace weft::cpu::WEFT_CPU_ISA::attend
