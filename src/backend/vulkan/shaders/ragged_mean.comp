#version 460
#extension GL_GOOGLE_include_directive : require
// Means of neighbouring rows: a thread sums a column. Tensors: x, begins, ends, out. Params: columns. Words: rows of x.
#include "common.glsl"
#include "strided.glsl"
layout(local_size_x = 64) in;

void main() {
  const uint columns = param(0), n = n_rows() * columns;
  const int rows = int(word(0));
  for (uint i = gl_GlobalInvocationID.x; i < n; i += n_groups().x * 64u) {
    const uint mean = i / columns, column = i % columns;
    const int begin = clamp(ints(1).i[mean], 0, rows), end = clamp(ints(2).i[mean], begin, rows);
    float sum = 0.0;
    for (int row = begin; row < end; ++row) sum += floats(0).f[uint(row) * columns + column];
    floats(3).f[i] = end > begin ? sum / float(end - begin) : 0.0;
  }
}
