// Llama (arXiv 2307.09288) and what shares its shape: Mistral, SmolLM, TinyLlama; with experts Mixtral.
#include "model/blocks.h"
#include "model/family.h"

namespace weft::model {
namespace {

void read(const Metadata&, HParams&) {}

ValueId build(Builder& b) {
  const HParams& h = b.hparams();
  AttentionBlock block;
  block.rope_params = h.rope;
  // Llama 3's scaling comes as a factor for each frequency.
  block.rope_factors = b.optional_weight("rope_freqs.weight", {h.rope.n_rot / 2});

  ValueId x = embed_tokens(b);
  for (int layer = 0; layer < h.n_layers; ++layer) {
    const ValueId normed = norm(b, NormKind::kRms, x, layer_name(layer, "attn_norm"));
    const ValueId attended = attention(b, layer, normed, block, x);
    x = add(b, x, attended, layer_name(layer, "after_attention"));
    const ValueId ffn_in = norm(b, NormKind::kRms, x, layer_name(layer, "ffn_norm"));
    const ValueId ffn = h.n_experts > 0 ? expert_ffn(b, layer, ffn_in, Activation::kSilu, true)
                                        : gated_ffn(b, layer, ffn_in, Activation::kSilu);
    x = add(b, x, ffn, layer_name(layer, "after_ffn"));
  }
  return output_logits(b, norm(b, NormKind::kRms, x, "output_norm"));
}

}  // namespace

const Family kLlama = {"llama", read, build};

}  // namespace weft::model
