#version 460
#extension GL_GOOGLE_include_directive : require
// The delta rule (ops::DeltaRule): a thread a column of a head's state, rows in order. Tensors: state, q, k, v, decay,
// beta, from, to, removed, out. Params: columns of a head, heads, groups of q and k, rows of a head's state, tiled,
// decays of a head, whether keys are removed.
#include "common.glsl"
#include "rows.glsl"
layout(local_size_x = 64) in;

void main() {
  const uint columns = param(0), heads = param(1), groups = param(2), n_keys = param(3), n_decays = param(5);
  if (gl_GlobalInvocationID.x >= columns * heads) return;
  const bool removes = param(6) != 0u;
  const uint head = gl_GlobalInvocationID.x / columns, column = gl_GlobalInvocationID.x % columns;
  const uint group = param(4) != 0u ? head % groups : head / (heads / groups);
  const uint64_t slot_bytes = uint64_t(heads) * n_keys * columns * 4u;
  const uint in_slot = head * n_keys * columns + column;
  for (uint r = 0; r < n_rows(); ++r) {
    const uint row = row_at(r);
    const int from = ints(6).i[row];
    Floats before = Floats(address(0) + uint64_t(max(from, 0)) * slot_bytes);
    Floats after = Floats(address(0) + uint64_t(ints(7).i[row]) * slot_bytes);
    const uint of_head = row * heads + head, keys = (row * groups + group) * n_keys;
    float held = 0.0;
    if (from >= 0) {
      for (uint i = 0; i < n_keys; ++i) {
        const float decay = floats(4).f[of_head * n_decays + (n_decays == 1u ? 0u : i)];
        const float key = removes ? floats(8).f[of_head * n_keys + i] : floats(2).f[keys + i] * decay;
        held = fma(key, before.f[in_slot + i * columns], held);
      }
    }
    const float v = floats(3).f[of_head * columns + column];
    const float change = removes ? v : floats(5).f[of_head] * (v - held);
    float sum = 0.0;
    for (uint i = 0; i < n_keys; ++i) {
      float state = 0.0;
      if (from >= 0) {
        state = floats(4).f[of_head * n_decays + (n_decays == 1u ? 0u : i)] * before.f[in_slot + i * columns];
        if (removes) {
          const uint at = of_head * n_keys + i;
          state = fma(-floats(5).f[at] * floats(8).f[at], held, state);
        }
      }
      state = fma(floats(2).f[keys + i], change, state);
      after.f[in_slot + i * columns] = state;
      sum = fma(floats(1).f[keys + i], state, sum);
    }
    floats(9).f[of_head * columns + column] = sum;
  }
}
