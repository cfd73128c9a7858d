#include "tensor/codec.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cfloat>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/check.h"
#include "tensor/codec_blocks.h"
#include "tensor/lanes.h"

namespace weft {
namespace {

struct BlockCodec {
  DType type;
  codec::Unpack unpack;
  codec::Pack pack;
};

constexpr BlockCodec kBlockCodecs[] = {
    {DType::kQ4_0, codec::unpack_q4_0, codec::pack_q4_0},
    {DType::kQ4_1, codec::unpack_q4_1, codec::pack_q4_1},
    {DType::kQ5_0, codec::unpack_q5_0, codec::pack_q5_0},
    {DType::kQ5_1, codec::unpack_q5_1, codec::pack_q5_1},
    {DType::kQ8_0, codec::unpack_q8_0, codec::pack_q8_0},
    {DType::kQ2_K, codec::unpack_q2_k, codec::pack_q2_k},
    {DType::kQ3_K, codec::unpack_q3_k, codec::pack_q3_k},
    {DType::kQ4_K, codec::unpack_q4_k, codec::pack_q4_k},
    {DType::kQ5_K, codec::unpack_q5_k, codec::pack_q5_k},
    {DType::kQ6_K, codec::unpack_q6_k, codec::pack_q6_k},
    {DType::kIQ4_NL, codec::unpack_iq4_nl, codec::pack_iq4_nl},
    {DType::kIQ4_XS, codec::unpack_iq4_xs, codec::pack_iq4_xs},
    {DType::kMXFP4, codec::unpack_mxfp4, codec::pack_mxfp4},
    {DType::kNVFP4, codec::unpack_nvfp4, codec::pack_nvfp4},
    {DType::kQ1_0, codec::unpack_q1_0, codec::pack_q1_0},
    {DType::kTQ1_0, codec::unpack_tq1_0, codec::pack_tq1_0},
    {DType::kTQ2_0, codec::unpack_tq2_0, codec::pack_tq2_0},
    {DType::kIQ1_S, codec::unpack_iq1_s, codec::pack_iq1_s},
    {DType::kIQ1_M, codec::unpack_iq1_m, codec::pack_iq1_m},
    {DType::kIQ2_XXS, codec::unpack_iq2_xxs, codec::pack_iq2_xxs},
    {DType::kIQ2_XS, codec::unpack_iq2_xs, codec::pack_iq2_xs},
    {DType::kIQ2_S, codec::unpack_iq2_s, codec::pack_iq2_s},
    {DType::kIQ3_XXS, codec::unpack_iq3_xxs, codec::pack_iq3_xxs},
    {DType::kIQ3_S, codec::unpack_iq3_s, codec::pack_iq3_s},
};
constexpr std::size_t kMaxBlock = 256;

const BlockCodec& block_codec(DType type) {
  for (const BlockCodec& codec : kBlockCodecs)
    if (codec.type == type) return codec;
  WEFT_CHECK(!"a quantised type without a codec");
  return kBlockCodecs[0];
}

float to_float(float value) { return value; }
float to_float(std::int8_t value) { return value; }
float to_float(std::int16_t value) { return value; }
float to_float(std::int32_t value) { return static_cast<float>(value); }
float to_float(std::int64_t value) { return static_cast<float>(value); }
float to_float(double value) {
  // In C++, converting a double beyond float's range is undefined. From kLimit on, the value rounds to
  // infinity.
  constexpr double kLimit = 0x1.ffffffp127;
  if (std::fabs(value) >= kLimit)
    return std::copysign(std::numeric_limits<float>::infinity(),
                         static_cast<float>(std::signbit(value) ? -1 : 1));
  return static_cast<float>(value);
}

template <typename T>
T from_float(float value) {
  if constexpr (std::numeric_limits<T>::is_integer) {
    // -min is a power of two, so a float holds it exactly; max may be none.
    constexpr float kLow = static_cast<float>(std::numeric_limits<T>::min());
    const float rounded = std::nearbyint(value);
    if (std::isnan(rounded)) return 0;
    if (rounded <= kLow) return std::numeric_limits<T>::min();
    return rounded >= -kLow ? std::numeric_limits<T>::max() : static_cast<T>(rounded);
  } else {
    return static_cast<T>(value);
  }
}

template <typename T>
void unpack_plain(const std::byte* row, std::span<float> out) {
  for (std::size_t i = 0; i < out.size(); ++i) {
    T value;
    std::memcpy(&value, row + i * sizeof(T), sizeof(T));
    out[i] = to_float(value);
  }
}

template <typename T>
void pack_plain(std::span<const float> values, std::byte* row) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    const T value = from_float<T>(values[i]);
    std::memcpy(row + i * sizeof(T), &value, sizeof(T));
  }
}

/// f16_to_f32() for many values.
WEFT_CLONES void unpack_f16(const std::byte* row, float* out, std::size_t n) {
  using codec::IntLanes, codec::Lanes, codec::kLanes;
  using Halves = std::uint16_t __attribute__((vector_size(kLanes * sizeof(std::uint16_t))));
  constexpr int kRebased = (127 - 15) << 23;
  std::size_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    Halves halves;
    std::memcpy(&halves, row + i * 2, sizeof halves);
    const IntLanes bits = __builtin_convertvector(halves, IntLanes);
    const IntLanes magnitude = bits & 0x7fff, normal = (magnitude << 13) + kRebased;
    const Lanes small = __builtin_convertvector(magnitude, Lanes) * 0x1p-24f;
    IntLanes result;
    std::memcpy(&result, &small, sizeof result);
    result = magnitude < 0x400 ? result : normal;
    result = (magnitude < 0x7c00 ? result : normal + kRebased) | (bits & 0x8000) << 16;
    std::memcpy(out + i, &result, sizeof result);
  }
  for (; i < n; ++i) {
    std::uint16_t half;
    std::memcpy(&half, row + i * 2, 2);
    out[i] = f16_to_f32(half);
  }
}

template <float (*Convert)(std::uint16_t)>
void unpack_half(const std::byte* row, std::span<float> out) {
  for (std::size_t i = 0; i < out.size(); ++i) {
    std::uint16_t half;
    std::memcpy(&half, row + i * 2, 2);
    out[i] = Convert(half);
  }
}

template <std::uint16_t (*Convert)(float)>
void pack_half(std::span<const float> values, std::byte* row) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::uint16_t half = Convert(values[i]);
    std::memcpy(row + i * 2, &half, 2);
  }
}

void unpack_blocks(DType type, const std::byte* row, std::span<float> out) {
  const BlockCodec& codec = block_codec(type);
  const auto n = static_cast<std::size_t>(info(type).block_elements);
  const auto bytes = static_cast<std::size_t>(info(type).block_bytes);
  WEFT_CHECK(out.size() % n == 0);
  for (std::size_t i = 0; i < out.size() / n; ++i)
    codec.unpack(reinterpret_cast<const std::uint8_t*>(row) + i * bytes, out.data() + i * n);
}

/// A block's weights, divided by the greatest one so that sums of products do not overflow. False if all are
/// 0. A weight of 0 becomes tiny instead, so values without importance still get their best codes.
bool scaled_weights(std::span<const float> importance, std::span<float> weights) {
  constexpr float kLeast = 1e-10f;
  float greatest = 0.0f;
  for (const float value : importance) greatest = std::max(greatest, value);
  if (!(greatest > 0.0f) || !std::isfinite(greatest)) return false;
  for (std::size_t i = 0; i < importance.size(); ++i) weights[i] = std::max(importance[i] / greatest, kLeast);
  return true;
}

void pack_blocks(DType type, std::span<const float> values, std::byte* row,
                 std::span<const float> importance) {
  const BlockCodec& codec = block_codec(type);
  const auto n = static_cast<std::size_t>(info(type).block_elements);
  const auto bytes = static_cast<std::size_t>(info(type).block_bytes);
  WEFT_CHECK(values.size() % n == 0 && n <= kMaxBlock);
  const float limit = type == DType::kMXFP4 ? FLT_MAX : codec::kMaxPacked;
  std::array<float, kMaxBlock> block, weights;
  WEFT_CHECK(importance.empty() || importance.size() == values.size());
  for (std::size_t i = 0; i < values.size() / n; ++i) {
    for (std::size_t j = 0; j < n; ++j) {
      const float value = values[i * n + j];  // NaN is 0.
      block[j] = value > limit ? limit : value < -limit ? -limit : value == value ? value : 0.0f;
    }
    const bool weighed =
        !importance.empty() && scaled_weights(importance.subspan(i * n, n), std::span(weights).first(n));
    codec.pack(block.data(), weighed ? weights.data() : nullptr,
               reinterpret_cast<std::uint8_t*>(row) + i * bytes);
  }
}

}  // namespace

float f16_to_f32(std::uint16_t half) {
  const std::uint32_t sign = static_cast<std::uint32_t>(half & 0x8000) << 16;
  const std::uint32_t exponent = half >> 10 & 0x1f;
  const std::uint32_t mantissa = half & 0x3ff;
  if (exponent == 0) {  // Zero and denormals: mantissa units of 2^-24.
    const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
    return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(magnitude));
  }
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7f800000u | mantissa << 13);
  return std::bit_cast<float>(sign | (exponent + 127 - 15) << 23 | mantissa << 13);
}

std::uint16_t f32_to_f16(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  const auto sign = static_cast<std::uint16_t>(bits >> 16 & 0x8000);
  const std::uint32_t magnitude = bits & 0x7fffffff;
  if (magnitude > 0x7f800000)  // NaN: its upper bits, and quiet, so that it cannot turn into infinity.
    return static_cast<std::uint16_t>(sign | 0x7e00 | (magnitude >> 13 & 0x3ff));
  if (magnitude >= 0x477ff000) return static_cast<std::uint16_t>(sign | 0x7c00);  // 65520 and more.
  if (magnitude <
      0x38800000) {  // Below 2^-14: a denormal, in units of 2^-24, which nearbyint rounds to even.
    const float units = std::nearbyint(std::bit_cast<float>(magnitude) * 0x1p24f);
    return static_cast<std::uint16_t>(sign | static_cast<std::uint16_t>(units));
  }
  const std::uint32_t rebased = magnitude - ((127u - 15u) << 23);
  const std::uint32_t rounded = rebased + 0xfff + (rebased >> 13 & 1);
  return static_cast<std::uint16_t>(sign | rounded >> 13);
}

float bf16_to_f32(std::uint16_t value) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(value) << 16);
}

float e4m3_magnitude(std::uint8_t code) {
  const int exponent = code >> 3 & 15, mantissa = code & 7;
  return exponent == 0 ? std::ldexp(static_cast<float>(mantissa), -9)
                       : std::ldexp(static_cast<float>(8 + mantissa), exponent - 10);
}

std::uint16_t f32_to_bf16(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7fffffff) > 0x7f800000) return static_cast<std::uint16_t>(bits >> 16 | 0x40);
  return static_cast<std::uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

void unpack_row(DType type, const std::byte* row, std::span<float> out) {
  switch (type) {
    case DType::kF32:
      return unpack_plain<float>(row, out);
    case DType::kF64:
      return unpack_plain<double>(row, out);
    case DType::kF16:
      return unpack_f16(row, out.data(), out.size());
    case DType::kBF16:
      return unpack_half<bf16_to_f32>(row, out);
    case DType::kI8:
      return unpack_plain<std::int8_t>(row, out);
    case DType::kI16:
      return unpack_plain<std::int16_t>(row, out);
    case DType::kI32:
      return unpack_plain<std::int32_t>(row, out);
    case DType::kI64:
      return unpack_plain<std::int64_t>(row, out);
    default:
      return unpack_blocks(type, row, out);
  }
}

void pack_row(DType type, std::span<const float> values, std::byte* row, std::span<const float> importance) {
  switch (type) {
    case DType::kF32:
      return pack_plain<float>(values, row);
    case DType::kF64:
      return pack_plain<double>(values, row);
    case DType::kF16:
      return pack_half<f32_to_f16>(values, row);
    case DType::kBF16:
      return pack_half<f32_to_bf16>(values, row);
    case DType::kI8:
      return pack_plain<std::int8_t>(values, row);
    case DType::kI16:
      return pack_plain<std::int16_t>(values, row);
    case DType::kI32:
      return pack_plain<std::int32_t>(values, row);
    case DType::kI64:
      return pack_plain<std::int64_t>(values, row);
    default:
      return pack_blocks(type, values, row, importance);
  }
}

}  // namespace weft
