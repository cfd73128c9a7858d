// Qwen3 (arXiv 2505.09388), dense and with experts: the heads of Q and K are normed.
#include "model/blocks.h"
#include "model/family.h"

namespace weft::model {
namespace {

void read(const Metadata&, HParams& h) { h.rope.neox = true; }

void read_moe(const Metadata& metadata, HParams& h) {
  read(metadata, h);
  if (h.n_experts == 0) metadata.refuse("expert_count", "missing or 0, expected at least 1");
}

ValueId build(Builder& b) {
  const HParams& h = b.hparams();
  AttentionBlock block;
  block.head_norms = true;
  block.rope_params = h.rope;

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

const Family kQwen3 = {"qwen3", read, build};
const Family kQwen3Moe = {"qwen3moe", read_moe, build};

}  // namespace weft::model
