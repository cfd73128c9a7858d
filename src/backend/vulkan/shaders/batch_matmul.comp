#version 460
#extension GL_GOOGLE_include_directive : require
// Products of matrices, both with strides. A workgroup computes 16 * kRows rows by 64 columns at a time, each thread kRows by 4.
// Parts of both matrices are in shared memory. Each result is summed in the order of k, whatever kRows is. Tensors: a, b, out.
// Words: rows, columns and k; tiles of a row and of a column of tiles; matrices along the inner axis. Then for a and for b
// the place of the first element, and the strides along both axes of matrices, along rows (b: columns) and along k.
#include "common.glsl"
#include "strided.glsl"
const uint kThreads = 256, kColumns = 64, kPart = 16;
layout(local_size_x = 256) in;
layout(constant_id = 0) const uint kRows = 1;
layout(constant_id = 1) const uint kAlongA = 0;  // Neighbours along k are neighbours in a; else those along its rows are.
layout(constant_id = 2) const uint kAlongB = 0;  // The same of b.
const uint kTileRows = 16 * kRows;
// One more than needed, so that both ways to fill them spread over the banks.
shared float part_a[kPart * (kTileRows + 1)];
const uint kQuads = kColumns / 4 + 1;
shared vec4 part_b[kPart * kQuads];

void main() {
  const uint rows = word(0), columns = word(1), n_k = word(2), across = word(3), down = word(4), inner = word(5);
  const uint t = gl_LocalInvocationID.x, my_row = t / 16u, my_column = t % 16u;
  Floats a = floats(0), b = floats(1), result = floats(2);
  for (uint tile = gl_WorkGroupID.x; tile < n_rows(); tile += n_groups().x) {
    const uint matrix = tile / (across * down);
    const uint first_row = tile / across % down * kTileRows, first_column = tile % across * kColumns;
    const uint begin_a = word(6) + matrix / inner * word(7) + matrix % inner * word(8);
    const uint begin_b = word(11) + matrix / inner * word(12) + matrix % inner * word(13);
    vec4 sums[kRows];
    for (uint r = 0; r < kRows; ++r) sums[r] = vec4(0.0);
    for (uint first_k = 0; first_k < n_k; first_k += kPart) {
      barrier();
      for (uint i = t; i < kPart * kTileRows; i += kThreads) {
        const uint k = kAlongA != 0u ? i % kPart : i / kTileRows, row = kAlongA != 0u ? i / kPart : i % kTileRows;
        float value = 0.0;
        if (first_row + row < rows && first_k + k < n_k)
          value = a.f[begin_a + (first_row + row) * word(9) + (first_k + k) * word(10)];
        part_a[k * (kTileRows + 1u) + row] = value;
      }
      for (uint i = t; i < kPart * kColumns; i += kThreads) {
        const uint k = kAlongB != 0u ? i % kPart : i / kColumns, column = kAlongB != 0u ? i / kPart : i % kColumns;
        float value = 0.0;
        if (first_column + column < columns && first_k + k < n_k)
          value = b.f[begin_b + (first_column + column) * word(14) + (first_k + k) * word(15)];
        part_b[k * kQuads + column / 4u][column % 4u] = value;
      }
      barrier();
      for (uint k = 0; k < kPart; ++k) {
        const vec4 from_b = part_b[k * kQuads + my_column];
        for (uint r = 0; r < kRows; ++r)
          sums[r] = fma(vec4(part_a[k * (kTileRows + 1u) + my_row + r * 16u]), from_b, sums[r]);
      }
    }
    for (uint r = 0; r < kRows; ++r)
      for (uint c = 0; c < 4u; ++c) {
        const uint row = first_row + my_row + r * 16u, column = first_column + my_column * 4u + c;
        if (row < rows && column < columns) result.f[(matrix * rows + row) * columns + column] = sums[r][c];
      }
  }
}
