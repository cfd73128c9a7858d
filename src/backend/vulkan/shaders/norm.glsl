// Norms: a group of columns to root mean square 1, to mean 0 and variance 1, or to length 1, by a workgroup; the order of its sums
// depends on nothing else. What is `precise` has the same bits in each of the shaders that include this. Needs kThreads and NORM_X,
// the buffer that x is read as.
#include "elementary.glsl"
#include "reduce.glsl"
#include "store_codes.glsl"
const uint kLayer = 1, kL2 = 2;  // As NormKind in graph/kinds.h.

// The places of a norm's operands: weight and bias among the tensors, then eps, has weight and has bias among the params.
struct NormOperands { uint tensors, params; };

// The mean of x, and the factor that is applied after it is subtracted.
vec2 norm_of(NORM_X x, uint columns, uint kind, NormOperands of) {
  const uint t = thread();
  float mean = 0.0;
  if (kind == kLayer) {
    float sum = 0.0;
    for (uint i = t; i < columns; i += kThreads) sum += x.f[i];
    mean = reduce(sum, false) / float(columns);
    // The rounding error, so that a row far from zero loses no digits.
    sum = 0.0;
    for (uint i = t; i < columns; i += kThreads) sum += x.f[i] - mean;
    mean += reduce(sum, false) / float(columns);
  }
  precise float squares = 0.0;
  for (uint i = t; i < columns; i += kThreads) squares += (x.f[i] - mean) * (x.f[i] - mean);
  squares = reduce(squares, false);
  const float eps = param_float(of.params);
  precise float scale = 1.0 / sqrt(squares / float(columns) + eps);
  if (kind == kL2) scale = is_nan(squares) ? squares : 1.0 / max(sqrt(squares), eps);
  return vec2(mean, scale);
}

float normed(NORM_X x, uint i, vec2 norm, NormOperands of) {
  precise float y = (x.f[i] - norm.x) * norm.y;
  if (param(of.params + 1u) != 0u) y *= floats(of.tensors).f[i];
  if (param(of.params + 2u) != 0u) y += floats(of.tensors + 1u).f[i];
  return y;
}

// Group g. The tensors after the operands are the result, written if `has_floats`, and its codes, written if
// `has_codes`.
void norm_group(NORM_X x, uint g, uint columns, uint kind, NormOperands of, bool has_floats, bool has_codes) {
  const uint t = thread();
  const vec2 norm = norm_of(x, columns, kind, of);
  Floats result = Floats(address(of.tensors + 2u) + uint64_t(g) * columns * 4u);
  if (!has_codes) {
    for (uint i = t; i < columns; i += kThreads) result.f[i] = normed(x, i, norm, of);
    return;
  }
  for (uint block = t; block < columns / kBlock; block += kThreads) {
    vec4 v[kBlock / 4];
    for (uint j = 0; j < kBlock; ++j) {
      v[j / 4u][j % 4u] = normed(x, block * kBlock + j, norm, of);
      if (has_floats) result.f[block * kBlock + j] = v[j / 4u][j % 4u];
    }
    store_codes(address(of.tensors + 3u) + uint64_t(g) * code_row_bytes(columns), columns, block, v);
  }
}
