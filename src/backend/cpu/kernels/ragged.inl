#pragma once
// Attention of rows over rows (ops::RaggedAttention, ops::DenseAttention). Query rows are lanes of vectors,
// keys are processed one after another. Both products of a tile of keys are the same kernel, which broadcasts
// an element of K or V to many rows. The softmax never sums over lanes. A row's sums go key by key, from its
// first key on, whatever the other lanes compute. Needs vec_<isa>.h and WEFT_CPU_ISA.
#include <cstddef>
#include <cstdint>

#include "backend/cpu/kernels/kernels.h"
#include "backend/cpu/kernels/rows.inl"

namespace weft::cpu::WEFT_CPU_ISA::ragged {

inline constexpr int kMaxVectors = kRegisters >= 32 ? 4 : 2;
/// Elements whose sums are kept in registers together, for kVectors vectors of rows.
template <int kVectors>
inline constexpr int kTogether = kVectors == 1 || (kVectors == 2 && kRegisters >= 32) ? 12
                                 : kVectors == 3                                      ? 8
                                                                                      : 6;

/// Elements of K (of V), `step` apart for each i, and `next` for each c.
struct Elements {
  const float* first;
  std::ptrdiff_t step;
  std::ptrdiff_t next;
};

/// sums[i][r] += sum over c of a[i, c] * b[c][r], for n_i elements i, n_c steps c and kVectors vectors of r.
template <int kVectors, int kI = kTogether<kVectors>>
static void add_products(Elements a, int n_i, const float* b, int n_c, float* sums) {
  int i = 0;
  for (; i + kI <= n_i; i += kI) {
    F32 acc[kI][kVectors];
#pragma GCC unroll 12
    for (int j = 0; j < kI; ++j)
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) acc[j][v] = load(sums + (i + j) * kRaggedRows + v * kLanes);
    const float* element = a.first + i * a.step;
    for (int c = 0; c < n_c; ++c, element += a.next) {
      F32 rows[kVectors];
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) rows[v] = load(b + c * kRaggedRows + v * kLanes);
#pragma GCC unroll 12
      for (int j = 0; j < kI; ++j) {
        const F32 spread = broadcast(element[j * a.step]);
#pragma GCC unroll 4
        for (int v = 0; v < kVectors; ++v) acc[j][v] = fma(spread, rows[v], acc[j][v]);
      }
    }
#pragma GCC unroll 12
    for (int j = 0; j < kI; ++j)
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) store(sums + (i + j) * kRaggedRows + v * kLanes, acc[j][v]);
  }
  if constexpr (kI > 1) {
    a.first += i * a.step;
    if (i < n_i) add_products<kVectors, kI / 2>(a, n_i - i, b, n_c, sums + i * kRaggedRows);
  }
}

/// The same for any number of vectors.
static void add_products(Elements a, int n_i, const float* b, int n_c, float* sums, int n_vectors) {
  for (; n_vectors >= kMaxVectors; n_vectors -= kMaxVectors) {
    add_products<kMaxVectors>(a, n_i, b, n_c, sums);
    b += kMaxVectors * kLanes;
    sums += kMaxVectors * kLanes;
  }
  if constexpr (kMaxVectors > 2) {
    if (n_vectors == 3) return add_products<3>(a, n_i, b, n_c, sums);
    if (n_vectors == 2) return add_products<2>(a, n_i, b, n_c, sums);
  }
  if (n_vectors == 1) add_products<1>(a, n_i, b, n_c, sums);
}

/// What the rows' softmax has come to, [row] each.
struct Softmax {
  float* largest;
  float* sums;
};

/// Turns the scores of one vector of rows into weights, relative to the largest so far. Rescales the outputs
/// of earlier tiles to that, too. Row r sees keys below limits[r] only.
static void weigh(float* scores, int n_keys, const float* limits, float* outputs, int v_dim,
                  Softmax softmax) {
  const F32 limit = load(limits);
  const F32 unseen = broadcast(-__builtin_inff());
  const F32 before = load(softmax.largest);
  F32 largest = before;
  for (int key = 0; key < n_keys; ++key) {
    float* const at = scores + key * kRaggedRows;
    const F32 score = select_less(broadcast(static_cast<float>(key)), limit, load(at), unseen);
    store(at, score);
    largest = max(score, largest);
  }
  F32 sum = zero();
  for (int key = 0; key < n_keys; ++key) {
    float* const at = scores + key * kRaggedRows;
    const F32 weight = exp2(load(at) - largest);
    store(at, weight);
    sum += weight;
  }
  const F32 shrink = exp2(before - largest);
  store(softmax.largest, largest);
  store(softmax.sums, fma(load(softmax.sums), shrink, sum));
  for (int i = 0; i < v_dim; ++i) store(outputs + i * kRaggedRows, load(outputs + i * kRaggedRows) * shrink);
}

inline constexpr float kLog2E = 0x1.715476p+0f;

/// What is done to the scores of n_keys keys from the first on before they become weights.
static void adjust(const RaggedArgs& args, std::int64_t first, int n_keys, int n_vectors, float* scores) {
  if (args.softcap != 0.0f) {
    const float in_scores = args.softcap * kLog2E;
    const F32 cap = broadcast(in_scores);
    const F32 inverse = broadcast(1.0f / in_scores);
    for (int key = 0; key < n_keys; ++key)
      for (int v = 0; v < n_vectors; ++v) {
        float* const at = scores + key * kRaggedRows + v * kLanes;
        store(at, softcap(load(at), cap, inverse));
      }
  }
  if (args.bias == nullptr && args.mask == nullptr) return;
  const auto bias_of = [&](std::int64_t place) {
    return args.mask == nullptr ? args.bias[place] : args.mask[place] != 0 ? 0.0f : -__builtin_inff();
  };
  const F32 factor = broadcast(kLog2E);
  for (int v = 0; v < n_vectors; ++v) {
    const int n = args.n_rows - v * kLanes < kLanes ? args.n_rows - v * kLanes : kLanes;
    for (int key = 0; key < n_keys; ++key) {
      const std::int64_t place = v * kLanes * args.bias_row + (first + key) * args.bias_key;
      float lanes[kLanes] = {};
      if (args.bias_row == 0) {
        const float one = bias_of(place);
        for (int r = 0; r < kLanes; ++r) lanes[r] = one;
      } else {
        for (int r = 0; r < n; ++r) lanes[r] = bias_of(place + r * args.bias_row);
      }
      float* const at = scores + key * kRaggedRows + v * kLanes;
      store(at, fma(load(lanes), factor, load(at)));
    }
  }
}

/// Whether all values of some keys are finite numbers.
static bool are_finite(const RaggedArgs& args, Range keys) {
  F32 traces = zero();  // 0 * x is 0, or NaN where x is not finite.
  for (std::int64_t key = keys.begin; key < keys.end; ++key)
    for_each_vector(args.v_dim, [&](std::int64_t i, auto at) {
      traces += load(args.v + key * args.v_stride + i, at) * zero();
    });
  return reduce_add(traces) == 0.0f;
}

/// Row r alone.
static RaggedArgs only(RaggedArgs args, int r) {
  args.q += r * args.q_stride;
  args.out += r * args.out_stride;
  args.n_keys += r;
  args.n_rows = 1;
  if (args.bias != nullptr) args.bias += r * args.bias_row;
  if (args.mask != nullptr) args.mask += r * args.bias_row;
  if (args.sinks != nullptr) args.sinks += r * args.sink_stride;
  return args;
}

static void attention(const RaggedArgs& args, float* scratch) {
  // What only some rows see weighs 0 in the others, and 0 times an infinite value is NaN.
  Range by_some = {0, 0};
  for (int r = 0; r < args.n_rows; ++r) {
    if (r == 0 || args.n_keys[r] < by_some.begin) by_some.begin = args.n_keys[r];
    if (r == 0 || args.n_keys[r] > by_some.end) by_some.end = args.n_keys[r];
  }
  if (args.n_rows > 1 && !are_finite(args, by_some)) {
    for (int r = 0; r < args.n_rows; ++r) attention(only(args, r), scratch);
    return;
  }
  constexpr float kLowest = -3.4028234e38f;
  float* const queries = scratch;  // [k_dim][row]
  float* const scores = queries + args.k_dim * kRaggedRows;
  float* const outputs = scores + kRaggedKeys * kRaggedRows;
  const Softmax softmax = {outputs + args.v_dim * kRaggedRows, outputs + (args.v_dim + 1) * kRaggedRows};
  float* const limits = softmax.sums + kRaggedRows;
  const int n_vectors = (args.n_rows + kLanes - 1) / kLanes;
  const int n_padded = n_vectors * kLanes;

  std::int32_t n_keys = 0;
  for (int r = 0; r < n_padded; ++r) {
    const bool there = r < args.n_rows;
    if (there && args.n_keys[r] > n_keys) n_keys = args.n_keys[r];
    for (int i = 0; i < args.k_dim; ++i)
      queries[i * kRaggedRows + r] = there ? args.q[r * args.q_stride + i] * (args.scale * kLog2E) : 0.0f;
    softmax.largest[r] = kLowest;  // So that rows without keys divide nothing by nothing.
    softmax.sums[r] = 0.0f;
    if (!there || args.sinks == nullptr) continue;
    const float sink = args.sinks[r * args.sink_stride] * kLog2E;
    if (sink < kLowest) continue;
    softmax.largest[r] = sink;
    softmax.sums[r] = 1.0f;
  }
  for (int i = 0; i < args.v_dim * kRaggedRows; ++i) outputs[i] = 0.0f;

  for (std::int32_t first = 0; first < n_keys; first += kRaggedKeys) {
    const int n = n_keys - first < kRaggedKeys ? n_keys - first : kRaggedKeys;
    for (int r = 0; r < n_padded; ++r)
      limits[r] = r < args.n_rows ? static_cast<float>(args.n_keys[r] - first) : 0.0f;
    for (int i = 0; i < n * kRaggedRows; ++i) scores[i] = 0.0f;
    add_products({args.k + first * args.k_stride, args.k_stride, 1}, n, queries, args.k_dim, scores,
                 n_vectors);
    adjust(args, first, n, n_vectors, scores);
    for (int v = 0; v < n_vectors; ++v)
      weigh(scores + v * kLanes, n, limits + v * kLanes, outputs + v * kLanes, args.v_dim,
            {softmax.largest + v * kLanes, softmax.sums + v * kLanes});
    add_products({args.v + first * args.v_stride, 1, args.v_stride}, args.v_dim, scores, n, outputs,
                 n_vectors);
  }
  for (int r = 0; r < args.n_rows; ++r) {
    // A row that saw a key has a sum of at least 1; NaN stays NaN.
    const float inverse = softmax.sums[r] < 0.5f ? 0.0f : 1.0f / softmax.sums[r];
    for (int i = 0; i < args.v_dim; ++i)
      args.out[r * args.out_stride + i] = outputs[i * kRaggedRows + r] * inverse;
  }
}

}  // namespace weft::cpu::WEFT_CPU_ISA::ragged

namespace weft::cpu::WEFT_CPU_ISA {

static void ragged_attention(const RaggedArgs& args, float* scratch) { ragged::attention(args, scratch); }

}  // namespace weft::cpu::WEFT_CPU_ISA
