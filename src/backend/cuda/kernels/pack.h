#pragma once
// Floats to the types that caches keep.
#include "backend/cuda/kernels/unpack.h"

namespace weft::cuda {

/// Rounded to nearest even.
#ifdef __CUDACC__
WEFT_DEVICE uint f16_bits(float value) {
  unsigned short bits;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
  return is_nan(value) ? (as_uint(value) >> 16 & 0x8000u) | 0x7e00u : bits;
}
#else
WEFT_DEVICE uint f16_bits(float value) {
  const uint u = as_uint(value), sign = u >> 16 & 0x8000u, a = u & 0x7fffffffu;
  if (a > 0x7f800000u) return sign | 0x7e00u;
  if (a >= 0x47800000u) return sign | 0x7c00u;
  if (a < 0x38800000u)
    return sign | static_cast<uint>(rintf(as_float(a) * 16777216.0f));  // In units of 2^-24.
  const uint rounded = a + 0xfffu + (a >> 13 & 1u);
  return sign | (rounded - 0x38000000u) >> 13;
}
#endif
WEFT_DEVICE uint bf16_bits(float value) {
  const uint u = as_uint(value);
  if ((u & 0x7fffffffu) > 0x7f800000u) return u >> 16 | 0x40u;
  return (u + 0x7fffu + (u >> 16 & 1u)) >> 16;
}

/// Element i of a row of floats.
WEFT_DEVICE void store_float(uint type, std::uint8_t* row, uint i, float value) {
  if (type == kF32) {
    reinterpret_cast<float*>(row)[i] = value;
  } else {
    reinterpret_cast<std::uint16_t*>(row)[i] =
        static_cast<std::uint16_t>(type == kF16 ? f16_bits(value) : bf16_bits(value));
  }
}

WEFT_DEVICE uint nearest_iq4(float value) {
  uint best = 0;
  for (uint c = 1; c < 16u; ++c)
    if (fabsf(value - static_cast<float>(iq4_value(c))) < fabsf(value - static_cast<float>(iq4_value(best))))
      best = c;
  return best;
}

WEFT_CONSTANT uint kCacheBlock = 32;

/// A block of 32 elements of a quantised type of caches: codes and scales as in
/// tensor/codec_small_blocks.cpp; the scale of IQ4_NL is searched less thoroughly.
WEFT_DEVICE void store_block(uint type, std::uint8_t* block, const float (&x)[kCacheBlock]) {
  const bool minus = type == kQ4_1 || type == kQ5_1, fifth = type == kQ5_0 || type == kQ5_1;
  const uint top = fifth ? 31u : 15u, n_bytes = small_block_bytes(type);
  float farthest = x[0], least_x = x[0], greatest = x[0];
  for (uint i = 1; i < kCacheBlock; ++i) {
    if (fabsf(x[i]) > fabsf(farthest)) farthest = x[i];
    least_x = smaller(least_x, x[i]);
    greatest = larger(greatest, x[i]);
  }
  const float half_range = static_cast<float>(top + 1u) / 2.0f;
  float scale = type == kQ8_0     ? fabsf(farthest) / 127.0f
                : type == kIQ4_NL ? farthest / -127.0f
                : minus           ? (greatest - least_x) / static_cast<float>(top)
                                  : farthest / -half_range;
  if (type == kIQ4_NL && scale != 0.0f) {
    // The scale with which codes that are nearest with another scale leave the least error.
    float products = 0.0f, squares = 0.0f;
    for (uint i = 0; i < kCacheBlock; ++i) {
      const float v = static_cast<float>(iq4_value(nearest_iq4(x[i] / scale)));
      products = fmaf(v, x[i], products);
      squares = fmaf(v, v, squares);
    }
    scale = products / squares;
  }
  const float to_code = scale != 0.0f ? 1.0f / scale : 0.0f;
  const auto store_half = [&](uint at, float value) {
    const uint bits = f16_bits(value);
    block[at] = static_cast<std::uint8_t>(bits);
    block[at + 1u] = static_cast<std::uint8_t>(bits >> 8);
  };
  store_half(0, scale);
  if (minus) store_half(2, least_x);
  if (type == kQ8_0) {
    for (uint i = 0; i < kCacheBlock; ++i) {
      const float code = x[i] * to_code, rounded = floorf(fabsf(code) + 0.5f);
      block[2u + i] = static_cast<std::uint8_t>(static_cast<int>(code < 0.0f ? -rounded : rounded));
    }
    return;
  }
  uint codes[kCacheBlock], high = 0;
  for (uint i = 0; i < kCacheBlock; ++i) {
    codes[i] = type == kIQ4_NL ? nearest_iq4(x[i] * to_code)
                               : least(static_cast<uint>(minus ? (x[i] - least_x) * to_code + 0.5f
                                                               : x[i] * to_code + (half_range + 0.5f)),
                                       top);
    high |= (codes[i] >> 4 & 1u) << i;
  }
  if (fifth)
    for (uint i = 0; i < 4u; ++i) block[(minus ? 4u : 2u) + i] = static_cast<std::uint8_t>(high >> (8u * i));
  for (uint i = 0; i < 16u; ++i)
    block[n_bytes - 16u + i] = static_cast<std::uint8_t>((codes[i] & 15u) | (codes[16u + i] & 15u) << 4);
}

}  // namespace weft::cuda
