#version 460
#extension GL_GOOGLE_include_directive : require
// Rows to their cells. Tensors: cache, x, cells. Params: columns, bytes of a cell.
#include "common.glsl"
#include "unpack.glsl"
#include "pack.glsl"
layout(local_size_x = 128) in;
layout(constant_id = 0) const uint kType = 0;

void main() {
  const uint columns = param(0), pairs = columns / 2u;
  for (uint i = gl_GlobalInvocationID.x; i < n_rows() * pairs; i += gl_NumWorkGroups.x * 128u) {
    const uint row = i / pairs, at = i % pairs * 2u;
    Floats x = Floats(address(1) + (uint64_t(row) * columns + at) * 4u);
    store_two(kType, address(0) + uint64_t(ints(2).i[row]) * param(1), at, vec2(x.f[0], x.f[1]));
  }
}
