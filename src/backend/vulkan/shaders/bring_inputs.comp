#version 460
#extension GL_GOOGLE_include_directive : require
// Inputs from the host's memory to the device's. Tensors: pairs of source and target. Words: how many words each pair has.
#include "common.glsl"
#include "strided.glsl"
layout(local_size_x = 128) in;

void main() {
  const uint pair = gl_WorkGroupID.y, n = word(pair);
  Words source = Words(address(2u * pair)), target = Words(address(2u * pair + 1u));
  for (uint i = gl_GlobalInvocationID.x; i < n; i += n_groups().x * 128u) target.w[i] = source.w[i];
}
