// GPT-2: learned positions, layer norms and biases everywhere. StarCoder (arXiv 2305.06161): the same with
// one KV head.
#include "model/blocks.h"
#include "model/family.h"

namespace weft::model {
namespace {

void read_gpt2(const Metadata&, HParams& h) { h.embedding.learned_positions = true; }

ValueId build_gpt2(Builder& b) {
  Decoder how;
  how.norm = NormKind::kLayer;
  how.attention.rope = false;
  how.ffn = Ffn::kPlain;
  how.activation = Activation::kGelu;
  return decoder(b, add_learned_positions(b, embed_tokens(b)), how);
}

}  // namespace

const Family kGpt2 = {"gpt2", read_gpt2, build_gpt2};
const Family kStarCoder = {"starcoder", read_gpt2, build_gpt2};

}  // namespace weft::model
