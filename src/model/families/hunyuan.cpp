// Hunyuan (Tencent, 2025), dense and with experts: the heads of Q and K are normed once they are turned.
// Maincoder (2025) has the shape of the dense one.
#include "model/blocks.h"
#include "model/family.h"

namespace weft::model {
namespace {

void read(const Metadata&, HParams& h) { h.rope.neox = true; }

void read_moe(const Metadata& metadata, HParams& h) {
  read(metadata, h);
  require_experts(metadata, h);
}

ValueId build(Builder& b) {
  Decoder how;
  how.attention.rope_params = b.hparams().rope;
  how.attention.qk_norm = QkNorm::kTurned;
  return decoder(b, embed_tokens(b), how);
}

}  // namespace

const Family kHunyuanDense = {"hunyuan-dense", read, build};
const Family kHunyuanMoe = {"hunyuan-moe", read_moe, build};
const Family kMaincoder = {"maincoder", read, build};

}  // namespace weft::model
