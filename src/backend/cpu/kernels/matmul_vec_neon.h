#pragma once
// The matrix kernels' view of AArch64 with dot products (FEAT_DotProd); see matmul_vec_generic.h for the
// contract. 16 rows are four registers, four rows each.
#include <arm_neon.h>

#include <cstddef>
#include <cstdint>

namespace weft::cpu::WEFT_CPU_ISA::panel {

/// 16 integer sums and four codes at a time, with registers for their operands.
inline constexpr int kTileColumns = 4;
inline constexpr int kFewestColumns = 1;
#if defined(__ARM_FEATURE_MATMUL_INT8)
/// Unpacked panels have the layout of the instruction that takes two rows and two columns.
#define WEFT_COLUMNS_IN_PAIRS
inline constexpr int kStepsToUnpack = 0;
#else
inline constexpr int kStepsToUnpack = 2;
#endif
inline constexpr bool kAlwaysFetches = false;

struct Codes {
  uint8x16_t v[4];
};
struct Ints {
  int32x4_t v[4];
};
struct Floats {
  float32x4_t v[4];
};
struct Pairs {
  int16x8_t v[4];
};

static inline const std::uint8_t* bytes_of(const void* p) { return static_cast<const std::uint8_t*>(p); }

static inline Codes load_codes(const std::byte* p) {
  return {{vld1q_u8(bytes_of(p)), vld1q_u8(bytes_of(p) + 16), vld1q_u8(bytes_of(p) + 32),
           vld1q_u8(bytes_of(p) + 48)}};
}
static inline void store_codes(std::byte* p, const Codes& a) {
  for (int i = 0; i < 4; ++i) vst1q_u8(reinterpret_cast<std::uint8_t*>(p) + 16 * i, a.v[i]);
}

template <int kShift>
static inline uint8x16_t shifted(uint8x16_t v) {
  if constexpr (kShift > 0) v = vshrq_n_u8(v, kShift);
  if constexpr (kShift < 0) v = vshlq_n_u8(v, -kShift);
  return v;
}
template <int kShift, int kMask>
static inline Codes shifted_bits(const Codes& a) {
  const uint8x16_t mask = vdupq_n_u8(kMask);
  Codes r;
  for (int i = 0; i < 4; ++i) r.v[i] = vandq_u8(shifted<kShift>(a.v[i]), mask);
  return r;
}
template <int kShift, int kMask>
static inline Codes or_shifted_bits(const Codes& base, const Codes& plane) {
  Codes r = shifted_bits<kShift, kMask>(plane);
  for (int i = 0; i < 4; ++i) r.v[i] = vorrq_u8(base.v[i], r.v[i]);
  return r;
}
template <int kShiftA, int kShiftB, int kMask>
static inline Codes merged_bits(const Codes& a, const Codes& b) {
  const uint8x16_t mask = vdupq_n_u8(kMask);
  Codes r;
  for (int i = 0; i < 4; ++i) r.v[i] = vbslq_u8(mask, shifted<kShiftA>(a.v[i]), shifted<kShiftB>(b.v[i]));
  return r;
}
static inline Codes load_table(const std::uint8_t* table) {
  const uint8x16_t t = vld1q_u8(table);
  return {{t, t, t, t}};
}
static inline Codes look_up(const Codes& table, const Codes& index) {
  Codes r;
  for (int i = 0; i < 4; ++i) r.v[i] = vqtbl1q_u8(table.v[i], index.v[i]);
  return r;
}

/// Codes that need eight bits are multiplied as signed numbers, code - 128, since the instruction is signed.
template <int kMaxCode>
inline constexpr bool kSubtractsZero = kMaxCode > 127;

static inline Ints splat_int(std::int32_t a) {
  const int32x4_t v = vdupq_n_s32(a);
  return {{v, v, v, v}};
}
static inline Ints zero_ints() { return splat_int(0); }
template <int kShift, int kMaxCode>
static inline Ints start(const std::int32_t* offset) {
  return splat_int(kSubtractsZero<kMaxCode> ? 0 : *offset >> kShift);
}
/// sum + the products of four columns of codes with lane kLane of `columns`, which are 16.
template <int kMaxCode, int kLane>
static inline Ints dot4(Ints sum, const Codes& codes, int8x16_t columns) {
  const uint8x16_t flip = vdupq_n_u8(kSubtractsZero<kMaxCode> ? 0x80 : 0);
  for (int i = 0; i < 4; ++i)
    sum.v[i] = vdotq_laneq_s32(sum.v[i], vreinterpretq_s8_u8(veorq_u8(codes.v[i], flip)), columns, kLane);
  return sum;
}
template <int kMaxCode>
static inline Ints dot(Ints sum, const Codes (&codes)[4], const std::int8_t* q) {
  const int8x16_t columns = vld1q_s8(q);
  sum = dot4<kMaxCode, 0>(sum, codes[0], columns);
  sum = dot4<kMaxCode, 1>(sum, codes[1], columns);
  sum = dot4<kMaxCode, 2>(sum, codes[2], columns);
  return dot4<kMaxCode, 3>(sum, codes[3], columns);
}

struct Bytes16 {
  uint32x4_t v[4];
};
static inline Bytes16 widen(uint8x16_t b) {
  const uint16x8_t low = vmovl_u8(vget_low_u8(b)), high = vmovl_high_u8(b);
  return {{vmovl_u16(vget_low_u16(low)), vmovl_high_u16(low), vmovl_u16(vget_low_u16(high)),
           vmovl_high_u16(high)}};
}
template <int kColumns>
static inline void add_scaled_pairs(const std::byte* plane, const std::byte* scales,
                                    const std::byte* const (&q)[kColumns], std::ptrdiff_t at,
                                    Ints (&sums)[kColumns]) {
  const Codes pairs = load_codes(plane);
  const Codes codes[] = {shifted_bits<0, 3>(pairs), shifted_bits<2, 3>(pairs), shifted_bits<4, 3>(pairs),
                         shifted_bits<6, 3>(pairs)};
  const Bytes16 factors = widen(vandq_u8(vld1q_u8(bytes_of(scales)), vdupq_n_u8(15)));
#pragma GCC unroll 4
  for (int c = 0; c < kColumns; ++c) {
    const Ints products = dot<3>(zero_ints(), codes, reinterpret_cast<const std::int8_t*>(q[c] + at));
    for (int i = 0; i < 4; ++i)
      sums[c].v[i] = vmlaq_s32(sums[c].v[i], products.v[i], vreinterpretq_s32_u32(factors.v[i]));
  }
}

/// A tile's sums are half of the registers, and codes of 16 columns would be the other half.
struct ByTurns {
  static constexpr bool kWanted = true;
  static constexpr bool kCentres = false;
  template <int kMaxCode>
  static constexpr int kGroups = 8;
  using Products = Ints;  ///< The sums themselves.
  template <int kMaxCode>
  static inline Products begin(const Ints& sum) {
    return sum;
  }
  template <int kMaxCode>
  static inline Ints end(const Ints&, const Products& products) {
    return products;
  }
  template <class T, int kFirst, int kGroup, int kEnd, int kColumns>
  static inline __attribute__((always_inline)) void add(Products (&products)[kColumns], const Codes& codes,
                                                        const std::int8_t* const (&q)[kColumns]) {
#pragma GCC unroll 8
    for (int c = 0; c < kColumns; ++c)
      products[c] = dot4<T::kMaxCode, kGroup % 4>(products[c], codes, vld1q_s8(q[c] + 16 * (kGroup / 4)));
  }
};

#if !defined(WEFT_COLUMNS_IN_PAIRS)
template <int kMaxCode>
static inline void store_unpacked(const Codes& first, const Codes& second, std::byte* to) {
  store_codes(to, first);
  store_codes(to + 64, second);
}
#else
/// Rows 2i and 2i + 1, eight columns of each, in vector i. They are signed.
template <int kMaxCode>
static inline void store_unpacked(const Codes& first, const Codes& second, std::byte* to) {
  const uint8x16_t flip = vdupq_n_u8(kSubtractsZero<kMaxCode> ? 0x80 : 0);
  for (int i = 0; i < 4; ++i) {
    const uint32x4_t a = vreinterpretq_u32_u8(veorq_u8(first.v[i], flip)),
                     b = vreinterpretq_u32_u8(veorq_u8(second.v[i], flip));
    auto* const rows = reinterpret_cast<std::uint8_t*>(to) + 32 * i;
    vst1q_u8(rows, vreinterpretq_u8_u32(vzip1q_u32(a, b)));
    vst1q_u8(rows + 16, vreinterpretq_u8_u32(vzip2q_u32(a, b)));
  }
}
/// sums[c] + the products of unpacked codes of kEnd - kFirst groups, whose activations begin at q[c] + at.
template <int kFirst, int kEnd, int kColumns>
static inline __attribute__((always_inline)) void add_unpacked(const std::byte* codes,
                                                               const std::byte* const (&q)[kColumns],
                                                               std::ptrdiff_t at, Ints (&sums)[kColumns]) {
  static_assert(kColumns % 2 == 0 && kFirst % 4 == 0 && kEnd % 4 == 0);
  int32x4_t products[kColumns / 2][8];  // For rows 2i and 2i + 1, two columns of each.
#pragma GCC unroll 16
  for (int pair = 0; pair < kColumns / 2; ++pair)
#pragma GCC unroll 16
    for (int i = 0; i < 8; ++i) products[pair][i] = vdupq_n_s32(0);
#pragma GCC unroll 2
  for (int group = kFirst; group < kEnd; group += 4) {
    int8x16_t x[2][kColumns / 2];
#pragma GCC unroll 16
    for (int pair = 0; pair < kColumns / 2; ++pair) {
      const auto* const first = reinterpret_cast<const std::int8_t*>(q[2 * pair] + at) + 4 * group;
      const auto* const second = reinterpret_cast<const std::int8_t*>(q[2 * pair + 1] + at) + 4 * group;
      const int64x2_t a = vreinterpretq_s64_s8(vld1q_s8(first)), b = vreinterpretq_s64_s8(vld1q_s8(second));
      x[0][pair] = vreinterpretq_s8_s64(vzip1q_s64(a, b));
      x[1][pair] = vreinterpretq_s8_s64(vzip2q_s64(a, b));
    }
#pragma GCC unroll 2
    for (int half = 0; half < 2; ++half)
#pragma GCC unroll 16
      for (int i = 0; i < 8; ++i) {
        const int8x16_t rows =
            vreinterpretq_s8_u8(vld1q_u8(bytes_of(codes) + 64 * group + 128 * half + 16 * i));
#pragma GCC unroll 16
        for (int pair = 0; pair < kColumns / 2; ++pair)
          products[pair][i] = vmmlaq_s32(products[pair][i], rows, x[half][pair]);
      }
  }
#pragma GCC unroll 16
  for (int pair = 0; pair < kColumns / 2; ++pair)
#pragma GCC unroll 16
    for (int i = 0; i < 4; ++i) {
      const int32x4_t a = products[pair][2 * i], b = products[pair][2 * i + 1];
      sums[2 * pair].v[i] = vaddq_s32(sums[2 * pair].v[i], vuzp1q_s32(a, b));
      sums[2 * pair + 1].v[i] = vaddq_s32(sums[2 * pair + 1].v[i], vuzp2q_s32(a, b));
    }
}
#endif

static inline Pairs pairs_of(int16x8_t first_low, int16x8_t first_high, int16x8_t second_low,
                             int16x8_t second_high) {
  return {{vzip1q_s16(first_low, second_low), vzip2q_s16(first_low, second_low),
           vzip1q_s16(first_high, second_high), vzip2q_s16(first_high, second_high)}};
}
static inline Pairs pairs_of(uint8x16_t first, uint8x16_t second) {
  const auto low = [](uint8x16_t b) { return vreinterpretq_s16_u16(vmovl_u8(vget_low_u8(b))); };
  const auto high = [](uint8x16_t b) { return vreinterpretq_s16_u16(vmovl_high_u8(b)); };
  return pairs_of(low(first), high(first), low(second), high(second));
}
static inline Pairs load_u8_pairs(const std::byte* p) {
  return pairs_of(vld1q_u8(bytes_of(p)), vld1q_u8(bytes_of(p) + 16));
}
static inline Pairs load_i8_pairs(const std::byte* p) {
  const int8x16_t first = vreinterpretq_s8_u8(vld1q_u8(bytes_of(p)));
  const int8x16_t second = vreinterpretq_s8_u8(vld1q_u8(bytes_of(p) + 16));
  return pairs_of(vmovl_s8(vget_low_s8(first)), vmovl_high_s8(first), vmovl_s8(vget_low_s8(second)),
                  vmovl_high_s8(second));
}
static inline Pairs load_high_nibble_pairs(const std::byte* p) {
  return pairs_of(vshrq_n_u8(vld1q_u8(bytes_of(p)), 4), vshrq_n_u8(vld1q_u8(bytes_of(p) + 16), 4));
}
template <int kShift, int kMask>
static inline Pairs pairs_of_bits(const Codes& a) {
  Pairs r;
  for (int i = 0; i < 4; ++i) {
    uint16x8_t v = vreinterpretq_u16_u8(a.v[i]);
    if constexpr (kShift > 0) v = vshrq_n_u16(v, kShift);
    r.v[i] = vreinterpretq_s16_u16(vandq_u16(v, vdupq_n_u16(kMask)));
  }
  return r;
}
static inline Ints dot_pairs(Ints sum, const Pairs& w, const std::byte* pair) {
  std::int32_t both;
  __builtin_memcpy(&both, pair, sizeof(both));
  const int16x8_t x = vreinterpretq_s16_s32(vdupq_n_s32(both));
  for (int i = 0; i < 4; ++i) {
    const int32x4_t low = vmull_s16(vget_low_s16(w.v[i]), vget_low_s16(x));
    sum.v[i] = vaddq_s32(sum.v[i], vpaddq_s32(low, vmull_high_s16(w.v[i], x)));
  }
  return sum;
}

static inline Floats to_floats(const Ints& a) {
  Floats r;
  for (int i = 0; i < 4; ++i) r.v[i] = vcvtq_f32_s32(a.v[i]);
  return r;
}
static inline Floats splat(float a) {
  const float32x4_t v = vdupq_n_f32(a);
  return {{v, v, v, v}};
}
static inline Floats zero_floats() { return splat(0.0f); }
static inline Floats splat(const float* p) { return splat(*p); }
static inline Floats load_f32(const void* p) {
  const auto* const f = static_cast<const float*>(p);
  return {{vld1q_f32(f), vld1q_f32(f + 4), vld1q_f32(f + 8), vld1q_f32(f + 12)}};
}
static inline void store_f32(float* p, const Floats& a) {
  for (int i = 0; i < 4; ++i) vst1q_f32(p + 4 * i, a.v[i]);
}

static inline uint16x4_t load_half(const void* p, int i) {
  return vreinterpret_u16_u8(vld1_u8(bytes_of(p) + 8 * i));
}
static inline Floats load_f16(const void* p) {
  Floats r;
  for (int i = 0; i < 4; ++i) r.v[i] = vcvt_f32_f16(vreinterpret_f16_u16(load_half(p, i)));
  return r;
}
static inline Floats load_bf16(const void* p) {
  Floats r;
  for (int i = 0; i < 4; ++i) r.v[i] = vreinterpretq_f32_u32(vshll_n_u16(load_half(p, i), 16));
  return r;
}

static inline void bf16_of_bytes(const Codes& low, const Codes& high, Floats (&columns)[4]) {
  const uint32x4_t odd = vdupq_n_u32(0xffff0000);
  for (int i = 0; i < 4; ++i) {
    const uint32x4_t first = vreinterpretq_u32_u8(vzip1q_u8(low.v[i], high.v[i]));
    const uint32x4_t second = vreinterpretq_u32_u8(vzip2q_u8(low.v[i], high.v[i]));
    columns[0].v[i] = vreinterpretq_f32_u32(vshlq_n_u32(first, 16));
    columns[1].v[i] = vreinterpretq_f32_u32(vandq_u32(first, odd));
    columns[2].v[i] = vreinterpretq_f32_u32(vshlq_n_u32(second, 16));
    columns[3].v[i] = vreinterpretq_f32_u32(vandq_u32(second, odd));
  }
}

static inline Floats load_u8(const std::byte* p) {
  const Bytes16 wide = widen(vld1q_u8(bytes_of(p)));
  Floats r;
  for (int i = 0; i < 4; ++i) r.v[i] = vcvtq_f32_u32(wide.v[i]);
  return r;
}
static inline Floats load_i8(const std::byte* p) {
  const int8x16_t b = vreinterpretq_s8_u8(vld1q_u8(bytes_of(p)));
  const int16x8_t low = vmovl_s8(vget_low_s8(b)), high = vmovl_high_s8(b);
  return to_floats({{vmovl_s16(vget_low_s16(low)), vmovl_high_s16(low), vmovl_s16(vget_low_s16(high)),
                     vmovl_high_s16(high)}});
}
static inline Floats load_exponents(const std::byte* p) {
  const Bytes16 e = widen(vld1q_u8(bytes_of(p)));
  const uint32x4_t one = vdupq_n_u32(1);
  Floats r;
  for (int i = 0; i < 4; ++i) {
    // For e = 0 the first is negative, and the subnormal is the larger of both.
    const int32x4_t normal = vshlq_n_s32(vreinterpretq_s32_u32(vsubq_u32(e.v[i], one)), 23);
    const uint32x4_t subnormal =
        vshlq_u32(vdupq_n_u32(0x200000), vreinterpretq_s32_u32(vminq_u32(e.v[i], one)));
    r.v[i] = vreinterpretq_f32_s32(vmaxq_s32(normal, vreinterpretq_s32_u32(subnormal)));
  }
  return r;
}

static inline std::uint32_t not_less(const Floats& a, const Floats& b) {
  const uint32x4_t place = {1, 2, 4, 8};
  std::uint32_t bits = 0;
  for (int i = 0; i < 4; ++i)
    bits |= vaddvq_u32(vandq_u32(vmvnq_u32(vcltq_f32(a.v[i], b.v[i])), place)) << 4 * i;
  return bits;
}
static inline Floats add(const Floats& a, const Floats& b) {
  Floats r;
  for (int i = 0; i < 4; ++i) r.v[i] = vaddq_f32(a.v[i], b.v[i]);
  return r;
}
static inline Floats mul(const Floats& a, const Floats& b) {
  Floats r;
  for (int i = 0; i < 4; ++i) r.v[i] = vmulq_f32(a.v[i], b.v[i]);
  return r;
}
static inline Floats absolute(const Floats& a) {
  Floats r;
  for (int i = 0; i < 4; ++i) r.v[i] = vabsq_f32(a.v[i]);
  return r;
}
static inline Floats multiply_add(const Floats& a, const Floats& b, const Floats& c) {
  Floats r;
  for (int i = 0; i < 4; ++i) r.v[i] = vfmaq_f32(c.v[i], a.v[i], b.v[i]);
  return r;
}

}  // namespace weft::cpu::WEFT_CPU_ISA::panel
