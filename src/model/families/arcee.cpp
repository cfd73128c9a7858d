// AFM of Arcee (2025): Llama with squared ReLUs and no gate.
#include "model/blocks.h"
#include "model/family.h"

namespace weft::model {
namespace {

void read_arcee(const Metadata&, HParams&) {}

ValueId build_arcee(Builder& b) {
  Decoder how;
  how.attention.rope_params = b.hparams().rope;
  how.ffn = Ffn::kPlain;
  how.activation = Activation::kReluSquared;
  return decoder(b, embed_tokens(b), how);
}

}  // namespace

const Family kArcee = {"arcee", read_arcee, build_arcee};

}  // namespace weft::model
