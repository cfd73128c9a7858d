// Since 0.1
#pragma once
// Ops that count, move and order elements of values of any rank. Axes count from 0, the outermost. An
// out-of-range index from the host is refused. For computed ones, reads take the nearest index and writes
// leave the element out.
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

/// x, F32 or I32 -> the same shape as the other of the two types. To I32: truncates; NaN becomes 0, numbers
/// out of range the nearest one.
struct Cast {
  static constexpr std::string_view kName = "cast";
  static constexpr int kMinInputs = 1, kMaxInputs = 1;
  DType to = DType::kF32;
  friend bool operator==(const Cast&, const Cast&) = default;
};

/// a I32, b I32? -> I32 of their broadcast shape. Without b, `scalar` is the second operand; the first if
/// scalar_first.
struct IntBinary {
  static constexpr std::string_view kName = "int_binary";
  static constexpr int kMinInputs = 1, kMaxInputs = 2;
  IntKind kind = IntKind::kAdd;
  std::int32_t scalar = 0;
  bool scalar_first = false;
  friend bool operator==(const IntBinary&, const IntBinary&) = default;
};

/// x, indices I32 of as many axes and the sizes of x but for `axis` -> x's type, the indices' shape: along
/// the axis the elements that they name, as torch.gather. Of an axis without elements: zeros.
struct TakeAlong {
  static constexpr std::string_view kName = "take_along";
  static constexpr int kMinInputs = 2, kMaxInputs = 2;
  int axis = 0;
  friend bool operator==(const TakeAlong&, const TakeAlong&) = default;
};

/// x, indices I32, source of x's type and the indices' shape, which has the sizes of x but for `axis` -> x
/// after the elements of the source were stored along the axis where the indices say, or added to what is
/// there: those that meet in their order along the axis, so that the bits are always the same.
struct Scatter {
  static constexpr std::string_view kName = "scatter";
  static constexpr int kMinInputs = 3, kMaxInputs = 3;
  int axis = 0;
  bool add = false;
  friend bool operator==(const Scatter&, const Scatter&) = default;
};

/// x, F32 or I32 -> the same shape: each element and all before it along the axis, added up. Sums are made in
/// double in parts of kPart elements; I32 sums wrap around.
struct Cumsum {
  static constexpr std::string_view kName = "cumsum";
  static constexpr int kMinInputs = 1, kMaxInputs = 1;
  static constexpr std::int64_t kPart = 1024;
  int axis = 0;
  friend bool operator==(const Cumsum&, const Cumsum&) = default;
};

/// x, F32 or I32 -> I32 of the same shape: along the axis the places of the elements in ascending or
/// descending order. Equal ones stay in their order; NaN is larger than all numbers, as in NumPy and PyTorch.
struct Argsort {
  static constexpr std::string_view kName = "argsort";
  static constexpr int kMinInputs = 1, kMaxInputs = 1;
  int axis = 0;
  bool descending = false;
  friend bool operator==(const Argsort&, const Argsort&) = default;
};

/// counter I32 {1} -> `shape`: random numbers that depend on the seed, the counter and their place alone,
/// with the same bits on every device. By Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as
/// 1, 2, 3", SC11): its key is the seed, the low half first; its counter is the number of the four elements
/// that a call makes (64 bits, the low half first), then `counter`, then 0.
/// kUniform: from 0 to below 1, the upper 24 bits of a word. kNormal: of mean 0 and variance 1, by Box and
/// Muller from two neighbouring words u and v: sqrt(-2 log((u + 1) / 2^32)) times the cosine of 2 pi v /
/// 2^32, and then the sine.
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
