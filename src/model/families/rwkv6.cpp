// RWKV-6 (arXiv 2404.05892): layers mix each token with the one before it, by shares that the token chooses.
// Each head has a state that forgets by columns and stores a value under a key. QRWKV-6 (Recursal, 2025): its
// attention in the layers of Qwen 2, with heads that share keys and values.
#include <cmath>
#include <string>
#include <string_view>

#include "model/family.h"
#include "model/rwkv_blocks.h"

namespace weft::model {
namespace {

RwkvParams& read_ranks(const Metadata& metadata, HParams& h) {
  RwkvParams& rwkv = h.rwkv.emplace(read_rwkv(metadata, h.n_embd));
  rwkv.n_kv_heads = rwkv.n_heads;
  rwkv.mix_rank = metadata.require_int("time_mix_extra_dim", 1, kMaxRank);
  rwkv.decay_rank = metadata.require_int("time_decay_extra_dim", 1, kMaxRank);
  return rwkv;
}

void read_rwkv6(const Metadata& metadata, HParams& h) {
  read_ranks(metadata, h).n_per_halving = metadata.get_int("rescale_every_n_layers", 0, kMaxLayers, 0);
}

void read_qrwkv(const Metadata& metadata, HParams& h) {
  constexpr std::string_view kKey = "attention.head_count_kv";
  RwkvParams& rwkv = read_ranks(metadata, h);
  // Files say 0 where no head shares.
  const int n = metadata.get_int(kKey, 0, rwkv.n_heads, 0);
  if (n > 0) rwkv.n_kv_heads = n;
  if (rwkv.n_heads % rwkv.n_kv_heads != 0)
    metadata.refuse(kKey,
                    "found " + std::to_string(n) + ", expected a divisor of " + std::to_string(rwkv.n_heads));
}

class Rwkv6 : public RwkvBlocks {
 public:
  using RwkvBlocks::RwkvBlocks;

  /// What the state of a layer gives for its normed input, ready for the output projection.
  ValueId time_mix(int layer, ValueId x) {
    begin_layer(layer);
    mix_parts(x);
    const ValueId r = linear(b_, mixed('r'), name("time_mix_receptance"), n_);
    const ValueId k = linear(b_, mixed('k'), name("time_mix_key"), n_);
    const ValueId v = linear(b_, mixed('v'), name("time_mix_value"), n_);
    const ValueId gate = linear(b_, mixed('g'), name("time_mix_gate"), n_);
    const ValueId decay = decays();
    // A token reads the state before it is in it: rows keep what the one before them brought.
    const ValueId y = keep(r, last(k, "last_key"), last(v, "last_value"), last(decay, "last_decay"));
    const ValueId first = b_.flat_weight(name("time_mix_first.weight"), {rwkv_.n_heads, rwkv_.head_dim});
    const ValueId sum = add(ops::Add{}, {y, own_share(r, k, v, first)}, "wkv_sum");
    return add(ops::Glu{Activation::kSilu}, {gate, norm_heads(sum)}, "wkv_gated");
  }

  /// The same of QRWKV-6: the token is in the state that it reads, the more the less of it is kept.
  ValueId linear_attention(int layer, ValueId x) {
    begin_layer(layer);
    mix_parts(x);
    const std::int64_t n_kv = std::int64_t{rwkv_.n_kv_heads} * rwkv_.head_dim;
    const ValueId r = linear(b_, mixed('r'), name("time_mix_receptance"), n_);
    const ValueId k = for_all_heads(linear(b_, mixed('k'), name("time_mix_key"), n_kv), "keys");
    const ValueId v = for_all_heads(linear(b_, mixed('v'), name("time_mix_value"), n_kv), "values");
    const ValueId open = sigmoid(linear(b_, mixed('g'), name("time_mix_gate"), n_), "gate_open");
    const ValueId decay = decays();
    const ValueId kept = add(ops::Mul{}, {k, decay}, "key_kept");
    const ValueId key = add(ops::Binary{BinaryKind::kSub}, {k, kept}, "key");
    const ValueId y = keep(r, key, v, decay);
    const float scale = 1.0f / std::sqrt(static_cast<float>(rwkv_.head_dim));
    return add(ops::Mul{}, {add(ops::Scale{scale}, {y}, "wkv_scaled"), open}, "wkv_gated");
  }

  /// The feed-forward part. In the last layer only rows that something is wanted of come out, and `residual`
  /// is reduced to them as well.
  ValueId channel_mix(int layer, ValueId x, ValueId& residual) {
    begin_layer(layer);
    b_.enter(Part::kRecurrent, layer);
    const ValueId away = away_from_last(x, "channel_shift");
    b_.enter(Part::kFeedForward, layer);
    const auto rows_of = [&](const std::string& part) {
      const ValueId rows = mix(x, away, vector("channel_mix_lerp_" + part), "channel_mixed_" + part);
      if (layer != h_.n_layers - 1) return rows;
      return add(ops::GetRows{}, {rows, b_.model().wanted_rows}, "channel_rows_" + part);
    };
    const ValueId k = linear(b_, rows_of("k"), name("channel_mix_key"), h_.ffn.width);
    const ValueId active = add(ops::Activate{Activation::kReluSquared}, {k}, "channel_active");
    const ValueId r = sigmoid(linear(b_, rows_of("r"), name("channel_mix_receptance"), n_), "channel_gate");
    const ValueId out = linear(b_, active, name("channel_mix_value"), n_);
    if (layer == h_.n_layers - 1)
      residual = add(ops::GetRows{}, {residual, b_.model().wanted_rows}, "residual_outputs");
    return add(ops::Mul{}, {out, r}, "channel_gated");
  }

 private:
  static constexpr std::string_view kParts = "wkvrg";  // In the order of the file's tensors.

  /// The difference of each part's share of the row before from the layer's own: low-rank products, computed
  /// like experts that all rows choose.
  void mix_parts(ValueId x) {
    constexpr std::int64_t kN = kParts.size();
    x_ = x;
    away_ = away_from_last(x, "time_shift");
    const Dim rows = b_.model().graph.value(x).shape[0];
    const ValueId chooses = mix(x, away_, vector("time_mix_lerp_x"), "mixed_x");
    const ValueId low = add(ops::Unary{UnaryKind::kTanh},
                            {linear(b_, chooses, name("time_mix_w1"), kN * rwkv_.mix_rank)}, "mix_low");
    const ValueId apart = add(ops::Reshape{{rows, kN, rwkv_.mix_rank}}, {low}, "mix_low_parts");
    const ValueId numbers = add(ops::Arange{.size = kN}, {}, "mix_numbers");
    const ValueId ids = add(ops::BroadcastTo{{rows, kN}}, {numbers}, "mix_ids");
    const ValueId weight = b_.weight(name("time_mix_w2.weight"), {kN, n_, rwkv_.mix_rank});
    shares_ = add(ops::MatmulExperts{}, {weight, apart, ids}, "mix_shares");
  }
  ValueId mixed(char part) {
    const auto i = static_cast<std::int64_t>(kParts.find(part));
    const std::string result = std::string("mixed_") + part;
    const Dim rows = b_.model().graph.value(x_).shape[0];
    const ValueId cut =
        add(ops::Slice{.axis = 1, .begin = i, .end = i + 1}, {shares_}, result + "_shares_cut");
    const ValueId chosen = add(ops::Reshape{{rows, n_}}, {cut}, result + "_shares_chosen");
    const ValueId shares = add(ops::Add{}, {chosen, own_shares(part, i)}, result + "_shares");
    return mix(x_, away_, shares, result);
  }
  ValueId own_shares(char part, std::int64_t i) {
    if (!has_in_any_layer(b_, "time_mix_lerp_fused.weight"))
      return vector(std::string("time_mix_lerp_") + part);
    const ValueId all = b_.flat_weight(name("time_mix_lerp_fused.weight"),
                                       {static_cast<std::int64_t>(kParts.size()), 1, 1, n_});
    return add(ops::Slice{.axis = 0, .begin = i * n_, .end = (i + 1) * n_}, {all},
               std::string("own_shares_") + part);
  }

  /// The decay of each column of a head's state: exp(-exp(x)).
  ValueId decays() {
    const ValueId low = linear(b_, mixed('w'), name("time_mix_decay_w1"), rwkv_.decay_rank);
    const ValueId active = add(ops::Unary{UnaryKind::kTanh}, {low}, "decay_low");
    const ValueId wide = linear(b_, active, name("time_mix_decay_w2"), n_);
    const ValueId speed = add(ops::Unary{UnaryKind::kExp},
                              {add(ops::Add{}, {wide, vector("time_mix_decay")}, "log_speed")}, "speed");
    return add(ops::Unary{UnaryKind::kExp}, {add(ops::Unary{UnaryKind::kNeg}, {speed}, "log_decay")},
               "decay");
  }

  /// Reads with r what the state keeps under keys; nothing is removed for a key's own sake.
  ValueId keep(ValueId r, ValueId key, ValueId v, ValueId decay) {
    const ValueId state =
        b_.running_state("wkv", layer_, std::int64_t{rwkv_.n_heads} * rwkv_.head_dim, rwkv_.head_dim);
    return b_.add(ops::DeltaRule{},
                  {.state = state,
                   .q = r,
                   .k = key,
                   .v = v,
                   .decay = decay,
                   .beta = add(ops::Scale{0.0f}, {decay}, "removes_nothing"),
                   .from = b_.model().state_from,
                   .to = b_.model().state_to,
                   .removed = decay},
                  name("wkv"));
  }

  /// Rows of the heads that share one, once for each of them.
  ValueId for_all_heads(ValueId x, const std::string& result) {
    if (rwkv_.n_kv_heads == rwkv_.n_heads) return x;
    const std::int64_t groups = rwkv_.n_kv_heads, each = rwkv_.n_heads / rwkv_.n_kv_heads;
    const Dim rows = b_.model().graph.value(x).shape[0];
    const ValueId apart = add(ops::Reshape{{rows, groups, 1, rwkv_.head_dim}}, {x}, result + "_apart");
    const ValueId repeated =
        add(ops::BroadcastTo{{rows, groups, each, rwkv_.head_dim}}, {apart}, result + "_repeated");
    return add(ops::Reshape{{rows, n_}}, {repeated}, result + "_of_heads");
  }

  ValueId x_ = kNoValue, away_ = kNoValue, shares_ = kNoValue;  // Of the layer.
};

ValueId build_rwkv6(Builder& b) {
  Rwkv6 rwkv(b);
  return rwkv_decoder(
      b, [&](int layer, ValueId normed) { return rwkv.time_mix(layer, normed); },
      [&](int layer, ValueId normed, ValueId& x) { return rwkv.channel_mix(layer, normed, x); });
}

ValueId build_qrwkv(Builder& b) {
  Rwkv6 rwkv(b);
  return decoder_with_time_mix(
      b, [&](int layer, ValueId normed) { return rwkv.linear_attention(layer, normed); });
}

}  // namespace

const Family kRwkv6 = {"rwkv6", read_rwkv6, build_rwkv6, LayerMix::kRecurrent};
const Family kRwkv6Qwen2 = {"rwkv6qwen2", read_qrwkv, build_qrwkv, LayerMix::kRecurrent};

}  // namespace weft::model
