// Qwen3 (arXiv 2505.09388), dense and with experts: the heads of Q and K are normed.
#include "model/blocks.h"
#include "model/family.h"

namespace weft::model {
namespace {

void read(const Metadata&, HParams& h) { h.rope.neox = true; }

void read_moe(const Metadata& metadata, HParams& h) {
  read(metadata, h);
  require_experts(metadata, h);
}

ValueId build(Builder& b) {
  const HParams& h = b.hparams();
  Decoder how;
  how.attention.rope_params = h.rope;
  how.attention.qk_norm = QkNorm::kHeads;
  return decoder(b, embed_tokens(b), how);
}

}  // namespace

const Family kQwen3 = {"qwen3", read, build};
const Family kQwen3Moe = {"qwen3moe", read_moe, build};

}  // namespace weft::model
