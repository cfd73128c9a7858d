// Granite 3 (IBM, 2024), dense and with experts: Llama with factors at embeddings, attention, residuals and
// logits.
#include "model/blocks.h"
#include "model/family.h"

namespace weft::model {
namespace {

void read(const Metadata& metadata, HParams& h) { read_scales(metadata, h); }

ValueId build(Builder& b) {
  const HParams& h = b.hparams();
  Decoder how;
  how.attention.rope_params = h.rope;
  how.ffn = [&](int layer, ValueId x) {
    return h.n_experts == 0 ? gated_ffn(b, layer, x, Activation::kSilu)
                            : shared_and_expert_ffn(b, layer, x, Activation::kSilu);
  };
  return decoder(b, embed_tokens(b), how);
}

}  // namespace

const Family kGranite = {"granite", read, build};
const Family kGraniteMoe = {"granitemoe", read, build};

}  // namespace weft::model
