// Types with blocks of 32 elements, or of 64 that are four times 16.
#include <array>
#include <bit>
#include <cstddef>

#include "tensor/codec_blocks.h"
#include "tensor/codec_bytes.h"
#include "tensor/codec_fit.h"

namespace weft::codec {
namespace {

constexpr int kBlock = 32;
constexpr int kHalf = kBlock / 2;

// Twice the values of a float of 1 sign, 2 exponent and 1 mantissa bits.
constexpr std::int8_t kFP4Values[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

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

// The value that is farthest from 0, with its sign; the first of equals.
float farthest(const float* values) {
  float result = values[0];
  for (int i = 1; i < kBlock; ++i)
    if (std::fabs(values[i]) > std::fabs(result)) result = values[i];
  return result;
}

// Codes around `offset` with the scale that takes the farthest value to code 0 exactly. The rounding is that
// of the format's reference: up at the half, in float, and with the scale before it is rounded to f16.
float symmetric_codes(const float* values, int offset, Codes& codes) {
  const float scale = farthest(values) / static_cast<float>(-offset);
  const float to_code = inverse(scale);
  const int top = 2 * offset - 1;
  for (std::size_t i = 0; i < kBlock; ++i) {
    const float code = values[i] * to_code + (static_cast<float>(offset) + 0.5f);
    codes[i] = static_cast<std::uint8_t>(std::min(static_cast<int>(code), top));
  }
  return scale;
}

struct ScaleAndMin {
  float scale;
  float min;
};

// Codes 0 to top from the least to the greatest value.
ScaleAndMin affine_codes(const float* values, int top, Codes& codes) {
  const auto [min, max] = std::minmax_element(values, values + kBlock);
  const float scale = (*max - *min) / static_cast<float>(top);
  const float to_code = inverse(scale);
  for (std::size_t i = 0; i < kBlock; ++i)
    codes[i] =
        static_cast<std::uint8_t>(std::min(static_cast<int>((values[i] - *min) * to_code + 0.5f), top));
  return {scale, *min};
}

/// The code of the value nearest to x.
std::uint8_t nearest_fp4(float d, float x) {
  std::uint8_t best = 0;
  for (std::uint8_t code = 1; code < 16; ++code) {
    const float best_error = std::fabs(d * static_cast<float>(kFP4Values[best]) - x);
    if (std::fabs(d * static_cast<float>(kFP4Values[code]) - x) < best_error) best = code;
  }
  return best;
}

constexpr int kSub = 16;  // Of nvfp4.
constexpr int kSubs = 4;

// Half of a float of 4 exponent and 3 mantissa bits, which doubled values need. One code stands for zero, and
// the highest bit for nothing.
float half_e4m3(std::uint8_t code) {
  if (code == 0x7f) return 0.0f;
  const int exponent = code >> 3 & 15, mantissa = code & 7;
  return exponent == 0 ? std::ldexp(static_cast<float>(mantissa), -10)
                       : std::ldexp(static_cast<float>(8 + mantissa), exponent - 11);
}

// The code whose value is nearest to x >= 0, the lower of two.
std::uint8_t nearest_e4m3(float x) {
  std::uint8_t best = 0;
  for (std::uint8_t code = 1; code < 0x7f; ++code)
    if (std::fabs(2.0f * half_e4m3(code) - x) < std::fabs(2.0f * half_e4m3(best) - x)) best = code;
  return best;
}

// Half of 2^(e - 127), which doubled values need. e < 2 gives denormals.
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

void pack_q4_0(const float* values, std::uint8_t* block) {
  Codes codes;
  store_f16(symmetric_codes(values, 8, codes), block);
  store_code4(codes, block + 2);
}

void pack_q4_1(const float* values, std::uint8_t* block) {
  Codes codes;
  const auto [scale, min] = affine_codes(values, 15, codes);
  store_f16(scale, block);
  store_f16(min, block + 2);
  store_code4(codes, block + 4);
}

void pack_q5_0(const float* values, std::uint8_t* block) {
  Codes codes;
  store_f16(symmetric_codes(values, 16, codes), block);
  store_high_bits(codes, block + 2);
  store_code4(codes, block + 6);
}

void pack_q5_1(const float* values, std::uint8_t* block) {
  Codes codes;
  const auto [scale, min] = affine_codes(values, 31, codes);
  store_f16(scale, block);
  store_f16(min, block + 2);
  store_high_bits(codes, block + 4);
  store_code4(codes, block + 8);
}

void pack_q8_0(const float* values, std::uint8_t* block) {
  const float scale = std::fabs(farthest(values)) / 127.0f;
  const float to_code = inverse(scale);
  store_f16(scale, block);
  for (int i = 0; i < kBlock; ++i)  // Halves go away from 0 here.
    block[2 + i] = static_cast<std::uint8_t>(static_cast<std::int8_t>(std::round(values[i] * to_code)));
}

void pack_iq4_nl(const float* values, std::uint8_t* block) {
  const float scale = store_f16(fit_iq4_scale({values, kBlock}), block);
  const float to_value = inverse(scale);
  Codes codes;
  for (std::size_t i = 0; i < kBlock; ++i)
    codes[i] = static_cast<std::uint8_t>(nearest_iq4(values[i] * to_value));
  store_code4(codes, block + 2);
}

void pack_mxfp4(const float* values, std::uint8_t* block) {
  // The greatest exponent of a value is 2 (4 and 6), so the scale is 2 powers below the farthest value's.
  const float top = std::fabs(farthest(values));
  const int exponent = top > 0.0f ? std::clamp(std::ilogb(top) - 2 + 127, 0, 254) : 0;
  block[0] = static_cast<std::uint8_t>(exponent);
  const float d = half_power(block[0]);
  Codes codes;
  for (std::size_t i = 0; i < kBlock; ++i) codes[i] = nearest_fp4(d, values[i]);
  store_code4(codes, block + 1);
}

void pack_nvfp4(const float* values, std::uint8_t* block) {
  for (int s = 0; s < kSubs; ++s) {
    const float* const own = values + s * kSub;
    float top = 0.0f;
    for (int i = 0; i < kSub; ++i) top = std::max(top, std::fabs(own[i]));
    block[s] = nearest_e4m3(top / 6.0f);  // The greatest value is 6.
    const float d = half_e4m3(block[s]);
    std::uint8_t* const codes = block + kSubs + s * kSub / 2;
    for (int i = 0; i < kSub / 2; ++i)
      codes[i] = static_cast<std::uint8_t>(nearest_fp4(d, own[i]) | nearest_fp4(d, own[i + kSub / 2]) << 4);
  }
}

}  // namespace weft::codec
