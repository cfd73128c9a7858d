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

/// What differs among the forms of the delta rule.
enum class DeltaForm : std::uint8_t { kHeadDecay, kRowDecays, kRemovedKeys };

/// n vectors of columns from column c on, side by side so that no sum waits for another.
template <DeltaForm form, int n, class Place>
static inline void delta_columns(const DeltaRow& row, std::int64_t c, Place at) {
  constexpr bool removes = form == DeltaForm::kRemovedKeys, heads = form == DeltaForm::kHeadDecay;
  F32 held[n], change[n], read[n];
  for (int j = 0; j < n; ++j) held[j] = read[j] = zero();
  if (row.from != nullptr) {
    for (int i = 0; i < row.n_keys; ++i) {
      const F32 key = broadcast(removes ? row.removed[i] : heads ? row.k[i] : row.k[i] * row.decay[i]);
      const float* const state = row.from + i * row.from_stride + c;
#pragma GCC unroll 4
      for (int j = 0; j < n; ++j) held[j] = fma(key, load(state + j * kLanes, at), held[j]);
    }
  }
  for (int j = 0; j < n; ++j) {
    const F32 v = load(row.v + c + j * kLanes, at);
    const F32 known = heads ? broadcast(row.decay[0]) * held[j] : held[j];
    change[j] = removes ? v : broadcast(row.beta[0]) * (v - known);
  }
  for (int i = 0; i < row.n_keys; ++i) {
    const F32 decay = broadcast(row.decay[heads ? 0 : i]);
    const F32 key = broadcast(row.k[i]), query = broadcast(row.q[i]);
    const F32 share = removes ? broadcast(-row.beta[i] * row.removed[i]) : zero();
#pragma GCC unroll 4
    for (int j = 0; j < n; ++j) {
      F32 state = zero();
      if (row.from != nullptr) {
        state = decay * load(row.from + i * row.from_stride + c + j * kLanes, at);
        if constexpr (removes) state = fma(share, held[j], state);
      }
      state = fma(key, change[j], state);
      store(row.to + i * row.to_stride + c + j * kLanes, state, at);
      read[j] = fma(query, state, read[j]);
    }
  }
  for (int j = 0; j < n; ++j) store(row.out + c + j * kLanes, read[j], at);
}

template <DeltaForm form>
static void delta_row_of(const DeltaRow& row) {
  constexpr int kVectors = 4;
  std::int64_t c = 0;
  for (; c + kVectors * kLanes <= row.n; c += kVectors * kLanes)
    delta_columns<form, kVectors>(row, c, Whole{});
  for (; c + kLanes <= row.n; c += kLanes) delta_columns<form, 1>(row, c, Whole{});
  if (c < row.n) delta_columns<form, 1>(row, c, Part{static_cast<int>(row.n - c)});
}

static void delta_row(const DeltaRow& row) {
  if (row.removed != nullptr) return delta_row_of<DeltaForm::kRemovedKeys>(row);
  if (row.own_decays) return delta_row_of<DeltaForm::kRowDecays>(row);
  delta_row_of<DeltaForm::kHeadDecay>(row);
}

}  // namespace weft::cpu::WEFT_CPU_ISA
