// PLaMo (Preferred Networks, 2023): attention and feed-forward part in parallel, after one norm.
#include "model/blocks.h"
#include "model/family.h"

namespace weft::model {
namespace {

void read_plamo(const Metadata&, HParams& h) { h.rope.neox = true; }

ValueId build_plamo(Builder& b) {
  Decoder how;
  how.parallel = true;
  how.attention.rope_params = b.hparams().rope;
  return decoder(b, embed_tokens(b), how);
}

}  // namespace

const Family kPlamo = {"plamo", read_plamo, build_plamo};

}  // namespace weft::model
