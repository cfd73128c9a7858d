// Phi-3 (arXiv 2404.14219): Q, K and V in one matrix, gate and up in another; LongRope factors for long
// contexts.
#include "model/blocks.h"
#include "model/family.h"

namespace weft::model {
namespace {

void read_phi3(const Metadata&, HParams& h) { h.rope.neox = true; }

ValueId build_phi3(Builder& b) {
  const HParams& h = b.hparams();
  Decoder how;
  how.attention.rope_params = h.rope;
  how.attention.window = h.window_size();
  how.ffn = Ffn::kFused;
  return decoder(b, embed_tokens(b), how);
}

}  // namespace

const Family kPhi3 = {"phi3", read_phi3, build_phi3};

}  // namespace weft::model
