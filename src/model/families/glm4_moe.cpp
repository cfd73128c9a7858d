// GLM-4.5 and 4.6 (arXiv 2508.06471): experts chosen by sigmoids with a bias, a shared expert, the first
// layers dense; rope on half of each head. Layers for drafts are not run.
#include "model/blocks.h"
#include "model/family.h"

namespace weft::model {
namespace {

void read_glm4_moe(const Metadata& metadata, HParams& h) {
  h.rope.neox = true;
  read_router(metadata, h, {.sigmoid = true});
  read_unused_layers(metadata, h);
}

ValueId build_glm4_moe(Builder& b) {
  const HParams& h = b.hparams();
  Decoder how;
  how.ffn_norm = "post_attention_norm";
  how.attention.rope_params = h.rope;
  if (has_in_any_layer(b, "attn_q_norm.weight")) how.attention.qk_norm = QkNorm::kHeads;
  return decoder(b, embed_tokens(b), how);
}

}  // namespace

const Family kGlm4Moe = {"glm4moe", read_glm4_moe, build_glm4_moe};

}  // namespace weft::model
