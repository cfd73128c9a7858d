#version 460
#extension GL_GOOGLE_include_directive : require
// One element from one or two of the same place. Tensors: a, b, use, out. Params: columns, b is one vector, factor; of kPlace the columns of
// out and the first that is written.
#include "common.glsl"
#include "activations.glsl"
layout(local_size_x = 256) in;
layout(constant_id = 0) const uint kOp = 0;  // As the enum Elementwise in launches.cpp.
layout(constant_id = 1) const uint kActivation = 0;

void main() {
  const uint columns = param(0);
  const uint n = n_rows() * columns;
  Floats a = floats(0), b = floats(1), result = floats(3);
  for (uint i = gl_GlobalInvocationID.x; i < n; i += gl_NumWorkGroups.x * 256u) {
    const float x = a.f[i];
    const uint other = param(1) != 0u ? i % columns : i;
    float y = x;
    if (kOp == 0u) y = x + b.f[other];
    if (kOp == 1u) y = x * b.f[other];
    if (kOp == 2u) y = x * param_float(2);
    if (kOp == 3u) y = param_float(2) * tanh_of(x / param_float(2));
    if (kOp == 4u) y = activate(kActivation, x);
    if (kOp == 5u) y = activate(kActivation, x) * b.f[i];
    if (kOp == 6u && ints(2).i[i / columns] != 0) y = b.f[i];
    if (kOp == 7u) {
      result.f[i / columns * param(3) + param(4) + i % columns] = x;
    } else {
      result.f[i] = y;
    }
  }
}
