// Gemma 3 (arXiv 2503.19786): norms before and after each block, five sliding layers to each full one, which
// have their own rope; embeddings scaled by sqrt(n_embd). Files store norm weights with their 1 added.
#include <cmath>

#include "model/blocks.h"
#include "model/family.h"

namespace weft::model {
namespace {

constexpr int kPattern = 6;  // Every sixth layer attends to all positions.

bool is_sliding(int layer) { return (layer + 1) % kPattern != 0; }

void read(const Metadata& metadata, HParams& h) {
  h.rope.neox = true;
  if (h.window == 0) metadata.refuse("attention.sliding_window", "missing or 0, expected at least 1");
}

ValueId build(Builder& b) {
  const HParams& h = b.hparams();
  AttentionBlock full;
  full.head_norms = true;
  full.rope_params = h.rope;
  // The largest model scales by the width of a head as if there were no separate head size.
  constexpr int kLayersOf27B = 62;
  if (h.n_layers == kLayersOf27B)
    full.scale = 1.0f / std::sqrt(static_cast<float>(h.n_embd) / static_cast<float>(h.n_heads));
  AttentionBlock sliding = full;
  sliding.window = h.window;
  sliding.rope_params.freq_base = h.rope_base_window;
  sliding.rope_params.freq_scale = 1.0f;  // Linear scaling is for full layers only.

  ValueId x = embed_tokens(b, std::sqrt(static_cast<float>(h.n_embd)));
  for (int layer = 0; layer < h.n_layers; ++layer) {
    b.enter(Part::kAttention, layer);
    const ValueId normed = norm(b, NormKind::kRms, x, layer_name(layer, "attn_norm"));
    const ValueId attended = attention(b, layer, normed, is_sliding(layer) ? sliding : full, x);
    const ValueId post = norm(b, NormKind::kRms, attended, layer_name(layer, "post_attention_norm"));
    x = add(b, x, post, layer_name(layer, "after_attention"));
    b.enter(Part::kFeedForward, layer);
    const ValueId ffn_in = norm(b, NormKind::kRms, x, layer_name(layer, "ffn_norm"));
    const ValueId ffn = gated_ffn(b, layer, ffn_in, Activation::kGelu);
    x = add(b, x, norm(b, NormKind::kRms, ffn, layer_name(layer, "post_ffw_norm")),
            layer_name(layer, "after_ffn"));
  }
  return output_logits(b, NormKind::kRms, x);
}

}  // namespace

const Family kGemma3 = {"gemma3", read, build};

}  // namespace weft::model
