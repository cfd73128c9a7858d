// ERNIE 4.5 with experts (Baidu, 2025): experts chosen by a softmax with a bias, shared experts, the first
// layers dense.
#include "model/blocks.h"
#include "model/family.h"

namespace weft::model {
namespace {

void read_ernie4_5_moe(const Metadata& metadata, HParams& h) {
  // As many as expert_shared_count says: files give another width for some sizes.
  require_experts(metadata, h).shared_width = 0;
  read_router(metadata, h).step = metadata.require_int("interleave_moe_layer_step", 1, h.n_layers);
}

ValueId build_ernie4_5_moe(Builder& b) {
  Decoder how;
  how.attention.rope_params = b.hparams().rope;
  return decoder(b, embed_tokens(b), how);
}

}  // namespace

const Family kErnie45Moe = {"ernie4_5-moe", read_ernie4_5_moe, build_ernie4_5_moe};

}  // namespace weft::model
