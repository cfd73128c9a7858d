// StarCoder 2 (arXiv 2402.19173): layer norms and biases everywhere. CodeShell (2023): the same. Jais 2
// (2025): the same with squared ReLUs.
#include "model/blocks.h"
#include "model/family.h"

namespace weft::model {
namespace {

void read_starcoder2(const Metadata&, HParams& h) { h.rope.neox = true; }

ValueId build_starcoder2_with(Builder& b, Activation activation) {
  const HParams& h = b.hparams();
  Decoder how;
  how.attention.rope_params = h.rope;
  how.attention.window = h.window_size();
  how.norm = NormKind::kLayer;
  how.ffn = Ffn::kPlain;
  how.activation = activation;
  return decoder(b, embed_tokens(b), how);
}

ValueId build_starcoder2(Builder& b) { return build_starcoder2_with(b, Activation::kGelu); }
ValueId build_jais2(Builder& b) { return build_starcoder2_with(b, Activation::kReluSquared); }

}  // namespace

const Family kStarCoder2 = {"starcoder2", read_starcoder2, build_starcoder2};
const Family kCodeShell = {"codeshell", read_starcoder2, build_starcoder2};
const Family kJais2 = {"jais2", read_starcoder2, build_jais2};

}  // namespace weft::model
