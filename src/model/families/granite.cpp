// Granite 3 (IBM, 2024), dense and with experts: Llama with factors at embeddings, attention, residuals and
// logits.
#include "model/blocks.h"
#include "model/family.h"

namespace weft::model {
namespace {

void read_granite(const Metadata& metadata, HParams& h) { read_scales(metadata, h); }

ValueId build_granite(Builder& b) {
  const HParams& h = b.hparams();
  Decoder how;
  how.attention.rope_params = h.rope;
  return decoder(b, embed_tokens(b), how);
}

}  // namespace

const Family kGranite = {"granite", read_granite, build_granite};
const Family kGraniteMoe = {"granitemoe", read_granite, build_granite};

}  // namespace weft::model
