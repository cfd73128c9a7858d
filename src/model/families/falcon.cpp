// Falcon (arXiv 2311.16867), of 7B with one KV head and of 40B: attention and feed-forward part in parallel.
#include "model/blocks.h"
#include "model/family.h"

namespace weft::model {
namespace {

void read_falcon(const Metadata&, HParams& h) { h.rope.neox = true; }

ValueId build_falcon(Builder& b) {
  Decoder how;
  how.attention.rope_params = b.hparams().rope;
  how.norm = NormKind::kLayer;
  how.parallel = true;
  how.ffn = Ffn::kPlain;
  how.activation = Activation::kGeluErf;
  return decoder(b, embed_tokens(b), how);
}

}  // namespace

const Family kFalcon = {"falcon", read_falcon, build_falcon};

}  // namespace weft::model
