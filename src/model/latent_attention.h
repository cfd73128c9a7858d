#pragma once
// Attention over latent rows (MLA, arXiv 2405.04434): keys and values of all heads are one row, and that is
// what the caches keep. What would unfold it is multiplied into the queries, and what is attended to.
#include "model/blocks.h"

namespace weft::model {

/// The keys "attention.*" of latent rows. The scale is that of the size which keys would have unfolded.
void read_latent(const Metadata& metadata, HParams& hparams);

/// In place of attention(). Without rope the columns that all heads share do not turn. `temperature`: see
/// AttentionBlock.
ValueId latent_attention(Builder& b, int layer, ValueId x, ValueId& residual, bool rope,
                         ValueId temperature = kNoValue);

}  // namespace weft::model
