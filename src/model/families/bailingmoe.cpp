// Ling and Ring (arXiv 2503.05139), called BailingMoE in files: experts and a shared expert, the first layers
// dense. The second generation has norms of Q's and K's heads, and chooses among the best groups of experts.
#include "model/blocks.h"
#include "model/family.h"

namespace weft::model {
namespace {

void read_bailingmoe(const Metadata& metadata, HParams& h) { read_router(metadata, h); }

void read_bailingmoe2(const Metadata& metadata, HParams& h) {
  h.rope.neox = true;
  const int n_shared = metadata.get_int("expert_shared_count", 0, 16, 1);
  require_experts(metadata, h).shared_width *= n_shared;
  read_router(metadata, h, {.sigmoid = true});
  read_unused_layers(metadata, h);
}

ValueId build_bailingmoe_with(Builder& b, QkNorm qk_norm) {
  Decoder how;
  how.attention.rope_params = b.hparams().rope;
  how.attention.qk_norm = qk_norm;
  return decoder(b, embed_tokens(b), how);
}

ValueId build_bailingmoe(Builder& b) { return build_bailingmoe_with(b, QkNorm::kNone); }
ValueId build_bailingmoe2(Builder& b) { return build_bailingmoe_with(b, QkNorm::kHeads); }

}  // namespace

const Family kBailingMoe = {"bailingmoe", read_bailingmoe, build_bailingmoe};
const Family kBailingMoe2 = {"bailingmoe2", read_bailingmoe2, build_bailingmoe2};

}  // namespace weft::model
