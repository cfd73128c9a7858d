// Since 0.1
#pragma once
// Attention over keys that a step has made, without a cache.
#include <string_view>

#include "weft/graph/value_id.h"

#pragma GCC visibility push(default)

namespace weft::ops {

/// q {b, h, m, d}, k {b, g, n, d}, v {b, g, n, e}, bias?, sinks {h}? -> {b, h, m, e}. Head i reads head i /
/// (h / g) of k and v. A score is scale * q k. A softcap makes it softcap * tanh(score / softcap). Then the
/// bias is added: F32, of a shape that broadcasts to {b, h, m, n}. Where it is I32, it is a mask: keys are
/// seen where it is not 0. Row i of a `causal` one sees keys 0 to i. A sink is one more score of every row of
/// its head, of a key without a value. A row that sees nothing gives zeros. Values of hidden keys are
/// multiplied by 0, so they must be finite. A device need not hold the scores of all rows.
struct DenseAttention {
  static constexpr std::string_view kName = "dense_attention";
  struct Inputs {
    ValueId q, k, v;
    ValueId bias = kNoValue, sinks = kNoValue;
  };
  static constexpr int kMinInputs = 3, kMaxInputs = 5;
  bool causal = false;
  float scale = 0.0f;    ///< 0: 1 / sqrt(d).
  float softcap = 0.0f;  ///< 0: off
  friend bool operator==(const DenseAttention&, const DenseAttention&) = default;
};

}  // namespace weft::ops

#pragma GCC visibility pop
