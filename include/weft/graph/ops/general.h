// Since 0.1
#pragma once
// Ops for values of any rank. They broadcast as NumPy does, but only sizes that are the constant 1 (or
// missing) are repeated. Axes count from 0, the outermost.
#include <array>
#include <cstdint>
#include <string_view>

#include "weft/graph/kinds.h"
#include "weft/graph/shape.h"

#pragma GCC visibility push(default)

namespace weft::ops {

/// x -> the same shape.
struct Unary {
  static constexpr std::string_view kName = "unary";
  static constexpr int kMinInputs = 1, kMaxInputs = 1;
  UnaryKind kind = UnaryKind::kNeg;
  friend bool operator==(const Unary&, const Unary&) = default;
};

/// min(max(x, low), high) -> the same shape; NaN stays NaN.
struct Clamp {
  static constexpr std::string_view kName = "clamp";
  static constexpr int kMinInputs = 1, kMaxInputs = 1;
  float low = 0.0f, high = 0.0f;
  friend bool operator==(const Clamp&, const Clamp&) = default;
};

/// a, b? -> their broadcast shape. Without b, `scalar` is the second operand, or the first if scalar_first.
/// kAdd and kMul are for a scalar only: for two values use Add and Mul.
struct Binary {
  static constexpr std::string_view kName = "binary";
  static constexpr int kMinInputs = 1, kMaxInputs = 2;
  BinaryKind kind = BinaryKind::kSub;
  float scalar = 0.0f;
  bool scalar_first = false;
  friend bool operator==(const Binary&, const Binary&) = default;
};

/// a, b?, both F32 or both I32 -> I32 of their broadcast shape: 1 where true, 0 elsewhere. Without b,
/// `scalar` is the second operand, an integer if a is I32.
struct Compare {
  static constexpr std::string_view kName = "compare";
  static constexpr int kMinInputs = 1, kMaxInputs = 2;
  CompareKind kind = CompareKind::kEqual;
  float scalar = 0.0f;
  friend bool operator==(const Compare&, const Compare&) = default;
};

/// condition I32, a, b? -> their broadcast shape: a where the condition is not 0, elsewhere b, or `otherwise`
/// without b.
struct Where {
  static constexpr std::string_view kName = "where";
  static constexpr int kMinInputs = 2, kMaxInputs = 3;
  float otherwise = 0.0f;
  friend bool operator==(const Where&, const Where&) = default;
};

/// x -> x reduced over the axes whose bits are set (bit 0: axis 0). These axes are removed, or kept with size
/// 1 if `keep`. kArgmax returns I32: the index among the elements of the reduced axes, in row-major order.
struct Reduce {
  static constexpr std::string_view kName = "reduce";
  static constexpr int kMinInputs = 1, kMaxInputs = 1;
  ReduceKind kind = ReduceKind::kSum;
  std::uint32_t axes = 0;
  bool keep = false;
  friend bool operator==(const Reduce&, const Reduce&) = default;
};

/// a {..., m, k}, b {..., k, n} -> {..., m, n}, the leading axes broadcast.
struct BatchMatmul {
  static constexpr std::string_view kName = "batch_matmul";
  static constexpr int kMinInputs = 2, kMaxInputs = 2;
  friend bool operator==(const BatchMatmul&, const BatchMatmul&) = default;
};

/// x padded with `value`: before[i] elements before axis i and after[i] after it.
struct Pad {
  static constexpr std::string_view kName = "pad";
  static constexpr int kMinInputs = 1, kMaxInputs = 1;
  std::array<std::int64_t, Shape::kMaxRank> before = {}, after = {};
  float value = 0.0f;
  friend bool operator==(const Pad&, const Pad&) = default;
};

}  // namespace weft::ops

#pragma GCC visibility pop
