#pragma once
// The rows of recurrent layers. Columns are independent of each other, and the sums of one column have one
// order. Needs rows.inl and WEFT_CPU_ISA.
#include "backend/cpu/rows.inl"

namespace weft::cpu::WEFT_CPU_ISA {

static void conv_row(const ConvRow& row) {
  const int last = row.n_taps - 1;
  for_each_vector(row.n, [&](std::int64_t i, auto at) {
    F32 sum = row.bias != nullptr ? load(row.bias + i, at) : zero();
    for (int tap = 0; tap <= last; ++tap) {
      F32 input = zero();
      if (tap == last) {
        input = load(row.x + i, at);
      } else if (row.from != nullptr) {
        input = load(row.from + tap * row.stride + i, at);
      }
      sum = fma(load(row.weight + tap * row.stride + i, at), input, sum);
      if (tap > 0) store(row.to + (tap - 1) * row.stride + i, input, at);
    }
    store(row.out + i, sum, at);
  });
}

static void scan_row(const ScanRow& row) {
  for_each_vector(row.n, [&](std::int64_t i, auto at) {
    const F32 x = load(row.x + i, at);
    const F32 dt = load(row.dt + i, at);
    const F32 dt_x = dt * x;
    F32 sum = load(row.skip + i, at) * x;
    for (int s = 0; s < row.n_state; ++s) {
      F32 state = broadcast(row.b[s]) * dt_x;
      if (row.from != nullptr) {
        const F32 decay = exp(dt * load(row.a + s * row.stride + i, at));
        state = fma(decay, load(row.from + s * row.stride + i, at), state);
      }
      store(row.to + s * row.stride + i, state, at);
      sum = fma(broadcast(row.c[s]), state, sum);
    }
    store(row.out + i, sum, at);
  });
}

}  // namespace weft::cpu::WEFT_CPU_ISA
