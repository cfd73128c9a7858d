// Since 0.1
#pragma once
// Enumerations that ops and kernels share.
#include <cstdint>

#pragma GCC visibility push(default)

namespace weft {

/// Formulas: kGelu is the tanh form, kGeluErf the exact one, kGeluQuick x * sigmoid(1.702 x),
/// kSoftplus log(1 + e^x).
enum class Activation : std::uint8_t {
  kNone,
  kSilu,
  kGelu,
  kGeluErf,
  kGeluQuick,
  kRelu,
  kReluSquared,
  kSoftplus,
};

/// kRms: x / sqrt(mean(x^2) + eps); kLayer: (x - mean) / sqrt(var + eps); kL2: x / max(sqrt(sum(x^2)), eps).
enum class NormKind : std::uint8_t { kRms, kLayer, kL2 };

/// What a state holds, because devices may lay out keys and values differently. kSlots: the states of a
/// recurrent layer, one slot per sequence.
enum class CacheRole : std::uint8_t { kKeys, kValues, kSlots };

/// Elementwise functions, NaN where the result is not real. kRound rounds to the nearest whole number, and
/// halves to even. kExpm1 is e^x - 1 and kLog1p is log(1 + x), both exact near 0.
enum class UnaryKind : std::uint8_t {
  kNeg,
  kAbs,
  kSquare,
  kSqrt,
  kRsqrt,
  kReciprocal,
  kExp,
  kLog,
  kSin,
  kCos,
  kTanh,
  kSigmoid,
  kFloor,
  kCeil,
  kRound,
  kErf,
  kExpm1,
  kLog1p,
};

/// kMaximum and kMinimum: NaN where either operand is.
enum class BinaryKind : std::uint8_t { kAdd, kSub, kMul, kDiv, kMaximum, kMinimum, kPow };

/// Comparisons with NaN are false, except kNotEqual.
enum class CompareKind : std::uint8_t { kEqual, kNotEqual, kLess, kLessEqual, kGreater, kGreaterEqual };

/// Ops on 32-bit integers, which wrap around. kFloorDivide rounds down, and kRemainder has the sign of the
/// divisor; division by 0 gives 0. kAnd and kOr are logical: 0 is false, other numbers are true.
enum class IntKind : std::uint8_t {
  kAdd,
  kSub,
  kMul,
  kFloorDivide,
  kRemainder,
  kMaximum,
  kMinimum,
  kAnd,
  kOr,
};

/// The distribution of random numbers; see ops::Random.
enum class RandomKind : std::uint8_t { kUniform, kNormal };

/// NaN takes precedence over numbers in kMax, kMin and kArgmax. kArgmax: the first index among equals.
/// Without elements: sum 0, mean NaN, max minus and min plus infinity, argmax 0, product 1.
enum class ReduceKind : std::uint8_t { kSum, kMean, kMax, kMin, kArgmax, kProd };

/// The reduction of a window of an image.
enum class PoolKind : std::uint8_t { kMax, kMean };

/// Interpolation of resized images: the nearest element, or four neighbours.
enum class ResizeKind : std::uint8_t { kNearest, kBilinear };

}  // namespace weft

#pragma GCC visibility pop
