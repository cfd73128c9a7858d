#pragma once
// Kernels on one row, over the vector contract (vec_<isa>.h) and WEFT_CPU_ISA.
#include <cstddef>
#include <cstdint>

#include "backend/cpu/kernels/activations.inl"
#include "backend/cpu/kernels/kernels.h"
#include "weft/graph/ops/text.h"

namespace weft::cpu::WEFT_CPU_ISA {

/// A place in a row: a whole vector, or the last n elements of a row whose length is not a multiple of it.
struct Whole {};
struct Part {
  int n;
};
static inline F32 load(const float* p, Whole) { return load(p); }
static inline F32 load(const float* p, Part part) { return load_partial(p, part.n); }
static inline void store(float* p, F32 a, Whole) { store(p, a); }
static inline void store(float* p, F32 a, Part part) { store_partial(p, a, part.n); }
/// a, with `rest` in the lanes past the end.
static inline F32 or_rest(F32 a, F32, Whole) { return a; }
static inline F32 or_rest(F32 a, F32 rest, Part part) { return select_bits((1u << part.n) - 1u, a, rest); }

/// Calls step(i, place) for i = 0, kLanes, 2 kLanes, ... below n.
template <class Step>
static inline void for_each_vector(std::int64_t n, Step step) {
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) step(i, Whole{});
  if (i < n) step(i, Part{static_cast<int>(n - i)});
}

/// The sum of term(i, place) over a row; lanes past the end must be zero. Blocks are summed in floats (four
/// chains of 16), the blocks' sums in double: the error does not grow with the length of the row.
template <class Term>
static inline double sum_of(std::int64_t n, Term term) {
  constexpr std::int64_t kBlock = 64 * kLanes;
  double total = 0.0;
  for (std::int64_t begin = 0; begin < n; begin += kBlock) {
    const std::int64_t end = n - begin < kBlock ? n : begin + kBlock;
    F32 sums[4] = {zero(), zero(), zero(), zero()};
    std::int64_t i = begin;
    for (; i + 4 * kLanes <= end; i += 4 * kLanes) {
#pragma GCC unroll 4
      for (int j = 0; j < 4; ++j) sums[j] += term(i + j * kLanes, Whole{});
    }
    for (; i + kLanes <= end; i += kLanes) sums[0] += term(i, Whole{});
    if (i < end) sums[1] += term(i, Part{static_cast<int>(end - i)});
    total += static_cast<double>(reduce_add((sums[0] + sums[1]) + (sums[2] + sums[3])));
  }
  return total;
}

template <NormKind kind>
static void norm_row_of(const float* x, std::int64_t n, float eps, const float* weight, const float* bias,
                        float* out) {
  const double count = static_cast<double>(n);
  // The mean as a float and what that float left over, so that a row far from zero loses no digits.
  F32 mean = zero();
  F32 mean_rest = zero();
  const auto centred = [&](std::int64_t i, auto at) {
    if constexpr (kind != NormKind::kLayer) return load(x + i, at);
    return or_rest((load(x + i, at) - mean) - mean_rest, zero(), at);
  };
  if constexpr (kind == NormKind::kLayer) {
    const auto value = [&](std::int64_t i, auto at) { return load(x + i, at); };
    mean = broadcast(static_cast<float>(sum_of(n, value) / count));
    mean_rest = broadcast(static_cast<float>(sum_of(n, centred) / count));
  }
  const double squares = sum_of(n, [&](std::int64_t i, auto at) {
    const F32 d = centred(i, at);
    return d * d;
  });
  double length = 0.0;
  if constexpr (kind == NormKind::kL2) {
    length = __builtin_sqrt(squares);
    if (length < static_cast<double>(eps)) length = static_cast<double>(eps);
  } else {
    length = __builtin_sqrt(squares / count + static_cast<double>(eps));
  }
  const F32 scale = broadcast(static_cast<float>(1.0 / length));
  for_each_vector(n, [&](std::int64_t i, auto at) {
    F32 y = centred(i, at) * scale;
    if (weight != nullptr) y *= load(weight + i, at);
    if (bias != nullptr) y += load(bias + i, at);
    store(out + i, y, at);
  });
}

static void norm_row(NormKind kind, const float* x, std::int64_t n, float eps, const float* weight,
                     const float* bias, float* out) {
  if (kind == NormKind::kRms) return norm_row_of<NormKind::kRms>(x, n, eps, weight, bias, out);
  if (kind == NormKind::kL2) return norm_row_of<NormKind::kL2>(x, n, eps, weight, bias, out);
  norm_row_of<NormKind::kLayer>(x, n, eps, weight, bias, out);
}

static void add_row(const float* a, const float* b, std::int64_t n, float* out) {
  for_each_vector(n, [&](std::int64_t i, auto at) { store(out + i, load(a + i, at) + load(b + i, at), at); });
}

static void mul_row(const float* a, const float* b, std::int64_t n, float* out) {
  for_each_vector(n, [&](std::int64_t i, auto at) { store(out + i, load(a + i, at) * load(b + i, at), at); });
}

static void scale_row(const float* a, float factor, std::int64_t n, float* out) {
  const F32 f = broadcast(factor);
  for_each_vector(n, [&](std::int64_t i, auto at) { store(out + i, load(a + i, at) * f, at); });
}

static void axpy_row(const float* a, float factor, std::int64_t n, float* out) {
  const F32 f = broadcast(factor);
  for_each_vector(
      n, [&](std::int64_t i, auto at) { store(out + i, fma(load(a + i, at), f, load(out + i, at)), at); });
}

/// cap * tanh(x / cap), given 1 / cap.
static inline F32 softcap(F32 x, F32 cap, F32 inverse) { return cap * tanh(x * inverse); }

static void softcap_row(const float* a, float cap, std::int64_t n, float* out) {
  const F32 c = broadcast(cap);
  const F32 inverse = broadcast(1.0f / cap);
  for_each_vector(n,
                  [&](std::int64_t i, auto at) { store(out + i, softcap(load(a + i, at), c, inverse), at); });
}

template <Activation kind>
static void activation_row_of(const float* a, std::int64_t n, float* out) {
  for_each_vector(n, [&](std::int64_t i, auto at) { store(out + i, activate<kind>(load(a + i, at)), at); });
}

static void activation_row(Activation kind, const float* a, std::int64_t n, float* out) {
  switch (kind) {
    case Activation::kNone:
      return activation_row_of<Activation::kNone>(a, n, out);
    case Activation::kSilu:
      return activation_row_of<Activation::kSilu>(a, n, out);
    case Activation::kGelu:
      return activation_row_of<Activation::kGelu>(a, n, out);
    case Activation::kGeluErf:
      return activation_row_of<Activation::kGeluErf>(a, n, out);
    case Activation::kGeluQuick:
      return activation_row_of<Activation::kGeluQuick>(a, n, out);
    case Activation::kRelu:
      return activation_row_of<Activation::kRelu>(a, n, out);
    case Activation::kReluSquared:
      return activation_row_of<Activation::kReluSquared>(a, n, out);
    case Activation::kSoftplus:
      return activation_row_of<Activation::kSoftplus>(a, n, out);
  }
}

template <Activation kind>
static void glu_row_of(const float* gate, const float* up, std::int64_t n, float* out) {
  for_each_vector(n, [&](std::int64_t i, auto at) {
    store(out + i, activate<kind>(load(gate + i, at)) * load(up + i, at), at);
  });
}

static void glu_row(Activation kind, const float* gate, const float* up, std::int64_t n, float* out) {
  switch (kind) {
    case Activation::kNone:
      return glu_row_of<Activation::kNone>(gate, up, n, out);
    case Activation::kSilu:
      return glu_row_of<Activation::kSilu>(gate, up, n, out);
    case Activation::kGelu:
      return glu_row_of<Activation::kGelu>(gate, up, n, out);
    case Activation::kGeluErf:
      return glu_row_of<Activation::kGeluErf>(gate, up, n, out);
    case Activation::kGeluQuick:
      return glu_row_of<Activation::kGeluQuick>(gate, up, n, out);
    case Activation::kRelu:
      return glu_row_of<Activation::kRelu>(gate, up, n, out);
    case Activation::kReluSquared:
      return glu_row_of<Activation::kReluSquared>(gate, up, n, out);
    case Activation::kSoftplus:
      return glu_row_of<Activation::kSoftplus>(gate, up, n, out);
  }
}

/// A row of nothing but -infinity (or without elements) has no softmax; it gives zeros. With NaN, all is NaN.
static void softmax_row(const float* a, std::int64_t n, float* out) {
  const F32 lowest = broadcast(-__builtin_inff());
  F32 largest = lowest;
  for_each_vector(
      n, [&](std::int64_t i, auto at) { largest = max(largest, or_rest(load(a + i, at), lowest, at)); });
  const float top = reduce_max(largest);
  if (top == -__builtin_inff()) {
    // A maximum may pass over NaN; a sum does not.
    const double none =
        sum_of(n, [&](std::int64_t i, auto at) { return or_rest(exp(load(a + i, at)), zero(), at); });
    const F32 all = broadcast(static_cast<float>(none));
    for_each_vector(n, [&](std::int64_t i, auto at) { store(out + i, all, at); });
    return;
  }
  const F32 top_lanes = broadcast(top);
  const double sum = sum_of(n, [&](std::int64_t i, auto at) {
    const F32 e = or_rest(exp(load(a + i, at) - top_lanes), zero(), at);
    store(out + i, e, at);
    return e;
  });
  scale_row(out, static_cast<float>(1.0 / sum), n, out);
}

static void rope_head(const RopeTable& table, const float* x, int head_dim, float* out) {
  const int half = table.n_rot / 2;
  if (table.neox) {
    for_each_vector(half, [&](std::int64_t i, auto at) {
      const F32 x0 = load(x + i, at);
      const F32 x1 = load(x + half + i, at);
      const F32 c = load(table.cos + i, at);
      const F32 s = load(table.sin + i, at);
      store(out + i, fma(x0, c, -(x1 * s)), at);
      store(out + half + i, fma(x1, c, x0 * s), at);
    });
  } else {
    constexpr int kPairs = kLanes / 2;
    int i = 0;
    for (; i + kPairs <= half; i += kPairs) {
      store(out + 2 * i, rotate_pairs(load(x + 2 * i), table.cos + i, table.sin + i));
    }
    for (; i < half; ++i) {
      const float x0 = x[2 * i];
      const float x1 = x[2 * i + 1];
      out[2 * i] = x0 * table.cos[i] - x1 * table.sin[i];
      out[2 * i + 1] = x1 * table.cos[i] + x0 * table.sin[i];
    }
  }
  if (out != x) {
    for (int i = 2 * half; i < head_dim; ++i) out[i] = x[i];
  }
}

/// Each of log2(block) passes replaces neighbours by their sum, in the first half of the block, and their
/// difference, in the second half. All passes are alike, so vectors need no other permutations.
static void hadamard_row(const float* x, std::int64_t n, int block, float* out) {
  alignas(64) float passes[2][ops::Hadamard::kMaxBlock + kLanes];  // Vectors of odd elements read one more.
  passes[0][block] = passes[1][block] = 0.0f;
  const int half = block / 2;
  const F32 scale = broadcast(1.0f / __builtin_sqrtf(static_cast<float>(block)));
  for (std::int64_t begin = 0; begin < n; begin += block) {
    __builtin_memcpy(passes[0], x + begin, static_cast<std::size_t>(block) * sizeof(float));
    float* from = passes[0];
    float* to = passes[1];
    for (int width = 1; width < block; width *= 2) {
      int i = 0;
      for (; i + kLanes <= half; i += kLanes) {
        const float* const p = from + 2 * i;
        const F32 even = even_elements(load(p), load(p + kLanes));
        const F32 odd = even_elements(load(p + 1), load(p + kLanes + 1));
        store(to + i, even + odd);
        store(to + half + i, even - odd);
      }
      for (; i < half; ++i) {
        to[i] = from[2 * i] + from[2 * i + 1];
        to[half + i] = from[2 * i] - from[2 * i + 1];
      }
      float* const last = from;
      from = to;
      to = last;
    }
    for_each_vector(block,
                    [&](std::int64_t i, auto at) { store(out + begin + i, load(from + i, at) * scale, at); });
  }
}

}  // namespace weft::cpu::WEFT_CPU_ISA
