#version 460
#extension GL_GOOGLE_include_directive : require
// Norms of rows or of groups of their columns (norm.glsl). A workgroup takes one group at a time. Tensors: x, weight, bias, out,
// codes. Params: group, eps, has weight, has bias.
#include "common.glsl"
#include "loads.glsl"
const uint kThreads = 128;
layout(local_size_x = 128) in;
layout(constant_id = 0) const uint kKind = 0;    // As NormKind in graph/kinds.h.
layout(constant_id = 1) const uint kFloats = 1;  // Whether the result is written,
layout(constant_id = 2) const uint kCodes = 0;   // ... and codes of it.
#define NORM_X Floats
#include "norm.glsl"

void main() {
  const uint columns = param(0);
  for (uint g = gl_WorkGroupID.x; g < n_rows(); g += n_groups().x)
    norm_group(Floats(address(0) + uint64_t(g) * columns * 4u), g, columns, kKind, NormOperands(1u, 1u), kFloats != 0u,
               kCodes != 0u);
}
