#version 460
#extension GL_GOOGLE_include_directive : require
// A group of columns to root mean square 1, to mean 0 and variance 1, or to length 1. A workgroup takes one group at a time; the
// order of its sums depends on nothing else. Tensors: x, weight, bias, out, codes. Params: group, eps, has weight, has bias.
#include "common.glsl"
const uint kThreads = 128;
layout(local_size_x = 128) in;
layout(constant_id = 0) const uint kKind = 0;  // As NormKind in graph/kinds.h.
layout(constant_id = 1) const uint kFloats = 1;  // Whether the result is written,
layout(constant_id = 2) const uint kCodes = 0;   // ... and codes of it.
const uint kLayer = 1, kL2 = 2;
#include "elementary.glsl"
#include "loads.glsl"
#include "reduce.glsl"
#include "store_codes.glsl"

float normed(Floats x, uint i, float mean, float scale) {
  float y = (x.f[i] - mean) * scale;
  if (param(2) != 0u) y *= floats(1).f[i];
  if (param(3) != 0u) y += floats(2).f[i];
  return y;
}

void main() {
  const uint columns = param(0), t = thread();
  for (uint g = gl_WorkGroupID.x; g < n_rows(); g += gl_NumWorkGroups.x) {
    const uint64_t offset = uint64_t(g) * columns * 4u;
    Floats x = Floats(address(0) + offset), result = Floats(address(3) + offset);
    float mean = 0.0;
    if (kKind == kLayer) {
      float sum = 0.0;
      for (uint i = t; i < columns; i += kThreads) sum += x.f[i];
      mean = reduce(sum, false) / float(columns);
      // What rounding left over, so that a row far from zero loses no digits.
      sum = 0.0;
      for (uint i = t; i < columns; i += kThreads) sum += x.f[i] - mean;
      mean += reduce(sum, false) / float(columns);
    }
    float squares = 0.0;
    for (uint i = t; i < columns; i += kThreads) squares += (x.f[i] - mean) * (x.f[i] - mean);
    squares = reduce(squares, false);
    float scale = 1.0 / sqrt(squares / float(columns) + param_float(1));
    if (kKind == kL2) scale = is_nan(squares) ? squares : 1.0 / max(sqrt(squares), param_float(1));
    if (kCodes == 0u) {
      for (uint i = t; i < columns; i += kThreads) result.f[i] = normed(x, i, mean, scale);
      continue;
    }
    for (uint block = t; block < columns / kBlock; block += kThreads) {
      vec4 v[kBlock / 4];
      for (uint j = 0; j < kBlock; ++j) {
        v[j / 4u][j % 4u] = normed(x, block * kBlock + j, mean, scale);
        if (kFloats != 0u) result.f[block * kBlock + j] = v[j / 4u][j % 4u];
      }
      store_codes(address(4) + uint64_t(g) * code_row_bytes(columns), columns, block, v);
    }
  }
}
