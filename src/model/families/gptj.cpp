// GPT-J (EleutherAI, 2021): attention and feed-forward part in parallel after one norm, rope on the first
// dimensions of each head.
#include "model/blocks.h"
#include "model/family.h"

namespace weft::model {
namespace {

void read_gptj(const Metadata&, HParams&) {}

ValueId build_gptj(Builder& b) {
  Decoder how;
  how.norm = NormKind::kLayer;
  how.parallel = true;
  how.attention.rope_params = b.hparams().rope;
  how.ffn = Ffn::kPlain;
  how.activation = Activation::kGelu;
  return decoder(b, embed_tokens(b), how);
}

}  // namespace

const Family kGptJ = {"gptj", read_gptj, build_gptj};

}  // namespace weft::model
