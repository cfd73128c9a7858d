// Llama that reads both ways, of embedding models (arXiv 2511.07025); EuroBERT (arXiv 2503.05500), which is
// the same with rope in halves.
#include "model/encoder.h"
#include "model/family.h"

namespace weft::model {
namespace {

void read_llama_embed(const Metadata&, HParams&) {}

void read_llama_embed_halves(const Metadata&, HParams& h) { h.rope.neox = true; }

ValueId build_llama_embed(Builder& b) {
  const HParams& h = b.hparams();
  Decoder how;
  how.attention.rope_params = h.rope;
  how.attention.rope_factors = b.optional_weight("rope_freqs.weight", {h.rope.n_rot / 2});
  return encoder(b, embed_texts(b, how.norm), how);
}

}  // namespace

const Family kEuroBert = {"eurobert", read_llama_embed_halves, build_llama_embed, LayerMix::kAttention,
                          FamilyKind::kEncoder};
const Family kLlamaEmbed = {"llama-embed", read_llama_embed, build_llama_embed, LayerMix::kAttention,
                            FamilyKind::kEncoder};

}  // namespace weft::model
