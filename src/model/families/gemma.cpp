// Gemma (arXiv 2403.08295) and Gemma 2 (arXiv 2408.00118): embeddings scaled by sqrt(n_embd), GELU gates.
// Gemma 2 has norms before and after each block, capped scores and logits, and every second layer slides.
// Files store norm weights with their 1 added.
#include <cmath>

#include "model/blocks.h"
#include "model/family.h"

namespace weft::model {
namespace {

void read_gemma(const Metadata&, HParams& h) {
  h.rope.neox = true;
  h.embedding.scale = std::sqrt(static_cast<float>(h.n_embd));
}

void read_gemma2(const Metadata& metadata, HParams& h) {
  read_gemma(metadata, h);
  require_window(metadata, h);
  // Early files lack the caps that the models have.
  h.attention->softcap = metadata.get_float("attn_logit_softcapping", 0.0, 1e6, 50.0f);
  h.logits.softcap = metadata.get_float("final_logit_softcapping", 0.0, 1e6, 30.0f);
  constexpr int kPattern = 2;
  read_sliding(metadata, h, kPattern);
  // The largest model scales by n_embd / n_heads instead of the head size of its file. Files of other
  // converters do not say so.
  constexpr int kLayersOf27B = 46;
  if (h.n_layers == kLayersOf27B)
    h.attention->scale =
        1.0f / std::sqrt(static_cast<float>(h.n_embd) / static_cast<float>(h.attention->n_heads));
  h.attention->scale = metadata.get_float("attention.scale", kMinFactor, kMaxFactor, h.attention->scale);
}

ValueId build_layers(Builder& b, Decoder& how) {
  how.attention.rope_params = b.hparams().rope;
  how.activation = Activation::kGelu;
  return decoder(b, embed_tokens(b), how);
}

ValueId build_gemma(Builder& b) {
  Decoder how;
  return build_layers(b, how);
}

ValueId build_gemma2(Builder& b) {
  const HParams& h = b.hparams();
  Decoder how;
  how.norms_behind = true;
  how.vary = [&](int layer, AttentionBlock& block) {
    if (h.slides(layer)) block.window = h.window->size;
  };
  return build_layers(b, how);
}

}  // namespace

const Family kGemma = {"gemma", read_gemma, build_gemma};
const Family kGemma2 = {"gemma2", read_gemma2, build_gemma2};

}  // namespace weft::model
