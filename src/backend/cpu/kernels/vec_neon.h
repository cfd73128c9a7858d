#pragma once
// The float kernels' view of AArch64's Advanced SIMD; see vec_generic.h for the contract.
#include <arm_neon.h>

#include <cstddef>
#include <cstdint>

namespace weft::cpu::WEFT_CPU_ISA {

using F32 = float32x4_t;
inline constexpr int kLanes = 4;
inline constexpr int kRegisters = 32;

static inline F32 broadcast(float a) { return vdupq_n_f32(a); }
static inline F32 zero() { return vdupq_n_f32(0.0f); }

static inline F32 load(const float* p) { return vld1q_f32(p); }
static inline void store(float* p, F32 a) { vst1q_f32(p, a); }
static inline F32 load_partial(const float* p, int n) {
  float lanes[kLanes] = {};
  for (int i = 0; i < n; ++i) lanes[i] = p[i];
  return load(lanes);
}
static inline void store_partial(float* p, F32 a, int n) {
  float lanes[kLanes];
  store(lanes, a);
  for (int i = 0; i < n; ++i) p[i] = lanes[i];
}

static inline F32 load_f16(const std::uint16_t* p) { return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p))); }
static inline void store_f16(std::uint16_t* p, F32 a) { vst1_u16(p, vreinterpret_u16_f16(vcvt_f16_f32(a))); }

static inline F32 even_elements(F32 a, F32 b) { return vuzp1q_f32(a, b); }
static inline F32 fma(F32 a, F32 b, F32 c) { return vfmaq_f32(c, a, b); }
// Not the instructions of those names, which give NaN where either operand is one.
static inline F32 max(F32 a, F32 b) { return vbslq_f32(vcgtq_f32(a, b), a, b); }
static inline F32 min(F32 a, F32 b) { return vbslq_f32(vcltq_f32(a, b), a, b); }
static inline F32 select_less(F32 a, F32 b, F32 x, F32 y) { return vbslq_f32(vcltq_f32(a, b), x, y); }
static inline F32 select_bits(std::uint32_t bits, F32 x, F32 y) {
  const uint32x4_t lane_bits = {1, 2, 4, 8};
  return vbslq_f32(vtstq_u32(vdupq_n_u32(bits), lane_bits), x, y);
}
static inline F32 round(F32 a) { return vrndnq_f32(a); }
static inline F32 sqrt(F32 a) { return vsqrtq_f32(a); }
static inline F32 scale_pow2(F32 p, F32 n) {
  const int32x4_t exponent = vshlq_n_s32(vaddq_s32(vcvtq_s32_f32(n), vdupq_n_s32(126)), 23);
  const F32 scaled = vmulq_f32(vmulq_f32(p, vreinterpretq_f32_s32(exponent)), broadcast(2.0f));
  return select_less(n, broadcast(-125.0f), zero(), scaled);
}

static inline float reduce_add(F32 a) {
  const float32x2_t two = vadd_f32(vget_low_f32(a), vget_high_f32(a));
  return vget_lane_f32(two, 0) + vget_lane_f32(two, 1);
}
static inline float reduce_max(F32 a) {
  float lanes[kLanes];
  store(lanes, a);
  const float x = lanes[0] > lanes[2] ? lanes[0] : lanes[2];
  const float y = lanes[1] > lanes[3] ? lanes[1] : lanes[3];
  return x > y ? x : y;
}

static inline F32 rotate_pairs(F32 x, const float* cos, const float* sin) {
  const float32x2_t c = vld1_f32(cos), s = vld1_f32(sin), minus_s = vneg_f32(s);
  const F32 cs = vcombine_f32(vzip1_f32(c, c), vzip2_f32(c, c));
  const F32 ss = vcombine_f32(vzip1_f32(minus_s, s), vzip2_f32(minus_s, s));
  return vaddq_f32(vmulq_f32(x, cs), vmulq_f32(vrev64q_f32(x), ss));
}

}  // namespace weft::cpu::WEFT_CPU_ISA

#include "backend/cpu/kernels/vec_math.inl"
