#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
// Rows of floats, or their activations, to signed codes of eight bits, with a scale and sums for each 32, for
// products of integers. Tensors: x, out, b. Params: columns.
#include "common.glsl"
#include "loads.glsl"
#include "activations.glsl"
#include "store_codes.glsl"
layout(local_size_x = 64) in;
layout(constant_id = 0) const uint kOp = 0;    // The codes of x, activate(x) or activate(x) * b.
layout(constant_id = 1) const uint kKind = 0;  // As Activation in graph/kinds.h.
const uint kActivate = 1, kGlu = 2;

void main() {
  const uint columns = param(0), blocks = columns / kBlock;
  for (uint i = gl_GlobalInvocationID.x; i < n_rows() * blocks; i += n_groups().x * 64u) {
    const uint64_t begin = uint64_t(i) * kBlock * 4u;
    Quads x = Quads(address(0) + begin), b = Quads(address(2) + begin);
    vec4 v[kBlock / 4];
    for (uint j = 0; j < kBlock / 4u; ++j) {
      v[j] = uintBitsToFloat(x.q[j]);
      if (kOp >= kActivate)
        [[unroll]] for (uint k = 0; k < 4u; ++k) v[j][k] = activate(kKind, v[j][k]);
      if (kOp == kGlu) v[j] *= uintBitsToFloat(b.q[j]);
    }
    store_codes(address(1) + uint64_t(i / blocks) * code_row_bytes(columns), columns, i % blocks, v);
  }
}
