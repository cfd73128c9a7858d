// Mamba (arXiv 2312.00752): each layer widens its input, lets a short convolution and a selective scan run
// over it, gates the result and narrows it again. There is no attention, and no feed-forward part.
#include "model/blocks.h"
#include "model/family.h"
#include "weft/error.h"

namespace weft::model {
namespace {

void read(const Metadata& metadata, HParams& h) {
  read_ssm(metadata, h);
  h.n_ssm_dt_rank = metadata.require_int("ssm.time_step_rank", 1, h.n_ssm_inner);
  if (metadata.get_bool("ssm.dt_b_c_rms", false))
    throw Error(ErrorCode::kUnsupported,
                "metadata key mamba.ssm.dt_b_c_rms: models that norm dt, B and C "
                "(Falcon-Mamba) are not supported");
}

/// The scan of x, with the step sizes and the projections of the state that x itself chooses.
ValueId scan(Builder& b, int layer, ValueId x) {
  const HParams& h = b.hparams();
  const std::int64_t rank = h.n_ssm_dt_rank, n = h.n_ssm_state;
  const std::string choice = layer_name(layer, "ssm_x");
  const ValueId steps = linear_rows(b, x, choice, rank + 2 * n, 0, rank);
  const ValueId into = linear_rows(b, x, choice, rank + 2 * n, rank, n);
  const ValueId out_of = linear_rows(b, x, choice, rank + 2 * n, rank + n, n);
  const ValueId dt =
      b.add(ops::Activate{Activation::kSoftplus},
            {linear(b, steps, layer_name(layer, "ssm_dt"), h.n_ssm_inner)}, layer_name(layer, "dt"));
  const ValueId a = b.weight(layer_name(layer, "ssm_a"), {h.n_ssm_inner, n});
  const ValueId skip = b.weight(layer_name(layer, "ssm_d"), {h.n_ssm_inner});
  return selective_scan(b, layer, {.x = x, .dt = dt, .b = into, .c = out_of, .a = a, .skip = skip});
}

/// silu(gate) * scan(silu(conv(x))) with x and gate from one projection.
ValueId gated_scan(Builder& b, int layer, ValueId input) {
  const std::int64_t inner = b.hparams().n_ssm_inner;
  const std::string in = layer_name(layer, "ssm_in");
  const ValueId wide = linear_rows(b, input, in, 2 * inner, 0, inner);
  const ValueId gate = linear_rows(b, input, in, 2 * inner, inner, inner);
  const ValueId mixed =
      b.add(ops::Activate{Activation::kSilu}, {short_conv(b, layer, wide, layer_name(layer, "ssm_conv1d"))},
            layer_name(layer, "conv_active"));
  return b.add(ops::Glu{Activation::kSilu}, {gate, scan(b, layer, mixed)}, layer_name(layer, "gated"));
}

ValueId build(Builder& b) {
  return scan_decoder(b, embed_tokens(b),
                      [&](int layer, ValueId normed) { return gated_scan(b, layer, normed); });
}

}  // namespace

const Family kMamba = {"mamba", read, build, LayerMix::kRecurrent};

}  // namespace weft::model
