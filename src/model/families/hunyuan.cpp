// Hunyuan (Tencent, 2025), dense and with experts: the heads of Q and K are normed once they are turned.
// Maincoder (2025) has the shape of the dense one.
#include "model/blocks.h"
#include "model/family.h"

namespace weft::model {
namespace {

void read_hunyuan(const Metadata&, HParams& h) { h.rope.neox = true; }

void read_hunyuan_moe(const Metadata& metadata, HParams& h) {
  read_hunyuan(metadata, h);
  require_experts(metadata, h);
}

ValueId build_hunyuan(Builder& b) {
  Decoder how;
  how.attention.rope_params = b.hparams().rope;
  how.attention.qk_norm = QkNorm::kTurned;
  return decoder(b, embed_tokens(b), how);
}

}  // namespace

const Family kHunyuanDense = {"hunyuan-dense", read_hunyuan, build_hunyuan};
const Family kHunyuanMoe = {"hunyuan-moe", read_hunyuan_moe, build_hunyuan};
const Family kMaincoder = {"maincoder", read_hunyuan, build_hunyuan};

}  // namespace weft::model
