// How products share work and end: 8 threads sum an output of kTile rows, each its part of the columns; the parts are added
// in one fixed order, the same with SHUFFLES (which need no memory in between) and without. Needs kTile.
#include "threads.glsl"
const uint kLanes = 8, kOutputs = 16;
#ifndef SHUFFLES
shared float parts[kLanes * kOutputs];
#endif

// The place of output o of row r, and its value.
void store_output(uint row, uint o, float y) {
  if (row >= n_rows() || o >= param(0)) return;
  if (param(3) != 0u) y += floats(2).f[o];
  Floats(address(4) + uint64_t(row) * param(0) * 4u).f[o] = y;
}

void store_outputs(float sums[kTile], uint first_row, uint first_output) {
  const uint t = thread();
  for (uint r = 0; r < kTile; ++r) {
#ifdef SHUFFLES
    float y = sums[r];
    y += subgroupShuffleXor(y, 1u);
    y += subgroupShuffleXor(y, 2u);
    y += subgroupShuffleXor(y, 4u);
    if (t % kLanes == 0u) store_output(first_row + r, first_output + t / kLanes, y);
#else
    barrier();
    parts[t] = sums[r];
    barrier();
    if (t < kOutputs) {
      const uint base = t * kLanes;
      const float y = ((parts[base] + parts[base + 1u]) + (parts[base + 2u] + parts[base + 3u])) +
                      ((parts[base + 4u] + parts[base + 5u]) + (parts[base + 6u] + parts[base + 7u]));
      store_output(first_row + r, first_output + t, y);
    }
#endif
  }
}
