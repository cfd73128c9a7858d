#include "model/mamba_blocks.h"

namespace weft::model {

namespace {

/// The scan of x, with the step sizes and the projections of the state that x itself chooses.
ValueId chosen_scan(Builder& b, int layer, ValueId x, ScanNorms norms) {
  const SsmParams& ssm = *b.hparams().ssm;
  const std::int64_t rank = ssm.dt_rank, n = ssm.n_state;
  const std::string choice = layer_name(layer, "ssm_x");
  const auto part = [&](std::int64_t begin, std::int64_t n_part, const char* norm_name) {
    const ValueId rows = linear_rows(b, x, choice, rank + 2 * n, begin, n_part);
    if (norms == ScanNorms::kNone) return rows;
    const std::string name = layer_name(layer, norm_name);
    if (norms == ScanNorms::kWeighted) return norm(b, NormKind::kRms, rows, name);
    return b.add(ops::Norm{.kind = NormKind::kRms, .eps = b.hparams().norm.eps}, {rows}, name);
  };
  const ValueId steps = part(0, rank, "ssm_dt_norm");
  const ValueId into = part(rank, n, "ssm_b_norm");
  const ValueId out_of = part(rank + n, n, "ssm_c_norm");
  const ValueId dt =
      b.add(ops::Activate{Activation::kSoftplus},
            {linear(b, steps, layer_name(layer, "ssm_dt"), ssm.n_inner)}, layer_name(layer, "dt"));
  const ValueId a = b.weight(layer_name(layer, "ssm_a"), {ssm.n_inner, n});
  const ValueId skip = b.weight(layer_name(layer, "ssm_d"), {ssm.n_inner});
  return selective_scan(b, layer, {.x = x, .dt = dt, .b = into, .c = out_of, .a = a, .skip = skip});
}

}  // namespace

ValueId mamba_scan(Builder& b, int layer, ValueId input, ScanNorms norms) {
  const std::int64_t inner = b.hparams().ssm->n_inner;
  const std::string in = layer_name(layer, "ssm_in");
  const ValueId wide = linear_rows(b, input, in, 2 * inner, 0, inner);
  const ValueId gate = linear_rows(b, input, in, 2 * inner, inner, inner);
  const ValueId mixed =
      b.add(ops::Activate{Activation::kSilu}, {short_conv(b, layer, wide, layer_name(layer, "ssm_conv1d"))},
            layer_name(layer, "conv_active"));
  return b.add(ops::Glu{Activation::kSilu}, {gate, chosen_scan(b, layer, mixed, norms)},
               layer_name(layer, "gated"));
}

// ssm_in has, in this order: gate, x, b, c (together the convolution's columns), dt.
ValueId mamba2_scan(Builder& b, int layer, ValueId input, bool normed) {
  const HParams& h = b.hparams();
  const SsmParams& ssm = *h.ssm;
  const std::int64_t inner = ssm.n_inner, heads = ssm.n_heads;
  const std::int64_t n_b = std::int64_t{ssm.n_groups} * ssm.n_state;
  const std::int64_t n_conv = inner + 2 * n_b, n_in = inner + n_conv + heads;
  const std::string in = layer_name(layer, "ssm_in");
  const auto convolved = [&](std::int64_t begin, std::int64_t n, const char* name) {
    const ValueId x = linear_rows(b, input, in, n_in, inner + begin, n);
    const ValueId mixed = short_conv_columns(b, layer, x, layer_name(layer, "ssm_conv1d"), n_conv, begin);
    return b.add(ops::Activate{Activation::kSilu}, {mixed}, layer_name(layer, name));
  };
  const ValueId gate = linear_rows(b, input, in, n_in, 0, inner);
  const ValueId x = convolved(0, inner, "scan_x");
  const ValueId into = convolved(inner, n_b, "scan_b");
  const ValueId out_of = convolved(inner + n_b, n_b, "scan_c");
  const ValueId steps = b.add(ops::Add{},
                              {linear_rows(b, input, in, n_in, inner + n_conv, heads),
                               b.weight(layer_name(layer, "ssm_dt.bias"), {heads})},
                              layer_name(layer, "dt_biased"));
  const ValueId dt = b.add(ops::Activate{Activation::kSoftplus}, {steps}, layer_name(layer, "dt"));
  const ValueId a = b.flat_weight(layer_name(layer, "ssm_a"), {heads, 1});
  const ValueId skip = b.flat_weight(layer_name(layer, "ssm_d"), {heads, 1});
  const ValueId y =
      selective_scan(b, layer, {.x = x, .dt = dt, .b = into, .c = out_of, .a = a, .skip = skip});
  const ValueId gated = b.add(ops::Glu{Activation::kSilu}, {gate, y}, layer_name(layer, "gated"));
  if (!normed) return gated;
  // Each group is normed on its own.
  const std::int64_t group = inner / ssm.n_groups;
  const ValueId groups = b.add(ops::Norm{.kind = NormKind::kRms, .eps = h.norm.eps, .group = group}, {gated},
                               layer_name(layer, "gated_normed"));
  return b.add(ops::Mul{},
               {groups, b.flat_weight(layer_name(layer, "ssm_norm.weight"), {ssm.n_groups, group})},
               layer_name(layer, "gated_scaled"));
}

ValueId narrow_scan(Builder& b, int layer, ValueId scan, ValueId& residual) {
  return linear(b, wanted_rows(b, layer, scan, residual), layer_name(layer, "ssm_out"), b.hparams().n_embd);
}

}  // namespace weft::model
