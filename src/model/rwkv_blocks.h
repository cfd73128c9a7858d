#pragma once
// Common parts of the generations of RWKV. They mix rows with the row before them. Their heads have a state,
// which is read with norms and with a share of the token's own value.
#include <functional>
#include <string>

#include "model/blocks.h"

namespace weft::model {

/// The nodes of one layer after another. A family's own blocks derive from it.
class RwkvBlocks {
 public:
  explicit RwkvBlocks(Builder& b) : b_(b), h_(b.hparams()), rwkv_(*h_.rwkv), n_(h_.n_embd) {}

 protected:
  void begin_layer(int layer) { layer_ = layer; }
  std::string name(const std::string& part) const { return layer_name(layer_, part.c_str()); }
  template <typename T>
  ValueId add(T op, std::initializer_list<ValueId> inputs, const std::string& part) {
    return b_.add(std::move(op), inputs, name(part));
  }
  /// `part`.weight, as many elements as x has columns, whatever sizes of 1 the file gives it.
  ValueId vector(const std::string& part) { return b_.flat_weight(name(part) + ".weight", {1, 1, n_}); }
  ValueId sigmoid(ValueId x, const std::string& result) {
    return add(ops::Unary{UnaryKind::kSigmoid}, {x}, result);
  }
  /// {n_tokens, n} as heads: {n_tokens, n_heads, n_heads' share of n}
  ValueId by_head(ValueId x, const std::string& result);

  /// The row of the token before, zeros before the first one; less the row itself.
  ValueId away_from_last(ValueId x, const std::string& result) { return shifted(x, -1.0f, result); }
  /// The same, not less the row.
  ValueId last(ValueId x, const std::string& result) { return shifted(x, 0.0f, result); }
  /// x + away * shares
  ValueId mix(ValueId x, ValueId away, ValueId shares, const std::string& result) {
    return add(ops::Add{}, {x, add(ops::Mul{}, {away, shares}, result + "_away")}, result);
  }

  /// Layer norms of the heads of what the state gave, by time_mix_ln. Models without it have none.
  ValueId norm_heads(ValueId y);
  /// The token's own value, weighted by the product of its key and its receptance: sum(r * key * weights) * v
  /// for each head.
  ValueId own_share(ValueId r, ValueId key, ValueId v, ValueId weights);

  Builder& b_;
  const HParams& h_;
  const RwkvParams& rwkv_;
  const std::int64_t n_;
  int layer_ = 0;

 private:
  /// The last row, and `own` times the row.
  ValueId shifted(ValueId x, float own, const std::string& result);
};

/// Mixes the normed rows of a layer over time. The result is the input of time_mix_output.
using TimeMix = std::function<ValueId(int layer, ValueId normed)>;
/// The replacement of a feed-forward network, applied to normed rows. Its result is added to `x`, of which
/// the last layer takes the wanted rows.
using ChannelMix = std::function<ValueId(int layer, ValueId normed, ValueId& x)>;

/// RWKV's decoder, from tokens to logits.
ValueId rwkv_decoder(Builder& b, const TimeMix& time_mix, const ChannelMix& channel_mix);
/// A transformer's, whose attention is a time mix.
ValueId decoder_with_time_mix(Builder& b, const TimeMix& time_mix);

}  // namespace weft::model
