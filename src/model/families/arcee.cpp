// AFM of Arcee (2025): Llama with squared ReLUs and no gate.
#include "model/blocks.h"
#include "model/family.h"

namespace weft::model {
namespace {

void read(const Metadata&, HParams&) {}

ValueId build(Builder& b) {
  Decoder how;
  how.attention.rope_params = b.hparams().rope;
  how.ffn = Ffn::kPlain;
  how.activation = Activation::kReluSquared;
  return decoder(b, embed_tokens(b), how);
}

}  // namespace

const Family kArcee = {"arcee", read, build};

}  // namespace weft::model
