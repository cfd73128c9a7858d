// Types with blocks of 32 elements, or of 64 that are four times 16.
#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstring>

#include "tensor/codec_blocks.h"
#include "tensor/codec_bytes.h"
#include "tensor/codec_fit.h"
#include "tensor/lanes.h"

namespace weft::codec {
namespace {

constexpr int kBlock = 32;
constexpr int kHalf = kBlock / 2;

int code4(const std::uint8_t* codes, int i) { return i < kHalf ? codes[i] & 15 : codes[i - kHalf] >> 4; }

int code5(const std::uint8_t* high_bits, const std::uint8_t* codes, int i) {
  return code4(codes, i) | (high_bits[i / 8] >> i % 8 & 1) << 4;
}

using Codes = std::array<std::uint8_t, kBlock>;

// The lower four bits of each code.
void store_code4(const Codes& codes, std::uint8_t* out) {
  for (std::size_t i = 0; i < kHalf; ++i)
    out[i] = static_cast<std::uint8_t>((codes[i] & 15) | (codes[i + kHalf] & 15) << 4);
}

void store_high_bits(const Codes& codes, std::uint8_t* out) {
  for (std::size_t i = 0; i < kBlock / 8; ++i) {
    int bits = 0;
    for (std::size_t j = 0; j < 8; ++j) bits |= (codes[i * 8 + j] >> 4) << j;
    out[i] = static_cast<std::uint8_t>(bits);
  }
}

constexpr IntLanes kNumbers = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};

struct Extremes {
  float least;
  float greatest;
};

// The least and the greatest of a block's values. If one of them is 0, its sign is unspecified.
WEFT_INLINE Extremes extremes(const float* values) {
  Lanes low, high, x;
  load(low, values);
  load(x, values + kLanes);
  high = low > x ? low : x;
  low = low < x ? low : x;
  const auto join = [&](const IntLanes& others) {
    const Lanes lower = __builtin_shuffle(low, others), higher = __builtin_shuffle(high, others);
    low = low < lower ? low : lower;
    high = high > higher ? high : higher;
  };
  for (int width = kLanes / 2; width > 0; width /= 2) join(kNumbers ^ width);
  return {low[0], high[0]};
}

// The value that is farthest from 0, with its sign; the first of equals.
WEFT_INLINE float farthest(const float* values) {
  const auto [least, greatest] = extremes(values);
  if (greatest > -least) return greatest;
  if (-least > greatest) return least;
  return *std::find_if(values, values + kBlock, [&](float x) { return std::fabs(x) == greatest; });
}

// The codes of the format's reference implementation. It maps the farthest value to code 0 exactly. It rounds
// halves up, in float, with the scale before that is rounded to f16.
WEFT_CLONES float reference_codes(const float* values, int offset, std::uint8_t* codes) {
  const float scale = farthest(values) / static_cast<float>(-offset);
  const float to_code = inverse(scale);
  const int top = 2 * offset - 1;
  for (std::size_t i = 0; i < kBlock; ++i) {
    const float code = values[i] * to_code + (static_cast<float>(offset) + 0.5f);
    codes[i] = static_cast<std::uint8_t>(std::min(static_cast<int>(code), top));
  }
  return scale;
}

// Codes around `offset`. If there are weights, the scale is searched for.
float symmetric_codes(const float* values, const float* weights, int offset, Codes& codes) {
  if (weights == nullptr) return reference_codes(values, offset, codes.data());
  const float scale = fit_scale({values, weights, kBlock}, -offset, offset - 1);
  const float to_code = inverse(as_f16(scale));
  for (std::size_t i = 0; i < kBlock; ++i)
    codes[i] = static_cast<std::uint8_t>(nearest(values[i] * to_code, -offset, offset - 1) + offset);
  return scale;
}

WEFT_CLONES float bytes_around_zero(const float* values, std::uint8_t* codes) {
  const float scale = std::fabs(farthest(values)) / 127.0f;
  const float to_code = inverse(scale);
  for (int i = 0; i < kBlock; ++i) codes[i] = static_cast<std::uint8_t>(round_away(values[i] * to_code));
  return scale;
}

struct ScaleAndMin {
  float scale;
  float min;
};

// Codes 0 to top from the least to the greatest value.
WEFT_CLONES ScaleAndMin reference_codes_from_min(const float* values, int top, std::uint8_t* codes) {
  auto [min, max] = extremes(values);
  if (min == 0.0f || max == 0.0f) {  // The sign of zero is stored.
    const auto [first, last] = std::minmax_element(values, values + kBlock);
    min = *first, max = *last;
  }
  const float scale = (max - min) / static_cast<float>(top);
  const float to_code = inverse(scale);
  for (std::size_t i = 0; i < kBlock; ++i)
    codes[i] = static_cast<std::uint8_t>(std::min(static_cast<int>((values[i] - min) * to_code + 0.5f), top));
  return {scale, min};
}

// As reference_codes_from_min(); if there are weights, a search finds scale and minimum.
ScaleAndMin affine_codes(const float* values, const float* weights, int top, Codes& codes) {
  if (weights != nullptr) {
    const ScaleMin fit = fit_scale_min({values, weights, kBlock}, top);
    const float to_code = inverse(as_f16(fit.scale)), least = as_f16(-fit.min);
    for (std::size_t i = 0; i < kBlock; ++i)
      codes[i] = static_cast<std::uint8_t>(nearest((values[i] - least) * to_code, 0, top));
    return {fit.scale, -fit.min};
  }
  return reference_codes_from_min(values, top, codes.data());
}

/// The code of the value nearest to x, the smaller one if two are.
std::uint8_t nearest_fp4(float d, float x) {
  int code = 0;
  for (int i = 0; i < 7; ++i)
    code += std::fabs(x) > d * (0.5f * static_cast<float>(kFP4Values[i] + kFP4Values[i + 1]));
  return static_cast<std::uint8_t>(x < 0.0f && code > 0 ? code + 8 : code);
}

/// The code in [low, high] whose scale leaves the least error.
template <class ScaleOf>
std::uint8_t best_fp4_scale(Weighed x, int low, int high, ScaleOf scale_of) {
  int best = low;
  float least = INFINITY;
  for (int code = low; code <= high; ++code) {
    const float error = error_of_fp4(x, scale_of(static_cast<std::uint8_t>(code)));
    if (error < least) {
      least = error;
      best = code;
    }
  }
  return static_cast<std::uint8_t>(best);
}

constexpr int kSub = 16;  // Of nvfp4.
constexpr int kSubs = 4;

// Half of an E4M3 number, because the table has doubled values. Code 0x7f means zero, and the highest bit is
// ignored.
float half_e4m3(std::uint8_t code) { return code == 0x7f ? 0.0f : 0.5f * e4m3_magnitude(code); }

// The least code whose value is at least x; 0x7e if there is none.
int ceil_e4m3(float x) {
  int code = 0;
  while (code < 0x7e && 2.0f * half_e4m3(static_cast<std::uint8_t>(code)) < x) ++code;
  return code;
}

// Half of 2^(e - 127), because the table has doubled values. e < 2 gives denormals.
float half_power(std::uint8_t e) {
  const std::uint32_t bits = e < 2 ? 0x00200000u << e : static_cast<std::uint32_t>(e - 1) << 23;
  return std::bit_cast<float>(bits);
}

}  // namespace

void unpack_q4_0(const std::uint8_t* block, float* out) {
  const float d = load_f16(block);
  for (int i = 0; i < kBlock; ++i) out[i] = d * static_cast<float>(code4(block + 2, i) - 8);
}

void unpack_q4_1(const std::uint8_t* block, float* out) {
  const float d = load_f16(block);
  const float m = load_f16(block + 2);
  for (int i = 0; i < kBlock; ++i) out[i] = d * static_cast<float>(code4(block + 4, i)) + m;
}

void unpack_q5_0(const std::uint8_t* block, float* out) {
  const float d = load_f16(block);
  for (int i = 0; i < kBlock; ++i) out[i] = d * static_cast<float>(code5(block + 2, block + 6, i) - 16);
}

void unpack_q5_1(const std::uint8_t* block, float* out) {
  const float d = load_f16(block);
  const float m = load_f16(block + 2);
  for (int i = 0; i < kBlock; ++i) out[i] = d * static_cast<float>(code5(block + 4, block + 8, i)) + m;
}

void unpack_q8_0(const std::uint8_t* block, float* out) {
  const float d = load_f16(block);
  for (int i = 0; i < kBlock; ++i) out[i] = d * static_cast<float>(static_cast<std::int8_t>(block[2 + i]));
}

void unpack_iq4_nl(const std::uint8_t* block, float* out) {
  const float d = load_f16(block);
  for (int i = 0; i < kBlock; ++i) out[i] = d * static_cast<float>(kIQ4Values[code4(block + 2, i)]);
}

void unpack_mxfp4(const std::uint8_t* block, float* out) {
  const float d = half_power(block[0]);
  for (int i = 0; i < kBlock; ++i) out[i] = d * static_cast<float>(kFP4Values[code4(block + 1, i)]);
}

void unpack_nvfp4(const std::uint8_t* block, float* out) {
  for (int s = 0; s < kSubs; ++s) {
    const float d = half_e4m3(block[s]);
    const std::uint8_t* const codes = block + kSubs + s * kSub / 2;
    for (int i = 0; i < kSub; ++i) {
      const int code = i < kSub / 2 ? codes[i] & 15 : codes[i - kSub / 2] >> 4;
      out[s * kSub + i] = d * static_cast<float>(kFP4Values[code]);
    }
  }
}

void pack_q4_0(const float* values, const float* weights, std::uint8_t* block) {
  Codes codes;
  store_f16(symmetric_codes(values, weights, 8, codes), block);
  store_code4(codes, block + 2);
}

void pack_q4_1(const float* values, const float* weights, std::uint8_t* block) {
  Codes codes;
  const auto [scale, min] = affine_codes(values, weights, 15, codes);
  store_f16(scale, block);
  store_f16(min, block + 2);
  store_code4(codes, block + 4);
}

void pack_q5_0(const float* values, const float* weights, std::uint8_t* block) {
  Codes codes;
  store_f16(symmetric_codes(values, weights, 16, codes), block);
  store_high_bits(codes, block + 2);
  store_code4(codes, block + 6);
}

void pack_q5_1(const float* values, const float* weights, std::uint8_t* block) {
  Codes codes;
  const auto [scale, min] = affine_codes(values, weights, 31, codes);
  store_f16(scale, block);
  store_f16(min, block + 2);
  store_high_bits(codes, block + 4);
  store_code4(codes, block + 8);
}

// With 254 steps the error is so small that weights do not help.
void pack_q8_0(const float* values, const float*, std::uint8_t* block) {
  store_f16(bytes_around_zero(values, block + 2), block);
}

void pack_iq4_nl(const float* values, const float* weights, std::uint8_t* block) {
  const float scale =
      store_f16(fit_iq4_scale({values, weights != nullptr ? weights : equal_weights(), kBlock}), block);
  const float to_value = inverse(scale);
  Codes codes;
  for (std::size_t i = 0; i < kBlock; ++i)
    codes[i] = static_cast<std::uint8_t>(nearest_iq4(values[i] * to_value));
  store_code4(codes, block + 2);
}

void pack_mxfp4(const float* values, const float* weights, std::uint8_t* block) {
  // The greatest exponent of a value is 2 (4 and 6), so the scale is 2 powers below the farthest value's.
  const float top = std::fabs(farthest(values));
  const int exponent = top > 0.0f ? std::clamp(std::ilogb(top) - 2 + 127, 0, 254) : 0;
  block[0] = static_cast<std::uint8_t>(exponent);
  if (weights != nullptr && exponent > 0)
    block[0] =
        best_fp4_scale({values, weights, kBlock}, exponent - 1, std::min(exponent + 1, 254), half_power);
  const float d = half_power(block[0]);
  Codes codes;
  for (std::size_t i = 0; i < kBlock; ++i) codes[i] = nearest_fp4(d, values[i]);
  store_code4(codes, block + 1);
}

void pack_nvfp4(const float* values, const float* weights, std::uint8_t* block) {
  for (int s = 0; s < kSubs; ++s) {
    const float* const own = values + s * kSub;
    float top = 0.0f;
    for (int i = 0; i < kSub; ++i) top = std::max(top, std::fabs(own[i]));
    const int highest = ceil_e4m3(top / 6.0f);  // The greatest value is 6.
    const float* const own_weights = weights != nullptr ? weights + s * kSub : equal_weights();
    block[s] = best_fp4_scale({own, own_weights, kSub}, std::max(highest - 4, 0), highest, half_e4m3);
    const float d = half_e4m3(block[s]);
    std::uint8_t* const codes = block + kSubs + s * kSub / 2;
    for (int i = 0; i < kSub / 2; ++i)
      codes[i] = static_cast<std::uint8_t>(nearest_fp4(d, own[i]) | nearest_fp4(d, own[i + kSub / 2]) << 4);
  }
}

}  // namespace weft::codec
