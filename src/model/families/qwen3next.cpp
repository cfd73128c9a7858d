// Qwen3-Next and Qwen3.5 (Alibaba, 2025 and 2026): gated delta nets (arXiv 2412.06464) and, every few layers,
// attention whose result has a gate, with rope on a part of each head. Files store norm weights with their 1
// added, but those of delta nets.
#include "model/delta_blocks.h"
#include "model/family.h"

namespace weft::model {
namespace {

void read(const Metadata& metadata, HParams& h) {
  h.rope.neox = true;
  read_ssm(metadata, h);
  read_ssm_heads(metadata, h);
  constexpr int kMostColumns = 4096;
  if (const int columns = h.n_ssm_inner / h.n_ssm_heads; columns > kMostColumns)
    metadata.refuse("ssm.inner_size", "found heads of " + std::to_string(columns) +
                                          " columns, expected 1 to " + std::to_string(kMostColumns));
  read_recurrent_layers(metadata, h);
  read_unused_layers(metadata, h);
}

void read_moe(const Metadata& metadata, HParams& h) {
  read(metadata, h);
  read_router(metadata, h);
}

/// What the layer's delta rule learns at, and what it keeps: {rows, heads} each.
struct Rates {
  ValueId beta, alpha;
};

/// Of two matrices, or of one (Qwen3-Next's) that has them group by group.
Rates rates(Builder& b, int layer, ValueId x) {
  const HParams& h = b.hparams();
  const std::int64_t heads = h.n_ssm_heads, groups = h.n_ssm_groups, of_group = heads / groups;
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

/// ssm_out(silu(gate) * norm(delta rule)). attn_qkv has, as the convolution, the columns of q, k and v.
ValueId delta_net(Builder& b, int layer, ValueId x, ValueId& residual, bool tiled) {
  const HParams& h = b.hparams();
  const std::int64_t heads = h.n_ssm_heads, d_k = h.n_ssm_state, d_v = h.n_ssm_inner / heads;
  const std::int64_t n_k = h.n_ssm_groups * d_k, n_v = h.n_ssm_inner, n_all = 2 * n_k + n_v;
  const auto name = [&](const char* part) { return layer_name(layer, part); };
  const auto convolved = [&](std::int64_t begin, std::int64_t n, const char* result) {
    const ValueId part = linear_rows(b, x, name("attn_qkv"), n_all, begin, n);
    return active_conv(b, layer, part, "ssm_conv1d", n_all, begin, result);
  };
  const ValueId q = convolved(0, n_k, "delta_q"), k = convolved(n_k, n_k, "delta_k");
  const ValueId v = convolved(2 * n_k, n_v, "delta_v");
  const ValueId gate = linear(b, x, name("attn_gate"), n_v);

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
  const ValueId gated = b.add(ops::Glu{Activation::kSilu}, {gate, normed}, name("delta_gated"));
  return linear(b, wanted_rows(b, layer, gated, residual), name("ssm_out"), h.n_embd);
}

ValueId build(Builder& b, bool tiled) {
  AttentionBlock block;
  block.qk_norm = QkNorm::kHeads;
  block.gated = true;
  block.rope_params = b.hparams().rope;
  Decoder how;
  how.ffn_norm = "post_attention_norm";
  how.attend = mixed_layers(b, block, [tiled](Builder& builder, int layer, ValueId x, ValueId& residual) {
    return delta_net(builder, layer, x, residual, tiled);
  });
  return decoder(b, embed_tokens(b), how);
}

// Heads that share q and k are neighbours in Qwen3-Next's files, and lie apart in Qwen3.5's.
ValueId build_next(Builder& b) { return build(b, false); }
ValueId build_tiled(Builder& b) { return build(b, true); }

}  // namespace

const Family kQwen3Next = {"qwen3next", read_moe, build_next, LayerMix::kMixed};
const Family kQwen35 = {"qwen35", read, build_tiled, LayerMix::kMixed};
const Family kQwen35Moe = {"qwen35moe", read_moe, build_tiled, LayerMix::kMixed};

}  // namespace weft::model
