// GLM-4 (0414): norms before and after each block, rope on half of each head, gate and up in one matrix.
#include "model/blocks.h"
#include "model/family.h"

namespace weft::model {
namespace {

void read_glm4(const Metadata&, HParams&) {}

ValueId build_glm4(Builder& b) {
  Decoder how;
  how.attention.rope_params = b.hparams().rope;
  how.norms_behind = true;
  how.ffn = Ffn::kFused;
  return decoder(b, embed_tokens(b), how);
}

}  // namespace

const Family kGlm4 = {"glm4", read_glm4, build_glm4};

}  // namespace weft::model
