// Phi-1, 1.5 and 2 (arXiv 2306.11644): attention and feed-forward part in parallel, after one norm; rope on a
// part of each head.
#include "model/blocks.h"
#include "model/family.h"

namespace weft::model {
namespace {

void read_phi2(const Metadata&, HParams& h) { h.rope.neox = true; }

ValueId build_phi2(Builder& b) {
  Decoder how;
  how.attention.rope_params = b.hparams().rope;
  how.norm = NormKind::kLayer;
  how.parallel = true;
  how.ffn = Ffn::kPlain;
  how.activation = Activation::kGelu;
  return decoder(b, embed_tokens(b), how);
}

}  // namespace

const Family kPhi2 = {"phi2", read_phi2, build_phi2};

}  // namespace weft::model
