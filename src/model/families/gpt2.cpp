// GPT-2: learned positions, layer norms and biases everywhere.
#include "model/blocks.h"
#include "model/family.h"

namespace weft::model {
namespace {

void read(const Metadata&, HParams& h) { h.learned_positions = true; }

ValueId build(Builder& b) {
  const HParams& h = b.hparams();
  AttentionBlock block;
  block.fused_qkv = true;
  block.rope = false;

  const ValueId positions = b.add(
      ops::GetRows{}, {b.weight("position_embd.weight", {h.n_ctx_train, h.n_embd}), b.model().positions},
      "position_rows");
  ValueId x = add(b, embed_tokens(b), positions, "embeddings_at_positions");
  for (int layer = 0; layer < h.n_layers; ++layer) {
    const ValueId normed = norm(b, NormKind::kLayer, x, layer_name(layer, "attn_norm"));
    const ValueId attended = attention(b, layer, normed, block, x);
    x = add(b, x, attended, layer_name(layer, "after_attention"));
    const ValueId ffn_in = norm(b, NormKind::kLayer, x, layer_name(layer, "ffn_norm"));
    x = add(b, x, plain_ffn(b, layer, ffn_in, Activation::kGelu), layer_name(layer, "after_ffn"));
  }
  return output_logits(b, norm(b, NormKind::kLayer, x, "output_norm"));
}

}  // namespace

const Family kGpt2 = {"gpt2", read, build};

}  // namespace weft::model
