#include "model/delta_blocks.h"

#include <cmath>

namespace weft::model {

ValueId normed_delta_rule(Builder& b, int layer, const DeltaInputs& in) {
  const auto name = [&](const char* part) { return layer_name(layer, part); };
  // A vector of length 1 is one of root mean square 1, but for a factor.
  const auto unit = [&](ValueId value, float scale, const std::string& result) {
    constexpr float kEps = 1e-6f;
    const ops::Norm op{.kind = NormKind::kRms, .eps = kEps / static_cast<float>(in.d_k), .group = in.d_k};
    return b.add(ops::Scale{scale}, {b.add(op, {value}, result + "_normed")}, result);
  };
  const float one = 1.0f / std::sqrt(static_cast<float>(in.d_k));
  const ValueId y = b.add(ops::DeltaRule{.tiled = in.tiled},
                          {.state = b.running_state("delta", layer, in.n_heads * in.d_k, in.d_v),
                           .q = unit(in.q, one * one, name("delta_q_unit")),
                           .k = unit(in.k, one, name("delta_k_unit")),
                           .v = in.v,
                           .decay = in.decay,
                           .beta = in.beta,
                           .from = b.model().state_from,
                           .to = b.model().state_to},
                          name("delta"));
  const ops::Norm op{.kind = NormKind::kRms, .eps = b.hparams().norm.eps, .group = in.d_v};
  return b.add(op, {y, b.weight(name("ssm_norm.weight"), {in.d_v})}, name("delta_normed"));
}

ValueId active_conv(Builder& b, int layer, ValueId x, const char* name, std::int64_t n_all,
                    std::int64_t begin, const char* result) {
  const ValueId mixed = short_conv_columns(b, layer, x, layer_name(layer, name), n_all, begin);
  return b.add(ops::Activate{Activation::kSilu}, {mixed}, layer_name(layer, result));
}

}  // namespace weft::model
