// GPT-NeoX (arXiv 2204.06745), Pythia: attention and feed-forward part in parallel; rope on a part of each
// head.
#include "model/blocks.h"
#include "model/family.h"

namespace weft::model {
namespace {

void read_gptneox(const Metadata& metadata, HParams& h) {
  h.rope.neox = true;
  h.blocks.parallel = metadata.get_bool("use_parallel_residual", true);
}

ValueId build_gptneox(Builder& b) {
  Decoder how;
  how.attention.rope_params = b.hparams().rope;
  how.norm = NormKind::kLayer;
  how.parallel = b.hparams().blocks.parallel;
  how.ffn = Ffn::kPlain;
  how.activation = Activation::kGeluErf;
  return decoder(b, embed_tokens(b), how);
}

}  // namespace

const Family kGptNeox = {"gptneox", read_gptneox, build_gptneox};

}  // namespace weft::model
