#version 460
#extension GL_GOOGLE_include_directive : require
// x with other elements before and after it, along any axis. Tensors: x, out. Params: what these are. Words: out's sizes and
// where x begins and how it strides (a walk), then x's sizes, then the number of elements before it, by axis.
#include "common.glsl"
#include "strided.glsl"
layout(local_size_x = 256) in;
layout(constant_id = 0) const uint kAxes = 1;

void main() {
  const uint sizes = walk_words(kAxes, 1u), before = sizes + kAxes, n = n_rows();
  for (uint i = gl_GlobalInvocationID.x; i < n; i += n_groups().x * 256u) {
    uvec4 at = coordinates(0u, kAxes, i);
    bool inside = true;
    for (uint axis = 0; axis < kAxes; ++axis) {
      at[axis] -= word(before + axis);  // Below 0 wraps to far beyond the end.
      inside = inside && at[axis] < word(sizes + axis);
    }
    float y = param_float(0);
    if (inside) y = floats(0).f[place_of(0u, kAxes, 0u, at)];
    floats(1).f[i] = y;
  }
}
