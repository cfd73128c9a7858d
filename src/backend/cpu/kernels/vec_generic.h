#pragma once
// The float kernels' view of a machine: a vector of kLanes floats. This file is also the contract;
// vec_avx2.h, vec_avx512.h and vec_neon.h give the same names in their own namespaces. `+ - * /` and unary
// minus work lane by lane.
//
// Every function is static: a shared inline function compiled for one instruction set could be linked into
// another's path. A lane's result depends on that lane's operands only; sums over lanes have a fixed order.
#include <cstddef>
#include <cstdint>

namespace weft::cpu::WEFT_CPU_ISA {

/// Four lanes are the baseline of x86-64 and of AArch64.
using F32 = float __attribute__((vector_size(16)));
using I32 = std::int32_t __attribute__((vector_size(16)));
inline constexpr int kLanes = 4;
/// Vector registers: what a tile of sums and its operands have to share.
inline constexpr int kRegisters = 16;

static inline F32 broadcast(float a) { return F32{a, a, a, a}; }
static inline F32 zero() { return broadcast(0.0f); }

/// Pointers may have any alignment. `_partial` touches the first n of kLanes elements (0 <= n <= kLanes);
/// lanes past them load as zero.
static inline F32 load(const float* p) {
  F32 r;
  __builtin_memcpy(&r, p, sizeof(r));
  return r;
}
static inline void store(float* p, F32 a) { __builtin_memcpy(p, &a, sizeof(a)); }
static inline F32 load_partial(const float* p, int n) {
  F32 r = zero();
  for (int i = 0; i < n; ++i) r[i] = p[i];
  return r;
}
static inline void store_partial(float* p, F32 a, int n) {
  for (int i = 0; i < n; ++i) p[i] = a[i];
}

/// IEEE halves. Rounds to nearest even; NaN stays NaN, too large values become infinite.
static inline F32 load_f16(const std::uint16_t* p) {
  using U16 = std::uint16_t __attribute__((vector_size(8)));
  using U32 = std::uint32_t __attribute__((vector_size(16)));
  U16 halves;
  __builtin_memcpy(&halves, p, sizeof(halves));
  const U32 h = __builtin_convertvector(halves, U32);
  const U32 magnitude = (h & 0x7fff) << 13;
  F32 value;
  __builtin_memcpy(&value, &magnitude, sizeof(value));
  value *= 0x1p112f;  // Moves the exponent and normalises subnormal halves.
  U32 bits;
  __builtin_memcpy(&bits, &value, sizeof(bits));
  bits |= ((h & 0x7c00) == 0x7c00 ? U32{} + 0x7f800000u : U32{}) | (h & 0x8000) << 16;
  __builtin_memcpy(&value, &bits, sizeof(value));
  return value;
}
static inline void store_f16(std::uint16_t* p, F32 a) {
  for (int i = 0; i < kLanes; ++i) {
    const float value = a[i];
    std::uint32_t bits;
    __builtin_memcpy(&bits, &value, sizeof(bits));
    const std::uint32_t sign = (bits >> 16) & 0x8000u;
    bits &= 0x7fffffffu;
    std::uint32_t half;
    if (bits > 0x7f800000u) {
      half = 0x7e00u;
    } else if (bits >= 0x477ff000u) {  // 65520 rounds to infinity.
      half = 0x7c00u;
    } else if (bits < 0x38800000u) {  // Subnormal: adding 0.5 leaves the half's bits, rounded, at the bottom.
      float magnitude;
      __builtin_memcpy(&magnitude, &bits, sizeof(magnitude));
      magnitude += 0.5f;
      __builtin_memcpy(&half, &magnitude, sizeof(half));
      half -= 0x3f000000u;
    } else {
      half = (bits - 0x38000000u + 0xfffu + ((bits >> 13) & 1u)) >> 13;
    }
    p[i] = static_cast<std::uint16_t>(sign | half);
  }
}

/// a * b + c: one rounding where the machine has it, two here.
static inline F32 fma(F32 a, F32 b, F32 c) { return a * b + c; }
/// a > b ? a : b, so b where either is NaN; and the same with <.
static inline F32 max(F32 a, F32 b) { return a > b ? a : b; }
static inline F32 min(F32 a, F32 b) { return a < b ? a : b; }
/// a < b ? x : y
static inline F32 select_less(F32 a, F32 b, F32 x, F32 y) { return a < b ? x : y; }
/// Lane i: bit i of `bits` ? x : y
static inline F32 select_bits(std::uint32_t bits, F32 x, F32 y) {
  const I32 lane_bits = {1, 2, 4, 8};
  const std::int32_t b = static_cast<std::int32_t>(bits & 15u);
  return (I32{b, b, b, b} & lane_bits) != 0 ? x : y;
}
/// To the nearest integer, ties to even; |a| < 2^22.
static inline F32 round(F32 a) {
  const F32 magic = broadcast(0x1.8p23f);
  return (a + magic) - magic;
}
static inline F32 sqrt(F32 a) {
  for (int i = 0; i < kLanes; ++i) a[i] = __builtin_sqrtf(a[i]);
  return a;
}
/// p * 2^n for p in [0.5, 2) (or NaN) and integral n in [-152, 129]; 0 where that is below about 2^-125.
static inline F32 scale_pow2(F32 p, F32 n) {
  const I32 exponent = (__builtin_convertvector(n, I32) + 126) << 23;
  F32 half;
  __builtin_memcpy(&half, &exponent, sizeof(half));
  return n < broadcast(-125.0f) ? zero() : p * half * broadcast(2.0f);
}

static inline float reduce_add(F32 a) { return (a[0] + a[2]) + (a[1] + a[3]); }
static inline float reduce_max(F32 a) {
  const float x = a[0] > a[2] ? a[0] : a[2];
  const float y = a[1] > a[3] ? a[1] : a[3];
  return x > y ? x : y;
}

/// Elements 0, 2, 4, ... of a, followed by those of b.
static inline F32 even_elements(F32 a, F32 b) { return F32{a[0], a[2], b[0], b[2]}; }

/// Turns kLanes / 2 neighbouring pairs: (x0 c - x1 s, x1 c + x0 s), with one cos and sin a pair.
static inline F32 rotate_pairs(F32 x, const float* cos, const float* sin) {
  const F32 c = {cos[0], cos[0], cos[1], cos[1]};
  const F32 s = {-sin[0], sin[0], -sin[1], sin[1]};
  const F32 swapped = {x[1], x[0], x[3], x[2]};
  return x * c + swapped * s;
}

}  // namespace weft::cpu::WEFT_CPU_ISA

#include "backend/cpu/kernels/vec_math.inl"
