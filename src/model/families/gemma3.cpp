// Gemma 3 (arXiv 2503.19786): norms before and after each block, five sliding layers to each full one, which
// have their own rope; embeddings scaled by sqrt(n_embd). Files store norm weights with their 1 added.
#include <cmath>

#include "model/blocks.h"
#include "model/family.h"

namespace weft::model {
namespace {

void read_gemma3(const Metadata& metadata, HParams& h) {
  h.rope.neox = true;
  h.embedding.scale = std::sqrt(static_cast<float>(h.n_embd));
  require_window(metadata, h);
  constexpr int kPattern = 6;
  read_sliding(metadata, h, kPattern);
  // The largest model scales by n_embd / n_heads instead of the head size of its file. Files of other
  // converters do not say so.
  constexpr int kLayersOf27B = 62;
  if (h.n_layers == kLayersOf27B)
    h.attention->scale =
        1.0f / std::sqrt(static_cast<float>(h.n_embd) / static_cast<float>(h.attention->n_heads));
  h.attention->scale = metadata.get_float("attention.scale", kMinFactor, kMaxFactor, h.attention->scale);
}

ValueId build_gemma3(Builder& b) {
  const HParams& h = b.hparams();
  Decoder how;
  how.attention.rope_params = h.rope;
  how.norms_behind = true;
  how.attention.qk_norm = QkNorm::kHeads;
  how.vary = [&](int layer, AttentionBlock& block) {
    if (h.slides(layer)) slide_unscaled(h, block);
  };
  how.activation = Activation::kGelu;
  return decoder(b, embed_tokens(b), how);
}

}  // namespace

const Family kGemma3 = {"gemma3", read_gemma3, build_gemma3};

}  // namespace weft::model
