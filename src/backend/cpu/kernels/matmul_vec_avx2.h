#pragma once
// The matrix kernels' view of AVX2 with FMA and F16C; see matmul_vec_generic.h for the contract. 16 rows are
// two registers. With VNNI, as AVX-VNNI or AVX-512 encodes it, dot products are one instruction.
#include <immintrin.h>

#include <cstddef>
#include <cstdint>

namespace weft::cpu::WEFT_CPU_ISA::panel {

inline constexpr int kTileColumns = 4;
inline constexpr int kFewestColumns = 1;
inline constexpr int kStepsToUnpack = 2;

#if defined(__AVXVNNI__) || (defined(__AVX512VNNI__) && defined(__AVX512VL__))
#define WEFT_HAS_VNNI
#endif

#if defined(WEFT_HAS_VNNI)
inline constexpr bool kAlwaysFetches = false;
#else
/// On Zen 3 weights for one or two columns come up to 1.5 times as fast. With VNNI this is not measured.
inline constexpr bool kAlwaysFetches = true;
#endif

struct Codes {
  __m256i a, b;
};
struct Ints {
  __m256i a, b;
};
struct Floats {
  __m256 a, b;
};
using Pairs = Ints;

static inline __m256i load_256(const void* p) { return _mm256_loadu_si256(static_cast<const __m256i*>(p)); }
static inline __m128i load_128(const void* p) { return _mm_loadu_si128(static_cast<const __m128i*>(p)); }

static inline Codes load_codes(const std::byte* p) { return {load_256(p), load_256(p + 32)}; }
static inline void store_codes(std::byte* p, Codes c) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), c.a);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p + 32), c.b);
}

template <int kShift>
static inline __m256i shifted(__m256i v) {
  if constexpr (kShift > 0) v = _mm256_srli_epi16(v, kShift);
  if constexpr (kShift < 0) v = _mm256_slli_epi16(v, -kShift);
  return v;
}
template <int kShift, int kMask>
static inline Codes shifted_bits(Codes c) {
  const __m256i mask = _mm256_set1_epi8(static_cast<char>(kMask));
  return {_mm256_and_si256(shifted<kShift>(c.a), mask), _mm256_and_si256(shifted<kShift>(c.b), mask)};
}
template <int kShift, int kMask>
static inline Codes or_shifted_bits(Codes base, Codes plane) {
  const Codes bits = shifted_bits<kShift, kMask>(plane);
  return {_mm256_or_si256(base.a, bits.a), _mm256_or_si256(base.b, bits.b)};
}
template <int kShiftA, int kShiftB, int kMask>
static inline Codes merged_bits(Codes a, Codes b) {
  constexpr int kRest = 0xff & ~kMask;
  return or_shifted_bits<kShiftB, kRest>(shifted_bits<kShiftA, kMask>(a), b);
}
static inline Codes load_table(const std::uint8_t* table) {
  const __m256i t = _mm256_broadcastsi128_si256(load_128(table));
  return {t, t};
}
static inline Codes look_up(Codes table, Codes index) {
  return {_mm256_shuffle_epi8(table.a, index.a), _mm256_shuffle_epi8(table.a, index.b)};
}

static inline __m256i splat_int(const void* p) {
  std::int32_t v;
  __builtin_memcpy(&v, p, sizeof(v));
  return _mm256_set1_epi32(v);
}
#if defined(WEFT_HAS_VNNI)
template <int kMaxCode>
inline constexpr bool kSubtractsZero = false;
#else
/// Codes that need eight bits are multiplied as signed numbers, code - 128 (see ByTurns).
template <int kMaxCode>
inline constexpr bool kSubtractsZero = kMaxCode > 63;
#endif

/// Bytes that are multiplied as signed numbers are kept as such.
template <int kMaxCode>
static inline void store_unpacked(Codes first, Codes second, std::byte* to) {
  const __m256i flip = _mm256_set1_epi8(kSubtractsZero<kMaxCode> ? -128 : 0);
  store_codes(to, {_mm256_xor_si256(first.a, flip), _mm256_xor_si256(first.b, flip)});
  store_codes(to + 64, {_mm256_xor_si256(second.a, flip), _mm256_xor_si256(second.b, flip)});
}

static inline Ints zero_ints() { return {_mm256_setzero_si256(), _mm256_setzero_si256()}; }
template <int kShift, int kMaxCode>
static inline Ints start(const std::int32_t* offset) {
  if constexpr (kSubtractsZero<kMaxCode>) return zero_ints();
  const __m256i v = _mm256_srai_epi32(splat_int(offset), kShift);
  return {v, v};
}

#if defined(WEFT_HAS_VNNI)

static inline __m256i dot4(__m256i sum, __m256i codes, __m256i q) {
#if defined(__AVXVNNI__)
  return _mm256_dpbusd_avx_epi32(sum, codes, q);
#else
  return _mm256_dpbusd_epi32(sum, codes, q);
#endif
}
static inline __m256i dot2(__m256i sum, __m256i pairs, __m256i x) {
#if defined(__AVXVNNI__)
  return _mm256_dpwssd_avx_epi32(sum, pairs, x);
#else
  return _mm256_dpwssd_epi32(sum, pairs, x);
#endif
}

/// A tile's sums are half of the registers, so that codes have to go as they come.
struct ByTurns {
  static constexpr bool kWanted = true;
  static constexpr bool kCentres = false;
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
  template <class T, int kFirst, int kGroup, int kEnd, int kColumns>
  static inline __attribute__((always_inline)) void add(Products (&products)[kColumns], Codes codes,
                                                        const std::int8_t* const (&q)[kColumns]) {
#pragma GCC unroll 8
    for (int c = 0; c < kColumns; ++c) {
      const __m256i columns = splat_int(q[c] + 4 * kGroup);
      products[c] = {dot4(products[c].a, codes.a, columns), dot4(products[c].b, codes.b, columns)};
    }
  }
};

#else

static inline __m256i dot2(__m256i sum, __m256i pairs, __m256i x) {
  return _mm256_add_epi32(sum, _mm256_madd_epi16(pairs, x));
}

/// Keeps a sum in its place. g++ 12 delays additions until all products of a sum are computed, and stores
/// each to memory and back.
static inline __m256i now(__m256i sum) {
  asm("" : "+x"(sum));
  return sum;
}

/// A tile's sums are half of the registers, so that codes have to go as they come.
struct ByTurns {
  static constexpr bool kWanted = true;
  static constexpr bool kCentres = false;

  // vpmaddubsw adds two products in 16 bits and saturates. It never saturates here: products of codes and
  // activations are at most 127 * code, and the number of pairs added in 16 bits keeps the sum below
  // 32767. Eight-bit codes are |code - 128| times q with the sign of (code - 128), at most
  // 2 * 128 * 127 = 32512. They are added directly to 32-bit sums.
  template <int kMaxCode>
  static constexpr int kGroups = kMaxCode <= 16   ? 8
                                 : kMaxCode <= 32 ? 4
                                 : kMaxCode <= 63 ? 2
                                                  : 1;

  using Products = Ints;
  template <int kMaxCode>
  static inline Products begin(Ints sum) {
    return kSubtractsZero<kMaxCode> ? sum : zero_ints();
  }
  static inline __m256i add_pairs(__m256i sum, __m256i pairs) {
    return now(_mm256_add_epi32(sum, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1))));
  }
  template <int kMaxCode>
  static inline Ints end(Ints sum, Products products) {
    if constexpr (kSubtractsZero<kMaxCode>) return products;
    return {add_pairs(sum.a, products.a), add_pairs(sum.b, products.b)};
  }

  template <bool kUnpacked, int kGroup, int kColumns>
  static inline __attribute__((always_inline)) void add_signed(__m256i Products::* half,
                                                               Products (&products)[kColumns], __m256i codes,
                                                               const std::int8_t* const (&q)[kColumns]) {
    const __m256i w = kUnpacked ? codes : _mm256_xor_si256(codes, _mm256_set1_epi8(-128));
    const __m256i size = _mm256_abs_epi8(w);
#pragma GCC unroll 8
    for (int c = 0; c < kColumns; ++c) {
      const __m256i pairs = _mm256_maddubs_epi16(size, _mm256_sign_epi8(splat_int(q[c] + 4 * kGroup), w));
      products[c].*half = add_pairs(products[c].*half, pairs);
    }
  }
  template <class T, int kFirst, int kGroup, int kEnd, int kColumns>
  static inline __attribute__((always_inline)) void add(Products (&products)[kColumns], Codes codes,
                                                        const std::int8_t* const (&q)[kColumns]) {
    if constexpr (kSubtractsZero<T::kMaxCode>) {
      add_signed<T::kUnpacked, kGroup>(&Products::a, products, codes.a, q);
      add_signed<T::kUnpacked, kGroup>(&Products::b, products, codes.b, q);
      return;
    }
#pragma GCC unroll 8
    for (int c = 0; c < kColumns; ++c) {
      const __m256i columns = splat_int(q[c] + 4 * kGroup);
      products[c].a = now(_mm256_add_epi16(products[c].a, _mm256_maddubs_epi16(codes.a, columns)));
      products[c].b = now(_mm256_add_epi16(products[c].b, _mm256_maddubs_epi16(codes.b, columns)));
    }
  }
};
#endif

template <int kMax>
struct CodesUpTo {
  static constexpr int kMaxCode = kMax;
  static constexpr bool kUnpacked = false;
};
template <int kMaxCode>
static inline Ints dot(Ints sum, const Codes (&codes)[4], const std::int8_t* q) {
  using Layout = CodesUpTo<kMaxCode>;
  ByTurns turns;
  const std::int8_t* const from[] = {q};
  ByTurns::Products products[] = {ByTurns::begin<kMaxCode>(sum)};
  turns.add<Layout, 0, 0, 4>(products, codes[0], from);
  turns.add<Layout, 0, 1, 4>(products, codes[1], from);
  if constexpr (ByTurns::kGroups<kMaxCode> == 2) {
    sum = ByTurns::end<kMaxCode>(sum, products[0]);
    products[0] = ByTurns::begin<kMaxCode>(sum);
  }
  turns.add<Layout, 0, 2, 4>(products, codes[2], from);
  turns.add<Layout, 0, 3, 4>(products, codes[3], from);
  return ByTurns::end<kMaxCode>(sum, products[0]);
}

static inline Ints load_u8_ints(const std::byte* p) {
  const __m128i v = load_128(p);
  return {_mm256_cvtepu8_epi32(v), _mm256_cvtepu8_epi32(_mm_srli_si128(v, 8))};
}
static inline Ints load_i8_ints(const std::byte* p) {
  const __m128i v = load_128(p);
  return {_mm256_cvtepi8_epi32(v), _mm256_cvtepi8_epi32(_mm_srli_si128(v, 8))};
}
static inline Pairs pairs_of(Ints first, Ints second) {
  return {_mm256_blend_epi16(first.a, _mm256_slli_epi32(second.a, 16), 0xaa),
          _mm256_blend_epi16(first.b, _mm256_slli_epi32(second.b, 16), 0xaa)};
}
static inline Pairs load_u8_pairs(const std::byte* p) {
  return pairs_of(load_u8_ints(p), load_u8_ints(p + 16));
}
static inline Pairs load_i8_pairs(const std::byte* p) {
  return pairs_of(load_i8_ints(p), load_i8_ints(p + 16));
}
static inline Pairs load_high_nibble_pairs(const std::byte* p) {
  const Pairs v = load_u8_pairs(p);
  return {_mm256_srli_epi16(v.a, 4), _mm256_srli_epi16(v.b, 4)};
}
/// The addition of pairs of products multiplies as well.
template <int kColumns>
static inline void add_scaled_pairs(const std::byte* plane, const std::byte* scales,
                                    const std::byte* const (&q)[kColumns], std::ptrdiff_t at,
                                    Ints (&sums)[kColumns]) {
  const Codes pairs = load_codes(plane);
  const Codes c0 = shifted_bits<0, 3>(pairs), c1 = shifted_bits<2, 3>(pairs), c2 = shifted_bits<4, 3>(pairs),
              c3 = shifted_bits<6, 3>(pairs);
  const Ints bytes = load_u8_ints(scales);
  const auto twice = [](__m256i n) {
    return _mm256_and_si256(_mm256_or_si256(n, _mm256_slli_epi32(n, 16)), _mm256_set1_epi32(0x000f000f));
  };
  const __m256i scale_a = twice(bytes.a), scale_b = twice(bytes.b);
#pragma GCC unroll 4
  for (int c = 0; c < kColumns; ++c) {
    const std::byte* const from = q[c] + at;
    const __m256i q0 = splat_int(from), q1 = splat_int(from + 4), q2 = splat_int(from + 8),
                  q3 = splat_int(from + 12);
    const auto products = [&](__m256i w0, __m256i w1, __m256i w2, __m256i w3) {
      return _mm256_add_epi16(_mm256_add_epi16(_mm256_maddubs_epi16(w0, q0), _mm256_maddubs_epi16(w1, q1)),
                              _mm256_add_epi16(_mm256_maddubs_epi16(w2, q2), _mm256_maddubs_epi16(w3, q3)));
    };
    sums[c].a = _mm256_add_epi32(sums[c].a, _mm256_madd_epi16(products(c0.a, c1.a, c2.a, c3.a), scale_a));
    sums[c].b = _mm256_add_epi32(sums[c].b, _mm256_madd_epi16(products(c0.b, c1.b, c2.b, c3.b), scale_b));
  }
}
template <int kShift, int kMask>
static inline Pairs pairs_of_bits(Codes c) {
  const __m256i mask = _mm256_set1_epi16(kMask);
  return {_mm256_and_si256(shifted<kShift>(c.a), mask), _mm256_and_si256(shifted<kShift>(c.b), mask)};
}
static inline Ints dot_pairs(Ints sum, Pairs w, const std::byte* pair) {
  const __m256i x = splat_int(pair);
  return {dot2(sum.a, w.a, x), dot2(sum.b, w.b, x)};
}

static inline Floats to_floats(Ints v) { return {_mm256_cvtepi32_ps(v.a), _mm256_cvtepi32_ps(v.b)}; }
static inline Floats zero_floats() { return {_mm256_setzero_ps(), _mm256_setzero_ps()}; }
static inline Floats splat(float a) { return {_mm256_set1_ps(a), _mm256_set1_ps(a)}; }
static inline Floats splat(const float* p) { return {_mm256_set1_ps(*p), _mm256_set1_ps(*p)}; }
static inline Floats load_f32(const void* p) {
  return {_mm256_loadu_ps(static_cast<const float*>(p)), _mm256_loadu_ps(static_cast<const float*>(p) + 8)};
}
static inline void store_f32(float* p, Floats v) {
  _mm256_storeu_ps(p, v.a);
  _mm256_storeu_ps(p + 8, v.b);
}
static inline Floats load_f16(const void* p) {
  return {_mm256_cvtph_ps(load_128(p)), _mm256_cvtph_ps(load_128(static_cast<const std::byte*>(p) + 16))};
}
static inline Floats as_floats(__m256i a, __m256i b) {
  return {_mm256_castsi256_ps(a), _mm256_castsi256_ps(b)};
}
static inline Floats load_bf16(const void* p) {
  const __m256i a = _mm256_cvtepu16_epi32(load_128(p));
  const __m256i b = _mm256_cvtepu16_epi32(load_128(static_cast<const std::byte*>(p) + 16));
  return as_floats(_mm256_slli_epi32(a, 16), _mm256_slli_epi32(b, 16));
}
static inline void bf16_of_bytes(Codes low, Codes high, Floats (&columns)[4]) {
  const __m256i odd = _mm256_set1_epi32(static_cast<int>(0xffff0000));
  const Codes pairs[] = {{_mm256_unpacklo_epi8(low.a, high.a), _mm256_unpacklo_epi8(low.b, high.b)},
                         {_mm256_unpackhi_epi8(low.a, high.a), _mm256_unpackhi_epi8(low.b, high.b)}};
  for (int i = 0; i < 2; ++i) {
    columns[2 * i] = as_floats(_mm256_slli_epi32(pairs[i].a, 16), _mm256_slli_epi32(pairs[i].b, 16));
    columns[2 * i + 1] = as_floats(_mm256_and_si256(pairs[i].a, odd), _mm256_and_si256(pairs[i].b, odd));
  }
}
static inline Floats load_i8(const std::byte* p) { return to_floats(load_i8_ints(p)); }
static inline Floats load_u8(const std::byte* p) { return to_floats(load_u8_ints(p)); }
static inline __m256i exponent_bits(__m256i e) {
  const __m256i one = _mm256_set1_epi32(1);
  const __m256i normal = _mm256_slli_epi32(_mm256_sub_epi32(e, one), 23);
  const __m256i subnormal = _mm256_sllv_epi32(_mm256_set1_epi32(0x200000), _mm256_min_epu32(e, one));
  return _mm256_max_epi32(normal, subnormal);
}
static inline Floats load_exponents(const std::byte* p) {
  const Ints e = load_u8_ints(p);
  return as_floats(exponent_bits(e.a), exponent_bits(e.b));
}
static inline std::uint32_t not_less(Floats x, Floats y) {
  const int low = _mm256_movemask_ps(_mm256_cmp_ps(x.a, y.a, _CMP_NLT_UQ));
  const int high = _mm256_movemask_ps(_mm256_cmp_ps(x.b, y.b, _CMP_NLT_UQ));
  return static_cast<std::uint32_t>(low | high << 8);
}
static inline Floats add(Floats x, Floats y) { return {_mm256_add_ps(x.a, y.a), _mm256_add_ps(x.b, y.b)}; }
static inline Floats mul(Floats x, Floats y) { return {_mm256_mul_ps(x.a, y.a), _mm256_mul_ps(x.b, y.b)}; }
static inline Floats absolute(Floats x) {
  const __m256 sign = _mm256_set1_ps(-0.0f);
  return {_mm256_andnot_ps(sign, x.a), _mm256_andnot_ps(sign, x.b)};
}
static inline Floats multiply_add(Floats x, Floats y, Floats z) {
  return {_mm256_fmadd_ps(x.a, y.a, z.a), _mm256_fmadd_ps(x.b, y.b, z.b)};
}

}  // namespace weft::cpu::WEFT_CPU_ISA::panel
