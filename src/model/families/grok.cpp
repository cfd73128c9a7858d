// Grok 1 (xAI, 2024): the two best experts are taken with their shares unchanged. Norms are before and after
// blocks, scores and logits are scaled. Grok 2: a feed-forward part in addition to the experts, and caps of
// the router's and the head's logits.
#include <cmath>

#include "model/blocks.h"
#include "model/family.h"

namespace weft::model {
namespace {

void read_grok(const Metadata& metadata, HParams& h) {
  ExpertParams& experts = require_experts(metadata, h);
  h.rope.neox = true;
  h.rope.beta_fast = metadata.get_float("rope.scaling.yarn_beta_fast", 0.001, 1e6, 8.0f);
  experts.normalise = false;  // Where the file does not say.
  // Files of the first model name none of these.
  const auto factor = [&](std::string_view key, float otherwise) {
    return metadata.get_float(key, kMinFactor, kMaxFactor, otherwise);
  };
  h.embedding.scale = factor("embedding_scale", 78.38367176906169f);
  h.logits.scale = factor("logit_scale", 0.5773502691896257f);
  h.attention->scale = factor("attention.output_scale", 0.08838834764831845f);
  h.attention->softcap = metadata.get_float("attn_logit_softcapping", 0.0, 1e6, 30.0f);
  experts.router_softcap = metadata.get_float("router_logit_softcapping", 0.0, 1e6, 0.0f);
}

/// The experts, and the dense part, if there is one.
ValueId grok_feed_forward(Builder& b, int layer, ValueId x) {
  const auto name = [&](const char* part) { return layer_name(layer, part); };
  const ValueId out = expert_ffn(b, layer, x, Activation::kGelu);
  if (!has_in_any_layer(b, "ffn_up.weight")) return out;
  const ValueId sum = add(b, gated_ffn(b, layer, x, Activation::kGelu), out, name("ffn_sum"));
  return b.add(ops::Scale{std::sqrt(0.5f)}, {sum}, name("ffn_mean"));
}

ValueId build_grok(Builder& b) {
  const HParams& h = b.hparams();
  Decoder how;
  how.attend = [&](int layer, ValueId x, ValueId& residual) {
    AttentionBlock block;
    block.rope_params = h.rope;
    return norm(b, NormKind::kRms, attention(b, layer, x, block, residual),
                layer_name(layer, "attn_output_norm"));
  };
  const char* const behind =
      has_in_any_layer(b, "layer_output_norm.weight") ? "layer_output_norm" : "post_ffw_norm";
  how.own_ffn = [&b, behind](int layer, ValueId x) {
    return norm(b, NormKind::kRms, grok_feed_forward(b, layer, x), layer_name(layer, behind));
  };
  return decoder(b, embed_tokens(b), how);
}

}  // namespace

const Family kGrok = {"grok", read_grok, build_grok};

}  // namespace weft::model
