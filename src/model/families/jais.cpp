// Jais (arXiv 2308.16149): GPT-2 with ALiBi and gates; scores are divided by the length of a head, not by its
// root. The factors of embeddings and logits are in the file's weights.
#include "model/blocks.h"
#include "model/family.h"

namespace weft::model {
namespace {

void read_jais(const Metadata& metadata, HParams& h) {
  h.attention->alibi = metadata.require_float("attention.max_alibi_bias", kMinFactor, 1e3);
  h.attention->scale = 1.0f / static_cast<float>(h.attention->k_head_dim);
}

ValueId build_jais(Builder& b) {
  Decoder how;
  how.norm = NormKind::kLayer;
  how.attention.rope = false;
  return decoder(b, embed_tokens(b), how);
}

}  // namespace

const Family kJais = {"jais", read_jais, build_jais};

}  // namespace weft::model
