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

  return pre_norm_decoder(b, NormKind::kRms, embed_tokens(b), block, [&](int layer, ValueId x) {
    return h.n_experts > 0 ? expert_ffn(b, layer, x, Activation::kSilu, true)
                           : gated_ffn(b, layer, x, Activation::kSilu);
  });
}

}  // namespace

const Family kLlama = {"llama", read, build};

}  // namespace weft::model
