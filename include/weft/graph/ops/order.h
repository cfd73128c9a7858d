// Since 0.1
#pragma once
// Ops that make ranges and that move and sort elements, for values of any rank. Axes count from 0, the
// outermost. Indices that are out of range are refused if they are an input of the step. If they were
// computed, reads use the nearest index, and writes are left out.
#include <cstdint>
#include <string_view>

#include "weft/dtype.h"
#include "weft/graph/kinds.h"
#include "weft/graph/shape.h"

#pragma GCC visibility push(default)

namespace weft::ops {

/// No inputs -> {size} I32 or F32: begin, begin + step, begin + 2 * step ...; past 32 bits it wraps around.
struct Arange {
  static constexpr std::string_view kName = "arange";
  static constexpr int kMinInputs = 0, kMaxInputs = 0;
  Dim size = 0;
  Dim begin = 0;
  std::int64_t step = 1;
  DType dtype = DType::kI32;
  friend bool operator==(const Arange&, const Arange&) = default;
};

/// x, F32 or I32 -> the same shape in the type `to`. To I32 it truncates; NaN becomes 0, and numbers out of
/// range the nearest integer.
struct Cast {
  static constexpr std::string_view kName = "cast";
  static constexpr int kMinInputs = 1, kMaxInputs = 1;
  DType to = DType::kF32;
  friend bool operator==(const Cast&, const Cast&) = default;
};

/// a I32, b I32? -> I32 of their broadcast shape. Without b, `scalar` is the second operand, or the first if
/// scalar_first.
struct IntBinary {
  static constexpr std::string_view kName = "int_binary";
  static constexpr int kMinInputs = 1, kMaxInputs = 2;
  IntKind kind = IntKind::kAdd;
  std::int32_t scalar = 0;
  bool scalar_first = false;
  friend bool operator==(const IntBinary&, const IntBinary&) = default;
};

/// x, indices I32 of x's shape except along `axis` -> x's type, the indices' shape: elements at the indices
/// along the axis, as torch.gather. Zeros if the axis has no elements.
struct TakeAlong {
  static constexpr std::string_view kName = "take_along";
  static constexpr int kMinInputs = 2, kMaxInputs = 2;
  int axis = 0;
  friend bool operator==(const TakeAlong&, const TakeAlong&) = default;
};

/// x, indices I32 of x's shape except along `axis`, source of x's type and the indices' shape -> x with the
/// source's elements stored, or added, at the indices along the axis, as torch.scatter. Repeated indices are
/// applied in order, so the result is deterministic.
struct Scatter {
  static constexpr std::string_view kName = "scatter";
  static constexpr int kMinInputs = 3, kMaxInputs = 3;
  int axis = 0;
  bool add = false;
  friend bool operator==(const Scatter&, const Scatter&) = default;
};

/// x, F32 or I32 -> the same shape: cumulative sums along the axis. F32 sums are computed in double, in parts
/// of kPart elements; I32 sums wrap around.
struct Cumsum {
  static constexpr std::string_view kName = "cumsum";
  static constexpr int kMinInputs = 1, kMaxInputs = 1;
  static constexpr std::int64_t kPart = 1024;
  int axis = 0;
  friend bool operator==(const Cumsum&, const Cumsum&) = default;
};

/// x, F32 or I32 -> I32 of the same shape: the indices that sort the axis, ascending or descending. The sort
/// is stable. NaN is larger than all numbers, as in NumPy and PyTorch.
struct Argsort {
  static constexpr std::string_view kName = "argsort";
  static constexpr int kMinInputs = 1, kMaxInputs = 1;
  int axis = 0;
  bool descending = false;
  friend bool operator==(const Argsort&, const Argsort&) = default;
};

/// counter I32 {1} -> `shape`: random numbers that depend only on the seed, the counter and the element's
/// index, with the same bits on every device. The generator is Philox4x32-10 (Salmon et al., "Parallel random
/// numbers: as easy as 1, 2, 3", SC11). Its key is the seed, the low half first. Call i makes elements 4i to
/// 4i + 3; its counter is i (64 bits, the low half first), then `counter`, then 0.
///
/// kUniform: at least 0 and below 1, from the upper 24 bits of a word. kNormal: mean 0 and variance 1, by the
/// Box-Muller transform of two neighbouring words u and v: sqrt(-2 log((u + 1) / 2^32)) times cos(2 pi v /
/// 2^32) for the first element and sin(2 pi v / 2^32) for the second.
struct Random {
  static constexpr std::string_view kName = "random";
  static constexpr int kMinInputs = 1, kMaxInputs = 1;
  RandomKind kind = RandomKind::kUniform;
  std::uint64_t seed = 0;
  Shape shape = {};
  friend bool operator==(const Random&, const Random&) = default;
};

}  // namespace weft::ops

#pragma GCC visibility pop
