#pragma once
// Attention over latent rows (MLA, arXiv 2405.04434): keys and values of all heads are one row, and that is
// what the caches keep. The unfolding matrices are multiplied into the queries and the attention's output
// instead.
#include "model/blocks.h"

namespace weft::model {

/// In place of attention(). Without rope the columns that all heads share do not turn. `temperature`: see
/// AttentionBlock.
ValueId latent_attention(Builder& b, int layer, ValueId x, ValueId& residual, bool rope,
                         ValueId temperature = kNoValue);

}  // namespace weft::model
