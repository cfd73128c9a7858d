// Since 0.1
#pragma once
// Recurrent cells over a sequence, in PyTorch's order of gates. The product of the inputs stands outside, as
// one product of all rows (`linear`, with the inputs' bias and, of an LSTM, both): the op does the recurrent
// rest, with e^x and tanh as elsewhere.
#include <string_view>

#include "weft/graph/value_id.h"

#pragma GCC visibility push(default)

namespace weft::ops {

/// x {t, b, 4h} (gates i, f, g, o of each time), weight {4h, h} (a weight), h0 {b, h}?, c0 {b, h}? (zeros if
/// absent) -> {2, t, b, h}: the outputs of all times, then the cells:
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

/// x {t, b, 3h} (gates r, z, n), weight {3h, h} (a weight), h0 {b, h}?, bias {h}? (of n's recurrent part)
/// -> {t, b, h}: the outputs of all times:
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
