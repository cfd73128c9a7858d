// gpt-oss (arXiv 2508.10925): experts with biases and a clamped gate, a sink for each head, every second
// layer slides.
#include "model/blocks.h"
#include "model/family.h"

namespace weft::model {
namespace {

void read_gpt_oss(const Metadata& metadata, HParams& h) {
  require_experts(metadata, h);
  require_window(metadata, h);
  constexpr int kPattern = 2;
  h.rope.neox = true;
  h.rope.whole_pairs = false;
  read_sliding(metadata, h, kPattern);
}

ValueId build_gpt_oss(Builder& b) {
  constexpr float kLimit = 7.0f;
  const HParams& h = b.hparams();
  Decoder how;
  how.ffn_norm = "post_attention_norm";
  how.attention.rope_params = h.rope;
  how.attention.sinks = true;
  how.vary = [&](int layer, AttentionBlock& block) {
    if (h.slides(layer)) block.window = h.window->size;
  };
  how.own_ffn = [&](int layer, ValueId x) { return expert_ffn_clamped(b, layer, x, kLimit); };
  return decoder(b, embed_tokens(b), how);
}

}  // namespace

const Family kGptOss = {"gpt-oss", read_gpt_oss, build_gpt_oss};

}  // namespace weft::model
