// DBRX (Databricks, 2024): experts, layer norms without biases; Q, K and V are clamped.
#include "model/blocks.h"
#include "model/family.h"

namespace weft::model {
namespace {

void read_dbrx(const Metadata& metadata, HParams& h) {
  h.rope.neox = true;
  h.attention->qkv_clamp = metadata.get_float("attention.clamp_kqv", 0.0, 1e6, 0.0f);
  require_experts(metadata, h);
}

ValueId build_dbrx(Builder& b) {
  Decoder how;
  how.norm = NormKind::kLayer;
  how.ffn_norm = "attn_output_norm";
  how.attention.rope_params = b.hparams().rope;
  return decoder(b, embed_tokens(b), how);
}

}  // namespace

const Family kDbrx = {"dbrx", read_dbrx, build_dbrx};

}  // namespace weft::model
