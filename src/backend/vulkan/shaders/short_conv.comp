#version 460
#extension GL_GOOGLE_include_directive : require
// Causal convolution of a column over its rows, which come in order: a thread a column. Tensors: state, x, weight, from,
// to, bias, out. Params: columns, taps, has bias, bytes of a weight's row.
#include "common.glsl"
#include "rows.glsl"
#include "unpack.glsl"
layout(local_size_x = 64) in;
layout(constant_id = 0) const uint kType = 0;

void main() {
  const uint columns = param(0), taps = param(1), column = gl_GlobalInvocationID.x;
  if (column >= columns) return;
  const uint64_t weight = address(2) + uint64_t(column) * param(3), slot_bytes = uint64_t(taps - 1u) * columns * 4u;
  for (uint r = 0; r < n_rows(); ++r) {
    const uint row = row_at(r);
    const int from = ints(3).i[row];
    Floats before = Floats(address(0) + uint64_t(max(from, 0)) * slot_bytes);
    Floats after = Floats(address(0) + uint64_t(ints(4).i[row]) * slot_bytes);
    float sum = param(2) != 0u ? floats(5).f[column] : 0.0;
    for (uint tap = 0; tap < taps; ++tap) {
      float x = 0.0;
      if (tap + 1u == taps) x = floats(1).f[row * columns + column];
      else if (from >= 0) x = before.f[tap * columns + column];
      sum = fma(float_at(kType, weight, tap), x, sum);
      if (tap > 0u) after.f[(tap - 1u) * columns + column] = x;
    }
    floats(6).f[row * columns + column] = sum;
  }
}
