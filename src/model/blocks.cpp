#include "model/blocks.h"

#include <cmath>

namespace weft::model {

ValueId embed_tokens(Builder& b, float scale) {
  const HParams& h = b.hparams();
  b.enter(Part::kEmbedding);
  ValueId x = b.add(ops::GetRows{}, {b.weight("token_embd.weight", {h.n_vocab, h.n_embd}), b.model().tokens},
                    "token_embeddings");
  if (scale != 1.0f) x = b.add(ops::Scale{scale}, {x}, "token_embeddings_scaled");
  return b.add(ops::Override{}, {x, b.model().embeddings, b.model().use_embeddings}, "embedded");
}

ValueId norm(Builder& b, NormKind kind, ValueId x, const std::string& name, const std::string& result) {
  const std::int64_t n = b.model().graph.value(x).shape.columns();
  const ValueId weight = b.weight(name + ".weight", {n});
  const ValueId bias = kind == NormKind::kLayer ? b.weight(name + ".bias", {n}) : kNoValue;
  return b.add(ops::Norm{.kind = kind, .eps = b.hparams().norm_eps}, {x, weight, bias},
               result.empty() ? name : result);
}

ValueId linear(Builder& b, ValueId x, const std::string& name, std::int64_t n_out) {
  return b.product(x, name + ".weight", name + ".bias", n_out, 0, n_out, name);
}

ValueId linear_rows(Builder& b, ValueId x, const std::string& name, std::int64_t n_all, std::int64_t begin,
                    std::int64_t n_out) {
  return b.product(x, name + ".weight", name + ".bias", n_all, begin, n_out,
                   name + "@" + std::to_string(begin));
}

ValueId attention(Builder& b, int layer, ValueId x, const AttentionBlock& block, ValueId& residual) {
  const HParams& h = b.hparams();
  const CellInputs& at = b.cells(block.window);
  const ModelGraph& m = b.model();
  const std::int64_t n_q = std::int64_t{h.n_heads} * h.k_head_dim;
  const std::int64_t n_k = std::int64_t{h.n_kv_heads} * h.k_head_dim;
  const std::int64_t n_v = std::int64_t{h.n_kv_heads} * h.v_head_dim;
  ValueId q, k, v;
  if (block.fused_qkv) {
    const std::string name = layer_name(layer, "attn_qkv");
    q = linear_rows(b, x, name, n_q + n_k + n_v, 0, n_q);
    k = linear_rows(b, x, name, n_q + n_k + n_v, n_q, n_k);
    v = linear_rows(b, x, name, n_q + n_k + n_v, n_q + n_k, n_v);
  } else {
    q = linear(b, x, layer_name(layer, "attn_q"), n_q);
    k = linear(b, x, layer_name(layer, "attn_k"), n_k);
    v = linear(b, x, layer_name(layer, "attn_v"), n_v);
  }
  if (block.head_norms) {
    const ops::Norm per_head{.kind = NormKind::kRms, .eps = h.norm_eps, .group = h.k_head_dim};
    q = b.add(per_head, {q, b.weight(layer_name(layer, "attn_q_norm.weight"), {h.k_head_dim})},
              layer_name(layer, "q_normed"));
    k = b.add(per_head, {k, b.weight(layer_name(layer, "attn_k_norm.weight"), {h.k_head_dim})},
              layer_name(layer, "k_normed"));
  }
  if (block.rope) {
    q = b.add(block.rope_params, {q, m.positions, block.rope_factors}, layer_name(layer, "q_rope"));
    k = b.add(block.rope_params, {k, m.positions, block.rope_factors}, layer_name(layer, "k_rope"));
  }
  const ops::Rope turn = block.rope ? block.rope_params : ops::Rope{.n_rot = 0};
  const ValueId k_cache =
      b.store(CacheRole::kKeys, layer, at,
              b.cache(CacheRole::kKeys, layer, at, h.n_kv_heads, h.k_head_dim, turn, block.rope_factors), k);
  const ValueId v_cache =
      b.store(CacheRole::kValues, layer, at,
              b.cache(CacheRole::kValues, layer, at, h.n_kv_heads, h.v_head_dim, {.n_rot = 0}, kNoValue), v);
  ops::Attention op;
  op.n_heads = h.n_heads;
  op.scale = block.scale != 0.0f ? block.scale : 1.0f / std::sqrt(static_cast<float>(h.k_head_dim));
  op.softcap = h.attention_softcap;
  op.window = block.window;
  const ValueId out = b.add(op,
                            {.q = q,
                             .k = k_cache,
                             .v = v_cache,
                             .positions = m.positions,
                             .sequences = m.sequences,
                             .extents = at.extents,
                             .counts = at.extent_counts,
                             .ends = m.ends,
                             .hidden_first = m.hidden_first,
                             .hidden = at.hidden},
                            layer_name(layer, "attention"));
  return linear(b, wanted_rows(b, layer, out, residual), layer_name(layer, "attn_output"), h.n_embd);
}

ValueId wanted_rows(Builder& b, int layer, ValueId x, ValueId& residual) {
  if (layer != b.hparams().n_layers - 1) return x;
  const ValueId rows = b.model().wanted_rows;
  residual = b.add(ops::GetRows{}, {residual, rows}, "residual_outputs");
  return b.add(ops::GetRows{}, {x, rows}, "last_layer_outputs");
}

ValueId short_conv(Builder& b, int layer, ValueId x, const std::string& name) {
  return short_conv_columns(b, layer, x, name, b.model().graph.value(x).shape.columns(), 0);
}

ValueId short_conv_columns(Builder& b, int layer, ValueId x, const std::string& name, std::int64_t n_all,
                           std::int64_t begin) {
  const std::int64_t n = b.model().graph.value(x).shape.columns();
  const std::int64_t taps = b.hparams().conv_taps;
  const std::string part = n == n_all ? "" : "@" + std::to_string(begin);
  const ValueId state = b.running_state("conv" + part, layer, taps - 1, n);
  const ValueId weight = b.weight_rows(name + ".weight", {n_all, taps}, begin, n);
  const ValueId bias = b.has(name + ".bias") ? b.weight_rows(name + ".bias", {n_all}, begin, n) : kNoValue;
  return b.add(ops::ShortConv{},
               {.state = state,
                .x = x,
                .weight = weight,
                .from = b.model().state_from,
                .to = b.model().state_to,
                .bias = bias},
               name + part);
}

ValueId gated_ffn(Builder& b, int layer, ValueId x, Activation activation) {
  const HParams& h = b.hparams();
  const ValueId gate = linear(b, x, layer_name(layer, "ffn_gate"), h.n_ff);
  const ValueId up = linear(b, x, layer_name(layer, "ffn_up"), h.n_ff);
  const ValueId product = b.add(ops::Glu{activation}, {gate, up}, layer_name(layer, "ffn_glu"));
  return linear(b, product, layer_name(layer, "ffn_down"), h.n_embd);
}

ValueId fused_gated_ffn(Builder& b, int layer, ValueId x, Activation activation) {
  const HParams& h = b.hparams();
  const std::string name = layer_name(layer, "ffn_up");
  const ValueId gate = linear_rows(b, x, name, 2 * h.n_ff, 0, h.n_ff);
  const ValueId up = linear_rows(b, x, name, 2 * h.n_ff, h.n_ff, h.n_ff);
  const ValueId product = b.add(ops::Glu{activation}, {gate, up}, layer_name(layer, "ffn_glu"));
  return linear(b, product, layer_name(layer, "ffn_down"), h.n_embd);
}

ValueId plain_ffn(Builder& b, int layer, ValueId x, Activation activation) {
  const HParams& h = b.hparams();
  const ValueId up = linear(b, x, layer_name(layer, "ffn_up"), h.n_ff);
  const ValueId active = b.add(ops::Activate{activation}, {up}, layer_name(layer, "ffn_active"));
  return linear(b, active, layer_name(layer, "ffn_down"), h.n_embd);
}

ValueId expert_ffn(Builder& b, int layer, ValueId x, Activation activation, bool normalise) {
  const HParams& h = b.hparams();
  const ValueId router = linear(b, x, layer_name(layer, "ffn_gate_inp"), h.n_experts);
  const ValueId ids = b.add(ops::TopK{h.n_experts_used}, {router}, layer_name(layer, "experts"));
  const ValueId weights =
      b.add(ops::ExpertWeights{.normalise = normalise}, {router, ids}, layer_name(layer, "expert_weights"));
  b.enter(Part::kExperts, layer);
  const auto experts = [&](ValueId input, const char* name, std::int64_t n_out, std::int64_t n_in) {
    const std::string full = layer_name(layer, name);
    return b.add(ops::MatmulExperts{}, {b.weight(full + ".weight", {h.n_experts, n_out, n_in}), input, ids},
                 full);
  };
  const ValueId gate = experts(x, "ffn_gate_exps", h.n_ff_expert, h.n_embd);
  const ValueId up = experts(x, "ffn_up_exps", h.n_ff_expert, h.n_embd);
  const ValueId product = b.add(ops::Glu{activation}, {gate, up}, layer_name(layer, "ffn_glu"));
  const ValueId down = experts(product, "ffn_down_exps", h.n_embd, h.n_ff_expert);
  const ValueId out = b.add(ops::SumExperts{}, {down, weights}, layer_name(layer, "ffn_out"));
  b.enter(Part::kFeedForward, layer);
  return out;
}

ValueId add(Builder& b, ValueId x, ValueId y, const std::string& name) {
  return b.add(ops::Add{}, {x, y}, name);
}

ValueId pre_norm_decoder(Builder& b, NormKind kind, ValueId x, const AttentionBlock& block,
                         const std::function<ValueId(int, ValueId)>& ffn) {
  for (int layer = 0; layer < b.hparams().n_layers; ++layer) {
    b.enter(Part::kAttention, layer);
    const ValueId attended = attention(b, layer, norm(b, kind, x, layer_name(layer, "attn_norm")), block, x);
    x = add(b, x, attended, layer_name(layer, "after_attention"));
    b.enter(Part::kFeedForward, layer);
    const ValueId ffn_out = ffn(layer, norm(b, kind, x, layer_name(layer, "ffn_norm")));
    x = add(b, x, ffn_out, layer_name(layer, "after_ffn"));
  }
  return output_logits(b, kind, x);
}

ValueId selective_scan(Builder& b, int layer, const ScanInputs& in) {
  const ValueId state = b.running_state("scan", layer, b.hparams().n_ssm_state, b.hparams().n_ssm_inner);
  return b.add(ops::SelectiveScan{},
               {.state = state,
                .x = in.x,
                .dt = in.dt,
                .b = in.b,
                .c = in.c,
                .a = in.a,
                .skip = in.skip,
                .from = b.model().state_from,
                .to = b.model().state_to},
               layer_name(layer, "scan"));
}

ValueId scan_decoder(Builder& b, ValueId x, const std::function<ValueId(int, ValueId)>& scan) {
  const HParams& h = b.hparams();
  for (int layer = 0; layer < h.n_layers; ++layer) {
    b.enter(Part::kRecurrent, layer);
    const ValueId y = scan(layer, norm(b, NormKind::kRms, x, layer_name(layer, "attn_norm")));
    const ValueId out = linear(b, wanted_rows(b, layer, y, x), layer_name(layer, "ssm_out"), h.n_embd);
    x = add(b, x, out, layer_name(layer, "after_scan"));
  }
  return output_logits(b, NormKind::kRms, x);
}

ValueId output_logits(Builder& b, NormKind kind, ValueId x, const std::string& norm_name) {
  const HParams& h = b.hparams();
  b.enter(Part::kHead);
  // A norm for each, so that rows of which only the embedding is wanted never meet the head.
  const auto normed = [&](ValueId rows, const char* name) {
    const ValueId taken = b.add(ops::GetRows{}, {x, rows}, name);
    return norm(b, kind, taken, norm_name, std::string(name) + "_normed");
  };
  b.take_embeddings(normed(b.model().embedding_rows, "embeddings_of_rows"));
  x = normed(b.model().output_rows, "outputs");
  const char* const weight = b.has("output.weight") ? "output.weight" : "token_embd.weight";
  const auto logits_of = [&](ValueId rows, const std::string& name) {
    const ValueId logits = b.product(rows, weight, "output.bias", h.n_vocab, 0, h.n_vocab, name);
    return h.logit_softcap > 0.0f ? b.add(ops::Softcap{h.logit_softcap}, {logits}, name + "_capped") : logits;
  };
  if (!b.wants_best()) return logits_of(x, "logits");
  // Of all rows together, as the weights are read once: those that are not among logit_rows are never
  // written.
  const ValueId all = logits_of(x, "logits_of_outputs");
  b.take_best(all);
  return b.add(ops::GetRows{}, {all, b.model().logit_rows}, "logits");
}

}  // namespace weft::model
