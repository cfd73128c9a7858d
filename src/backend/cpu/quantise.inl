// Float rows to kQ8 (packed_layout.h). Over the compiler's own vectors, which every instruction set has:
// since each operation is one IEEE operation on one element, all of them give the same bytes.
#include <cstddef>
#include <cstdint>

#include "backend/cpu/kernels.h"
#include "backend/cpu/packed_layout.h"

namespace weft::cpu::WEFT_CPU_ISA {

/// Half a group of 32 activations.
using HalfGroup = float __attribute__((vector_size(64)));
using HalfWords = std::uint32_t __attribute__((vector_size(64)));
using HalfBytes = std::int8_t __attribute__((vector_size(16)));
using Eight = std::uint32_t __attribute__((vector_size(32)));
using Four = std::uint32_t __attribute__((vector_size(16)));
static_assert(kBlockColumns == 32);

static inline HalfWords words_of(HalfGroup a) {
  HalfWords words;
  __builtin_memcpy(&words, &a, sizeof(words));
  return words;
}
static inline Eight low_half(HalfWords a) { return __builtin_shufflevector(a, a, 0, 1, 2, 3, 4, 5, 6, 7); }
static inline Eight high_half(HalfWords a) {
  return __builtin_shufflevector(a, a, 8, 9, 10, 11, 12, 13, 14, 15);
}
static inline Four low_half(Eight a) { return __builtin_shufflevector(a, a, 0, 1, 2, 3); }
static inline Four high_half(Eight a) { return __builtin_shufflevector(a, a, 4, 5, 6, 7); }

template <class V>
static inline V larger(V a, V b) {
  return a > b ? a : b;
}

static inline std::uint32_t largest_of(HalfWords a) {
  const Eight eight = larger(low_half(a), high_half(a));
  Four four = larger(low_half(eight), high_half(eight));
  four = larger(four, __builtin_shufflevector(four, four, 2, 3, 0, 1));
  four = larger(four, __builtin_shufflevector(four, four, 1, 0, 3, 2));
  return four[0];
}
static inline std::uint32_t sum_of_words(HalfWords a) {
  const Eight eight = low_half(a) + high_half(a);
  Four four = low_half(eight) + high_half(eight);
  four += __builtin_shufflevector(four, four, 2, 3, 0, 1);
  four += __builtin_shufflevector(four, four, 1, 0, 3, 2);
  return four[0];
}

/// Groups whose largest value is below this are zero: its reciprocal must be finite.
static constexpr float kSmallestGroup = 1e-30f;

// q = round(x * 127 / max|x|), ties to even. Infinities and NaN make the group's scale non-finite, so that
// they are seen in the result; q is then anything.
static inline void quantise_group(const float* x, Q8Group* out) {
  HalfGroup a, b;
  __builtin_memcpy(&a, x, sizeof(a));
  __builtin_memcpy(&b, x + 16, sizeof(b));
  // Magnitudes' bits are ordered as the numbers are, NaN above all.
  const std::uint32_t largest_bits = largest_of(larger(words_of(a) & 0x7fffffffu, words_of(b) & 0x7fffffffu));
  float largest;
  __builtin_memcpy(&largest, &largest_bits, sizeof(largest));
  const bool zero = largest < kSmallestGroup;
  const float scale = zero ? 0.0f : largest / 127.0f;
  const float inverse = zero ? 0.0f : 127.0f / largest;

  // Adding 1.5 * 2^23 rounds to an integer, which is then found in the low bits.
  constexpr float kRound = 0x1.8p23f;
  constexpr std::uint32_t kRoundBits = 0x4b400000;
  const HalfWords first = words_of(a * inverse + kRound) - kRoundBits;
  const HalfWords second = words_of(b * inverse + kRound) - kRoundBits;
  const HalfBytes first_bytes = __builtin_convertvector(first, HalfBytes);
  const HalfBytes second_bytes = __builtin_convertvector(second, HalfBytes);
  __builtin_memcpy(out->q, &first_bytes, sizeof(first_bytes));
  __builtin_memcpy(out->q + 16, &second_bytes, sizeof(second_bytes));
  const std::uint32_t half_sum = sum_of_words(first);
  const std::uint32_t sum = half_sum + sum_of_words(second);
  out->scale = scale;
  out->scaled_sum = scale * static_cast<float>(static_cast<std::int32_t>(sum));
  out->offset = static_cast<std::int32_t>(-128u * sum);
  out->offset_half = static_cast<std::int32_t>(-128u * half_sum);
}

static void quantise_row(const float* x, std::int64_t n, std::byte* out) {
  auto* group = reinterpret_cast<Q8Group*>(out);
  for (; n >= kBlockColumns; n -= kBlockColumns, x += kBlockColumns, ++group) quantise_group(x, group);
  if (n == 0) return;
  float values[kBlockColumns] = {};
  for (std::int64_t i = 0; i < n; ++i) values[i] = x[i];
  quantise_group(values, group);
}

}  // namespace weft::cpu::WEFT_CPU_ISA
