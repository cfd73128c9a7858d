// Since 0.1
#pragma once
// Recurrent cells (LSTM, GRU) over a sequence, with PyTorch's order of gates. The product of the inputs is
// computed before, as one matrix product for all time steps (`linear`, with the input bias; for an LSTM with
// the sum of both biases). The op computes the recurrent part.
#include <string_view>

#include "weft/graph/value_id.h"

#pragma GCC visibility push(default)

namespace weft::ops {

/// x {t, b, 4h} (gates i, f, g, o), weight {4h, h}, h0 {b, h}?, c0 {b, h}? -> {2, t, b, h}: first the outputs
/// h of all time steps, then their cell states c. `weight` must be a weight. Absent h0 and c0 are zeros.
///   i, f, o = sigmoid(x + weight h), g = tanh(x + weight h); c' = f * c + i * g; h' = o * tanh(c')
struct Lstm {
  static constexpr std::string_view kName = "lstm";
  struct Inputs {
    ValueId x, weight;
    ValueId h0 = kNoValue, c0 = kNoValue;
  };
  static constexpr int kMinInputs = 2, kMaxInputs = 4;
  friend bool operator==(const Lstm&, const Lstm&) = default;
};

/// x {t, b, 3h} (gates r, z, n), weight {3h, h}, h0 {b, h}?, bias {h}? -> {t, b, h}: the outputs of all time
/// steps. `weight` must be a weight. `bias` is the recurrent bias of n.
///   r, z = sigmoid(x + weight h), n = tanh(x + r * (weight h + bias)); h' = (1 - z) * n + z * h
struct Gru {
  static constexpr std::string_view kName = "gru";
  struct Inputs {
    ValueId x, weight;
    ValueId h0 = kNoValue, bias = kNoValue;
  };
  static constexpr int kMinInputs = 2, kMaxInputs = 4;
  friend bool operator==(const Gru&, const Gru&) = default;
};

}  // namespace weft::ops

#pragma GCC visibility pop
