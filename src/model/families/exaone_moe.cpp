// K-EXAONE (arXiv 2601.01739): norms of Q's and K's heads. Three layers with a window and rope precede each
// full one, which uses no positions. Experts are of DeepSeek's kind.
#include "model/blocks.h"
#include "model/family.h"

namespace weft::model {
namespace {

void read_exaone_moe(const Metadata& metadata, HParams& h) {
  constexpr int kPattern = 4;
  h.rope.neox = true;
  read_unused_layers(metadata, h);
  read_router(metadata, h, {.sigmoid = true});
  read_sliding(metadata, h, kPattern);
}

ValueId build_exaone_moe(Builder& b) {
  const HParams& h = b.hparams();
  Decoder how;
  how.attention.qk_norm = QkNorm::kHeads;
  how.attention.rope_params = h.rope;
  how.vary = [&](int layer, AttentionBlock& block) {
    block.window = h.window_of(layer);
    block.rope = block.window > 0 || !h.window;
  };
  return decoder(b, embed_tokens(b), how);
}

}  // namespace

const Family kExaoneMoe = {"exaone-moe", read_exaone_moe, build_exaone_moe};

}  // namespace weft::model
