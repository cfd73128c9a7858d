// Hunyuan dense (Tencent, 2025): the heads of Q and K are normed once they are turned.
#include "model/blocks.h"
#include "model/family.h"

namespace weft::model {
namespace {

void read(const Metadata&, HParams& h) { h.rope.neox = true; }

ValueId build(Builder& b) {
  Decoder how;
  how.attention.rope_params = b.hparams().rope;
  how.attention.qk_norm = QkNorm::kTurned;
  how.ffn = [&](int layer, ValueId x) { return gated_ffn(b, layer, x, Activation::kSilu); };
  return decoder(b, embed_tokens(b), how);
}

}  // namespace

const Family kHunyuanDense = {"hunyuan-dense", read, build};

}  // namespace weft::model
