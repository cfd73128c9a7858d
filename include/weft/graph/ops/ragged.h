// Since 0.1
#pragma once
// Ops over rows of several sequences (or images) of different lengths, packed without padding (as
// FlashAttention's varlen functions). Sequence i has the rows begins[i] to ends[i] - 1, cut to the rows that
// exist.
#include <string_view>

#include "weft/graph/value_id.h"

#pragma GCC visibility push(default)

namespace weft::ops {

/// q {m, n_heads*d}, k {n, g*d}, v {n, g*e}, begins {m} I32, ends {m} I32 -> {m, n_heads*e}. Row r of q
/// attends to the rows begins[r] to ends[r] - 1 of k and v. An empty range gives zeros. Head h uses head h /
/// (n_heads / g) of k and v. k and v may also be states {n, g, d} and {n, g, e} of plain rows (StoreCache
/// with kSlots).
struct RaggedAttention {
  static constexpr std::string_view kName = "ragged_attention";
  struct Inputs {
    ValueId q, k, v, begins, ends;
  };
  static constexpr int kMinInputs = 5, kMaxInputs = 5;
  int n_heads = 1;
  float scale = 0.0f;  ///< The factor of scores. 0: 1 / sqrt(d).
  friend bool operator==(const RaggedAttention&, const RaggedAttention&) = default;
};

/// x {m, d}, begins {s} I32, ends {s} I32 -> {s, d}: the mean of the rows begins[i] to ends[i] - 1. An empty
/// range gives zeros.
struct RaggedMean {
  static constexpr std::string_view kName = "ragged_mean";
  static constexpr int kMinInputs = 3, kMaxInputs = 3;
  friend bool operator==(const RaggedMean&, const RaggedMean&) = default;
};

}  // namespace weft::ops

#pragma GCC visibility pop
