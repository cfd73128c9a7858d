// Kimi Linear (arXiv 2510.26692): delta nets whose states forget row by row. Every few layers have attention
// over latent rows without positions. Experts follow the first layer.
#include "base/to_size.h"
#include "model/delta_blocks.h"
#include "model/family.h"
#include "model/latent_attention.h"

namespace weft::model {
namespace {

void read_kimi_linear(const Metadata& metadata, HParams& h) {
  read_router(metadata, h, {.sigmoid = true});
  h.latent = read_latent(metadata, h.rope, *h.attention);
  SsmParams& ssm = h.ssm.emplace();
  ssm.conv_taps = read_conv_taps(metadata, "ssm.conv_kernel");
  ssm.n_state = metadata.require_int("kda.head_dim", 1, kMaxSsmState);
}

/// attn_output(sigmoid(gate) * norm(delta rule))
ValueId kimi_linear_delta_net(Builder& b, int layer, ValueId x, ValueId& residual) {
  const HParams& h = b.hparams();
  const std::int64_t heads = h.attention->n_heads, dim = h.ssm->n_state, n = heads * dim;
  const Dim rows = b.model().graph.value(x).shape[0];
  const auto name = [&](const char* part) { return layer_name(layer, part); };
  const auto convolved = [&](const char* matrix, const char* conv, const char* result) {
    return active_conv(b, layer, linear(b, x, name(matrix), n), conv, n, 0, result);
  };
  // For each row of a head's state: exp(a * softplus(f + bias)), with one a for the head.
  const ValueId forget = linear(b, linear(b, x, name("ssm_f_a"), dim), name("ssm_f_b"), n);
  const ValueId biased = b.add(ops::Add{}, {forget, b.weight(name("ssm_dt.bias"), {n})}, name("dt_biased"));
  const ValueId dt = b.add(ops::Activate{Activation::kSoftplus}, {biased}, name("dt"));
  const ValueId by_head = b.add(ops::Reshape{{rows, heads, dim}}, {dt}, name("dt_heads"));
  const ValueId a =
      b.add(ops::Reshape{{heads, 1}}, {b.flat_weight(name("ssm_a"), {heads, 1})}, name("ssm_a_heads"));
  const ValueId exponent = b.add(ops::Mul{}, {by_head, a}, name("log_decay"));
  const ValueId decay = b.add(ops::Unary{UnaryKind::kExp}, {exponent}, name("decay_heads"));
  const ValueId beta = linear(b, x, name("ssm_beta"), heads);
  const ValueId normed =
      normed_delta_rule(b, layer,
                        {.q = convolved("attn_q", "ssm_conv1d_q", "delta_q"),
                         .k = convolved("attn_k", "ssm_conv1d_k", "delta_k"),
                         .v = convolved("attn_v", "ssm_conv1d_v", "delta_v"),
                         .decay = b.add(ops::Reshape{{rows, n}}, {decay}, name("decay")),
                         .beta = b.add(ops::Unary{UnaryKind::kSigmoid}, {beta}, name("beta")),
                         .n_heads = heads,
                         .d_k = dim,
                         .d_v = dim});
  const ValueId gate = linear(b, linear(b, x, name("ssm_g_a"), dim), name("ssm_g_b"), n);
  const ValueId share = b.add(ops::Unary{UnaryKind::kSigmoid}, {gate}, name("delta_gate"));
  const ValueId gated = b.add(ops::Mul{}, {normed, share}, name("delta_gated"));
  return linear(b, wanted_rows(b, layer, gated, residual), name("attn_output"), h.n_embd);
}

ValueId build_kimi_linear(Builder& b) {
  Decoder how;
  how.attend = [&](int layer, ValueId x, ValueId& residual) {
    if (b.hparams().layers[to_size(layer)] == LayerKind::kAttention)
      return latent_attention(b, layer, x, residual, false);
    b.enter(Part::kRecurrent, layer);
    return kimi_linear_delta_net(b, layer, x, residual);
  };
  return decoder(b, embed_tokens(b), how);
}

}  // namespace

const Family kKimiLinear = {"kimi-linear", read_kimi_linear, build_kimi_linear, LayerMix::kMixed};

}  // namespace weft::model
