// OLMoE (arXiv 2409.02060): experts; all heads of Q, and of K, are normed together.
#include "model/blocks.h"
#include "model/family.h"

namespace weft::model {
namespace {

void read_olmoe(const Metadata& metadata, HParams& h) {
  h.rope.neox = true;
  require_experts(metadata, h).normalise = false;
}

ValueId build_olmoe(Builder& b) {
  Decoder how;
  how.attention.rope_params = b.hparams().rope;
  how.attention.qk_norm = QkNorm::kRow;
  return decoder(b, embed_tokens(b), how);
}

}  // namespace

const Family kOlmoe = {"olmoe", read_olmoe, build_olmoe};

}  // namespace weft::model
