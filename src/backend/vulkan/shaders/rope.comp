#version 460
#extension GL_GOOGLE_include_directive : require
// Turns the pairs of each head by their frequencies times the row's position. Tensors: x, positions, frequencies, out.
// Params: columns, head_dim, n_rot, neox, magnitude.
#include "common.glsl"
#include "turns.glsl"
layout(local_size_x = 128) in;

void main() {
  const uint columns = param(0), head_dim = param(1), half_rot = param(2) / 2u;
  // A head is its pairs, then the elements that do not turn.
  const uint per_head = head_dim - half_rot, per_row = columns / head_dim * per_head;
  for (uint i = gl_GlobalInvocationID.x; i < n_rows() * per_row; i += n_groups().x * 128u) {
    const uint row = i / per_row, head = i % per_row / per_head, pair = i % per_head;
    const uint64_t offset = (uint64_t(row) * columns + head * head_dim) * 4u;
    Floats x = Floats(address(0) + offset), result = Floats(address(3) + offset);
    if (pair >= half_rot) {
      result.f[pair + half_rot] = x.f[pair + half_rot];
      continue;
    }
    const vec2 turn = cos_sin(Longs(address(2)).l[pair], ints(1).i[row]) * param_float(4);
    const uint first = param(3) != 0u ? pair : 2u * pair;
    const uint second = param(3) != 0u ? pair + half_rot : 2u * pair + 1u;
    const vec2 y = turned(vec2(x.f[first], x.f[second]), turn);
    result.f[first] = y.x;
    result.f[second] = y.y;
  }
}
