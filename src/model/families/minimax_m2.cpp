// MiniMax M2 (2025): experts chosen by sigmoids with a bias. All heads of Q, and of K, are normed together;
// rope on a part of each head.
#include "model/blocks.h"
#include "model/family.h"

namespace weft::model {
namespace {

void read_minimax_m2(const Metadata& metadata, HParams& h) {
  h.rope.neox = true;
  read_router(metadata, h, {.sigmoid = true});
}

ValueId build_minimax_m2(Builder& b) {
  Decoder how;
  how.attention.rope_params = b.hparams().rope;
  how.attention.qk_norm = QkNorm::kRow;
  return decoder(b, embed_tokens(b), how);
}

}  // namespace

const Family kMiniMaxM2 = {"minimax-m2", read_minimax_m2, build_minimax_m2};

}  // namespace weft::model
