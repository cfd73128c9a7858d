// StableLM 2 (arXiv 2402.17834): rope on a part of each head. The larger one has attention and feed-forward
// part in parallel, and norms the heads of Q and K.
#include "model/blocks.h"
#include "model/family.h"

namespace weft::model {
namespace {

void read_stablelm(const Metadata& metadata, HParams& h) {
  h.rope.neox = true;
  h.blocks.parallel = metadata.get_bool("use_parallel_residual", false);
}

ValueId build_stablelm(Builder& b) {
  Decoder how;
  how.attention.rope_params = b.hparams().rope;
  how.norm = NormKind::kLayer;
  how.parallel = b.hparams().blocks.parallel;
  if (has_in_any_layer(b, "attn_q_norm.weight")) how.attention.qk_norm = QkNorm::kOwnOfHead;
  return decoder(b, embed_tokens(b), how);
}

}  // namespace

const Family kStableLm = {"stablelm", read_stablelm, build_stablelm};

}  // namespace weft::model
