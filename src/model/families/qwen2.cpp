// Qwen2 and Qwen2.5 (arXiv 2407.10671): biases on Q, K and V; rope in halves.
#include "model/blocks.h"
#include "model/family.h"

namespace weft::model {
namespace {

void read(const Metadata&, HParams& h) { h.rope.neox = true; }

ValueId build(Builder& b) {
  const HParams& h = b.hparams();
  AttentionBlock block;
  block.rope_params = h.rope;

  ValueId x = embed_tokens(b);
  for (int layer = 0; layer < h.n_layers; ++layer) {
    const ValueId normed = norm(b, NormKind::kRms, x, layer_name(layer, "attn_norm"));
    const ValueId attended = attention(b, layer, normed, block, x);
    x = add(b, x, attended, layer_name(layer, "after_attention"));
    const ValueId ffn_in = norm(b, NormKind::kRms, x, layer_name(layer, "ffn_norm"));
    x = add(b, x, gated_ffn(b, layer, ffn_in, Activation::kSilu), layer_name(layer, "after_ffn"));
  }
  return output_logits(b, norm(b, NormKind::kRms, x, "output_norm"));
}

}  // namespace

const Family kQwen2 = {"qwen2", read, build};

}  // namespace weft::model
