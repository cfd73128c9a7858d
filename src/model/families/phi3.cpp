// Phi-3 (arXiv 2404.14219): Q, K and V in one matrix, gate and up in another; LongRope factors for long
// contexts.
#include "model/blocks.h"
#include "model/family.h"

namespace weft::model {
namespace {

void read(const Metadata&, HParams& h) { h.rope.neox = true; }

ValueId build(Builder& b) {
  const HParams& h = b.hparams();
  Decoder how;
  how.attention.rope_params = h.rope;
  how.attention.window = h.window;
  // LongRope has one set of factors for contexts that fit the original length and one for longer ones. Both
  // are loaded: the context decides.
  const Shape per_pair = {h.rope.n_rot / 2};
  const ValueId factors_short = b.optional_weight("rope_factors_short.weight", per_pair);
  const ValueId factors_long = b.optional_weight("rope_factors_long.weight", per_pair);
  how.attention.rope_factors = b.max_positions() > h.rope.n_ctx_orig ? factors_long : factors_short;
  how.ffn = Ffn::kFused;
  return decoder(b, embed_tokens(b), how);
}

}  // namespace

const Family kPhi3 = {"phi3", read, build};

}  // namespace weft::model
