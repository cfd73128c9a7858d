#version 460
#extension GL_GOOGLE_include_directive : require
// One element from those of up to three operands, which are walked with strides. Tensors: out, a, b, c. Params: two numbers.
// Words: the walk of all of them.
#include "common.glsl"
#include "elementary.glsl"
#include "strided.glsl"
layout(local_size_x = 256) in;
layout(constant_id = 0) const uint kOp = 0;    // As the enum Elementwise in launches_general.cpp.
layout(constant_id = 1) const uint kKind = 0;  // As the enum of that op in graph/kinds.h.
layout(constant_id = 2) const uint kAxes = 0;  // 0: elements lie one after another in all of them.
layout(constant_id = 3) const uint kScalar = 0;  // In the place of b ... of a: 2, and b's are a's.

const uint kCopy = 0, kUnary = 1, kActivate = 2, kClamp = 3, kSoftcap = 4, kBinary = 5, kGlu = 6, kCompareFloats = 7,
           kCompareInts = 8, kChoose = 9;

float unary(float x) {
  if (kKind == 0u) return -x;
  if (kKind == 1u) return abs(x);
  if (kKind == 2u) return x * x;
  if (kKind == 3u) return sqrt(x);
  if (kKind == 4u) return 1.0 / sqrt(x);
  if (kKind == 5u) return 1.0 / x;
  if (kKind == 6u) return exp_of(x);
  if (kKind == 7u) return log_of(x);
  if (kKind == 8u) return cos_sin_of(x).y;
  if (kKind == 9u) return cos_sin_of(x).x;
  if (kKind == 10u) return tanh_of(x);
  if (kKind == 11u) return sigmoid(x);
  if (kKind == 12u) return floor(x);
  if (kKind == 13u) return ceil(x);
  if (kKind == 14u) return roundEven(x);
  if (kKind == 15u) return erf_of(x);
  if (kKind == 16u) return expm1_of(x);
  return log1p_of(x);
}

float binary(float a, float b) {
  if (kKind == 0u) return a + b;
  if (kKind == 1u) return a - b;
  if (kKind == 2u) return a * b;
  if (kKind == 3u) return a / b;
  if (kKind == 6u) return power(a, b);
  if (is_nan(a) || is_nan(b)) return no_number();
  return kKind == 4u ? max(a, b) : min(a, b);
}

bool holds(bool equal, bool less) {
  if (kKind == 0u) return equal;
  if (kKind == 1u) return !equal;
  if (kKind == 2u) return less;
  if (kKind == 3u) return less || equal;
  if (kKind == 4u) return !less && !equal;
  return !less;
}

void main() {
  const uint n = n_rows();
  Words result = Words(address(0)), a_words = Words(address(1)), b_words = Words(address(2)), c_words = Words(address(3));
  for (uint i = gl_GlobalInvocationID.x; i < n; i += n_groups().x * 256u) {
    uint to = i, at_a = i, at_b = i, at_c = i;
    if (kAxes > 0u) {
      const uvec4 at = coordinates(0u, kAxes, i);
      to = place_of(0u, kAxes, 0u, at);
      at_a = place_of(0u, kAxes, 1u, at);
      if (kScalar == 0u && kOp >= kBinary) at_b = place_of(0u, kAxes, 2u, at);
      if (kScalar == 0u && kOp == kChoose) at_c = place_of(0u, kAxes, 3u, at);
      if (kScalar != 0u && kOp == kChoose) at_b = place_of(0u, kAxes, 2u, at);
    }
    const uint first = a_words.w[at_a];
    // Elements are copied as bits, whatever they are.
    if (kOp == kCopy) {
      result.w[to] = first;
      continue;
    }
    if (kOp == kChoose) {
      uint other = param(0);
      if (kScalar == 0u) other = c_words.w[at_c];
      if (first != 0u) other = b_words.w[at_b];
      result.w[to] = other;
      continue;
    }
    uint second = param(0);
    if (kScalar == 0u && kOp >= kBinary) second = b_words.w[at_b];
    if (kOp == kCompareInts) {
      result.w[to] = holds(first == second, int(first) < int(second)) ? 1u : 0u;
      continue;
    }
    float a = uintBitsToFloat(first), b = uintBitsToFloat(second);
    if (kOp == kCompareFloats) {
      const bool ordered = !is_nan(a) && !is_nan(b);
      result.w[to] = (ordered ? holds(a == b, a < b) : kKind == 1u) ? 1u : 0u;
      continue;
    }
    float y = a;
    if (kOp == kUnary) y = unary(a);
    if (kOp == kActivate) y = activate(kKind, a);
    if (kOp == kClamp && !is_nan(a)) y = min(max(a, param_float(0)), param_float(1));
    if (kOp == kSoftcap) y = param_float(0) * tanh_of(a / param_float(0));
    if (kOp == kBinary) y = kScalar == 2u ? binary(b, a) : binary(a, b);
    if (kOp == kGlu) y = activate(kKind, a) * b;
    result.w[to] = floatBitsToUint(y);
  }
}
