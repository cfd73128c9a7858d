// OLMoE (arXiv 2409.02060): experts; all heads of Q, and of K, are normed together.
#include "model/blocks.h"
#include "model/family.h"

namespace weft::model {
namespace {

void read(const Metadata& metadata, HParams& h) {
  h.rope.neox = true;
  if (h.n_experts == 0) metadata.refuse("expert_count", "missing or 0, expected at least 1");
  h.normalise_experts = false;
}

ValueId build(Builder& b) {
  Decoder how;
  how.attention.rope_params = b.hparams().rope;
  how.attention.qk_norm = QkNorm::kRow;
  how.ffn = [&](int layer, ValueId x) { return expert_ffn(b, layer, x, Activation::kSilu); };
  return decoder(b, embed_tokens(b), how);
}

}  // namespace

const Family kOlmoe = {"olmoe", read, build};

}  // namespace weft::model
