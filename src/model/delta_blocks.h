#pragma once
// Shared by delta nets (arXiv 2412.06464): the rule over a layer's running state.
#include "model/blocks.h"

namespace weft::model {

/// See ops::DeltaRule.
struct DeltaInputs {
  ValueId q, k, v, decay, beta;
  std::int64_t n_heads = 0;  ///< Of v.
  std::int64_t d_k = 0;
  std::int64_t d_v = 0;
  bool tiled = false;
};
/// What is read with q; first q and k become vectors of length 1, and q is divided by sqrt(d_k). Behind it a
/// norm of each head with ssm_norm's weights. {n_tokens, n_heads * d_v}
ValueId normed_delta_rule(Builder& b, int layer, const DeltaInputs& in);

/// silu(short_conv(x)) with columns [begin, begin + columns of x) of a weight of n_all.
ValueId active_conv(Builder& b, int layer, ValueId x, const char* name, std::int64_t n_all,
                    std::int64_t begin, const char* result);

}  // namespace weft::model
