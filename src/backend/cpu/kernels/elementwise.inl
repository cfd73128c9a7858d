#pragma once
// Ops on each element of one or two rows, and sums and extremes of rows. Needs rows.inl and WEFT_CPU_ISA.
#include "backend/cpu/kernels/rows.inl"

namespace weft::cpu::WEFT_CPU_ISA {

/// The bits of a vector's lanes.
using LaneBits = std::int32_t __attribute__((vector_size(sizeof(F32))));
static inline LaneBits bits_of(F32 a) {
  LaneBits bits;
  __builtin_memcpy(&bits, &a, sizeof(bits));
  return bits;
}
static inline F32 of_bits(LaneBits bits) {
  F32 a;
  __builtin_memcpy(&a, &bits, sizeof(a));
  return a;
}

/// Where a is NaN x, elsewhere y.
static inline F32 select_nan(F32 a, F32 x, F32 y) {
  const LaneBits is_nan = (bits_of(a) & 0x7fffffff) > 0x7f800000;
  return of_bits((bits_of(x) & is_nan) | (bits_of(y) & ~is_nan));
}
static inline F32 magnitude(F32 x) { return of_bits(bits_of(x) & 0x7fffffff); }
// NaN where either is: max and min give b then.
static inline F32 maximum(F32 a, F32 b) { return select_nan(a, a, max(a, b)); }
static inline F32 minimum(F32 a, F32 b) { return select_nan(a, a, min(a, b)); }

/// To the nearest whole number, whatever the size; with the sign of x.
static inline F32 nearest(F32 x) {
  // Behind 2^23 a float has no digits after the point.
  const F32 point = broadcast(0x1p23f);
  const F32 size = magnitude(x);
  const F32 rounded = of_bits(bits_of((size + point) - point) | (bits_of(x) & ~0x7fffffff));
  return select_less(size, point, rounded, x);
}
static inline F32 floor(F32 x) {
  const F32 rounded = nearest(x);
  return select_less(x, rounded, rounded - broadcast(1.0f), rounded);
}

template <UnaryKind kind>
static inline F32 unary(F32 x) {
  const F32 one = broadcast(1.0f);
  if constexpr (kind == UnaryKind::kNeg) {
    return -x;
  } else if constexpr (kind == UnaryKind::kAbs) {
    return magnitude(x);
  } else if constexpr (kind == UnaryKind::kSquare) {
    return x * x;
  } else if constexpr (kind == UnaryKind::kSqrt) {
    return sqrt(x);
  } else if constexpr (kind == UnaryKind::kRsqrt) {
    return one / sqrt(x);
  } else if constexpr (kind == UnaryKind::kReciprocal) {
    return one / x;
  } else if constexpr (kind == UnaryKind::kExp) {
    return exp(x);
  } else if constexpr (kind == UnaryKind::kTanh) {
    return tanh(x);
  } else if constexpr (kind == UnaryKind::kSigmoid) {
    return one / (one + exp(-x));
  } else if constexpr (kind == UnaryKind::kFloor) {
    return floor(x);
  } else if constexpr (kind == UnaryKind::kCeil) {
    return -floor(-x);
  } else {
    static_assert(kind == UnaryKind::kRound);
    return nearest(x);
  }
}

template <UnaryKind kind>
static void unary_row_of(const float* x, std::int64_t n, float* out) {
  for_each_vector(n, [&](std::int64_t i, auto at) { store(out + i, unary<kind>(load(x + i, at)), at); });
}

static void unary_row(UnaryKind kind, const float* x, std::int64_t n, float* out) {
  switch (kind) {
    case UnaryKind::kNeg:
      return unary_row_of<UnaryKind::kNeg>(x, n, out);
    case UnaryKind::kAbs:
      return unary_row_of<UnaryKind::kAbs>(x, n, out);
    case UnaryKind::kSquare:
      return unary_row_of<UnaryKind::kSquare>(x, n, out);
    case UnaryKind::kSqrt:
      return unary_row_of<UnaryKind::kSqrt>(x, n, out);
    case UnaryKind::kRsqrt:
      return unary_row_of<UnaryKind::kRsqrt>(x, n, out);
    case UnaryKind::kReciprocal:
      return unary_row_of<UnaryKind::kReciprocal>(x, n, out);
    case UnaryKind::kExp:
      return unary_row_of<UnaryKind::kExp>(x, n, out);
    case UnaryKind::kTanh:
      return unary_row_of<UnaryKind::kTanh>(x, n, out);
    case UnaryKind::kSigmoid:
      return unary_row_of<UnaryKind::kSigmoid>(x, n, out);
    case UnaryKind::kFloor:
      return unary_row_of<UnaryKind::kFloor>(x, n, out);
    case UnaryKind::kCeil:
      return unary_row_of<UnaryKind::kCeil>(x, n, out);
    case UnaryKind::kRound:
      return unary_row_of<UnaryKind::kRound>(x, n, out);
    // The C library's, element by element.
    case UnaryKind::kLog:
      for (std::int64_t i = 0; i < n; ++i) out[i] = __builtin_logf(x[i]);
      return;
    case UnaryKind::kSin:
      for (std::int64_t i = 0; i < n; ++i) out[i] = __builtin_sinf(x[i]);
      return;
    case UnaryKind::kCos:
      for (std::int64_t i = 0; i < n; ++i) out[i] = __builtin_cosf(x[i]);
      return;
    case UnaryKind::kErf:
      for (std::int64_t i = 0; i < n; ++i) out[i] = __builtin_erff(x[i]);
      return;
    case UnaryKind::kExpm1:
      for (std::int64_t i = 0; i < n; ++i) out[i] = __builtin_expm1f(x[i]);
      return;
    case UnaryKind::kLog1p:
      for (std::int64_t i = 0; i < n; ++i) out[i] = __builtin_log1pf(x[i]);
      return;
  }
}

static void clamp_row(const float* x, float low, float high, std::int64_t n, float* out) {
  const F32 least = broadcast(low);
  const F32 most = broadcast(high);
  // Operands in this order keep NaN.
  for_each_vector(
      n, [&](std::int64_t i, auto at) { store(out + i, min(most, max(least, load(x + i, at))), at); });
}

template <class Compute>
static inline void binary_row_of(Elements<float> a, Elements<float> b, std::int64_t n, float* out,
                                 Compute compute) {
  if (n == 0) return;
  const F32 first_of_a = broadcast(a.at[0]);
  const F32 first_of_b = broadcast(b.at[0]);
  for_each_vector(n, [&](std::int64_t i, auto at) {
    const F32 x = a.one ? first_of_a : load(a.at + i, at);
    const F32 y = b.one ? first_of_b : load(b.at + i, at);
    store(out + i, compute(x, y), at);
  });
}

static void binary_row(BinaryKind kind, Elements<float> a, Elements<float> b, std::int64_t n, float* out) {
  switch (kind) {
    case BinaryKind::kAdd:
      return binary_row_of(a, b, n, out, [](F32 x, F32 y) { return x + y; });
    case BinaryKind::kSub:
      return binary_row_of(a, b, n, out, [](F32 x, F32 y) { return x - y; });
    case BinaryKind::kMul:
      return binary_row_of(a, b, n, out, [](F32 x, F32 y) { return x * y; });
    case BinaryKind::kDiv:
      return binary_row_of(a, b, n, out, [](F32 x, F32 y) { return x / y; });
    case BinaryKind::kMaximum:
      return binary_row_of(a, b, n, out, [](F32 x, F32 y) { return maximum(x, y); });
    case BinaryKind::kMinimum:
      return binary_row_of(a, b, n, out, [](F32 x, F32 y) { return minimum(x, y); });
    case BinaryKind::kPow:
      for (std::int64_t i = 0; i < n; ++i) out[i] = __builtin_powf(a.at[a.one ? 0 : i], b.at[b.one ? 0 : i]);
      return;
  }
}

template <typename T, class Holds>
static inline void compare_row_of(Elements<T> a, Elements<T> b, std::int64_t n, std::int32_t* out,
                                  Holds holds) {
  for (std::int64_t i = 0; i < n; ++i) out[i] = holds(a.at[a.one ? 0 : i], b.at[b.one ? 0 : i]) ? 1 : 0;
}

template <typename T>
static void compare_row(CompareKind kind, Elements<T> a, Elements<T> b, std::int64_t n, std::int32_t* out) {
  switch (kind) {
    case CompareKind::kEqual:
      return compare_row_of(a, b, n, out, [](T x, T y) { return x == y; });
    case CompareKind::kNotEqual:
      return compare_row_of(a, b, n, out, [](T x, T y) { return x != y; });
    case CompareKind::kLess:
      return compare_row_of(a, b, n, out, [](T x, T y) { return x < y; });
    case CompareKind::kLessEqual:
      return compare_row_of(a, b, n, out, [](T x, T y) { return x <= y; });
    case CompareKind::kGreater:
      return compare_row_of(a, b, n, out, [](T x, T y) { return x > y; });
    case CompareKind::kGreaterEqual:
      return compare_row_of(a, b, n, out, [](T x, T y) { return x >= y; });
  }
}

static void where_row(Elements<std::int32_t> condition, Elements<float> a, Elements<float> b, std::int64_t n,
                      float* out) {
  for (std::int64_t i = 0; i < n; ++i) {
    const float x = a.at[a.one ? 0 : i];
    const float y = b.at[b.one ? 0 : i];
    out[i] = condition.at[condition.one ? 0 : i] != 0 ? x : y;
  }
}

static double sum_row(const float* x, std::int64_t n) {
  return sum_of(n, [&](std::int64_t i, auto at) { return load(x + i, at); });
}

template <class Better>
static inline float extreme_of(const float* x, std::int64_t n, float none, Better better) {
  F32 best = broadcast(none);
  for_each_vector(n, [&](std::int64_t i, auto at) {
    best = better(best, or_rest(load(x + i, at), broadcast(none), at));
  });
  float lanes[kLanes];
  store(lanes, best);
  for (int half = kLanes / 2; half > 0; half /= 2)
    for (int i = 0; i < half; ++i) {
      const F32 both = better(broadcast(lanes[i]), broadcast(lanes[i + half]));
      store_partial(lanes + i, both, 1);
    }
  return lanes[0];
}

static float max_row(const float* x, std::int64_t n) {
  return extreme_of(x, n, -__builtin_inff(), [](F32 a, F32 b) { return maximum(a, b); });
}
static float min_row(const float* x, std::int64_t n) {
  return extreme_of(x, n, __builtin_inff(), [](F32 a, F32 b) { return minimum(a, b); });
}

}  // namespace weft::cpu::WEFT_CPU_ISA
