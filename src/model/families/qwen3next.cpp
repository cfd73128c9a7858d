// Qwen3-Next and Qwen3.5 (Alibaba, 2025 and 2026): gated delta nets (arXiv 2412.06464) and, every few layers,
// attention whose result has a gate, with rope on a part of each head. Files store norm weights with their 1
// added, except in delta nets.
#include "model/delta_blocks.h"
#include "model/family.h"

namespace weft::model {
namespace {

void read_qwen3next(const Metadata& metadata, HParams& h) {
  h.rope.neox = true;
  h.ssm = read_mamba2(metadata);
  if (const int columns = h.ssm->n_inner / h.ssm->n_heads; columns > kMaxSsmState)
    metadata.refuse("ssm.inner_size", "found heads of " + std::to_string(columns) +
                                          " columns, expected 1 to " + std::to_string(kMaxSsmState));
  read_recurrent_layers(metadata, h);
  read_unused_layers(metadata, h);
}

void read_qwen3next_moe(const Metadata& metadata, HParams& h) {
  read_qwen3next(metadata, h);
  read_router(metadata, h);
}

/// The learning and forgetting rates of the layer's delta rule: {rows, heads} each.
struct Rates {
  ValueId beta, alpha;
};

/// From two matrices, or from one (Qwen3-Next's) that has them group by group.
Rates rates(Builder& b, int layer, ValueId x) {
  const SsmParams& ssm = *b.hparams().ssm;
  const std::int64_t heads = ssm.n_heads, groups = ssm.n_groups, of_group = heads / groups;
  const std::string both = layer_name(layer, "ssm_ba");
  if (!has_in_any_layer(b, "ssm_ba.weight"))
    return {linear(b, x, layer_name(layer, "ssm_beta"), heads),
            linear(b, x, layer_name(layer, "ssm_alpha"), heads)};
  const ValueId all = linear(b, x, both, 2 * heads);
  const Dim rows = b.model().graph.value(all).shape[0];
  const ValueId grouped = b.add(ops::Reshape{{rows, groups, 2 * of_group}}, {all}, both + "_groups");
  const auto part = [&](std::int64_t begin, const char* name) {
    const ValueId cut = b.add(ops::Slice{.axis = 2, .begin = begin, .end = begin + of_group}, {grouped},
                              layer_name(layer, name) + "_cut");
    return b.add(ops::Reshape{{rows, heads}}, {cut}, layer_name(layer, name));
  };
  return {part(0, "beta_logits"), part(of_group, "alpha")};
}

/// The inputs of the convolution, and the gate of the output, {rows, n} each.
struct Projected {
  ValueId q, k, v, gate;
};

/// From two matrices, or from one (older files of Qwen3-Next) that has all of them group by group.
Projected projections(Builder& b, int layer, ValueId x) {
  const SsmParams& ssm = *b.hparams().ssm;
  const std::int64_t groups = ssm.n_groups, n_k = groups * ssm.n_state, n_v = ssm.n_inner;
  const auto name = [&](const char* part) { return layer_name(layer, part); };
  if (!has_in_any_layer(b, "ssm_in.weight")) {
    const auto rows = [&](std::int64_t begin, std::int64_t n) {
      return linear_rows(b, x, name("attn_qkv"), 2 * n_k + n_v, begin, n);
    };
    return {rows(0, n_k), rows(n_k, n_k), rows(2 * n_k, n_v), linear(b, x, name("attn_gate"), n_v)};
  }
  const std::int64_t of_group = 2 * (n_k + n_v) / groups;
  const ValueId all = linear(b, x, name("ssm_in"), 2 * (n_k + n_v));
  const Dim rows = b.model().graph.value(all).shape[0];
  const ValueId grouped = b.add(ops::Reshape{{rows, groups, of_group}}, {all}, name("ssm_in_groups"));
  std::int64_t begin = 0;
  const auto part = [&](std::int64_t n, const char* result) {
    const std::int64_t end = begin + n / groups;
    const ValueId cut =
        b.add(ops::Slice{.axis = 2, .begin = begin, .end = end}, {grouped}, name(result) + "_cut");
    begin = end;
    return b.add(ops::Reshape{{rows, n}}, {cut}, name(result));
  };
  const ValueId q = part(n_k, "q_in"), k = part(n_k, "k_in"), v = part(n_v, "v_in");
  return {q, k, v, part(n_v, "gate_in")};
}

/// ssm_out(silu(gate) * norm(delta rule)). attn_qkv has, as the convolution, the columns of q, k and v.
ValueId qwen3next_delta_net(Builder& b, int layer, ValueId x, ValueId& residual, bool tiled) {
  const SsmParams& ssm = *b.hparams().ssm;
  const std::int64_t heads = ssm.n_heads, d_k = ssm.n_state, d_v = ssm.n_inner / heads;
  const std::int64_t n_k = ssm.n_groups * d_k, n_v = ssm.n_inner, n_all = 2 * n_k + n_v;
  const auto name = [&](const char* part) { return layer_name(layer, part); };
  const Projected in = projections(b, layer, x);
  const auto convolved = [&](ValueId part, std::int64_t begin, const char* result) {
    return active_conv(b, layer, part, "ssm_conv1d", n_all, begin, result);
  };
  const ValueId q = convolved(in.q, 0, "delta_q"), k = convolved(in.k, n_k, "delta_k");
  const ValueId v = convolved(in.v, 2 * n_k, "delta_v");

  const Rates rate = rates(b, layer, x);
  const ValueId beta = b.add(ops::Unary{UnaryKind::kSigmoid}, {rate.beta}, name("beta"));
  const ValueId biased =
      b.add(ops::Add{}, {rate.alpha, b.weight(name("ssm_dt.bias"), {heads})}, name("dt_biased"));
  const ValueId dt = b.add(ops::Activate{Activation::kSoftplus}, {biased}, name("dt"));
  const ValueId exponent = b.add(ops::Mul{}, {dt, b.weight(name("ssm_a"), {heads})}, name("log_decay"));
  const ValueId decay = b.add(ops::Unary{UnaryKind::kExp}, {exponent}, name("decay"));

  const ValueId normed = normed_delta_rule(b, layer,
                                           {.q = q,
                                            .k = k,
                                            .v = v,
                                            .decay = decay,
                                            .beta = beta,
                                            .n_heads = heads,
                                            .d_k = d_k,
                                            .d_v = d_v,
                                            .tiled = tiled});
  const ValueId gated = b.add(ops::Glu{Activation::kSilu}, {in.gate, normed}, name("delta_gated"));
  return linear(b, wanted_rows(b, layer, gated, residual), name("ssm_out"), b.hparams().n_embd);
}

ValueId build_qwen3next(Builder& b, bool tiled) {
  AttentionBlock block;
  block.qk_norm = QkNorm::kHeads;
  block.gated = true;
  block.rope_params = b.hparams().rope;
  Decoder how;
  how.ffn_norm = "post_attention_norm";
  how.attend = mixed_layers(b, block, [tiled](Builder& builder, int layer, ValueId x, ValueId& residual) {
    return qwen3next_delta_net(builder, layer, x, residual, tiled);
  });
  return decoder(b, embed_tokens(b), how);
}

// Heads that share q and k are neighbours in Qwen3-Next's files, and lie apart in Qwen3.5's.
ValueId build_next(Builder& b) { return build_qwen3next(b, false); }
ValueId build_tiled(Builder& b) { return build_qwen3next(b, true); }

}  // namespace

const Family kQwen3Next = {"qwen3next", read_qwen3next_moe, build_next, LayerMix::kMixed};
const Family kQwen35 = {"qwen35", read_qwen3next, build_tiled, LayerMix::kMixed};
const Family kQwen35Moe = {"qwen35moe", read_qwen3next_moe, build_tiled, LayerMix::kMixed};

}  // namespace weft::model
