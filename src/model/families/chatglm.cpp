// ChatGLM 2 to 4 (arXiv 2406.12793): rope on half of each head, biases of Q, K and V, gate and up in one
// matrix.
#include "model/blocks.h"
#include "model/family.h"

namespace weft::model {
namespace {

void read_chatglm(const Metadata&, HParams&) {}

ValueId build_chatglm(Builder& b) {
  Decoder how;
  how.attention.rope_params = b.hparams().rope;
  how.ffn = Ffn::kFused;
  return decoder(b, embed_tokens(b), how);
}

}  // namespace

const Family kChatGlm = {"chatglm", read_chatglm, build_chatglm};

}  // namespace weft::model
