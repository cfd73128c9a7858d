#pragma once
// The matrix kernels' view of AVX-512 with VNNI; see matmul_vec_generic.h for the contract.
#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#if defined(WEFT_PRODUCTS_IN_TILES)
#include "backend/cpu/kernels/amx_tiles.h"
#endif

namespace weft::cpu::WEFT_CPU_ISA::panel {

#if defined(WEFT_PRODUCTS_IN_TILES)
inline constexpr int kTileColumns = 16;
inline constexpr int kFewestColumns = 16;
#else
/// 8 integer and 8 float sums leave 16 registers for codes, scales and masks.
inline constexpr int kTileColumns = 8;
inline constexpr int kFewestColumns = 1;
#endif
/// Nobody measured whether it pays.
inline constexpr int kStepsToUnpack = 9;
inline constexpr bool kAlwaysFetches = false;

using Codes = __m512i;
using Ints = __m512i;
using Floats = __m512;
using Pairs = __m512i;

template <int kMaxCode>
inline constexpr bool kSubtractsZero = false;

static inline Codes load_codes(const std::byte* p) { return _mm512_loadu_si512(p); }
static inline void store_codes(std::byte* p, Codes a) { _mm512_storeu_si512(p, a); }
template <int kMaxCode>
static inline void store_unpacked(Codes first, Codes second, std::byte* to) {
  store_codes(to, first);
  store_codes(to + 64, second);
}

template <int kShift>
static inline __m512i shifted(__m512i v) {
  if constexpr (kShift > 0) v = _mm512_srli_epi16(v, kShift);
  if constexpr (kShift < 0) v = _mm512_slli_epi16(v, -kShift);
  return v;
}
template <int kShift, int kMask>
static inline Codes shifted_bits(Codes a) {
  return _mm512_and_si512(shifted<kShift>(a), _mm512_set1_epi8(static_cast<char>(kMask)));
}
template <int kShift, int kMask>
static inline Codes or_shifted_bits(Codes base, Codes plane) {
  return _mm512_ternarylogic_epi64(base, shifted<kShift>(plane), _mm512_set1_epi8(static_cast<char>(kMask)),
                                   0xf8);  // base | (plane & mask)
}
template <int kShiftA, int kShiftB, int kMask>
static inline Codes merged_bits(Codes a, Codes b) {
  // mask ? a : b. The mask stands last: the instruction overwrites its first operand.
  return _mm512_ternarylogic_epi64(shifted<kShiftA>(a), shifted<kShiftB>(b),
                                   _mm512_set1_epi8(static_cast<char>(kMask)), 0xe4);
}
static inline Codes load_table(const std::uint8_t* table) {
  return _mm512_broadcast_i32x4(_mm_loadu_si128(reinterpret_cast<const __m128i*>(table)));
}
static inline Codes look_up(Codes table, Codes index) { return _mm512_shuffle_epi8(table, index); }

static inline Ints splat_int(const void* p) {
  std::int32_t v;
  __builtin_memcpy(&v, p, sizeof(v));
  return _mm512_set1_epi32(v);
}
static inline Ints zero_ints() { return _mm512_setzero_si512(); }
template <int kShift, int kMaxCode>
static inline Ints start(const std::int32_t* offset) {
  return _mm512_srai_epi32(splat_int(offset), kShift);
}
// The broadcast of four columns is part of the instruction's memory operand, which g++ 12 does not find by
// itself. That halves the micro-operations, so the core sees further ahead.
static inline Ints dot4(Ints sum, Codes codes, const std::int8_t* q) {
  struct Four {
    std::int8_t q[4];
  };
  asm("vpdpbusd %2%{1to16%}, %1, %0" : "+v"(sum) : "v"(codes), "m"(*reinterpret_cast<const Four*>(q)));
  return sum;
}
template <int kMaxCode>
static inline Ints dot(Ints sum, const Codes (&codes)[4], const std::int8_t* q) {
  return dot4(dot4(dot4(dot4(sum, codes[0], q), codes[1], q + 4), codes[2], q + 8), codes[3], q + 12);
}

#if defined(WEFT_PRODUCTS_IN_TILES)
/// Codes are put together to a tile, and multiplied when it is full.
struct ByTurns {
  static constexpr bool kWanted = true;
  static constexpr bool kCentres = true;
  template <int kMaxCode>
  static constexpr int kGroups = 8;
  using Products = Ints;  ///< The sums themselves.
  template <int kMaxCode>
  static inline Products begin(Ints sum) {
    return sum;
  }
  template <int kMaxCode>
  static inline Ints end(Ints, Products products) {
    return products;
  }

  alignas(64) std::byte tile[512];
  template <class T, int kFirst, int kGroup, int kEnd, int kColumns>
  inline __attribute__((always_inline)) void add(Products (&products)[kColumns], Codes codes,
                                                 const std::int8_t* const (&q)[kColumns]) {
    static_assert(kColumns == kTileSide);
    if constexpr (T::kCentred)
      codes = _mm512_sub_epi8(codes, _mm512_set1_epi8(static_cast<char>(T::kLayout.zero)));
    store_codes(tile + 64 * (kGroup - kFirst), codes);
    if constexpr (kGroup + 1 == kEnd) {
      alignas(64) std::int32_t sums[kTileSide * kTileSide];
      multiply_tile<4 * (kEnd - kFirst), T::kCentred>(reinterpret_cast<const std::byte*>(q[0] + 4 * kFirst),
                                                      q[1] - q[0], tile, sums);
#pragma GCC unroll 16
      for (int c = 0; c < kColumns; ++c)
        products[c] = _mm512_add_epi32(products[c], _mm512_load_si512(sums + kTileSide * c));
    }
  }
};
#else
struct ByTurns {
  static constexpr bool kWanted = false;
  static constexpr bool kCentres = false;
};
#endif

static inline __m256i load_256(const void* p) { return _mm256_loadu_si256(static_cast<const __m256i*>(p)); }
static inline __m128i load_128(const void* p) { return _mm_loadu_si128(static_cast<const __m128i*>(p)); }
static inline Pairs pairs_of(__m512i first, __m512i second) {
  return _mm512_mask_blend_epi16(0xaaaaaaaa, first, _mm512_slli_epi32(second, 16));
}
static inline __m512i load_u8_ints(const std::byte* p) { return _mm512_cvtepu8_epi32(load_128(p)); }
static inline Pairs load_u8_pairs(const std::byte* p) {
  return pairs_of(load_u8_ints(p), load_u8_ints(p + 16));
}
static inline Pairs load_i8_pairs(const std::byte* p) {
  return pairs_of(_mm512_cvtepi8_epi32(load_128(p)), _mm512_cvtepi8_epi32(load_128(p + 16)));
}
static inline Pairs load_high_nibble_pairs(const std::byte* p) {
  return _mm512_srli_epi16(load_u8_pairs(p), 4);
}
/// From this number of columns on, it is best to multiply scales into the codes: 0 to 3 times a scale are a
/// table for each row. That is a fixed cost for all columns, and each column then costs no more than without
/// scales. With fewer, sums are multiplied.
inline constexpr int kColumnsForScaledCodes = 6;
template <int kColumns>
static inline void add_scaled_pairs(const std::byte* plane, const std::byte* scales,
                                    const std::byte* const (&q)[kColumns], std::ptrdiff_t at,
                                    Ints (&sums)[kColumns]) {
  const Codes pairs = load_codes(plane);
  const __m512i bytes = load_u8_ints(scales);
  const auto q_of = [&](int c) { return reinterpret_cast<const std::int8_t*>(q[c] + at); };
  if constexpr (kColumns < kColumnsForScaledCodes) {
    const Codes codes[] = {shifted_bits<0, 3>(pairs), shifted_bits<2, 3>(pairs), shifted_bits<4, 3>(pairs),
                           shifted_bits<6, 3>(pairs)};
    // As pairs: a product is below 2^15, the upper part is multiplied by 0.
    const Pairs factors = _mm512_and_si512(bytes, _mm512_set1_epi32(15));
#pragma GCC unroll 8
    for (int c = 0; c < kColumns; ++c)
      sums[c] = _mm512_dpwssd_epi32(sums[c], dot<3>(zero_ints(), codes, q_of(c)), factors);
  } else {
    const __m512i twice = _mm512_ternarylogic_epi32(bytes, _mm512_slli_epi32(bytes, 16),
                                                    _mm512_set1_epi32(0x000f000f), 0xa8);  // (a | b) & mask
    const Codes multiples = _mm512_mullo_epi16(twice, _mm512_set1_epi32(0x03020100));
    // Four rows share a table.
    const Codes rows = _mm512_broadcast_i32x4(_mm_setr_epi32(0, 0x04040404, 0x08080808, 0x0c0c0c0c));
    const Codes codes[] = {look_up(multiples, or_shifted_bits<0, 3>(rows, pairs)),
                           look_up(multiples, or_shifted_bits<2, 3>(rows, pairs)),
                           look_up(multiples, or_shifted_bits<4, 3>(rows, pairs)),
                           look_up(multiples, or_shifted_bits<6, 3>(rows, pairs))};
#pragma GCC unroll 8
    for (int c = 0; c < kColumns; ++c) sums[c] = dot<3 * 15>(sums[c], codes, q_of(c));
  }
}
template <int kShift, int kMask>
static inline Pairs pairs_of_bits(Codes a) {
  return _mm512_and_si512(_mm512_srli_epi16(a, kShift), _mm512_set1_epi16(kMask));
}
static inline Ints dot_pairs(Ints sum, Pairs w, const std::byte* pair) {
  return _mm512_dpwssd_epi32(sum, w, splat_int(pair));
}

static inline Floats to_floats(Ints a) { return _mm512_cvtepi32_ps(a); }
static inline Floats zero_floats() { return _mm512_setzero_ps(); }
static inline Floats splat(float a) { return _mm512_set1_ps(a); }
static inline Floats splat(const float* p) { return _mm512_set1_ps(*p); }
static inline Floats load_f32(const void* p) { return _mm512_loadu_ps(p); }
static inline void store_f32(float* p, Floats a) { _mm512_storeu_ps(p, a); }
static inline Floats load_f16(const void* p) { return _mm512_cvtph_ps(load_256(p)); }
static inline Floats load_bf16(const void* p) {
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(load_256(p)), 16));
}
static inline void bf16_of_bytes(Codes low, Codes high, Floats (&columns)[4]) {
  const __m512i odd = _mm512_set1_epi32(static_cast<int>(0xffff0000));
  const __m512i first = _mm512_unpacklo_epi8(low, high), second = _mm512_unpackhi_epi8(low, high);
  columns[0] = _mm512_castsi512_ps(_mm512_slli_epi32(first, 16));
  columns[1] = _mm512_castsi512_ps(_mm512_and_si512(first, odd));
  columns[2] = _mm512_castsi512_ps(_mm512_slli_epi32(second, 16));
  columns[3] = _mm512_castsi512_ps(_mm512_and_si512(second, odd));
}
static inline Floats load_i8(const std::byte* p) {
  return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(load_128(p)));
}
static inline Floats load_u8(const std::byte* p) { return _mm512_cvtepi32_ps(load_u8_ints(p)); }
static inline Floats load_exponents(const std::byte* p) {
  const __m512i e = load_u8_ints(p);
  const __m512i normal = _mm512_slli_epi32(_mm512_sub_epi32(e, _mm512_set1_epi32(1)), 23);
  const __m512i subnormal =
      _mm512_sllv_epi32(_mm512_set1_epi32(0x200000), _mm512_min_epu32(e, _mm512_set1_epi32(1)));
  return _mm512_castsi512_ps(_mm512_max_epi32(normal, subnormal));
}
static inline std::uint32_t not_less(Floats a, Floats b) { return _mm512_cmp_ps_mask(a, b, _CMP_NLT_UQ); }
static inline Floats add(Floats a, Floats b) { return _mm512_add_ps(a, b); }
static inline Floats mul(Floats a, Floats b) { return _mm512_mul_ps(a, b); }
static inline Floats absolute(Floats a) { return _mm512_abs_ps(a); }
static inline Floats multiply_add(Floats a, Floats b, Floats c) { return _mm512_fmadd_ps(a, b, c); }

}  // namespace weft::cpu::WEFT_CPU_ISA::panel
