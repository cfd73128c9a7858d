// Gemma 4 (Google, 2026): norms before and after each block. Heads of sliding layers are smaller than heads
// of full layers, whose rope turns a part of each head. V may be K; late layers see the keys and values of
// earlier ones. Layers have an embedding, or experts in addition to the feed-forward part.
#include <cmath>

#include "base/to_size.h"
#include "model/blocks.h"
#include "model/family.h"

namespace weft::model {
namespace {

void read_gemma4(const Metadata& metadata, HParams& h) {
  constexpr int kPattern = 6;
  h.rope.neox = true;
  h.embedding.scale = std::sqrt(static_cast<float>(h.n_embd));
  AttentionParams& a = *h.attention;
  a.scale = 1.0f;
  a.k_may_be_v = true;
  WindowParams& window = require_window(metadata, h);
  read_sliding(metadata, h, kPattern);
  if (a.v_head_dim != a.k_head_dim)
    metadata.refuse("attention.value_length", "found " + std::to_string(a.v_head_dim) + ", expected " +
                                                  std::to_string(a.k_head_dim) + " as attention.key_length");
  window.head_dim = metadata.require_int("attention.key_length_swa", 1, kMaxHeadDim);
  if (metadata.get_int("attention.value_length_swa", 1, kMaxHeadDim, window.head_dim) != window.head_dim)
    metadata.refuse("attention.value_length_swa", "expected as much as attention.key_length_swa");
  window.n_rot = metadata.get_int("rope.dimension_count_swa", 2, window.head_dim, window.head_dim);
  if (window.n_rot % 2 != 0)
    metadata.refuse("rope.dimension_count_swa", "found an odd number, expected an even one");
  h.embedding.n_per_layer = metadata.get_int("embedding_length_per_layer_input", 0, kMaxWidth, 0);
  read_layers_with_kv(metadata, h);
}

/// Experts in addition to the feed-forward part; they read its input, with their own norm.
ValueId add_experts(Builder& b, int layer, ValueId sum, ValueId dense) {
  const HParams& h = b.hparams();
  const auto name = [&](const char* part) { return layer_name(layer, part); };
  ValueId x = b.add(ops::Norm{.kind = NormKind::kRms, .eps = h.norm.eps}, {sum}, name("router_normed"));
  x = b.add(ops::Mul{}, {x, b.weight(name("ffn_gate_inp.scale"), {h.n_embd})}, name("router_scaled"));
  x = b.add(ops::Scale{1.0f / std::sqrt(static_cast<float>(h.n_embd))}, {x}, name("router_in"));
  const ChosenExperts chosen = choose_experts(b, layer, x);
  const ValueId normed = norm(b, NormKind::kRms, sum, name("pre_ffw_norm_2"));
  const ValueId out = chosen_experts(b, layer, normed, chosen, plain_glu(b, Activation::kGelu));
  return add(b, norm(b, NormKind::kRms, dense, name("post_ffw_norm_1")),
             norm(b, NormKind::kRms, out, name("post_ffw_norm_2")), name("ffn_sum"));
}

ValueId gemma4_feed_forward(Builder& b, int layer, ValueId sum) {
  const HParams& h = b.hparams();
  const auto name = [&](const char* part) { return layer_name(layer, part); };
  const std::int64_t width = h.ffn.width_of[to_size(layer)];
  const ValueId x = norm(b, NormKind::kRms, sum, name("ffn_norm"));
  const ValueId product = b.add(ops::Glu{Activation::kGelu},
                                {linear(b, x, name("ffn_gate"), width), linear(b, x, name("ffn_up"), width)},
                                name("ffn_dense_glu"));
  ValueId out = linear(b, product, name("ffn_down"), h.n_embd);
  if (b.has(name("ffn_gate_inp.weight"))) out = add_experts(b, layer, sum, out);
  return norm(b, NormKind::kRms, out, name("post_ffw_norm"));
}

ValueId build_gemma4(Builder& b) {
  const HParams& h = b.hparams();
  ValueId x = embed_tokens(b);
  const ValueId layer_inputs = h.embedding.n_per_layer > 0 ? embed_for_layers(b, x) : kNoValue;
  const ValueId factors = b.optional_weight("rope_freqs.weight", {h.rope.n_rot / 2});
  for (int layer = 0; layer < h.n_layers; ++layer) {
    const auto name = [&](const char* part) { return layer_name(layer, part); };
    AttentionBlock block;
    block.qk_norm = QkNorm::kHeads;
    block.v_norm = true;
    block.n_kv_heads = h.attention->n_kv_heads_of[to_size(layer)];
    block.rope_params = h.rope;
    if (h.slides(layer)) {
      block.window = h.window->size;
      block.head_dim = block.rope_params.head_dim = h.window->head_dim;
      block.rope_params.n_rot = h.window->n_rot;
      block.rope_params.freq_base = h.window->rope_base;
    } else {
      block.rope_factors = factors;
    }
    if (layer >= h.attention->n_layers_with_kv) block.kv_layer = kv_layer_of(h, layer);
    b.enter(Part::kAttention, layer);
    const ValueId normed = norm(b, NormKind::kRms, x, name("attn_norm"));
    const ValueId attended =
        norm(b, NormKind::kRms, attention(b, layer, normed, block, x), name("post_attention_norm"));
    const ValueId sum = add(b, x, attended, name("after_attention"));
    b.enter(Part::kFeedForward, layer);
    x = add(b, sum, gemma4_feed_forward(b, layer, sum), name("after_ffn"));
    if (layer_inputs != kNoValue) {
      const ValueId own = own_input(b, layer, layer_inputs, x);
      x = add(b, x, own, name("after_own_input"));
    }
    if (const ValueId scale = b.optional_weight(name("layer_output_scale.weight"), {1}); scale != kNoValue)
      x = b.add(ops::Mul{}, {x, scale}, name("layer_scaled"));
    x = b.pass_on(layer, x);
  }
  return output_logits(b, NormKind::kRms, x);
}

}  // namespace

const Family kGemma4 = {"gemma4", read_gemma4, build_gemma4, LayerMix::kVaried};

}  // namespace weft::model
