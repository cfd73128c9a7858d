#version 460
#extension GL_GOOGLE_include_directive : require
// The scan of Mamba and Mamba-2 (ops::SelectiveScan): a thread a column, rows in order. Tensors: state, x, dt, b, c, a,
// skip, from, to, out. Params: columns, rows of a state, heads (0: Mamba-1, of its own dt and a per column), groups,
// bytes of a row of a.
#include "common.glsl"
#include "rows.glsl"
#include "unpack.glsl"
layout(local_size_x = 64) in;
layout(constant_id = 0) const uint kType = 0;

void main() {
  const uint columns = param(0), n_state = param(1), n_groups = param(3), column = gl_GlobalInvocationID.x;
  if (column >= columns) return;
  const bool heads = param(2) != 0u;
  const uint n_dt = heads ? param(2) : columns;
  const uint head = column / (columns / n_dt), group = head / (n_dt / n_groups);
  const uint64_t slot_bytes = uint64_t(n_state) * columns * 4u;
  for (uint r = 0; r < n_rows(); ++r) {
    const uint row = row_at(r);
    const int from = ints(7).i[row];
    Floats before = Floats(address(0) + uint64_t(max(from, 0)) * slot_bytes);
    Floats after = Floats(address(0) + uint64_t(ints(8).i[row]) * slot_bytes);
    const float x = floats(1).f[row * columns + column], dt = floats(2).f[row * n_dt + head];
    float sum = floats(6).f[head] * x;
    for (uint s = 0; s < n_state; ++s) {
      const uint at = (row * n_groups + group) * n_state + s;
      float state = floats(3).f[at] * (dt * x);
      if (from >= 0) {
        const float a = heads ? floats(5).f[head] : float_at(kType, address(5) + uint64_t(column) * param(4), s);
        state = fma(exp(dt * a), before.f[s * columns + column], state);
      }
      after.f[s * columns + column] = state;
      sum = fma(floats(4).f[at], state, sum);
    }
    floats(9).f[row * columns + column] = sum;
  }
}
