// Positions in blocks other than rope: learned ones, LongRope's factors, temperatures.
#include "model/blocks.h"

namespace weft::model {

ValueId add_learned_positions(Builder& b, ValueId x) {
  const HParams& h = b.hparams();
  const ValueId table = b.weight("position_embd.weight", {h.n_ctx_train, h.n_embd});
  const ValueId rows = b.add(ops::GetRows{}, {table, b.model().positions}, "position_rows");
  return add(b, x, rows, "embeddings_at_positions");
}

ValueId long_rope_factors(Builder& b) {
  const ops::Rope& rope = b.hparams().rope;
  const ValueId of_short = b.optional_weight("rope_factors_short.weight", {rope.n_rot / 2});
  const ValueId of_long = b.optional_weight("rope_factors_long.weight", {rope.n_rot / 2});
  return b.max_positions() > rope.n_ctx_orig ? of_long : of_short;
}

ValueId turn(Builder& b, ValueId x, const ops::Rope& rope, ValueId factors, const std::string& result) {
  if (!b.hparams().axes) return b.add(rope, {x, b.model().positions, factors}, result);
  // One axis after the other, each with the pairs of the others standing still.
  for (std::size_t axis = 0; axis < b.model().axes.size(); ++axis) {
    ops::Rope of_axis = rope;
    if (axis > 0) of_axis.attn_factor = 1.0f;
    x = b.add(of_axis, {x, b.axis(axis), b.axis_factors(axis)},
              axis == 2 ? result : result + "_" + std::to_string(axis));
  }
  return x;
}

ValueId temperatures(Builder& b, int first) {
  const TemperatureParams& temperature = *b.hparams().attention->temperature;
  const auto add = [&](auto op, ValueId x, const char* name) { return b.add(std::move(op), {x}, name); };
  const auto number = [](BinaryKind kind, float scalar) {
    return ops::Binary{.kind = kind, .scalar = scalar};
  };
  ValueId x = add(ops::Cast{DType::kF32}, b.model().positions, "positions_as_floats");
  x = add(number(BinaryKind::kAdd, static_cast<float>(first)), x, "positions_counted");
  x = add(number(BinaryKind::kDiv, static_cast<float>(temperature.length)), x, "lengths");
  x = add(ops::Unary{UnaryKind::kFloor}, x, "whole_lengths");
  x = add(ops::Unary{UnaryKind::kLog1p}, x, "log_lengths");
  x = add(ops::Scale{temperature.scale}, x, "log_lengths_scaled");
  x = add(number(BinaryKind::kAdd, 1.0f), x, "temperatures_of_rows");
  return add(ops::Reshape{{b.model().graph.value(x).shape[0], 1}}, x, "temperatures");
}

}  // namespace weft::model
