#version 460
#extension GL_GOOGLE_include_directive : require
// Blocks of columns times a Hadamard matrix (ops::Hadamard). A workgroup takes one block at a time. Tensors: x, out.
#include "common.glsl"
#include "hadamard.glsl"
const uint kThreads = 64;
layout(local_size_x = 64) in;
layout(constant_id = 0) const uint kBlock = 64;
shared float block[kBlock];

void main() {
  const uint t = gl_LocalInvocationID.x;
  for (uint g = gl_WorkGroupID.x; g < n_rows(); g += n_groups().x) {
    const uint64_t offset = uint64_t(g) * kBlock * 4u;
    Floats x = Floats(address(0) + offset), result = Floats(address(1) + offset);
    barrier();
    for (uint i = t; i < kBlock; i += kThreads) block[i] = x.f[i];
    for (uint width = 1; width < kBlock; width *= 2u) {
      barrier();
      for (uint i = t; i < kBlock / 2u; i += kThreads) {
        const uvec2 at = hadamard_pair(i, width);
        const float a = block[at.x], b = block[at.y];
        block[at.x] = a + b;
        block[at.y] = a - b;
      }
    }
    barrier();
    for (uint i = t; i < kBlock; i += kThreads) result.f[i] = block[i] * hadamard_scale(kBlock);
  }
}
