// OLMo (arXiv 2402.00838): norms without weights; Q, K and V may be clamped.
#include "model/blocks.h"
#include "model/family.h"

namespace weft::model {
namespace {

void read_olmo(const Metadata& metadata, HParams& h) {
  h.norm.weights = false;
  h.attention->qkv_clamp = metadata.get_float("attention.clamp_kqv", 0.0, 1e6, 0.0f);
}

ValueId build_olmo(Builder& b) {
  Decoder how;
  how.attention.rope_params = b.hparams().rope;
  how.norm = NormKind::kLayer;
  return decoder(b, embed_tokens(b), how);
}

}  // namespace

const Family kOlmo = {"olmo", read_olmo, build_olmo};

}  // namespace weft::model
