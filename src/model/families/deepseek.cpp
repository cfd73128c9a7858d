// DeepSeek (arXiv 2401.06066): Llama with many small experts, weighted by a softmax over all of them, and
// some shared experts.
#include "model/blocks.h"
#include "model/family.h"

namespace weft::model {
namespace {

void read_deepseek(const Metadata& metadata, HParams& h) {
  read_router(metadata, h, {.normalise = false});  // Files do not say.
}

ValueId build_deepseek(Builder& b) {
  Decoder how;
  how.attention.rope_params = b.hparams().rope;
  return decoder(b, embed_tokens(b), how);
}

}  // namespace

const Family kDeepseek = {"deepseek", read_deepseek, build_deepseek};

}  // namespace weft::model
