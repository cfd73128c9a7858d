// StarCoder 2 (arXiv 2402.19173): layer norms and biases everywhere.
#include "model/blocks.h"
#include "model/family.h"

namespace weft::model {
namespace {

void read(const Metadata&, HParams& h) { h.rope.neox = true; }

ValueId build(Builder& b) {
  Decoder how;
  how.attention.rope_params = b.hparams().rope;
  how.norm = NormKind::kLayer;
  how.ffn = Ffn::kPlain;
  how.activation = Activation::kGelu;
  return decoder(b, embed_tokens(b), how);
}

}  // namespace

const Family kStarCoder2 = {"starcoder2", read, build};

}  // namespace weft::model
