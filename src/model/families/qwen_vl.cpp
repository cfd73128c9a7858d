// The language models of Qwen2-VL, Qwen2.5-VL (arXiv 2409.12191, 2502.13923) and Qwen3-VL (arXiv 2511.21631):
// Qwen2 and Qwen3 whose keys and queries turn by time, line and column. In Qwen3-VL the first layers add rows
// of earlier layers of the vision encoder.
#include "model/blocks.h"
#include "model/family.h"

namespace weft::model {
namespace {

void read_qwen_vl2(const Metadata& metadata, HParams& h) {
  h.rope.neox = true;
  h.axes = read_axes(metadata, h.rope.n_rot);
}

void read_qwen_vl3(const Metadata& metadata, HParams& h) {
  read_qwen_vl2(metadata, h);
  h.axes->interleaved = true;
  // The last layer has only the rows that something is wanted of.
  h.embedding.n_deepstack = metadata.get_int("n_deepstack_layers", 0, h.n_layers - 1, 0);
}

void read3_moe(const Metadata& metadata, HParams& h) {
  read_qwen_vl3(metadata, h);
  require_experts(metadata, h);
}

template <QkNorm kNorm>
ValueId build_qwen_vl(Builder& b) {
  Decoder how;
  how.attention.rope_params = b.hparams().rope;
  how.attention.qk_norm = kNorm;
  return decoder(b, embed_tokens(b), how);
}

}  // namespace

const Family kQwen2Vl = {"qwen2vl", read_qwen_vl2, build_qwen_vl<QkNorm::kNone>};
const Family kQwen3Vl = {"qwen3vl", read_qwen_vl3, build_qwen_vl<QkNorm::kHeads>};
const Family kQwen3VlMoe = {"qwen3vlmoe", read3_moe, build_qwen_vl<QkNorm::kHeads>};

}  // namespace weft::model
