#include "vision/encoder_graph.h"

#include <cmath>

#include "base/to_size.h"
#include "vision/patches.h"
#include "weft/error.h"

namespace weft::vision {
namespace {

constexpr float kBase = 10000.0f;

}  // namespace

/// The angles of columns are between the angles of lines; adjacent elements are pairs (PixtralRotaryEmbedding
/// of transformers).
Value EncoderBuilder::turned(Value x) const {
  const std::int64_t heads = hparams_.n_heads, half = hparams_.width / heads / 2;
  const Dim n = x.size(0);
  const Value halves = reshape(x, {n, heads, 2, half});
  const auto turn = [&](int which, Value positions, float scale) {
    const Value part = reshape(slice(halves, 2, which, which + 1), {n, heads * half});
    const ops::Rope params{.head_dim = static_cast<int>(half),
                           .n_rot = static_cast<int>(half),
                           .freq_base = kBase,
                           .freq_scale = scale};
    return reshape(rope(part, positions, params), {n, heads, 1, half});
  };
  const float between = std::pow(kBase, -1.0f / static_cast<float>(half));
  return reshape(concat({turn(0, lines_, 1.0f), turn(1, columns_, between)}, 2), {n, hparams_.width});
}

/// Pairs are an element of each half (apply_rotary_pos_emb_vision of transformers). The result has the
/// elements of a head in another order. Queries and keys have the same order, so their products do not
/// change.
Value EncoderBuilder::turned_by_halves(Value x) const {
  const std::int64_t heads = hparams_.n_heads, quarter = hparams_.width / heads / 4;
  const Dim n = x.size(0);
  const Value quarters = reshape(x, {n, 2 * heads, 2, quarter});
  const auto turn = [&](int which, Value positions) {
    const Value part = reshape(slice(quarters, 2, which, which + 1), {n, heads * 2 * quarter});
    const ops::Rope params{.head_dim = static_cast<int>(2 * quarter),
                           .n_rot = static_cast<int>(2 * quarter),
                           .neox = true,
                           .freq_base = kBase};
    return reshape(rope(part, positions, params), {n, heads, 1, 2 * quarter});
  };
  return reshape(concat({turn(0, lines_), turn(1, columns_)}, 2), {n, hparams_.width});
}

Value EncoderBuilder::at_its_place(Value x, const Dim& n) {
  const std::int64_t d = hparams_.width, side = hparams_.grid();
  const auto index = [&](const std::string& name) { return graph().input(name, {n}, DType::kI32); };
  if (kind_.places == Places::kTable)
    return x + take(weight("v.position_embd.weight", {side * side, d}), index("positions"));
  if (kind_.places == Places::kInterpolated) {
    const Value table = weight("v.position_embd.weight", {side * side, d});
    for (std::size_t i = 0; i < kCorners; ++i)
      x = x + take(table, index(kCornerNames[i])) * graph().input(kShareNames[i], {n, 1});
  }
  lines_ = index("lines");
  columns_ = index("columns");
  return x;
}

Value EncoderBuilder::encode() {
  const std::int64_t d = hparams_.width, p = hparams_.patch_size;
  if (kind_.places != Places::kTable && hparams_.width / hparams_.n_heads % 4 != 0)
    throw Error(ErrorCode::kInvalidFile, "metadata key clip.vision.attention.head_count: heads of " +
                                             std::to_string(hparams_.width / hparams_.n_heads) +
                                             " elements do not fit 2D RoPE, expected a multiple of 4");
  n_rows_ = graph().symbol("n_rows", 1, hparams_.max_rows());
  const Dim n = n_rows_ * Dim(std::int64_t{hparams_.merge} * hparams_.merge);
  const auto index = [&](const char* name) { return graph().input(name, {n}, DType::kI32); };
  const Value patches = graph().input("patches", {n, 3 * p * p});
  Value x = weft::linear(patches, flat_weight("v.patch_embd.weight", {d, 3, p, p}),
                         kind_.patch_bias ? weight("v.patch_embd.bias", {d}) : Value());
  if (kind_.two_frames) x = x + weft::linear(patches, flat_weight("v.patch_embd.weight.1", {d, 3, p, p}));
  x = at_its_place(x, n);
  const Ranges all{index("begins"), index("ends")};
  const Ranges windows =
      hparams_.full_every > 1 ? Ranges{index("window_begins"), index("window_ends")} : Ranges{};
  std::function<Value(Value)> turn;
  if (kind_.places == Places::kTurns) turn = [this](Value v) { return turned(v); };
  if (kind_.places == Places::kHalves || kind_.places == Places::kInterpolated)
    turn = [this](Value v) { return turned_by_halves(v); };
  if (kind_.norm_before) x = norm(x, "v.pre_ln");
  for (int i = 0; i < hparams_.n_layers; ++i) {
    x = layer(x, "v.blk." + std::to_string(i) + ".", (i + 1) % hparams_.full_every == 0 ? all : windows,
              turn);
    if (!hparams_.deepstack.empty() && hparams_.deepstack[to_size(i)]) taps_.emplace_back(i, x);
  }
  return kind_.norm_behind ? norm(x, "v.post_ln") : x;
}

}  // namespace weft::vision
