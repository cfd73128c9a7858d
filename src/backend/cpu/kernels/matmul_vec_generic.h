#pragma once
// What the matrix kernels need of a machine, for 16 rows at a time; here in plain C++, which is also the
// contract:
//
//   Codes   64 bytes, unsigned: 16 rows x 4 columns, the columns of a row side by side
//   Ints    16 x int32, Floats 16 x float: one number for each row
//   Pairs   16 x 2 x int16: two small numbers for each row
//
// The matmul_vec_*.h of the other instruction sets give the same names. Integer results are exact, so that it
// does not matter in which order a machine adds them; float operations are lane by lane. A multiply-add is
// one rounding where the machine has it and two here.
#include <cstddef>
#include <cstdint>
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace weft::cpu::WEFT_CPU_ISA::panel {

inline constexpr int kTileColumns = 2;    ///< The most columns that one pass over a panel multiplies.
inline constexpr int kFewestColumns = 1;  ///< Of a pass.
/// Panels are unpacked for many columns where that many steps or more lead to a code (unpacked.inl).
inline constexpr int kStepsToUnpack = 9;
/// Whether each line of quantised weights takes too many instructions for the hardware to see far
/// enough ahead, even with one column.
inline constexpr bool kAlwaysFetches = false;

using U16x8 = std::uint16_t __attribute__((vector_size(16)));
using I16x8 = std::int16_t __attribute__((vector_size(16)));
using I32x4 = std::int32_t __attribute__((vector_size(16)));
using U32x4 = std::uint32_t __attribute__((vector_size(16)));
using F32x4 = float __attribute__((vector_size(16)));

// Four rows a vector, four vectors.
struct Codes {
  U16x8 v[4];
};
struct Ints {
  I32x4 v[4];
};
struct Floats {
  F32x4 v[4];
};
struct Pairs {
  I16x8 v[4];
};

static inline Codes load_codes(const std::byte* p) {
  Codes r;
  __builtin_memcpy(&r, p, sizeof(r));
  return r;
}
static inline void store_codes(std::byte* p, const Codes& a) { __builtin_memcpy(p, &a, sizeof(a)); }
/// Two groups of codes of an unpacked panel (unpacked.inl), as what multiplies them wants them.
template <int kMaxCode>
static inline void store_unpacked(const Codes& first, const Codes& second, std::byte* to) {
  store_codes(to, first);
  store_codes(to + 64, second);
}

/// (byte >> kShift) & kMask; a negative shift is to the left.
template <int kShift, int kMask>
static inline Codes shifted_bits(const Codes& a) {
  Codes r;
  for (int i = 0; i < 4; ++i) {
    r.v[i] = kShift >= 0 ? a.v[i] >> (kShift & 7) : a.v[i] << (-kShift & 7);
    r.v[i] &= static_cast<std::uint16_t>(kMask * 0x101);
  }
  return r;
}

/// base | shifted_bits<kShift, kMask>(plane)
template <int kShift, int kMask>
static inline Codes or_shifted_bits(const Codes& base, const Codes& plane) {
  Codes r = shifted_bits<kShift, kMask>(plane);
  for (int i = 0; i < 4; ++i) r.v[i] |= base.v[i];
  return r;
}

/// The bits of `a` under kMask, merged with the other bits of `b`, both shifted as by shifted_bits.
template <int kShiftA, int kShiftB, int kMask>
static inline Codes merged_bits(const Codes& a, const Codes& b) {
  constexpr int kRest = 0xff & ~kMask;
  return or_shifted_bits<kShiftB, kRest>(shifted_bits<kShiftA, kMask>(a), b);
}

/// A table of 16 bytes, and table[index] for 64 indices below 16.
static inline Codes load_table(const std::uint8_t* table) {
  Codes r;
  for (int i = 0; i < 4; ++i) __builtin_memcpy(&r.v[i], table, 16);
  return r;
}
static inline Codes look_up(const Codes& table, const Codes& index) {
  std::uint8_t entries[64], bytes[64];
  __builtin_memcpy(entries, &table, sizeof(entries));
  __builtin_memcpy(bytes, &index, sizeof(bytes));
  for (int i = 0; i < 64; ++i) bytes[i] = entries[bytes[i] & 15];
  Codes r;
  __builtin_memcpy(&r, bytes, sizeof(r));
  return r;
}

static inline I32x4 splat_int(std::int32_t a) { return I32x4{a, a, a, a}; }
static inline Ints zero_ints() { return Ints{}; }
/// Whether `dot` subtracts 128 of codes up to kMaxCode by itself, since the machine multiplies signed ones.
template <int kMaxCode>
inline constexpr bool kSubtractsZero = false;
/// Where a sum begins, for `dot` to add to: -zero * sum(q), for each row, from Q8Group's -128 * sum(q);
/// kShift = 7 - log2(zero).
template <int kShift, int kMaxCode>
static inline Ints start(const std::int32_t* offset) {
  const I32x4 a = splat_int(*offset >> kShift);
  return {{a, a, a, a}};
}
/// a[0] b[0] + a[1] b[1], a[2] b[2] + a[3] b[3], ...
static inline I32x4 multiply_pairs(I16x8 a, I16x8 b) {
#if defined(__SSE2__)
  return reinterpret_cast<I32x4>(_mm_madd_epi16(reinterpret_cast<__m128i>(a), reinterpret_cast<__m128i>(b)));
#else
  const auto products = a * b;  // Of a code and an activation: at most 255 * 127.
  const auto low = reinterpret_cast<I32x4>(reinterpret_cast<U32x4>(products) << 16);
  return (low >> 16) + (reinterpret_cast<I32x4>(products) >> 16);
#endif
}
/// q[0] and q[2] as numbers of 16 bits, four times.
static inline I16x8 splat_pair(const std::int8_t* q) {
  const std::int16_t a = q[0], b = q[2];
  return I16x8{a, b, a, b, a, b, a, b};
}

/// sum + the products of 16 columns of codes (at most kMaxCode) with q[0..15], |q| <= 127.
template <int kMaxCode>
static inline Ints dot(Ints sum, const Codes (&codes)[4], const std::int8_t* q) {
#pragma GCC unroll 1
  for (int j = 0; j < 4; ++j) {
    const I16x8 even = splat_pair(q + 4 * j), odd = splat_pair(q + 4 * j + 1);
    for (int i = 0; i < 4; ++i) {
      sum.v[i] += multiply_pairs(reinterpret_cast<I16x8>(codes[j].v[i] & 0xff), even);
      sum.v[i] += multiply_pairs(reinterpret_cast<I16x8>(codes[j].v[i] >> 8), odd);
    }
  }
  return sum;
}

/// Adds the products of 16 columns to the sums of all columns of activations, whose rows begin at q[c] + at.
/// The codes are a plane of pairs, times the low nibble of each row's scale.
template <int kColumns>
static inline void add_scaled_pairs(const std::byte* plane, const std::byte* scales,
                                    const std::byte* const (&q)[kColumns], std::ptrdiff_t at,
                                    Ints (&sums)[kColumns]) {
  const Codes pairs = load_codes(plane);
  const Codes codes[] = {shifted_bits<0, 3>(pairs), shifted_bits<2, 3>(pairs), shifted_bits<4, 3>(pairs),
                         shifted_bits<6, 3>(pairs)};
  for (int c = 0; c < kColumns; ++c) {
    const Ints products = dot<3>(zero_ints(), codes, reinterpret_cast<const std::int8_t*>(q[c] + at));
    for (int row = 0; row < 16; ++row)
      sums[c].v[row / 4][row % 4] += products.v[row / 4][row % 4] * (static_cast<int>(scales[row]) & 15);
  }
}

/// How groups of four columns are multiplied as soon as their codes are made. It is for instruction sets with
/// too few registers to wait for all 16, or where codes must be in other places (add_by_turns in
/// panel_codes.inl). With kWanted these exist, for a layout T (Traits in panel_codes.inl):
///
///   Products                 what the products of up to kGroups<kMaxCode> groups are added up in
///   begin(sum)               of nothing yet
///   add(products, codes, q)  adds the products of group kGroup of those from kFirst to before kEnd, for
///                            several sums, whose activations of the record begin at q
///   end(sum, products)       the sum with all of them
///
/// kCentres: codes have their zero taken away (Traits::kCentred), so that sums begin with nothing.
struct ByTurns {
  static constexpr bool kWanted = false;
  static constexpr bool kCentres = false;
};

/// lane r = p[r], p[16 + r]
template <class Value>
static inline Pairs pairs_of(Value value) {
  std::int16_t r[32];
  for (int i = 0; i < 32; ++i) r[i] = static_cast<std::int16_t>(value(i % 2 * 16 + i / 2));
  Pairs pairs;
  __builtin_memcpy(&pairs, r, sizeof(pairs));
  return pairs;
}
static inline Pairs load_u8_pairs(const std::byte* p) {
  return pairs_of([p](int i) { return static_cast<std::uint8_t>(p[i]); });
}
static inline Pairs load_i8_pairs(const std::byte* p) {
  return pairs_of([p](int i) { return static_cast<std::int8_t>(p[i]); });
}
static inline Pairs load_high_nibble_pairs(const std::byte* p) {
  return pairs_of([p](int i) { return static_cast<std::uint8_t>(p[i]) >> 4; });
}
/// For each two of the 64 bytes, as a 16-bit number: (number >> kShift) & kMask.
template <int kShift, int kMask>
static inline Pairs pairs_of_bits(const Codes& a) {
  Pairs r;
  for (int i = 0; i < 4; ++i)
    r.v[i] = reinterpret_cast<I16x8>(a.v[i] >> kShift & static_cast<std::uint16_t>(kMask));
  return r;
}
/// sum + both numbers of each lane times pair[0] and pair[1], int16.
static inline Ints dot_pairs(Ints sum, const Pairs& w, const std::byte* pair) {
  std::int16_t x[2];
  __builtin_memcpy(x, pair, sizeof(x));
  for (int i = 0; i < 4; ++i) {
    const auto both = reinterpret_cast<I32x4>(w.v[i]);
    const auto first = reinterpret_cast<I32x4>(reinterpret_cast<U32x4>(both) << 16) >> 16;
    sum.v[i] += first * static_cast<std::int32_t>(x[0]) + (both >> 16) * static_cast<std::int32_t>(x[1]);
  }
  return sum;
}

static inline Floats to_floats(const Ints& a) {
  Floats r;
  for (int i = 0; i < 4; ++i) r.v[i] = __builtin_convertvector(a.v[i], F32x4);
  return r;
}
static inline Floats zero_floats() { return Floats{}; }
static inline Floats splat(float a) {
  const F32x4 v = {a, a, a, a};
  return {{v, v, v, v}};
}
static inline Floats splat(const float* p) {
  const F32x4 a = {*p, *p, *p, *p};
  return {{a, a, a, a}};
}
static inline Floats load_f32(const void* p) {
  Floats r;
  __builtin_memcpy(&r, p, sizeof(r));
  return r;
}
static inline void store_f32(float* p, const Floats& a) { __builtin_memcpy(p, &a, sizeof(a)); }
static inline Floats load_f16(const void* p) {
  std::uint16_t half[16];
  __builtin_memcpy(half, p, sizeof(half));
  std::uint32_t bits[16];
  for (int i = 0; i < 16; ++i) bits[i] = static_cast<std::uint32_t>(half[i] & 0x7fff) << 13;
  Floats r = load_f32(bits);
  // Exponents move by 112; the multiplication also normalises subnormal halves.
  for (int i = 0; i < 4; ++i) r.v[i] *= 0x1p112f;
  __builtin_memcpy(bits, &r, sizeof(r));
  for (int i = 0; i < 16; ++i) {
    bits[i] |= (half[i] & 0x7c00) == 0x7c00 ? 0x7f800000u : 0u;
    bits[i] |= static_cast<std::uint32_t>(half[i] & 0x8000) << 16;
  }
  return load_f32(bits);
}
static inline Floats load_bf16(const void* p) {
  std::uint16_t half[16];
  __builtin_memcpy(half, p, sizeof(half));
  std::uint32_t bits[16];
  for (int i = 0; i < 16; ++i) bits[i] = static_cast<std::uint32_t>(half[i]) << 16;
  return load_f32(bits);
}
/// Four columns of BF16 from their low and high bytes, in the layout of compact.h.
static inline void bf16_of_bytes(const Codes& low, const Codes& high, Floats (&columns)[4]) {
  std::uint16_t l[32], h[32];
  __builtin_memcpy(l, &low, sizeof(l));
  __builtin_memcpy(h, &high, sizeof(h));
  for (int t = 0; t < 4; ++t) {
    std::uint32_t bits[16];
    for (int row = 0; row < 16; ++row) {
      const int at = row / 4 * 8 + t / 2 * 4 + row % 4, shift = t % 2 * 8;
      bits[row] = static_cast<std::uint32_t>(h[at] >> shift & 255) << 24 |
                  static_cast<std::uint32_t>(l[at] >> shift & 255) << 16;
    }
    columns[t] = load_f32(bits);
  }
}
static inline Floats load_i8(const std::byte* p) {
  float r[16];
  for (int i = 0; i < 16; ++i) r[i] = static_cast<float>(static_cast<std::int8_t>(p[i]));
  return load_f32(r);
}
static inline Floats load_u8(const std::byte* p) {
  float r[16];
  for (int i = 0; i < 16; ++i) r[i] = static_cast<float>(static_cast<std::uint8_t>(p[i]));
  return load_f32(r);
}
/// 2^(e - 128) of 16 bytes e; exact, also where the result is subnormal.
static inline Floats load_exponents(const std::byte* p) {
  std::uint32_t bits[16];
  for (int i = 0; i < 16; ++i) {
    const std::uint32_t e = static_cast<std::uint8_t>(p[i]);
    bits[i] = e < 2 ? 0x200000u << e : (e - 1) << 23;
  }
  return load_f32(bits);
}
/// Bit i: whether a[i] is not less than b[i], NaN included.
static inline std::uint32_t not_less(const Floats& a, const Floats& b) {
  std::uint32_t bits = 0;
#if defined(__SSE2__)
  for (int i = 0; i < 4; ++i)
    bits |= static_cast<std::uint32_t>(_mm_movemask_ps(_mm_cmpnlt_ps(a.v[i], b.v[i]))) << 4 * i;
#else
  for (int i = 0; i < 16; ++i)
    bits |= static_cast<std::uint32_t>(!(a.v[i / 4][i % 4] < b.v[i / 4][i % 4])) << i;
#endif
  return bits;
}
static inline Floats add(const Floats& a, const Floats& b) {
  return {{a.v[0] + b.v[0], a.v[1] + b.v[1], a.v[2] + b.v[2], a.v[3] + b.v[3]}};
}
static inline Floats mul(const Floats& a, const Floats& b) {
  return {{a.v[0] * b.v[0], a.v[1] * b.v[1], a.v[2] * b.v[2], a.v[3] * b.v[3]}};
}
static inline Floats absolute(const Floats& a) {
  Floats r;
  for (int i = 0; i < 16; ++i) r.v[i / 4][i % 4] = __builtin_fabsf(a.v[i / 4][i % 4]);
  return r;
}
/// a * b + c
static inline Floats multiply_add(const Floats& a, const Floats& b, const Floats& c) {
  return add(mul(a, b), c);
}

}  // namespace weft::cpu::WEFT_CPU_ISA::panel
