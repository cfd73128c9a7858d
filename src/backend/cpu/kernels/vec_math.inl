#pragma once
// Functions over the vector contract, the same source for every instruction set. The polynomials are our own
// minimax fits (Remez exchange) in the forms that the comments give; their errors are below half an ulp of
// the result.

namespace weft::cpu::WEFT_CPU_ISA {

/// e^r for |r| <= ln(2) / 2.
static inline F32 exp_near_zero(F32 r) {
  // e^r = 1 + r + r^2 q(r)
  F32 q = broadcast(0.0013814594191f);
  q = fma(q, r, broadcast(0.0083687169178f));
  q = fma(q, r, broadcast(0.041668388127f));
  q = fma(q, r, broadcast(0.16666520631f));
  q = fma(q, r, broadcast(0.49999993447f));
  return fma(q, r * r, r) + broadcast(1.0f);
}

/// e^x within about 1 ulp. exp(0) is exactly 1, exp(-inf) exactly 0; above 88.72 infinite, below about -86.6
/// it may be 0; NaN stays NaN.
static inline F32 exp(F32 x) {
  // 2^n * e^r. The bounds (operands in this order keep NaN) are where nothing is left to say.
  x = min(broadcast(89.0f), max(broadcast(-105.0f), x));
  const F32 n = round(x * broadcast(0x1.715476p+0f));
  // ln 2 in two parts, the first short enough for n * part to be exact.
  F32 r = fma(n, broadcast(-0x1.62ep-1f), x);
  r = fma(n, broadcast(-0x1.0bfbe8p-15f), r);
  return scale_pow2(exp_near_zero(r), n);
}

/// 2^x for x <= 0 within about 1 ulp; below about -125 it may be 0. exp2(0) is exactly 1, exp2(-inf) exactly
/// 0 and NaN stays NaN.
static inline F32 exp2(F32 x) {
  x = max(broadcast(-152.0f), x);
  const F32 n = round(x);
  return scale_pow2(exp_near_zero((x - n) * broadcast(0x1.62e43p-1f)), n);
}

/// 2^x for x <= 0 within a part in 13,000, a thirtieth of the largest change by rounding to bfloat16.
/// exp2_coarse(-inf) is exactly 0 and NaN stays NaN.
static inline F32 exp2_coarse(F32 x) {
  x = max(broadcast(-152.0f), x);
  const F32 n = round(x);
  const F32 r = x - n;
  F32 p = broadcast(0.055171671f);
  p = fma(p, r, broadcast(0.242611122f));
  p = fma(p, r, broadcast(0.693260986f));
  p = fma(p, r, broadcast(0.99992807354f));
  return scale_pow2(p, n);
}

/// tanh x within about 1.5 ulp.
static inline F32 tanh(F32 x) {
  // Near zero x + x^3 q(x^2); elsewhere by exp, where the subtraction no longer loses digits.
  const F32 square = x * x;
  F32 q = broadcast(0.0020966897288f);
  q = fma(q, square, broadcast(-0.0081278628327f));
  q = fma(q, square, broadcast(0.021681180225f));
  q = fma(q, square, broadcast(-0.053943315413f));
  q = fma(q, square, broadcast(0.13333179879f));
  q = fma(q, square, broadcast(-0.33333330174f));
  const F32 near = fma(x * square, q, x);
  const F32 one = broadcast(1.0f);
  const F32 two = broadcast(2.0f);
  const F32 far = one - two / (exp(two * max(x, -x)) + one);
  return select_less(square, broadcast(0.4f), near, select_less(x, zero(), -far, far));
}

/// log(1 + e^x) within about 2 ulp; NaN stays NaN.
static inline F32 softplus(F32 x) {
  // max(x, 0) + log(1 + t) with t = e^-|x|; log(1 + t) = 2 artanh(s) with s = t / (2 + t) in [0, 1/3], by its
  // series.
  const F32 t = exp(min(x, -x));
  const F32 s = t / (broadcast(2.0f) + t);
  const F32 square = s * s;
  F32 q = broadcast(2.0f / 15.0f);
  for (int odd = 13; odd > 0; odd -= 2) q = fma(q, square, broadcast(2.0f / static_cast<float>(odd)));
  return fma(s, q, max(zero(), x));
}

/// The normal distribution's share below x, erfc(-x / sqrt 2) / 2, within about 1.5e-7.
static inline F32 normal_cdf(F32 x) {
  // With z = |x| / sqrt 2: erfc(z) = e^(-z^2) q(t), where t = (1 - 0.6 z) / (1 + 0.4 z) maps z from 0 to 10
  // to the interval from 1 to -1 (beyond, e^(-z^2) is 0).
  const F32 size = min(broadcast(15.0f), max(x, -x));
  const F32 one = broadcast(1.0f);
  const F32 t = fma(size, broadcast(-0.42426406871f), one) / fma(size, broadcast(0.28284271247f), one);
  F32 q = broadcast(-4.0551236131e-6f);
  q = fma(q, t, broadcast(4.7825388792e-6f));
  q = fma(q, t, broadcast(6.1866864253e-5f));
  q = fma(q, t, broadcast(-7.6875863922e-5f));
  q = fma(q, t, broadcast(-0.00092680694368f));
  q = fma(q, t, broadcast(6.9683688444e-5f));
  q = fma(q, t, broadcast(0.017250328805f));
  q = fma(q, t, broadcast(0.08094790408f));
  q = fma(q, t, broadcast(0.21540168658f));
  q = fma(q, t, broadcast(0.39098401007f));
  q = fma(q, t, broadcast(0.29628747699f));
  const F32 tail = broadcast(0.5f) * exp(broadcast(-0.5f) * x * x) * q;
  return select_less(x, zero(), tail, one - tail);
}

}  // namespace weft::cpu::WEFT_CPU_ISA
