// RWKV-7 (arXiv 2503.14456): layers mix each token with the one before it. Each head has a state that forgets
// by columns, removes the value under one key and stores a value under another. ARWKV-7 (arXiv 2501.15570):
// its attention in the layers of Qwen.
#include "model/family.h"
#include "model/rwkv_blocks.h"

namespace weft::model {
namespace {

void read_rwkv7(const Metadata& metadata, HParams& h) {
  RwkvParams& rwkv = h.rwkv.emplace(read_rwkv(metadata, h.n_embd));
  rwkv.decay_rank = metadata.require_int("attention.decay_lora_rank", 1, kMaxRank);
  rwkv.rate_rank = metadata.require_int("attention.iclr_lora_rank", 1, kMaxRank);
  rwkv.value_rank = metadata.require_int("attention.value_residual_mix_lora_rank", 1, kMaxRank);
  rwkv.gate_rank = metadata.get_int("attention.gate_lora_rank", 0, kMaxRank, 0);
}

class Rwkv7 : public RwkvBlocks {
 public:
  using RwkvBlocks::RwkvBlocks;

  /// What the state of a layer gives for its normed input, ready for the output projection.
  ValueId time_mix(int layer, ValueId x) {
    begin_layer(layer);
    const ValueId away = away_from_last(x, "time_shift");
    const std::int64_t n_parts = rwkv_.gate_rank > 0 ? 6 : 5;
    const ValueId shares = b_.flat_weight(name("time_mix_lerp_fused.weight"), {n_parts, 1, 1, n_});
    const auto mixed = [&](int part, const char* result) {
      const ops::Slice of_part{.axis = 0, .begin = part * n_, .end = (part + 1) * n_};
      return mix(x, away, add(of_part, {shares}, std::string(result) + "_shares"), result);
    };
    const ValueId r = linear(b_, mixed(0, "mixed_r"), name("time_mix_receptance"), n_);
    const ValueId decay = decays(mixed(1, "mixed_w"));
    const ValueId k = linear(b_, mixed(2, "mixed_k"), name("time_mix_key"), n_);
    const ValueId v = values(mixed(3, "mixed_v"));
    const ValueId rate = sigmoid(low_rank(mixed(4, "mixed_a"), 'a', rwkv_.rate_rank), "rate");

    constexpr float kEps = 1e-12f;
    const ops::Norm unit{.kind = NormKind::kL2, .eps = kEps, .group = rwkv_.head_dim};
    const ValueId removed =
        add(unit, {add(ops::Mul{}, {k, vector("time_mix_k_k")}, "removed")}, "removed_unit");
    const ValueId scaled = add(ops::Mul{}, {k, vector("time_mix_k_a")}, "k_scaled");
    const ValueId at_rate = add(ops::Mul{}, {scaled, rate}, "k_at_rate");
    const ValueId more = add(ops::Binary{BinaryKind::kSub}, {at_rate, scaled}, "k_more");
    const ValueId key = add(ops::Add{}, {k, more}, "key");

    const ValueId state =
        b_.running_state("wkv", layer, std::int64_t{rwkv_.n_heads} * rwkv_.head_dim, rwkv_.head_dim);
    const ValueId y = b_.add(ops::DeltaRule{},
                             {.state = state,
                              .q = r,
                              .k = key,
                              .v = v,
                              .decay = decay,
                              .beta = rate,
                              .from = b_.model().state_from,
                              .to = b_.model().state_to,
                              .removed = removed},
                             name("wkv"));
    const ValueId sum =
        add(ops::Add{}, {norm_heads(y), own_share(r, key, v, vector("time_mix_r_k"))}, "wkv_sum");
    if (rwkv_.gate_rank == 0) return sum;
    const ValueId open =
        sigmoid(linear(b_, mixed(5, "mixed_g"), name("time_mix_g1"), rwkv_.gate_rank), "gate_low");
    return add(ops::Mul{}, {sum, linear(b_, open, name("time_mix_g2"), n_)}, "wkv_gated");
  }

  /// The feed-forward part. In the last layer only rows that something is wanted of come out, and `residual`
  /// is reduced to them as well.
  ValueId channel_mix(int layer, ValueId x, ValueId& residual) {
    begin_layer(layer);
    b_.enter(Part::kRecurrent, layer);
    const ValueId away = away_from_last(x, "channel_shift");
    b_.enter(Part::kFeedForward, layer);
    const ValueId shares = b_.flat_weight(name("channel_mix_lerp_k.weight"), {1, 1, n_});
    const ValueId rows = wanted_rows(b_, layer, mix(x, away, shares, "channel_mixed"), residual);
    const ValueId k = linear(b_, rows, name("channel_mix_key"), h_.ffn.width);
    const ValueId active = add(ops::Activate{Activation::kReluSquared}, {k}, "channel_active");
    return linear(b_, active, name("channel_mix_value"), n_);
  }

 private:
  /// `part`2 (`part`1 x) + `part`0, with tanh between where that is said.
  ValueId low_rank(ValueId x, char part, int rank, bool tanh = false) {
    const std::string stem = std::string("time_mix_") + part;
    ValueId low = linear(b_, x, name(stem + "1"), rank);
    if (tanh) low = add(ops::Unary{UnaryKind::kTanh}, {low}, stem + "1_tanh");
    const ValueId wide = linear(b_, low, name(stem + "2"), n_);
    return add(ops::Add{}, {wide, vector(stem + "0")}, stem);
  }
  /// The decay of each column of a head's state: from exp(-exp(-1/2)) to 1.
  ValueId decays(ValueId x) {
    constexpr float kMost = -0.60653066f;
    const ValueId share = sigmoid(low_rank(x, 'w', rwkv_.decay_rank, true), "decay_share");
    const ValueId exponent = add(ops::Scale{kMost}, {share}, "log_decay");
    return add(ops::Unary{UnaryKind::kExp}, {exponent}, "decay");
  }
  /// Behind the first layer some of its values come back.
  ValueId values(ValueId x) {
    const ValueId v = linear(b_, x, name("time_mix_value"), n_);
    if (layer_ == 0) return first_values_ = v;
    const ValueId share = sigmoid(low_rank(x, 'v', rwkv_.value_rank), "value_share");
    const ValueId away = add(ops::Binary{BinaryKind::kSub}, {first_values_, v}, "first_values_away");
    return add(ops::Add{}, {v, add(ops::Mul{}, {away, share}, "first_values_share")}, "values");
  }

  ValueId first_values_ = kNoValue;
};

ValueId build_rwkv7(Builder& b) {
  Rwkv7 rwkv(b);
  return rwkv_decoder(
      b, [&](int layer, ValueId normed) { return rwkv.time_mix(layer, normed); },
      [&](int layer, ValueId normed, ValueId& x) { return rwkv.channel_mix(layer, normed, x); });
}

ValueId build_arwkv(Builder& b) {
  Rwkv7 rwkv(b);
  return decoder_with_time_mix(b, [&](int layer, ValueId normed) { return rwkv.time_mix(layer, normed); });
}

}  // namespace

const Family kRwkv7 = {"rwkv7", read_rwkv7, build_rwkv7, LayerMix::kRecurrent};
const Family kArwkv7 = {"arwkv7", read_rwkv7, build_arwkv, LayerMix::kRecurrent};

}  // namespace weft::model
