// Command R (Cohere, 2024): attention and feed-forward part in parallel after one norm without bias; the
// heads of Q and K may be normed. Command R7B and A (cohere2) have three sliding layers to each full one,
// which has no positions.
#include "model/blocks.h"
#include "model/family.h"

namespace weft::model {
namespace {

void read_command_r(const Metadata& metadata, HParams& h) {
  h.logits.scale = metadata.get_float("logit_scale", 1e-6, 1e6, 1.0f);
}

void read_command_r2(const Metadata& metadata, HParams& h) {
  read_command_r(metadata, h);
  require_window(metadata, h);
  constexpr int kPattern = 4;
  read_sliding(metadata, h, kPattern);
}

ValueId build_command_r(Builder& b) {
  const HParams& h = b.hparams();
  Decoder how;
  how.attention.rope_params = h.rope;
  how.norm = NormKind::kLayer;
  how.parallel = true;
  if (has_in_any_layer(b, "attn_q_norm.weight")) how.attention.qk_norm = QkNorm::kOwnOfHead;
  how.vary = [&](int layer, AttentionBlock& block) {
    if (!h.window || h.window->sliding.empty()) return;
    block.rope = h.slides(layer);
    block.window = h.window_of(layer);
  };
  return decoder(b, embed_tokens(b), how);
}

}  // namespace

const Family kCommandR = {"command-r", read_command_r, build_command_r};
const Family kCohere2 = {"cohere2", read_command_r2, build_command_r};

}  // namespace weft::model
