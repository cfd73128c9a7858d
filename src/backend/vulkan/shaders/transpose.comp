#version 460
#extension GL_GOOGLE_include_directive : require
// Copies elements to an order in which others are neighbours. Squares of 32 by 32 are kept in shared memory, so that reads
// and writes are both contiguous. Tensors: to, from. Words: sizes along the axis of neighbours in `to` and along that
// in `from`, squares along both; the size of the inner one of the other axes. Then for `to` and for `from` the
// place of the first element, and the strides along the other's axis of neighbours and along the two other axes.
#include "common.glsl"
#include "strided.glsl"
const uint kSide = 32, kLines = 8;
layout(local_size_x = 256) in;
shared uint square[kSide * (kSide + 1)];

void main() {
  const uint size_to = word(0), size_from = word(1), across = word(2), down = word(3), inner = word(4);
  const uint column = gl_LocalInvocationID.x % kSide, line = gl_LocalInvocationID.x / kSide;
  for (uint tile = gl_WorkGroupID.x; tile < n_rows(); tile += n_groups().x) {
    const uint first_to = tile % across * kSide, first_from = tile / across % down * kSide, other = tile / (across * down);
    const uint to = word(5) + other / inner * word(7) + other % inner * word(8);
    const uint from = word(9) + other / inner * word(11) + other % inner * word(12);
    barrier();
    for (uint i = line; i < kSide; i += kLines)
      if (first_from + column < size_from && first_to + i < size_to)
        square[i * (kSide + 1u) + column] = Words(address(1)).w[from + first_from + column + (first_to + i) * word(10)];
    barrier();
    for (uint i = line; i < kSide; i += kLines)
      if (first_to + column < size_to && first_from + i < size_from)
        Words(address(0)).w[to + first_to + column + (first_from + i) * word(6)] = square[column * (kSide + 1u) + i];
  }
}
