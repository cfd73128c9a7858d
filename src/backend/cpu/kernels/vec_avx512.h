#pragma once
// The float kernels' view of AVX-512 (F, BW, DQ, VL); see vec_generic.h for the contract.
// GCC 12 takes its own header's deliberately undefined operands for mistakes of ours.
#if !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif
#include <immintrin.h>
#if !defined(__clang__)
#pragma GCC diagnostic pop
#endif

#include <cstddef>
#include <cstdint>

namespace weft::cpu::WEFT_CPU_ISA {

using F32 = __m512;
inline constexpr int kLanes = 16;
inline constexpr int kRegisters = 32;

static inline F32 broadcast(float a) { return _mm512_set1_ps(a); }
static inline F32 zero() { return _mm512_setzero_ps(); }

static inline __mmask16 first_lanes(int n) { return static_cast<__mmask16>((1u << n) - 1u); }
static inline F32 load(const float* p) { return _mm512_loadu_ps(p); }
static inline void store(float* p, F32 a) { _mm512_storeu_ps(p, a); }
static inline F32 load_partial(const float* p, int n) { return _mm512_maskz_loadu_ps(first_lanes(n), p); }
static inline void store_partial(float* p, F32 a, int n) { _mm512_mask_storeu_ps(p, first_lanes(n), a); }

static inline F32 load_f16(const std::uint16_t* p) {
  return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
}
static inline void store_f16(std::uint16_t* p, F32 a) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_cvtps_ph(a, _MM_FROUND_TO_NEAREST_INT));
}

static inline F32 fma(F32 a, F32 b, F32 c) { return _mm512_fmadd_ps(a, b, c); }
static inline F32 max(F32 a, F32 b) { return _mm512_max_ps(a, b); }
static inline F32 min(F32 a, F32 b) { return _mm512_min_ps(a, b); }
static inline F32 select_less(F32 a, F32 b, F32 x, F32 y) {
  return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(a, b, _CMP_LT_OQ), y, x);
}
static inline F32 select_bits(std::uint32_t bits, F32 x, F32 y) {
  return _mm512_mask_blend_ps(static_cast<__mmask16>(bits), y, x);
}
static inline F32 round(F32 a) {
  return _mm512_roundscale_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
static inline F32 sqrt(F32 a) { return _mm512_sqrt_ps(a); }
static inline F32 scale_pow2(F32 p, F32 n) {
  // A subnormal result may stall the processor for a hundred cycles and more.
  return _mm512_maskz_scalef_ps(_mm512_cmp_ps_mask(n, broadcast(-125.0f), _CMP_NLT_UQ), p, n);
}

static inline __m256 upper_half(F32 a) { return _mm512_extractf32x8_ps(a, 1); }
static inline float reduce_add(F32 a) {
  const __m256 eight = _mm256_add_ps(_mm512_castps512_ps256(a), upper_half(a));
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}
static inline float reduce_max(F32 a) {
  const __m256 eight = _mm256_max_ps(_mm512_castps512_ps256(a), upper_half(a));
  const __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
}

static inline F32 even_elements(F32 a, F32 b) {
  const __m512i index = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
  return _mm512_permutex2var_ps(a, index, b);
}
static inline F32 load_twice(const float* p) {
  const __m512i index = _mm512_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7);
  return _mm512_permutexvar_ps(index, _mm512_castps256_ps512(_mm256_loadu_ps(p)));
}
static inline F32 rotate_pairs(F32 x, const float* cos, const float* sin) {
  const F32 swapped = _mm512_permute_ps(x, 0xb1);
  return _mm512_fmaddsub_ps(x, load_twice(cos), _mm512_mul_ps(swapped, load_twice(sin)));
}

}  // namespace weft::cpu::WEFT_CPU_ISA

#include "backend/cpu/kernels/vec_math.inl"
