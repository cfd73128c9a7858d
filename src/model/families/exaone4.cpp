// EXAONE 4 (arXiv 2507.11407): norms after the blocks and none before. The large one has three sliding layers
// to each full one, which has no positions.
#include "model/blocks.h"
#include "model/family.h"

namespace weft::model {
namespace {

void read_exaone4(const Metadata& metadata, HParams& h) {
  constexpr int kPattern = 4;
  h.rope.neox = true;
  read_sliding(metadata, h, kPattern);
}

ValueId build_exaone4(Builder& b) {
  const HParams& h = b.hparams();
  Decoder how;
  how.attention.rope_params = h.rope;
  how.norms_before = false;
  how.norms_behind = true;
  how.attention.qk_norm = QkNorm::kHeads;
  how.vary = [&](int layer, AttentionBlock& block) {
    block.window = h.window_of(layer);
    block.rope = block.window > 0 || !h.window;
  };
  return decoder(b, embed_tokens(b), how);
}

}  // namespace

const Family kExaone4 = {"exaone4", read_exaone4, build_exaone4};

}  // namespace weft::model
