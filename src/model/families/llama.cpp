// Llama (arXiv 2307.09288) and what shares its shape: Mistral (its first one with a window), SmolLM,
// TinyLlama, Ernie 4.5, InternLM 2, XVERSE; with experts Mixtral. EXAONE 3 (arXiv 2408.03541): the same with
// rope in halves. Orion (arXiv 2401.12246): that with layer norms.
#include "model/blocks.h"
#include "model/family.h"

namespace weft::model {
namespace {

void read_llama(const Metadata&, HParams&) {}

void read_llama_halves(const Metadata&, HParams& h) { h.rope.neox = true; }

ValueId build_llama_with(Builder& b, NormKind norm) {
  const HParams& h = b.hparams();
  Decoder how;
  how.norm = norm;
  how.attention.rope_params = h.rope;
  how.attention.window = h.window_size();
  return decoder(b, embed_tokens(b), how);
}

ValueId build_llama(Builder& b) { return build_llama_with(b, NormKind::kRms); }
ValueId build_orion(Builder& b) { return build_llama_with(b, NormKind::kLayer); }

}  // namespace

const Family kLlama = {"llama", read_llama, build_llama};
const Family kErnie45 = {"ernie4_5", read_llama, build_llama};
const Family kExaone = {"exaone", read_llama_halves, build_llama};
const Family kInternLm2 = {"internlm2", read_llama, build_llama};
const Family kOrion = {"orion", read_llama_halves, build_orion};
const Family kXverse = {"xverse", read_llama, build_llama};

}  // namespace weft::model
