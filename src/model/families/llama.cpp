// Llama (arXiv 2307.09288) and what shares its shape: Mistral, SmolLM, TinyLlama, Ernie 4.5; with experts
// Mixtral.
#include "model/blocks.h"
#include "model/family.h"

namespace weft::model {
namespace {

void read(const Metadata&, HParams&) {}

ValueId build(Builder& b) {
  const HParams& h = b.hparams();
  Decoder how;
  how.attention.rope_params = h.rope;
  // Llama 3's scaling comes as a factor for each frequency.
  how.attention.rope_factors = b.optional_weight("rope_freqs.weight", {h.rope.n_rot / 2});
  return decoder(b, embed_tokens(b), how);
}

}  // namespace

const Family kLlama = {"llama", read, build};
const Family kErnie45 = {"ernie4_5", read, build};
const Family kInternLm2 = {"internlm2", read, build};

}  // namespace weft::model
