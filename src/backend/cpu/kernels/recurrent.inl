#pragma once
// The rows of recurrent layers. Columns are independent of each other, and the sums of one column have one
// order. Needs rows.inl and WEFT_CPU_ISA.
#include "backend/cpu/kernels/rows.inl"

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

template <bool head>
static void scan_row_of(const ScanRow& row) {
  const F32 head_dt = head ? broadcast(row.dt[0]) : zero();
  const F32 head_skip = head ? broadcast(row.skip[0]) : zero();
  const F32 head_decay = head ? exp(head_dt * broadcast(row.a[0])) : zero();
  for_each_vector(row.n, [&](std::int64_t i, auto at) {
    const F32 x = load(row.x + i, at);
    const F32 dt = head ? head_dt : load(row.dt + i, at);
    const F32 dt_x = dt * x;
    F32 sum = (head ? head_skip : load(row.skip + i, at)) * x;
    for (int s = 0; s < row.n_state; ++s) {
      F32 state = broadcast(row.b[s]) * dt_x;
      if (row.from != nullptr) {
        const F32 decay = head ? head_decay : exp(dt * load(row.a + s * row.stride + i, at));
        state = fma(decay, load(row.from + s * row.stride + i, at), state);
      }
      store(row.to + s * row.stride + i, state, at);
      sum = fma(broadcast(row.c[s]), state, sum);
    }
    store(row.out + i, sum, at);
  });
}

static void scan_row(const ScanRow& row) {
  if (row.head) return scan_row_of<true>(row);
  scan_row_of<false>(row);
}

}  // namespace weft::cpu::WEFT_CPU_ISA
