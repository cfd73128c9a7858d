// As the enum Activation in graph/kinds.h. Each is written so that nothing overflows on the way.
float tanh_of(float x) {
  const float a = abs(x);
  if (a < 0.1) {  // The difference of exponentials would lose digits.
    const float x2 = x * x;
    return x * (1.0 - x2 * (1.0 / 3.0 - x2 * (2.0 / 15.0 - x2 * (17.0 / 315.0))));
  }
  const float e = exp(-2.0 * a);
  return sign(x) * (1.0 - e) / (1.0 + e);
}
float sigmoid(float x) {
  const float e = exp(-abs(x));
  return (x >= 0.0 ? 1.0 : e) / (1.0 + e);
}
// The complementary error function for x >= 0 (Chebyshev fit, Numerical Recipes 6.2, relative error 1.2e-7).
float erfc_of(float x) {
  const float t = 1.0 / (1.0 + 0.5 * x);
  const float p = -1.26551223 + t * (1.00002368 + t * (0.37409196 + t * (0.09678418 + t * (-0.18628806 +
      t * (0.27886807 + t * (-1.13520398 + t * (1.48851587 + t * (-0.82215223 + t * 0.17087277))))))));
  return t * exp(-x * x + p);
}
float log1p_exp(float x) {
  const float e = exp(-abs(x));
  // log(1 + e) keeps no digit of a small e.
  const float l = e < 0.01 ? e * (1.0 - e * (0.5 - e * (1.0 / 3.0 - e * 0.25))) : log(1.0 + e);
  return max(x, 0.0) + l;
}
float activate(uint kind, float x) {
  if (kind == 1u) return x * sigmoid(x);
  if (kind == 2u) return x * sigmoid(1.5957691216 * x * (1.0 + 0.044715 * x * x));
  if (kind == 3u) {
    const float half_tail = 0.5 * erfc_of(abs(x) * 0.70710678);
    return x * (x >= 0.0 ? 1.0 - half_tail : half_tail);
  }
  if (kind == 4u) return x * sigmoid(1.702 * x);
  // Not max, which may drop NaN.
  if (kind == 5u) return x < 0.0 ? 0.0 : x;
  if (kind == 6u) return x < 0.0 ? 0.0 : x * x;
  if (kind == 7u) return log1p_exp(x);
  return x;
}
