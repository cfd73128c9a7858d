#pragma once
// Loads and stores scales in a block's bytes, and helpers of all packers. Inside this layer only.
#include <algorithm>
#include <cfloat>
#include <cmath>
#include <cstdint>

#include "tensor/codec.h"

namespace weft::codec {

inline float load_f16(const std::uint8_t* bytes) {
  return f16_to_f32(static_cast<std::uint16_t>(bytes[0] | bytes[1] << 8));
}

/// Stores a scale, clamped to f16's finite range, and returns the stored value.
inline float store_f16(float value, std::uint8_t* bytes) {
  const std::uint16_t half = f32_to_f16(std::clamp(value, -65504.0f, 65504.0f));
  bytes[0] = static_cast<std::uint8_t>(half & 0xff);
  bytes[1] = static_cast<std::uint8_t>(half >> 8);
  return f16_to_f32(half);
}

/// The value of a scale after storing it as f16.
inline float as_f16(float value) {
  std::uint8_t bytes[2];
  return store_f16(value, bytes);
}

/// 1 / value; 0 where that would be infinite.
inline float inverse(float value) { return std::fabs(value) < FLT_MIN ? 0.0f : 1.0f / value; }

/// The integer nearest to a value of at most 2^22; halves go away from 0.
inline int round_away(float value) {
  const int whole = static_cast<int>(value);
  const float rest = value - static_cast<float>(whole);
  return whole + (rest >= 0.5f) - (rest <= -0.5f);
}

/// The integer nearest to a value (ties to even), within [low, high], which lie within +-2^22. Takes any
/// value, NaN too.
inline int nearest(float value, int low, int high) {
  if (!(value > static_cast<float>(low))) return low;
  if (value >= static_cast<float>(high)) return high;
  // A float that large has no fraction, so the addition rounds. (std::nearbyint is a slow call on plain
  // x86-64.)
  constexpr float kNoFraction = 0x1.8p23f;
  return static_cast<int>((value + kNoFraction) - kNoFraction);
}

}  // namespace weft::codec
