#pragma once
// Functions of one or two numbers. CUDA's own functions are good to two units of the last place. An argument
// that is NaN gives NaN where the order of comparisons would drop it.
#include "backend/cuda/kernels/thread.h"

namespace weft::cuda {

WEFT_DEVICE float sigmoid(float x) {
  const float e = expf(-fabsf(x));
  return (x >= 0.0f ? 1.0f : e) / (1.0f + e);
}

/// As the enum Activation in graph/kinds.h. Nothing overflows on the way.
WEFT_DEVICE float activate(uint kind, float x) {
  switch (kind) {
    case 1:
      return x * sigmoid(x);
    case 2:
      return x * sigmoid(1.5957691216f * x * (1.0f + 0.044715f * x * x));
    case 3: {
      const float half_tail = 0.5f * erfcf(fabsf(x) * 0.70710678f);
      return x * (x >= 0.0f ? 1.0f - half_tail : half_tail);
    }
    case 4:
      return x * sigmoid(1.702f * x);
    case 5:
      return x < 0.0f ? 0.0f : x;
    case 6:
      return x < 0.0f ? 0.0f : x * x;
    case 7:
      return (x > 0.0f || is_nan(x) ? x : 0.0f) + log1pf(expf(-fabsf(x)));
    default:
      return x;
  }
}

/// As the enum UnaryKind in graph/kinds.h.
WEFT_DEVICE float unary(uint kind, float x) {
  switch (kind) {
    case 0:
      return -x;
    case 1:
      return fabsf(x);
    case 2:
      return x * x;
    case 3:
      return sqrtf(x);
    case 4:
      return 1.0f / sqrtf(x);
    case 5:
      return 1.0f / x;
    case 6:
      return expf(x);
    case 7:
      return logf(x);
    case 8:
      return sinf(x);
    case 9:
      return cosf(x);
    case 10:
      return tanhf(x);
    case 11:
      return sigmoid(x);
    case 12:
      return floorf(x);
    case 13:
      return ceilf(x);
    case 14:
      return rintf(x);
    case 15:
      return erff(x);
    case 16:
      return expm1f(x);
    default:
      return log1pf(x);
  }
}

/// As the enum BinaryKind in graph/kinds.h.
WEFT_DEVICE float binary(uint kind, float a, float b) {
  switch (kind) {
    case 0:
      return a + b;
    case 1:
      return a - b;
    case 2:
      return a * b;
    case 3:
      return a / b;
    case 6:
      return powf(a, b);
    default:
      if (is_nan(a) || is_nan(b)) return no_number();
      return kind == 4u ? larger(a, b) : smaller(a, b);
  }
}

/// As the enum CompareKind in graph/kinds.h.
WEFT_DEVICE bool holds(uint kind, bool equal, bool less) {
  switch (kind) {
    case 0:
      return equal;
    case 1:
      return !equal;
    case 2:
      return less;
    case 3:
      return less || equal;
    case 4:
      return !less && !equal;
    default:
      return !less;
  }
}

struct Turn {
  float cos, sin;
};

/// Cosine and sine of an angle in radians, at most an eighth of a turn.
WEFT_DEVICE Turn cos_sin_near_zero(float a) {
  const float a2 = a * a;
  return {1.0f + a2 * (-0.5f + a2 * (1.0f / 24.0f + a2 * (-1.0f / 720.0f + a2 * (1.0f / 40320.0f)))),
          a * (1.0f + a2 * (-1.0f / 6.0f + a2 * (1.0f / 120.0f + a2 * (-1.0f / 5040.0f + a2 / 362880.0f))))};
}

/// Cosine and sine of the angle position * frequency. Frequencies are fractions of a turn in 64 bits. Whole
/// turns overflow and vanish, so the product is exact at any position.
WEFT_DEVICE Turn cos_sin(std::uint64_t frequency, int position) {
  const std::uint64_t turns = frequency * static_cast<std::uint64_t>(static_cast<std::int64_t>(position));
  // The nearest quarter turn, and the remainder in [-1/8, 1/8) of a turn.
  const uint high = static_cast<uint>(turns >> 32) + 0x20000000u;
  const int rest = static_cast<int>(high & 0x3fffffffu) - 0x20000000;
  const Turn near =
      cos_sin_near_zero(static_cast<float>(rest) * static_cast<float>(6.283185307179586 / 4294967296.0));
  switch (high >> 30) {
    case 0:
      return near;
    case 1:
      return {-near.sin, near.cos};
    case 2:
      return {-near.cos, -near.sin};
    default:
      return {near.sin, -near.cos};
  }
}

WEFT_DEVICE void turn_pair(Turn turn, float& x, float& y) {
  const float turned = x * turn.cos - y * turn.sin;
  y = y * turn.cos + x * turn.sin;
  x = turned;
}

/// Products with Hadamard matrices: passes of widths 1, 2, 4 ... replace the elements of each pair by their
/// sum and their difference. Then all elements are scaled. The first of pair i; the second is `width` on.
WEFT_DEVICE uint hadamard_first(uint i, uint width) { return i / width * 2u * width + i % width; }
WEFT_DEVICE float hadamard_scale(uint block) { return 1.0f / sqrtf(static_cast<float>(block)); }

}  // namespace weft::cuda
