#include "model/rwkv_blocks.h"

#include <utility>
#include <vector>

namespace weft::model {

void read_rwkv_heads(const Metadata& metadata, HParams& h) {
  constexpr std::string_view kSize = "wkv.head_size";
  h.n_ssm_state = metadata.require_int(kSize, 1, kMaxSsmState);
  if (h.n_embd % h.n_ssm_state != 0)
    metadata.refuse(kSize, "found " + std::to_string(h.n_ssm_state) +
                               ", expected a divisor of the embedding length " + std::to_string(h.n_embd));
  h.n_ssm_heads = h.n_embd / h.n_ssm_state;
}

ValueId RwkvBlocks::by_head(ValueId x, const std::string& result) {
  const Dim rows = b_.model().graph.value(x).shape[0];
  return add(ops::Reshape{{rows, h_.n_ssm_heads, h_.n_ssm_state}}, {x}, result);
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
  const ops::Norm of_heads{.kind = NormKind::kLayer, .eps = kEps, .group = h_.n_ssm_state};
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

}  // namespace weft::model
