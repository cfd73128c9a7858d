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

  return pre_norm_decoder(b, NormKind::kRms, embed_tokens(b), block,
                          [&](int layer, ValueId x) { return gated_ffn(b, layer, x, Activation::kSilu); });
}

}  // namespace

const Family kQwen2 = {"qwen2", read, build};

}  // namespace weft::model
