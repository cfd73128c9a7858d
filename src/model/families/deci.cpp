// Llama-Nemotron (arXiv 2505.00949), DeciLM: Llama whose layers were found by search, each with heads and a
// width of its own. Some have a matrix in place of attention, or no attention, or no feed-forward part.
#include "base/to_size.h"
#include "model/blocks.h"
#include "model/family.h"

namespace weft::model {
namespace {

void read_deci(const Metadata&, HParams&) {}

/// The replacement of attention in a layer, if there is one. In the last layer `x` is reduced to the rows
/// that something is wanted of.
ValueId attend(Builder& b, int layer, ValueId x, AttentionBlock block) {
  const HParams& h = b.hparams();
  const auto i = to_size(layer);
  block.n_heads = h.attention->n_heads_of[i];
  block.n_kv_heads = h.attention->n_kv_heads_of[i];
  b.enter(Part::kAttention, layer);
  if (block.n_heads == 0) {
    if (layer == h.n_layers - 1) x = b.add(ops::GetRows{}, {x, b.model().wanted_rows}, "last_layer_outputs");
    return x;
  }
  const ValueId normed = norm(b, NormKind::kRms, x, layer_name(layer, "attn_norm"));
  ValueId out;
  if (block.n_kv_heads > 0) {
    out = attention(b, layer, normed, block, x);
  } else {
    out = linear(b, wanted_rows(b, layer, normed, x), layer_name(layer, "attn_output"), h.n_embd);
  }
  return add(b, x, out, layer_name(layer, "after_attention"));
}

ValueId deci_feed_forward(Builder& b, int layer, ValueId x) {
  const HParams& h = b.hparams();
  const std::int64_t width = h.ffn.width_of[to_size(layer)];
  if (width == 0) return x;
  const auto name = [&](const char* part) { return layer_name(layer, part); };
  b.enter(Part::kFeedForward, layer);
  const ValueId normed = norm(b, NormKind::kRms, x, name("ffn_norm"));
  return add(b, x, gated_ffn(b, layer, normed, Activation::kSilu, width), name("after_ffn"));
}

ValueId build_deci(Builder& b) {
  const HParams& h = b.hparams();
  AttentionBlock block;
  block.rope_params = h.rope;
  block.rope_factors = b.optional_weight("rope_freqs.weight", {h.rope.n_rot / 2});
  ValueId x = embed_tokens(b);
  for (int layer = 0; layer < h.n_layers; ++layer)
    x = b.pass_on(layer, deci_feed_forward(b, layer, attend(b, layer, x, block)));
  return output_logits(b, NormKind::kRms, x);
}

}  // namespace

const Family kDeci = {"deci", read_deci, build_deci, LayerMix::kSparse};

}  // namespace weft::model
