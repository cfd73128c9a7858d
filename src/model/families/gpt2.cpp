// GPT-2: learned positions, layer norms and biases everywhere.
#include "model/blocks.h"
#include "model/family.h"

namespace weft::model {
namespace {

void read(const Metadata&, HParams& h) { h.learned_positions = true; }

ValueId build(Builder& b) {
  const HParams& h = b.hparams();
  Decoder how;
  how.norm = NormKind::kLayer;
  how.attention.rope = false;
  how.ffn = Ffn::kPlain;
  how.activation = Activation::kGelu;
  const ValueId positions = b.add(
      ops::GetRows{}, {b.weight("position_embd.weight", {h.n_ctx_train, h.n_embd}), b.model().positions},
      "position_rows");
  return decoder(b, add(b, embed_tokens(b), positions, "embeddings_at_positions"), how);
}

}  // namespace

const Family kGpt2 = {"gpt2", read, build};

}  // namespace weft::model
