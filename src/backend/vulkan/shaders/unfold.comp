#version 460
#extension GL_GOOGLE_include_directive : require
// Windows of a signal's rows, side by side. Tensors: x, out. Params: columns of x, of out, stride, padding. Words: rows of x.
#include "common.glsl"
#include "strided.glsl"
layout(local_size_x = 256) in;

void main() {
  const uint columns = param(0), width = param(1), rows = word(0), n = n_rows() * width;
  for (uint i = gl_GlobalInvocationID.x; i < n; i += n_groups().x * 256u) {
    const uint in_window = i % width;
    const uint row = i / width * param(2) + in_window / columns - param(3);  // Before the first: wraps to far beyond the last.
    float y = 0.0;
    if (row < rows) y = floats(0).f[row * columns + in_window % columns];
    floats(1).f[i] = y;
  }
}
