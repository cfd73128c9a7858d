#pragma once
// The activation functions, over the vector contract. Each is x times something in [0, 1] (or max, or
// softplus), so the relative error stays small where the result does. NaN stays NaN.
#include "backend/cpu/kernels/kernels.h"

namespace weft::cpu::WEFT_CPU_ISA {

/// x / (1 + e^(-k x)). Minus infinity gives NaN, as the formula does.
static inline F32 sigmoid_gated(F32 x, F32 kx) { return x / (broadcast(1.0f) + exp(-kx)); }

template <Activation kind>
static inline F32 activate(F32 x) {
  if constexpr (kind == Activation::kSilu) {
    return sigmoid_gated(x, x);
  } else if constexpr (kind == Activation::kGelu) {
    // 0.5 x (1 + tanh u) = x / (1 + e^(-2u)) with u = sqrt(2 / pi) (x + 0.044715 x^3)
    const F32 u2 = x * fma(x * x, broadcast(0.07135481627f), broadcast(1.5957691216f));
    return sigmoid_gated(x, u2);
  } else if constexpr (kind == Activation::kGeluErf) {
    return x * normal_cdf(x);
  } else if constexpr (kind == Activation::kGeluQuick) {
    return sigmoid_gated(x, broadcast(1.702f) * x);
  } else if constexpr (kind == Activation::kRelu) {
    return max(zero(), x);
  } else if constexpr (kind == Activation::kReluSquared) {
    const F32 positive = max(zero(), x);
    return positive * positive;
  } else if constexpr (kind == Activation::kSoftplus) {
    return softplus(x);
  } else {
    static_assert(kind == Activation::kNone);
    return x;
  }
}

static inline F32 activate(Activation kind, F32 x) {
  switch (kind) {
    case Activation::kNone:
      return x;
    case Activation::kSilu:
      return activate<Activation::kSilu>(x);
    case Activation::kGelu:
      return activate<Activation::kGelu>(x);
    case Activation::kGeluErf:
      return activate<Activation::kGeluErf>(x);
    case Activation::kGeluQuick:
      return activate<Activation::kGeluQuick>(x);
    case Activation::kRelu:
      return activate<Activation::kRelu>(x);
    case Activation::kReluSquared:
      return activate<Activation::kReluSquared>(x);
    case Activation::kSoftplus:
      return activate<Activation::kSoftplus>(x);
  }
  return x;
}

}  // namespace weft::cpu::WEFT_CPU_ISA
