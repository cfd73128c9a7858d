#version 460
#extension GL_GOOGLE_include_directive : require
// e^x of a row's columns, divided by their sum. A workgroup takes one row at a time. Tensors: x, out. Words: columns.
#include "common.glsl"
#include "strided.glsl"
#include "elementary.glsl"
const uint kThreads = 128;
layout(local_size_x = 128) in;
#include "reduce.glsl"

void main() {
  const uint columns = word(0), t = thread();
  for (uint row = gl_WorkGroupID.x; row < n_rows(); row += n_groups().x) {
    const uint64_t offset = uint64_t(row) * columns * 4u;
    Floats x = Floats(address(0) + offset), result = Floats(address(1) + offset);
    float top = -infinity();
    for (uint i = t; i < columns; i += kThreads) top = max(top, x.f[i]);
    top = reduce(top, true);
    if (top == -infinity()) top = 0.0;  // Of nothing but -infinity: zeros.
    float sum = 0.0;
    for (uint i = t; i < columns; i += kThreads) sum += exp(x.f[i] - top);
    sum = reduce(sum, false);
    for (uint i = t; i < columns; i += kThreads) result.f[i] = sum == 0.0 ? 0.0 : exp(x.f[i] - top) / sum;
  }
}
