// BLOOM (arXiv 2211.05100): ALiBi instead of positions, a norm after the embedding, biases everywhere.
#include "model/blocks.h"
#include "model/family.h"

namespace weft::model {
namespace {

void read_bloom(const Metadata&, HParams& h) { h.attention->alibi = 8.0f; }

ValueId build_bloom(Builder& b) {
  Decoder how;
  how.norm = NormKind::kLayer;
  how.attention.rope = false;
  how.ffn = Ffn::kPlain;
  how.activation = Activation::kGelu;
  return decoder(b, norm(b, NormKind::kLayer, embed_tokens(b), "token_embd_norm"), how);
}

}  // namespace

const Family kBloom = {"bloom", read_bloom, build_bloom};

}  // namespace weft::model
