// MiMo-V2-Flash (arXiv 2601.02780): layers with a window, their own rope and attention sinks. A few full
// layers have fewer heads for keys and values. Experts are chosen as in DeepSeek V3.
#include "base/to_size.h"
#include "model/blocks.h"
#include "model/family.h"

namespace weft::model {
namespace {

void read_mimo2(const Metadata& metadata, HParams& h) {
  h.rope.neox = true;
  ExpertParams& experts = require_experts(metadata, h);
  experts.sigmoid = true;
  experts.scale = read_expert_scale(metadata);
  h.attention->value_scale = metadata.get_float("attention.value_scale", kMinFactor, kMaxFactor, 1.0f);
  constexpr int kPattern = 6;
  read_sliding(metadata, h, kPattern);
  read_unused_layers(metadata, h);  // Which have windows, too.
}

ValueId build_mimo2(Builder& b) {
  const HParams& h = b.hparams();
  Decoder how;
  how.attention.rope_params = h.rope;
  how.vary = [&](int layer, AttentionBlock& block) {
    block.n_kv_heads = h.attention->n_kv_heads_of[to_size(layer)];
    block.sinks = b.has(layer_name(layer, "attn_sinks.weight"));
    if (!h.slides(layer)) return;
    block.window = h.window->size;
    block.rope_params.freq_base = h.window->rope_base;
  };
  // Which layers have experts, files say by their tensors.
  how.own_ffn = [&](int layer, ValueId x) {
    const bool has_experts = b.has(layer_name(layer, "ffn_gate_inp.weight"));
    return has_experts ? expert_ffn(b, layer, x, Activation::kSilu)
                       : gated_ffn(b, layer, x, Activation::kSilu);
  };
  return decoder(b, embed_tokens(b), how);
}

}  // namespace

const Family kMiMo2 = {"mimo2", read_mimo2, build_mimo2, LayerMix::kVaried};

}  // namespace weft::model
