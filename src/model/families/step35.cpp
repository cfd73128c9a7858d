// Step 3.5 and 3.7 Flash (StepFun, 2026): three sliding layers to each full one, with their own heads and
// rope. Attention has a gate for each head. Routers are sigmoids, and the gates of experts are clamped.
#include "base/to_size.h"
#include "model/blocks.h"
#include "model/family.h"

namespace weft::model {
namespace {

void read_step35(const Metadata& metadata, HParams& h) {
  constexpr int kFullAttentionEvery = 4;
  h.rope.neox = true;
  ExpertParams& experts = read_router(metadata, h, {.sigmoid = true});
  read_sliding(metadata, h, kFullAttentionEvery, FullLayer::kFirst);
  const auto limits = [&](const char* key) {
    return metadata.has(key) ? metadata.get_floats(key, h.n_layers, 0.0, kMaxFactor) : std::vector<float>();
  };
  experts.limits = limits("swiglu_clamp_exp");
  experts.shared_limits = limits("swiglu_clamp_shexp");
  // The key says what turns in sliding layers; in full ones half of that does.
  const int turned = h.rope.n_rot;
  if (h.window) h.window->n_rot = turned;
  h.rope.n_rot /= 2;
  if (h.rope.n_rot % 2 != 0)
    metadata.refuse("rope.dimension_count",
                    "found " + std::to_string(turned) + ", expected four times as many");
  read_unused_layers(metadata, h);
}

float limit_of(const std::vector<float>& limits, int layer) {
  return limits.empty() ? 0.0f : limits[to_size(layer)];
}

ValueId step35_feed_forward(Builder& b, int layer, ValueId x) {
  const HParams& h = b.hparams();
  const auto name = [&](const char* part) { return layer_name(layer, part); };
  const Glu glu = clamped_glu(b, limit_of(h.experts->shared_limits, layer));
  if (!b.has(name("ffn_gate_inp.weight"))) {
    const std::int64_t width = h.ffn.width_of[to_size(layer)];
    const ValueId gate = linear(b, x, name("ffn_gate"), width), up = linear(b, x, name("ffn_up"), width);
    return linear(b, glu(gate, up, name("ffn_glu")), name("ffn_down"), h.n_embd);
  }
  const ValueId out = chosen_experts(b, layer, x, choose_experts(b, layer, x),
                                     clamped_glu(b, limit_of(h.experts->limits, layer)));
  return add(b, out, shared_expert(b, layer, x, glu), name("ffn_sum"));
}

ValueId build_step35(Builder& b) {
  const HParams& h = b.hparams();
  constexpr const char* kFactors = "rope_freqs.weight";
  const ValueId factors =
      b.has(kFactors) ? b.weight_rows(kFactors, {h.rope.n_rot}, 0, h.rope.n_rot / 2) : kNoValue;
  Decoder how;
  how.attention.qk_norm = QkNorm::kHeads;
  how.attention.rope_factors = factors;
  how.vary = [&](int layer, AttentionBlock& block) {
    block.n_heads = h.attention->n_heads_of[to_size(layer)];
    block.n_kv_heads = h.attention->n_kv_heads_of[to_size(layer)];
    block.rope_params = h.rope;
    if (h.slides(layer)) {
      block.window = h.window->size;
      block.rope_params.n_rot = h.window->n_rot;
      block.rope_params.freq_base = h.window->rope_base;
      block.rope_factors = kNoValue;
    }
    block.finish = [&b, layer, n_heads = std::int64_t{block.n_heads}](ValueId x, ValueId attended) {
      const std::string name = layer_name(layer, "attn_gate");
      const Shape shape = b.model().graph.value(attended).shape;
      const std::int64_t dim = shape.columns() / n_heads;
      const ValueId logits = linear(b, x, name, n_heads);
      const ValueId gate = b.add(ops::Unary{UnaryKind::kSigmoid}, {logits}, name + "_sigmoid");
      const ValueId each = b.add(ops::Reshape{{shape[0], n_heads, 1}}, {gate}, name + "_of_heads");
      const ValueId heads = b.add(ops::Reshape{{shape[0], n_heads, dim}}, {attended}, name + "_heads");
      const ValueId gated = b.add(ops::Mul{}, {heads, each}, name + "_gated_heads");
      return b.add(ops::Reshape{{shape[0], n_heads * dim}}, {gated}, name + "_gated");
    };
  };
  how.own_ffn = [&](int layer, ValueId x) { return step35_feed_forward(b, layer, x); };
  return decoder(b, embed_tokens(b), how);
}

}  // namespace

const Family kStep35 = {"step35", read_step35, build_step35, LayerMix::kSparse};

}  // namespace weft::model
