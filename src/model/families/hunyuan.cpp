// Hunyuan (Tencent, 2025), dense and with experts: the heads of Q and K are normed once they are turned.
#include "model/blocks.h"
#include "model/family.h"

namespace weft::model {
namespace {

void read(const Metadata&, HParams& h) { h.rope.neox = true; }

void read_moe(const Metadata& metadata, HParams& h) {
  read(metadata, h);
  if (h.n_experts == 0) metadata.refuse("expert_count", "missing or 0, expected at least 1");
}

ValueId build(Builder& b) {
  Decoder how;
  how.attention.rope_params = b.hparams().rope;
  how.attention.qk_norm = QkNorm::kTurned;
  how.ffn = [&](int layer, ValueId x) {
    return b.hparams().n_experts == 0 ? gated_ffn(b, layer, x, Activation::kSilu)
                                      : shared_and_expert_ffn(b, layer, x, Activation::kSilu);
  };
  return decoder(b, embed_tokens(b), how);
}

}  // namespace

const Family kHunyuanDense = {"hunyuan-dense", read, build};
const Family kHunyuanMoe = {"hunyuan-moe", read_moe, build};

}  // namespace weft::model
