// Phi-3 (arXiv 2404.14219): Q, K and V in one matrix, gate and up in another; LongRope factors for long
// contexts.
#include <cmath>

#include "model/blocks.h"
#include "model/family.h"

namespace weft::model {
namespace {

void read(const Metadata&, HParams& h) { h.rope.neox = true; }

ValueId build(Builder& b) {
  const HParams& h = b.hparams();
  AttentionBlock block;
  block.fused_qkv = true;
  block.rope_params = h.rope;
  block.window = h.window;
  // LongRope has one set of factors for contexts that fit the original length and one for longer ones. Both
  // are loaded: the context decides.
  const Shape per_pair = {h.rope.n_rot / 2};
  const ValueId factors_short = b.optional_weight("rope_factors_short.weight", per_pair);
  const ValueId factors_long = b.optional_weight("rope_factors_long.weight", per_pair);
  block.rope_factors = b.max_positions() > h.rope.n_ctx_orig ? factors_long : factors_short;

  return pre_norm_decoder(b, NormKind::kRms, embed_tokens(b), block, [&](int layer, ValueId x) {
    return fused_gated_ffn(b, layer, x, Activation::kSilu);
  });
}

}  // namespace

const Family kPhi3 = {"phi3", read, build};

}  // namespace weft::model
