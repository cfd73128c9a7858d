// Float rows to kQ8 (packed_layout.h). Plain C++: the compiler's vectors are good here, and since every
// operation is one IEEE operation on one element, all instruction sets give the same bytes.
#include <cstddef>
#include <cstdint>

#include "backend/cpu/kernels.h"
#include "backend/cpu/packed_layout.h"

namespace weft::cpu::WEFT_CPU_ISA {

/// Groups whose largest value is below this are zero: its reciprocal must be finite.
static constexpr float kSmallestGroup = 1e-30f;

// q = round(x * 127 / max|x|), ties to even. Infinities and NaN make the group's scale non-finite, so that
// they are seen in the result.
static inline void quantise_group(const float (&x)[kBlockColumns], Q8Group* out) {
  std::int32_t bits[kBlockColumns];
  __builtin_memcpy(bits, x, sizeof(bits));
  std::int32_t largest_bits = 0;  // Of magnitudes, whose bits are ordered as the numbers are, NaN above all.
  for (int i = 0; i < kBlockColumns; ++i) {
    const std::int32_t magnitude = bits[i] & 0x7fffffff;
    largest_bits = magnitude > largest_bits ? magnitude : largest_bits;
  }
  float largest;
  __builtin_memcpy(&largest, &largest_bits, sizeof(largest));
  const bool zero = largest < kSmallestGroup;
  const float scale = zero ? 0.0f : largest / 127.0f;
  const float inverse = zero ? 0.0f : 127.0f / largest;

  // Adding 1.5 * 2^23 rounds to an integer, which is then found in the low bits.
  constexpr float kRound = 0x1.8p23f;
  float rounded[kBlockColumns];
  for (int i = 0; i < kBlockColumns; ++i) rounded[i] = x[i] * inverse + kRound;
  __builtin_memcpy(bits, rounded, sizeof(bits));
  std::int32_t q[kBlockColumns];
  for (int i = 0; i < kBlockColumns; ++i) q[i] = static_cast<std::int8_t>(bits[i] & 0xff);
  std::int32_t first = 0, second = 0;
  for (int i = 0; i < kBlockColumns / 2; ++i) {
    first += q[i];
    second += q[i + kBlockColumns / 2];
  }
  for (int i = 0; i < kBlockColumns; ++i) out->q[i] = static_cast<std::int8_t>(q[i]);
  out->scale = scale;
  out->scaled_sum = scale * static_cast<float>(first + second);
  out->offset = -128 * (first + second);
  out->offset_half = -128 * first;
}

static void quantise_row(const float* x, std::int64_t n, std::byte* out) {
  auto* group = reinterpret_cast<Q8Group*>(out);
  for (std::int64_t begin = 0; begin < n; begin += kBlockColumns, ++group) {
    float values[kBlockColumns] = {};
    if (n - begin >= kBlockColumns) {
      __builtin_memcpy(values, x + begin, sizeof(values));
    } else {
      for (std::int64_t i = begin; i < n; ++i) values[i - begin] = x[i];
    }
    quantise_group(values, group);
  }
}

}  // namespace weft::cpu::WEFT_CPU_ISA
