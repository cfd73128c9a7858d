// Apertus (arXiv 2509.14233): Llama with norms of Q's and K's heads, no gate, and xIELU (arXiv 2411.13010),
// whose numbers each layer has learned.
#include <cmath>

#include "base/to_size.h"
#include "model/blocks.h"
#include "model/family.h"

namespace weft::model {
namespace {

void read_apertus(const Metadata& metadata, HParams& h) {
  constexpr double kMost = 1e4;
  h.rope.neox = true;
  const auto softplus = [](float x) { return x > 20.0f ? x : std::log1p(std::exp(x)); };
  const auto positive = metadata.get_floats("xielu.alpha_p", h.n_layers, -kMost, kMost);
  const auto negative = metadata.get_floats("xielu.alpha_n", h.n_layers, -kMost, kMost);
  const auto beta = metadata.get_floats("xielu.beta", h.n_layers, -kMost, kMost);
  const auto eps = metadata.get_floats("xielu.eps", h.n_layers, -kMost, 0.0);
  for (std::size_t i = 0; i < beta.size(); ++i)
    h.ffn.xielu.push_back({softplus(positive[i]), beta[i] + softplus(negative[i]), beta[i], eps[i]});
}

/// positive * x^2 + beta * x above 0; negative * (e^min(x, eps) - 1 - x) + beta * x elsewhere.
ValueId xielu(Builder& b, int layer, ValueId x) {
  const Xielu& p = b.hparams().ffn.xielu[to_size(layer)];
  const auto add = [&](auto op, std::initializer_list<ValueId> inputs, const char* name) {
    return b.add(std::move(op), inputs, layer_name(layer, name));
  };
  const ValueId linear_part = add(ops::Scale{p.beta}, {x}, "xielu_linear");
  const ValueId square = add(ops::Unary{UnaryKind::kSquare}, {x}, "xielu_square");
  const ValueId above = add(ops::Scale{p.positive}, {square}, "xielu_above");
  const ValueId low = add(ops::Binary{.kind = BinaryKind::kMinimum, .scalar = p.eps}, {x}, "xielu_low");
  const ValueId curve = add(ops::Unary{UnaryKind::kExpm1}, {low}, "xielu_curve");
  const ValueId bent = add(ops::Binary{BinaryKind::kSub}, {curve, x}, "xielu_bent");
  const ValueId below = add(ops::Scale{p.negative}, {bent}, "xielu_below");
  const ValueId is_above =
      add(ops::Compare{.kind = CompareKind::kGreater, .scalar = 0.0f}, {x}, "xielu_is_above");
  const ValueId part = add(ops::Where{}, {is_above, above, below}, "xielu_part");
  return add(ops::Add{}, {part, linear_part}, "ffn_active");
}

ValueId build_apertus(Builder& b) {
  const HParams& h = b.hparams();
  Decoder how;
  how.attention.rope_params = h.rope;
  how.attention.qk_norm = QkNorm::kHeads;
  how.own_ffn = [&](int layer, ValueId x) {
    const ValueId up = linear(b, x, layer_name(layer, "ffn_up"), h.ffn.width);
    return linear(b, xielu(b, layer, up), layer_name(layer, "ffn_down"), h.n_embd);
  };
  return decoder(b, embed_tokens(b), how);
}

}  // namespace

const Family kApertus = {"apertus", read_apertus, build_apertus};

}  // namespace weft::model
