// Types of one or two bits without a grid: the codes of a whole block share one scale.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>

#include "tensor/codec_blocks.h"
#include "tensor/codec_bytes.h"

namespace weft::codec {
namespace {

constexpr int kTernaryBlock = 256;
constexpr int kBinaryBlock = 128;
constexpr int kPowers[] = {1, 3, 9, 27, 81};

// Runs of a tq1_0 block: `n` bytes, each of which holds `per_byte` codes that lie n elements apart.
struct Run {
  int n;
  int per_byte;
};
constexpr Run kRuns[] = {{32, 5}, {16, 5}, {4, 4}};

// A byte is ceil(n * 256 / 243), where the base-3 digits of n are the codes, the first one leading. So a
// product with a power of 3 has a code in its top bits.
int ternary_digit(int byte, int i) { return ((byte * kPowers[i] & 255) * 3) >> 8; }

using Codes = std::array<std::uint8_t, kTernaryBlock>;

/// Codes 0, 1, 2 for -1, 0, 1 times the greatest magnitude, which is stored.
Codes ternary_codes(const float* values, std::uint8_t* d) {
  float greatest = 0.0f;
  for (int i = 0; i < kTernaryBlock; ++i) greatest = std::max(greatest, std::fabs(values[i]));
  store_f16(greatest, d);
  const float to_code = inverse(greatest);
  Codes codes;
  for (std::size_t i = 0; i < codes.size(); ++i)
    codes[i] = static_cast<std::uint8_t>(round_away(values[i] * to_code) + 1);
  return codes;
}

}  // namespace

void unpack_tq1_0(const std::uint8_t* block, float* out) {
  const float d = load_f16(block + 52);
  for (const Run& run : kRuns) {
    for (int i = 0; i < run.per_byte; ++i)
      for (int j = 0; j < run.n; ++j) *out++ = d * static_cast<float>(ternary_digit(block[j], i) - 1);
    block += run.n;
  }
}

void unpack_tq2_0(const std::uint8_t* block, float* out) {
  const float d = load_f16(block + 64);
  for (int i = 0; i < kTernaryBlock; ++i)
    out[i] = d * static_cast<float>((block[i / 128 * 32 + i % 32] >> i / 32 % 4 * 2 & 3) - 1);
}

void unpack_q1_0(const std::uint8_t* block, float* out) {
  const float d = load_f16(block);
  for (int i = 0; i < kBinaryBlock; ++i) out[i] = block[2 + i / 8] >> i % 8 & 1 ? d : -d;
}

void pack_tq1_0(const float* values, const float*, std::uint8_t* block) {
  const Codes codes = ternary_codes(values, block + 52);
  std::size_t at = 0;
  for (const Run& run : kRuns) {
    for (int j = 0; j < run.n; ++j) {
      int number = 0;
      for (int i = 0; i < run.per_byte; ++i)
        number += codes[at + static_cast<std::size_t>(i * run.n + j)] * kPowers[4 - i];
      *block++ = static_cast<std::uint8_t>((number * 256 + 242) / 243);
    }
    at += static_cast<std::size_t>(run.n * run.per_byte);
  }
}

void pack_tq2_0(const float* values, const float*, std::uint8_t* block) {
  const Codes codes = ternary_codes(values, block + 64);
  std::fill_n(block, 64, std::uint8_t{0});
  for (int i = 0; i < kTernaryBlock; ++i) {
    std::uint8_t& byte = block[i / 128 * 32 + i % 32];
    byte = static_cast<std::uint8_t>(byte | codes[static_cast<std::size_t>(i)] << i / 32 % 4 * 2);
  }
}

void pack_q1_0(const float* values, const float* weights, std::uint8_t* block) {
  double sum = 0.0, sum_w = 0.0;  // The mean magnitude leaves the least error.
  for (int i = 0; i < kBinaryBlock; ++i) {
    const double weight = weights != nullptr ? weights[i] : 1.0;
    sum += weight * std::fabs(values[i]);
    sum_w += weight;
  }
  for (int i = 0; i < kBinaryBlock / 8; ++i) {
    int bits = 0;
    for (int j = 0; j < 8; ++j) bits |= (values[i * 8 + j] >= 0.0f) << j;
    block[2 + i] = static_cast<std::uint8_t>(bits);
  }
  store_f16(static_cast<float>(sum_w > 0.0 ? sum / sum_w : 0.0), block);
}

}  // namespace weft::codec
