#version 460
#extension GL_GOOGLE_include_directive : require
// Rows of keys, turned as rope.comp turns them, to their cells, which are floats of any number: a thread makes four elements.
// Tensors: x, positions, frequencies, cache, cells. Params: columns, head_dim, n_rot, neox, magnitude, bytes of a cell.
#include "common.glsl"
#include "unpack.glsl"
#include "pack.glsl"
#include "turns.glsl"
layout(local_size_x = 128) in;
layout(constant_id = 0) const uint kType = 0;

void main() {
  const uint columns = param(0), head_dim = param(1), half_rot = param(2) / 2u, per_head = head_dim / 4u;
  const bool neox = param(3) != 0u;
  for (uint i = gl_GlobalInvocationID.x; i < n_rows() * (columns / 4u); i += n_groups().x * 128u) {
    const uint row = i / (columns / 4u), of_row = i % (columns / 4u), base = of_row / per_head * head_dim;
    const uint u = of_row % per_head;
    const uvec2 at = base + two_pairs(u, half_rot, neox);
    Floats x = Floats(address(0) + uint64_t(row) * columns * 4u);
    vec2 a = vec2(x.f[at.x], x.f[at.x + 1u]), b = vec2(x.f[at.y], x.f[at.y + 1u]);
    if (u < half_rot / 2u) {
      Longs frequencies = Longs(address(2));
      const int position = ints(1).i[row];
      turn_two_pairs(neox, cos_sin(frequencies.l[2u * u], position) * param_float(4),
                     cos_sin(frequencies.l[2u * u + 1u], position) * param_float(4), a, b);
    }
    const uint64_t cell = address(3) + uint64_t(ints(4).i[row]) * param(5);
    store_two(kType, cell, at.x, a);
    store_two(kType, cell, at.y, b);
  }
}
