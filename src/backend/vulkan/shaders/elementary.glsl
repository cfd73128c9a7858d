// Functions of one or two numbers, good to a few units of the last place: drivers need not be (2^-11 for sin, 2^-21 for the
// logarithm of numbers near 1, 60 units for e^30). Infinities and NaN are detected by their bits: compilers may assume that
// they do not occur.
#include "activations.glsl"
#include "turns.glsl"
float infinity() { return uintBitsToFloat(0x7f800000u); }
float no_number() { return uintBitsToFloat(0x7fc00000u); }

bool is_nan(float x) { return (floatBitsToUint(x) & 0x7fffffffu) > 0x7f800000u; }
bool is_infinite(float x) { return (floatBitsToUint(x) & 0x7fffffffu) == 0x7f800000u; }
bool is_negative(float x) { return (floatBitsToUint(x) & 0x80000000u) != 0u; }

// x * 2^n for n from -250 to 250.
float times_power_of_two(float x, int n) {
  const int half_n = n / 2;
  return x * intBitsToFloat(half_n + 127 << 23) * intBitsToFloat(n - half_n + 127 << 23);
}

// e^r for |r| <= ln(2) / 2.
float exp_near_zero(float r) {
  return 1.0 + r * (1.0 + r * (0.5 + r * (1.0 / 6.0 + r * (1.0 / 24.0 + r * (1.0 / 120.0 + r * (1.0 / 720.0 + r / 5040.0))))));
}

float exp_of(float x) {
  if (is_nan(x)) return x;
  if (x > 88.8) return infinity();
  if (x < -104.0) return 0.0;
  const float n = roundEven(x * 1.4426950409);
  // ln(2) in two parts, the first short enough that its product with n is exact.
  precise float r = x - n * 0.693359375;
  r = r + n * 2.12194440e-4;
  return times_power_of_two(exp_near_zero(r), int(n));
}

// x = m * 2^result, m from sqrt(1/2) to sqrt(2). x is above 0 and finite.
int split_exponent(float x, out float m) {
  int exponent = 0;
  if (x < 1.17549435e-38) {  // If the device keeps such small numbers.
    x *= 8388608.0;
    exponent = -23;
  }
  const int bits = floatBitsToInt(x);
  const int up = (bits & 0x7fffff) > 0x3504f3 ? 1 : 0;
  m = intBitsToFloat((bits & 0x7fffff) | (127 - up << 23));
  return exponent + (bits >> 23) - 127 + up;
}

// (atanh(s) - s) / s^3 for |s| <= 0.172.
float atanh_rest(float s) {
  const float s2 = s * s;
  return 1.0 / 3.0 + s2 * (1.0 / 5.0 + s2 * (1.0 / 7.0 + s2 * (1.0 / 9.0 + s2 * (1.0 / 11.0))));
}

float log_of(float x) {
  if (is_nan(x)) return x;
  if (x == 0.0) return -infinity();
  if (x < 0.0) return no_number();
  if (is_infinite(x)) return x;
  float m;
  const float e = float(split_exponent(x, m));
  // log(m) = f - (f^2 / 2 - s * (f^2 / 2 + rest)), with f = m - 1 exact.
  const float f = m - 1.0, s = f / (2.0 + f), half_f2 = 0.5 * f * f;
  const float rest = 2.0 * s * s * atanh_rest(s);
  return e * 0.693359375 + (f - (half_f2 - (s * (half_f2 + rest) - e * 2.12194440e-4)));
}

// e^x - 1.
float expm1_of(float x) {
  if (abs(x) >= 0.5 || is_nan(x)) return exp_of(x) - 1.0;
  // The series; terms from x^10 on are below the rounding error.
  const float rest = 1.0 / 120.0 + x * (1.0 / 720.0 + x * (1.0 / 5040.0 + x * (1.0 / 40320.0 + x / 362880.0)));
  return x + x * x * (0.5 + x * (1.0 / 6.0 + x * (1.0 / 24.0 + x * rest)));
}

// log(1 + x).
float log1p_of(float x) {
  precise float whole = 1.0 + x;
  if (whole == 1.0) return x;
  const float logarithm = log_of(whole);
  if (is_nan(logarithm) || is_infinite(logarithm)) return logarithm;
  // The sum's rounding error, as a factor.
  precise float rounded = whole - 1.0;
  return logarithm * (x / rounded);
}

// The error function.
float erf_of(float x) {
  if (is_nan(x)) return x;
  if (abs(x) >= 1.0) return sign(x) * (is_infinite(x) ? 1.0 : 1.0 - erfc_of(abs(x)));
  const float y = x * x;
  float sum = 1.0 / 76204800.0;  // 1 / (n! (2n + 1)) for n = 10, then downwards.
  sum = 1.0 / 6894720.0 - y * sum;
  sum = 1.0 / 685440.0 - y * sum;
  sum = 1.0 / 75600.0 - y * sum;
  sum = 1.0 / 9360.0 - y * sum;
  sum = 1.0 / 1320.0 - y * sum;
  sum = 1.0 / 216.0 - y * sum;
  sum = 1.0 / 42.0 - y * sum;
  sum = 1.0 / 10.0 - y * sum;
  sum = 1.0 / 3.0 - y * sum;
  return 1.1283791671 * (x - x * y * sum);
}

// The binary fraction of 1 / (2 pi).
const uint kTurn[7] =
    uint[](0x28be60dbu, 0x9391054au, 0x7f09d5f4u, 0x7d4d3770u, 0x36d8a566u, 0x4f10e410u, 0x7f9458eau);

// Cosine and sine of any number: the turns that it is, without the whole ones, exact to 2^-40.
vec2 cos_sin_of(float x) {
  if (is_nan(x) || is_infinite(x)) return vec2(no_number());
  if (abs(x) < 0.78) return cos_sin_near_zero(x);
  // |x| = mantissa * 2^exponent. Bits of 1 / (2 pi) that give whole turns are left out.
  const uint bits = floatBitsToUint(x);
  const uint64_t mantissa = uint64_t((bits & 0x7fffffu) | 0x800000u);
  const int exponent = int(bits >> 23 & 255u) - 150;
  uint64_t window;
  if (exponent < 0) {
    window = (uint64_t(kTurn[0]) << 32 | uint64_t(kTurn[1])) >> uint(-exponent);
  } else {
    const uint first = uint(exponent) / 32u, shift = uint(exponent) % 32u;
    window = uint64_t(kTurn[first]) << 32 | uint64_t(kTurn[first + 1u]);
    if (shift > 0u) window = window << shift | uint64_t(kTurn[first + 2u] >> (32u - shift));
  }
  const vec2 result = cos_sin_of_turns(mantissa * window);
  return is_negative(x) ? vec2(result.x, -result.y) : result;
}

float short_part(float x) { return uintBitsToFloat(floatBitsToUint(x) & 0xfffff000u); }

// a^y for a above 0, finite and not 1, y finite: 2^(y * log2(a)), all but the last step in two parts each, of which the first
// has 12 digits, so that products of first parts are exact.
float power_of_positive(float a, float y) {
  float m;
  const float e = float(split_exponent(a, m));
  const float f = m - 1.0;
  precise float d = m + 1.0;
  precise float d_rest = m - (d - 1.0);
  precise float s = f / d;
  const float s1 = short_part(s), d1 = short_part(d);
  // The remainder of f after the first part, divided once more.
  precise float left = f - s1 * d1;
  left = left - s1 * (d - d1);
  left = left - s1 * d_rest;
  precise float s2 = left / d;
  // log2(m) = 2 / ln(2) * (s + s^3 * rest); the factor in two parts.
  const float kFactor = 2.8853900818, kFactor1 = 2.884765625, kFactor2 = 6.2445678e-4;
  precise float log1 = s1 * kFactor1;
  precise float log2_rest = s1 * kFactor2 + (s2 + s * s * s * atanh_rest(s)) * kFactor;
  // y * (e + log1 + log2_rest).
  precise float sum = e + log1;
  const float l1 = short_part(sum);
  precise float l2 = ((e - l1) + log1) + log2_rest;
  const float y1 = short_part(y);
  precise float p1 = y1 * l1;
  precise float p2 = (y - y1) * l1 + y * l2;
  if (p1 + p2 >= 128.5) return infinity();
  if (p1 + p2 <= -151.0) return 0.0;
  const float n = roundEven(p1 + p2);
  precise float r = (p1 - n) + p2;
  return times_power_of_two(exp_near_zero(r * 0.6931471806), int(n));
}

// As pow of the C library.
float power(float x, float y) {
  if (y == 0.0 || x == 1.0) return 1.0;
  if (is_nan(x) || is_nan(y)) return no_number();
  const float a = abs(x);
  const bool whole = is_infinite(y) || floor(y) == y;
  const bool odd = whole && abs(y) < 16777216.0 && (int(y) & 1) != 0;
  float result;
  if (a == 1.0) {
    result = 1.0;
  } else if (is_infinite(y)) {
    result = (a > 1.0) == (y > 0.0) ? infinity() : 0.0;
  } else if (a == 0.0 || is_infinite(a)) {
    result = (a == 0.0) == (y > 0.0) ? 0.0 : infinity();
  } else {
    result = power_of_positive(a, y);
  }
  if (!is_negative(x)) return result;
  if (!whole && a != 0.0 && !is_infinite(a)) return no_number();
  return odd ? -result : result;
}
