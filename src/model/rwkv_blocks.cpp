#include "model/rwkv_blocks.h"

#include <utility>
#include <vector>

namespace weft::model {

ValueId RwkvBlocks::by_head(ValueId x, const std::string& result) {
  const Dim rows = b_.model().graph.value(x).shape[0];
  return add(ops::Reshape{{rows, rwkv_.n_heads, rwkv_.head_dim}}, {x}, result);
}

ValueId RwkvBlocks::shifted(ValueId x, float own, const std::string& result) {
  const std::string taps_name = own == 0.0f ? "last_taps" : "shift_taps";
  std::vector<float> taps;
  for (std::int64_t i = 0; i < n_; ++i) taps.insert(taps.end(), {1.0f, own});
  return b_.add(ops::ShortConv{},
                {.state = b_.running_state(result, layer_, 1, n_),
                 .x = x,
                 .weight = b_.constant(taps_name, {n_, 2}, std::move(taps)),
                 .from = b_.model().state_from,
                 .to = b_.model().state_to},
                name(result));
}

ValueId RwkvBlocks::norm_heads(ValueId y) {
  constexpr float kEps = 64e-5f;
  if (!has_in_any_layer(b_, "time_mix_ln.weight")) return y;
  const ops::Norm of_heads{.kind = NormKind::kLayer, .eps = kEps, .group = rwkv_.head_dim};
  const ValueId scaled =
      add(ops::Mul{}, {add(of_heads, {y}, "wkv_normed"), vector("time_mix_ln")}, "wkv_scaled");
  return add(ops::Add{}, {scaled, b_.weight(name("time_mix_ln.bias"), {n_})}, "wkv_moved");
}

ValueId RwkvBlocks::own_share(ValueId r, ValueId key, ValueId v, ValueId weights) {
  const Dim rows = b_.model().graph.value(v).shape[0];
  const ValueId both = add(ops::Mul{}, {r, key}, "r_times_key");
  const ValueId weighted = add(ops::Mul{}, {both, weights}, "own_weights");
  const ValueId sums = add(ops::Reduce{.kind = ReduceKind::kSum, .axes = 4, .keep = true},
                           {by_head(weighted, "own_weights_heads")}, "own_weight");
  const ValueId each = add(ops::Mul{}, {by_head(v, "values_heads"), sums}, "own_values_heads");
  return add(ops::Reshape{{rows, n_}}, {each}, "own_values");
}

ValueId rwkv_decoder(Builder& b, const TimeMix& time_mix, const ChannelMix& channel_mix) {
  const HParams& h = b.hparams();
  ValueId x = norm(b, NormKind::kLayer, embed_tokens(b), "token_embd_norm");
  for (int layer = 0; layer < h.n_layers; ++layer) {
    const auto normed = [&](const char* name) {
      return norm(b, NormKind::kLayer, x, layer_name(layer, name));
    };
    b.enter(Part::kRecurrent, layer);
    const ValueId read = time_mix(layer, normed("attn_norm"));
    x = add(b, x, linear(b, read, layer_name(layer, "time_mix_output"), h.n_embd),
            layer_name(layer, "after_time_mix"));
    const ValueId mixed = channel_mix(layer, normed("attn_norm_2"), x);
    x = add(b, x, mixed, layer_name(layer, "after_channel_mix"));
    if (const int n = h.rwkv->n_per_halving; n > 0 && (layer + 1) % n == 0)
      x = b.add(ops::Scale{0.5f}, {x}, layer_name(layer, "halved"));
    x = b.pass_on(layer, x);
  }
  return output_logits(b, NormKind::kLayer, x);
}

ValueId decoder_with_time_mix(Builder& b, const TimeMix& time_mix) {
  Decoder how;
  how.attend = [&](int layer, ValueId x, ValueId& residual) {
    b.enter(Part::kRecurrent, layer);
    const ValueId read = wanted_rows(b, layer, time_mix(layer, x), residual);
    return linear(b, read, layer_name(layer, "time_mix_output"), b.hparams().n_embd);
  };
  return decoder(b, embed_tokens(b), how);
}

}  // namespace weft::model
