#version 460
#extension GL_GOOGLE_include_directive : require
// Rows of a table by index. Tensors: table, ids, out. Params: columns, bytes of a row, rows of the table at most.
#include "common.glsl"
#include "unpack.glsl"
layout(local_size_x = 64) in;
layout(constant_id = 0) const uint kType = 0;

void main() {
  const uint columns = param(0), chunks = (columns + 15u) / 16u;
  for (uint i = gl_GlobalInvocationID.x; i < n_rows() * chunks; i += n_groups().x * 64u) {
    const uint row = i / chunks, chunk = i % chunks;
    vec4 v[4];
    unpack16(kType, address(0) + uint64_t(min(uint(ints(1).i[row]), param(2) - 1u)) * param(1), chunk, columns, v);
    Floats result = Floats(address(2) + (uint64_t(row) * columns + chunk * 16u) * 4u);
    const uint n = min(16u, columns - chunk * 16u);
    for (uint j = 0; j < n; ++j) result.f[j] = v[j / 4u][j % 4u];
  }
}
