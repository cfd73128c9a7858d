#pragma once
// bfloat16, one number and two: a lane of Pairs holds two neighbours of a sum. The same source for every
// instruction set, except where a processor multiplies pairs by itself. Needs vec_<isa>.h and WEFT_CPU_ISA.
#include <cstddef>
#include <cstdint>

namespace weft::cpu::WEFT_CPU_ISA {

using FloatBits = std::uint32_t __attribute__((vector_size(4 * kLanes)));
using HalfBits = std::uint16_t __attribute__((vector_size(2 * kLanes)));

static inline F32 as_floats(FloatBits bits) {
  F32 a;
  __builtin_memcpy(&a, &bits, sizeof(a));
  return a;
}

/// kLanes numbers.
static inline F32 load_bf16(const std::uint16_t* p) {
#if defined(__AVX512F__)  // g++ 12 takes the halves apart and puts them together again.
  const __m256i halves = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(halves), 16));
#else
  HalfBits halves;
  __builtin_memcpy(&halves, p, sizeof(halves));
  return as_floats(__builtin_convertvector(halves, FloatBits) << 16);
#endif
}

#if defined(__AVX512BF16__)

/// To the nearest, ties to even; NaN stays NaN. Numbers below the smallest normal one may become 0.
static inline void store_bf16(std::uint16_t* p, F32 a) {
  const __m256bh halves = _mm512_cvtneps_pbh(a);
  __builtin_memcpy(p, &halves, sizeof(halves));
}

using Pairs = __m512bh;

static inline Pairs load_pairs(const std::uint16_t* p) {
  return reinterpret_cast<Pairs>(_mm512_loadu_si512(p));
}
/// The same pair in all lanes.
static inline Pairs broadcast_pair(const std::uint16_t* p) {
  std::int32_t pair;
  __builtin_memcpy(&pair, p, sizeof(pair));
  return reinterpret_cast<Pairs>(_mm512_set1_epi32(pair));
}
/// sum + the products of both: one rounding or several, and numbers below the smallest normal one may count
/// as 0, always in the same way.
static inline F32 add_products(Pairs a, Pairs b, F32 sum) { return _mm512_dpbf16_ps(sum, a, b); }
#else

static inline void store_bf16(std::uint16_t* p, F32 a) {
  FloatBits bits;
  __builtin_memcpy(&bits, &a, sizeof(bits));
  const FloatBits rounded = bits + 0x7fff + ((bits >> 16) & 1);
  const FloatBits is_nan = (bits & 0x7fffffff) > 0x7f800000;
  const FloatBits kept = (is_nan & (bits | 0x400000)) | (~is_nan & rounded);
  const HalfBits halves = __builtin_convertvector(kept >> 16, HalfBits);
  __builtin_memcpy(p, &halves, sizeof(halves));
}

using Pairs = FloatBits;

static inline Pairs load_pairs(const std::uint16_t* p) {
  Pairs pairs;
  __builtin_memcpy(&pairs, p, sizeof(pairs));
  return pairs;
}
static inline Pairs broadcast_pair(const std::uint16_t* p) {
  std::uint32_t pair;
  __builtin_memcpy(&pair, p, sizeof(pair));
  return Pairs{} + pair;
}
static inline F32 add_products(Pairs a, Pairs b, F32 sum) {
  sum = fma(as_floats(a << 16), as_floats(b << 16), sum);
  return fma(as_floats(a & 0xffff0000), as_floats(b & 0xffff0000), sum);
}

#endif

}  // namespace weft::cpu::WEFT_CPU_ISA
