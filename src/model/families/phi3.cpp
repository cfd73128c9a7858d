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
  // LongRope has one set of factors for contexts that fit the original length and one for longer ones.
  const bool is_long = b.max_positions() > h.rope.n_ctx_orig;
  block.rope_factors = b.optional_weight(is_long ? "rope_factors_long.weight" : "rope_factors_short.weight",
                                         {h.rope.n_rot / 2});

  ValueId x = embed_tokens(b);
  for (int layer = 0; layer < h.n_layers; ++layer) {
    const ValueId normed = norm(b, NormKind::kRms, x, layer_name(layer, "attn_norm"));
    const ValueId attended = attention(b, layer, normed, block, x);
    x = add(b, x, attended, layer_name(layer, "after_attention"));
    const ValueId ffn_in = norm(b, NormKind::kRms, x, layer_name(layer, "ffn_norm"));
    x = add(b, x, fused_gated_ffn(b, layer, ffn_in, Activation::kSilu), layer_name(layer, "after_ffn"));
  }
  return output_logits(b, norm(b, NormKind::kRms, x, "output_norm"));
}

}  // namespace

const Family kPhi3 = {"phi3", read, build};

}  // namespace weft::model
