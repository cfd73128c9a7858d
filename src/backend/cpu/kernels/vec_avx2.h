#pragma once
// The float kernels' view of AVX2 with FMA and F16C; see vec_generic.h for the contract.
#include <immintrin.h>

#include <cstddef>
#include <cstdint>

namespace weft::cpu::WEFT_CPU_ISA {

using F32 = __m256;
inline constexpr int kLanes = 8;
inline constexpr int kRegisters = 16;

static inline F32 broadcast(float a) { return _mm256_set1_ps(a); }
static inline F32 zero() { return _mm256_setzero_ps(); }

/// All ones in the first n lanes.
static inline __m256i first_lanes(int n) {
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
static inline F32 load(const float* p) { return _mm256_loadu_ps(p); }
static inline void store(float* p, F32 a) { _mm256_storeu_ps(p, a); }
static inline F32 load_partial(const float* p, int n) { return _mm256_maskload_ps(p, first_lanes(n)); }
static inline void store_partial(float* p, F32 a, int n) { _mm256_maskstore_ps(p, first_lanes(n), a); }

static inline F32 load_f16(const std::uint16_t* p) {
  return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
}
static inline void store_f16(std::uint16_t* p, F32 a) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm256_cvtps_ph(a, _MM_FROUND_TO_NEAREST_INT));
}

static inline F32 even_elements(F32 a, F32 b) {
  const __m256d pairs = _mm256_castps_pd(_mm256_shuffle_ps(a, b, 0x88));
  return _mm256_castpd_ps(_mm256_permute4x64_pd(pairs, 0xd8));
}
static inline F32 fma(F32 a, F32 b, F32 c) { return _mm256_fmadd_ps(a, b, c); }
static inline F32 max(F32 a, F32 b) { return _mm256_max_ps(a, b); }
static inline F32 min(F32 a, F32 b) { return _mm256_min_ps(a, b); }
static inline F32 select_less(F32 a, F32 b, F32 x, F32 y) {
  return _mm256_blendv_ps(y, x, _mm256_cmp_ps(a, b, _CMP_LT_OQ));
}
static inline F32 select_bits(std::uint32_t bits, F32 x, F32 y) {
  const __m256i lane_bits = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
  const __m256i set = _mm256_and_si256(_mm256_set1_epi32(static_cast<int>(bits)), lane_bits);
  return _mm256_blendv_ps(y, x, _mm256_castsi256_ps(_mm256_cmpeq_epi32(set, lane_bits)));
}
static inline F32 round(F32 a) { return _mm256_round_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
static inline F32 sqrt(F32 a) { return _mm256_sqrt_ps(a); }
static inline F32 scale_pow2(F32 p, F32 n) {
  const __m256i biased = _mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(126));
  const F32 half = _mm256_castsi256_ps(_mm256_slli_epi32(biased, 23));
  const F32 scaled = _mm256_mul_ps(_mm256_mul_ps(p, half), _mm256_set1_ps(2.0f));
  return _mm256_andnot_ps(_mm256_cmp_ps(n, _mm256_set1_ps(-125.0f), _CMP_LT_OQ), scaled);
}

static inline float reduce_add(F32 a) {
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}
static inline float reduce_max(F32 a) {
  const __m128 four = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
  const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
}

static inline __m256 load_twice(const float* p) {
  const __m128 a = _mm_loadu_ps(p);
  return _mm256_set_m128(_mm_unpackhi_ps(a, a), _mm_unpacklo_ps(a, a));
}
static inline F32 rotate_pairs(F32 x, const float* cos, const float* sin) {
  const F32 swapped = _mm256_permute_ps(x, 0xb1);
  return _mm256_fmaddsub_ps(x, load_twice(cos), _mm256_mul_ps(swapped, load_twice(sin)));
}

}  // namespace weft::cpu::WEFT_CPU_ISA

#include "backend/cpu/kernels/vec_math.inl"
