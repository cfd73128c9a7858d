// Since 0.1
#pragma once
// Attention over keys and values of the same step, without a cache.
#include <string_view>

#include "weft/graph/value_id.h"

#pragma GCC visibility push(default)

namespace weft::ops {

/// q {b, h, m, d}, k {b, g, n, d}, v {b, g, n, e}, bias?, sinks {h}? -> {b, h, m, e}.
/// - Head i of q uses head i / (h / g) of k and v (grouped-query attention).
/// - A score is scale * q k, with a softcap softcap * tanh(scale * q k / softcap).
/// - `bias` broadcasts to {b, h, m, n}. F32: it is added to the scores, after the softcap. I32: it is a mask,
///   and 0 hides a key.
/// - `causal`: row i attends to keys 0 to i.
/// - A sink is one more score of each row of its head, with a value of zeros.
/// - A row that attends to nothing gives zeros.
/// - Values of hidden keys are multiplied by 0, so they must be finite.
/// A device need not store all scores (flash attention).
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
