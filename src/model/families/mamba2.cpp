// Mamba-2 (arXiv 2405.21060): one projection gives the gate, the scan's input, the projections of its state
// and the step sizes; the scan has heads, and a norm follows its gate. There is no attention, and no
// feed-forward part.
#include "model/blocks.h"
#include "model/family.h"

namespace weft::model {
namespace {

void read(const Metadata& metadata, HParams& h) {
  read_ssm(metadata, h);
  h.n_ssm_heads = metadata.require_int("ssm.time_step_rank", 1, h.n_ssm_inner);
  h.n_ssm_groups = metadata.require_int("ssm.group_count", 1, h.n_ssm_heads);
  if (h.n_ssm_inner % h.n_ssm_heads != 0)
    metadata.refuse("ssm.time_step_rank", "found " + std::to_string(h.n_ssm_heads) +
                                              " heads, expected a divisor of the inner size " +
                                              std::to_string(h.n_ssm_inner));
  if (h.n_ssm_heads % h.n_ssm_groups != 0)
    metadata.refuse("ssm.group_count", "found " + std::to_string(h.n_ssm_groups) +
                                           ", expected a divisor of the number of heads " +
                                           std::to_string(h.n_ssm_heads));
}

/// The gated and normed scan. ssm_in has, in this order: gate, x, b, c (together the convolution's columns),
/// dt.
ValueId gated_scan(Builder& b, int layer, ValueId input) {
  const HParams& h = b.hparams();
  const std::int64_t inner = h.n_ssm_inner, heads = h.n_ssm_heads;
  const std::int64_t n_b = std::int64_t{h.n_ssm_groups} * h.n_ssm_state;
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
  // Each group is normed on its own.
  const std::int64_t group = inner / h.n_ssm_groups;
  const ValueId normed = b.add(ops::Norm{.kind = NormKind::kRms, .eps = h.norm_eps, .group = group}, {gated},
                               layer_name(layer, "gated_normed"));
  return b.add(ops::Mul{},
               {normed, b.flat_weight(layer_name(layer, "ssm_norm.weight"), {h.n_ssm_groups, group})},
               layer_name(layer, "gated_scaled"));
}

ValueId build(Builder& b) {
  return scan_decoder(b, embed_tokens(b),
                      [&](int layer, ValueId normed) { return gated_scan(b, layer, normed); });
}

}  // namespace

const Family kMamba2 = {"mamba2", read, build, LayerMix::kRecurrent};

}  // namespace weft::model
