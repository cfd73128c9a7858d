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
  return decoder(b, embed_tokens(b), how);
}

}  // namespace

const Family kGranite = {"granite", read, build};
const Family kGraniteMoe = {"granitemoe", read, build};

}  // namespace weft::model
