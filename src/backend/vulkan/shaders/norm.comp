#version 460
#extension GL_GOOGLE_include_directive : require
// A group of columns to root mean square 1, to mean 0 and variance 1, or to length 1. A workgroup takes one group at a time; the
// order of its sums depends on nothing else. Tensors: x, weight, bias, out. Params: group, eps, has weight, has bias.
#include "common.glsl"
const uint kThreads = 128;
layout(local_size_x = 128) in;
layout(constant_id = 0) const uint kKind = 0;  // As NormKind in graph/kinds.h.
const uint kLayer = 1, kL2 = 2;
#include "elementary.glsl"
#include "reduce.glsl"

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
    for (uint i = t; i < columns; i += kThreads) {
      float y = (x.f[i] - mean) * scale;
      if (param(2) != 0u) y *= floats(1).f[i];
      if (param(3) != 0u) y += floats(2).f[i];
      result.f[i] = y;
    }
  }
}
