#pragma once
// Recurrent ops: a thread a column of a state, rows in order. Tensors, params and constants as of their
// namesakes in vulkan/shaders.
#include "backend/cuda/kernels/call.h"
#include "backend/cuda/kernels/unpack.h"

namespace weft::cuda {

/// The slot of a state that a row reads (null: none) or writes.
WEFT_DEVICE float* slot_of(const Call& c, int slot, std::uint64_t slot_floats) {
  return slot < 0 ? nullptr : c.floats(0) + static_cast<std::uint64_t>(slot) * slot_floats;
}

/// Causal convolution of a column over its rows (ops::ShortConv).
WEFT_KERNEL(64) short_conv(Arguments arguments) {
  const Call c{arguments};
  if (!c.has_work()) return;
  const uint type = c.constant(0), columns = c.param(0), taps = c.param(1);
  const std::uint64_t slot_floats = std::uint64_t{taps - 1u} * columns;
  for_each<64>(c, columns, [&](uint column) {
    const Bytes weight = c.at<const std::uint8_t>(2, std::uint64_t{column} * c.param(3));
    for (uint row = 0; row < c.n_rows(); ++row) {
      const float* const before = slot_of(c, c.ints(3)[row], slot_floats);
      float* const after = slot_of(c, c.ints(4)[row], slot_floats);
      float sum = c.param(2) != 0u ? c.floats(5)[column] : 0.0f;
      for (uint tap = 0; tap < taps; ++tap) {
        float x = 0.0f;
        if (tap + 1u == taps) {
          x = c.row(1, row, columns)[column];
        } else if (before != nullptr) {
          x = before[tap * columns + column];
        }
        sum = fmaf(float_at(type, weight, tap), x, sum);
        if (tap > 0u) after[(tap - 1u) * columns + column] = x;
      }
      c.row(6, row, columns)[column] = sum;
    }
  });
}

/// The scan of Mamba and Mamba-2 (ops::SelectiveScan).
WEFT_KERNEL(64) selective_scan(Arguments arguments) {
  const Call c{arguments};
  if (!c.has_work()) return;
  const uint type = c.constant(0), columns = c.param(0), n_state = c.param(1), n_groups = c.param(3);
  const bool heads = c.param(2) != 0u;  // Else Mamba-1, with its own dt and a for each column.
  const uint n_dt = heads ? c.param(2) : columns;
  for_each<64>(c, columns, [&](uint column) {
    const uint head = column / (columns / n_dt), group = head / (n_dt / n_groups);
    for (uint row = 0; row < c.n_rows(); ++row) {
      const float* const before = slot_of(c, c.ints(7)[row], std::uint64_t{n_state} * columns);
      float* const after = slot_of(c, c.ints(8)[row], std::uint64_t{n_state} * columns);
      const float x = c.row(1, row, columns)[column], dt = c.row(2, row, n_dt)[head];
      float sum = c.floats(6)[head] * x;
      for (uint s = 0; s < n_state; ++s) {
        const uint at = (row * n_groups + group) * n_state + s;
        float state = c.floats(3)[at] * (dt * x);
        if (before != nullptr) {
          const float a =
              heads ? c.floats(5)[head]
                    : float_at(type, c.at<const std::uint8_t>(5, std::uint64_t{column} * c.param(4)), s);
          state = fmaf(expf(dt * a), before[s * columns + column], state);
        }
        after[s * columns + column] = state;
        sum = fmaf(c.floats(4)[at], state, sum);
      }
      c.row(9, row, columns)[column] = sum;
    }
  });
}

/// The delta rule (ops::DeltaRule).
WEFT_KERNEL(64) delta_rule(Arguments arguments) {
  const Call c{arguments};
  if (!c.has_work()) return;
  const uint columns = c.param(0), heads = c.param(1), groups = c.param(2), n_keys = c.param(3),
             n_decays = c.param(5);
  const bool removes = c.param(6) != 0u;
  const std::uint64_t slot_floats = std::uint64_t{heads} * n_keys * columns;
  for_each<64>(c, columns * heads, [&](uint i) {
    const uint head = i / columns, column = i % columns;
    const uint group = c.param(4) != 0u ? head % groups : head / (heads / groups);
    const uint in_slot = head * n_keys * columns + column;
    for (uint row = 0; row < c.n_rows(); ++row) {
      const float* const before = slot_of(c, c.ints(6)[row], slot_floats);
      float* const after = slot_of(c, c.ints(7)[row], slot_floats);
      const uint of_head = row * heads + head, keys = (row * groups + group) * n_keys;
      const auto decay = [&](uint key) {
        return c.floats(4)[of_head * n_decays + (n_decays == 1u ? 0u : key)];
      };
      float held = 0.0f;
      if (before != nullptr)
        for (uint key = 0; key < n_keys; ++key)
          held = fmaf(removes ? c.floats(8)[of_head * n_keys + key] : c.floats(2)[keys + key] * decay(key),
                      before[in_slot + key * columns], held);
      const float v = c.floats(3)[of_head * columns + column];
      const float change = removes ? v : c.floats(5)[of_head] * (v - held);
      float sum = 0.0f;
      for (uint key = 0; key < n_keys; ++key) {
        float state = 0.0f;
        if (before != nullptr) {
          state = decay(key) * before[in_slot + key * columns];
          const uint at = of_head * n_keys + key;
          if (removes) state = fmaf(-c.floats(5)[at] * c.floats(8)[at], held, state);
        }
        state = fmaf(c.floats(2)[keys + key], change, state);
        after[in_slot + key * columns] = state;
        sum = fmaf(c.floats(1)[keys + key], state, sum);
      }
      c.floats(9)[of_head * columns + column] = sum;
    }
  });
}

}  // namespace weft::cuda
