// dots.llm1 (arXiv 2506.05767): the experts of DeepSeek V3 with the attention of Qwen3.
#include "model/blocks.h"
#include "model/family.h"

namespace weft::model {
namespace {

void read_dots1(const Metadata& metadata, HParams& h) {
  h.rope.neox = true;
  read_router(metadata, h, {.sigmoid = true});
}

ValueId build_dots1(Builder& b) {
  const HParams& h = b.hparams();
  Decoder how;
  how.attention.rope_params = h.rope;
  how.attention.qk_norm = QkNorm::kHeads;
  return decoder(b, embed_tokens(b), how);
}

}  // namespace

const Family kDots1 = {"dots1", read_dots1, build_dots1};

}  // namespace weft::model
