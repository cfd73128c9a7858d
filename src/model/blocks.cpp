#include "model/blocks.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <utility>
#include <vector>

#include "base/to_size.h"

namespace weft::model {

bool has_in_any_layer(const Builder& b, const char* name) {
  for (int layer = 0; layer < b.hparams().n_layers; ++layer)
    if (b.has(layer_name(layer, name))) return true;
  return false;
}

namespace {

/// Columns [part * n_embd, (part + 1) * n_embd) of the embeddings that replace tokens.
ValueId given_embeddings(Builder& b, int part) {
  const HParams& h = b.hparams();
  const ValueId all = b.model().embeddings;
  if (h.embedding.n_deepstack == 0) return all;
  const std::int64_t begin = std::int64_t{part} * h.n_embd;
  return b.add(ops::Slice{.axis = 1, .begin = begin, .end = begin + h.n_embd}, {all},
               "embeddings_" + std::to_string(part));
}

}  // namespace

ValueId embed_rows(Builder& b, ValueId ids, const std::string& result) {
  const HParams& h = b.hparams();
  const std::string weight = "token_embd.weight";
  return b.with_factor(b.add(ops::GetRows{}, {b.weight(weight, {h.n_vocab, h.n_embd}), ids}, result), weight);
}

ValueId embed_tokens(Builder& b) {
  const HParams& h = b.hparams();
  b.enter(Part::kEmbedding);
  ValueId x = embed_rows(b, b.model().tokens, "token_embeddings");
  if (h.embedding.scale != 1.0f) x = b.add(ops::Scale{h.embedding.scale}, {x}, "token_embeddings_scaled");
  if (b.model().embeddings == kNoValue) return x;
  return b.add(ops::Override{}, {x, given_embeddings(b, 0), b.model().use_embeddings}, "embedded");
}

ValueId add_deepstack(Builder& b, int layer, ValueId x) {
  if (layer >= b.hparams().embedding.n_deepstack) return x;
  const ValueId sum = add(b, x, given_embeddings(b, 1 + layer), layer_name(layer, "with_picture"));
  return b.add(ops::Override{}, {x, sum, b.model().use_embeddings}, layer_name(layer, "deepstack"));
}

ValueId norm(Builder& b, NormKind kind, ValueId x, const std::string& name, const std::string& result) {
  const std::int64_t n = b.model().graph.value(x).shape.columns();
  const ops::Norm op{.kind = kind, .eps = b.hparams().norm.eps};
  const std::string& called = result.empty() ? name : result;
  if (!b.hparams().norm.weights) return b.add(op, {x}, called);
  if (kind != NormKind::kLayer) return b.add(op, {x, b.weight(name + ".weight", {n})}, called);
  // If other layers have the bias, this one must have it, too.
  const std::string bias = name + ".bias";
  const bool biased = b.has(bias) || (bias.starts_with("blk.") &&
                                      has_in_any_layer(b, bias.substr(bias.find('.', 4) + 1).c_str()));
  return b.add(op, {x, b.weight(name + ".weight", {n}), biased ? b.weight(bias, {n}) : kNoValue}, called);
}

ValueId linear(Builder& b, ValueId x, const std::string& name, std::int64_t n_out) {
  return b.product(x, name + ".weight", name + ".bias", n_out, 0, n_out, name);
}

ValueId linear_rows(Builder& b, ValueId x, const std::string& name, std::int64_t n_all, std::int64_t begin,
                    std::int64_t n_out) {
  return b.product(x, name + ".weight", name + ".bias", n_all, begin, n_out,
                   name + "@" + std::to_string(begin));
}

namespace {

/// Queries and gates, head by head, as two values.
void part_from_gate(Builder& b, int layer, Projections& of) {
  const AttentionParams& a = *b.hparams().attention;
  const std::int64_t heads = a.n_heads, dim = a.k_head_dim;
  const Dim rows = b.model().graph.value(of.q).shape[0];
  const ValueId both = b.add(ops::Reshape{{rows, heads, 2 * dim}}, {of.q}, layer_name(layer, "q_and_gate"));
  const auto part = [&](std::int64_t begin, const char* name) {
    const ValueId cut = b.add(ops::Slice{.axis = 2, .begin = begin, .end = begin + dim}, {both},
                              layer_name(layer, name) + "_cut");
    return b.add(ops::Reshape{{rows, heads * dim}}, {cut}, layer_name(layer, name));
  };
  of.q = part(0, "q_of_both");
  of.gate = part(dim, "gate_of_both");
}

/// Decided by this layer's tensors, or by other layers if it lacks both.
bool has_fused_qkv(const Builder& b, int layer) {
  const auto has = [&](int i, const char* name) { return b.has(layer_name(i, name)); };
  if (has(layer, "attn_qkv.weight") || has(layer, "attn_q.weight")) return has(layer, "attn_qkv.weight");
  return has_in_any_layer(b, "attn_qkv.weight");
}

struct HeadSizes {
  int n, n_kv, k_dim, v_dim;
};

HeadSizes sizes_of(const AttentionParams& a, int n_heads, int n_kv_heads, int k_dim, int v_dim) {
  return {n_heads != 0 ? n_heads : a.n_heads, n_kv_heads != 0 ? n_kv_heads : a.n_kv_heads,
          k_dim != 0 ? k_dim : a.k_head_dim, v_dim != 0 ? v_dim : a.v_head_dim};
}

float scale_of(const AttentionParams& a, int k_dim) {
  return a.scale != 0.0f ? a.scale : 1.0f / std::sqrt(static_cast<float>(k_dim));
}

ValueId project_q(Builder& b, int layer, ValueId x, const HeadSizes& sizes) {
  return linear(b, x, layer_name(layer, "attn_q"), std::int64_t{sizes.n} * sizes.k_dim);
}

Projections project_plainly(Builder& b, int layer, ValueId x, const HeadSizes& sizes, bool gated) {
  const AttentionParams& a = *b.hparams().attention;
  const std::int64_t n_q = std::int64_t{sizes.n} * sizes.k_dim * (gated ? 2 : 1);
  const std::int64_t n_k = std::int64_t{sizes.n_kv} * sizes.k_dim;
  const std::int64_t n_v = std::int64_t{sizes.n_kv} * sizes.v_dim;
  Projections result;
  if (const std::string name = layer_name(layer, "attn_qkv"); !gated && has_fused_qkv(b, layer)) {
    const auto rows = [&](std::int64_t begin, std::int64_t n) {
      return linear_rows(b, x, name, n_q + n_k + n_v, begin, n);
    };
    result = {rows(0, n_q), rows(n_q, n_k), rows(n_q + n_k, n_v)};
  } else {
    const ValueId k = linear(b, x, layer_name(layer, "attn_k"), n_k);
    const bool k_is_v =
        sizes.k_dim == sizes.v_dim && a.k_may_be_v && !b.has(layer_name(layer, "attn_v.weight"));
    result = {linear(b, x, layer_name(layer, "attn_q"), n_q), k,
              k_is_v ? k : linear(b, x, layer_name(layer, "attn_v"), n_v)};
  }
  if (gated) part_from_gate(b, layer, result);
  if (const float most = a.qkv_clamp; most > 0.0f)
    for (ValueId* const value : {&result.q, &result.k, &result.v})
      *value = b.add(ops::Clamp{-most, most}, {*value}, b.model().graph.value(*value).name + "_clamped");
  return result;
}

/// Q or K, whose norm's weights are in `name`.
ValueId norm_heads(Builder& b, int layer, ValueId x, std::int64_t head_dim, QkNorm kind, const char* name,
                   const char* result) {
  const HParams& h = b.hparams();
  const std::string weight = layer_name(layer, name) + ".weight";
  const std::int64_t n = b.model().graph.value(x).shape.columns();
  ops::Norm op{.kind = NormKind::kRms, .eps = h.norm.eps, .group = head_dim};
  if (kind == QkNorm::kHeads) return b.add(op, {x, b.weight(weight, {head_dim})}, layer_name(layer, result));
  if (kind == QkNorm::kRow) {
    op.group = 0;
    return b.add(op, {x, b.weight(weight, {n})}, layer_name(layer, result));
  }
  if (kind == QkNorm::kOwnOfHead) {
    op.kind = NormKind::kLayer;
    if (h.norm.head_eps > 0.0f) op.eps = h.norm.head_eps;
  }
  const Shape own = {n / head_dim, head_dim};
  const std::string scaled = layer_name(layer, result), bias = std::string(name) + ".bias";
  const ValueId plain = b.add(op, {x}, scaled + "_plain");
  const ValueId y = b.add(ops::Mul{}, {plain, b.flat_weight(weight, own)}, scaled);
  if (!has_in_any_layer(b, bias.c_str())) return y;
  return b.add(ops::Add{}, {y, b.flat_weight(layer_name(layer, bias.c_str()), own)}, scaled + "_biased");
}

/// Norms of what rope has turned. Keys stay without their weights, which do not turn with them when their
/// positions change: queries take these, too.
void norm_turned_heads(Builder& b, int layer, QkNorm kind, ValueId& q, ValueId& k) {
  const HParams& h = b.hparams();
  const int dim = h.attention->k_head_dim;
  const ops::Norm op{.kind = NormKind::kRms, .eps = h.norm.eps, .group = dim};
  const auto weight = [&](const char* name) { return b.weight(layer_name(layer, name), {dim}); };
  const ValueId both = kind == QkNorm::kTurnedPlain
                           ? kNoValue
                           : b.add(ops::Mul{}, {weight("attn_q_norm.weight"), weight("attn_k_norm.weight")},
                                   layer_name(layer, "qk_norm_weights"));
  q = b.add(op, {q, both}, layer_name(layer, "q_normed"));
  k = b.add(op, {k}, layer_name(layer, "k_normed"));
}

}  // namespace

void slide_unscaled(const HParams& h, AttentionBlock& block) {
  block.window = h.window->size;
  block.rope_params.freq_base = h.window->rope_base;
  block.rope_params.freq_scale = block.rope_params.attn_factor = 1.0f;
  block.rope_params.ext_factor = 0.0f;
  block.rope_factors = kNoValue;
}

Projections project(Builder& b, int layer, ValueId x, const AttentionBlock& block) {
  const HParams& h = b.hparams();
  const HeadSizes sizes =
      sizes_of(*h.attention, block.n_heads, block.n_kv_heads, block.head_dim, block.head_dim);
  const bool shares = block.kv_layer != NodeTag::kNone;
  auto [q, k, v, gate] = shares ? Projections{project_q(b, layer, x, sizes), kNoValue, kNoValue}
                                : project_plainly(b, layer, x, sizes, block.gated);
  const bool norms_turned = block.qk_norm == QkNorm::kTurned || block.qk_norm == QkNorm::kTurnedPlain;
  if (block.qk_norm != QkNorm::kNone && !norms_turned) {
    q = norm_heads(b, layer, q, sizes.k_dim, block.qk_norm, "attn_q_norm", "q_normed");
    if (!shares) k = norm_heads(b, layer, k, sizes.k_dim, block.qk_norm, "attn_k_norm", "k_normed");
  }
  if (block.v_norm && !shares) {
    const ops::Norm op{.kind = NormKind::kRms, .eps = h.norm.eps, .group = sizes.v_dim};
    v = b.add(op, {v}, layer_name(layer, "v_normed"));
  }
  if (block.rope) {
    q = turn(b, q, block.rope_params, block.rope_factors, layer_name(layer, "q_rope"));
    if (!shares) k = turn(b, k, block.rope_params, block.rope_factors, layer_name(layer, "k_rope"));
  }
  if (norms_turned) norm_turned_heads(b, layer, block.qk_norm, q, k);
  if (block.temperature != kNoValue)
    q = b.add(ops::Mul{}, {q, block.temperature}, layer_name(layer, "q_tempered"));
  return {q, k, v, gate};
}

ValueId attend_to_caches(Builder& b, int layer, const CellInputs& at, const Attended& in) {
  const AttentionParams& a = *b.hparams().attention;
  const ModelGraph& m = b.model();
  const HeadSizes sizes = sizes_of(a, in.n_heads, in.n_kv_heads, in.k_dim, in.v_dim);
  const ValueId q = b.rotated(CacheRole::kKeys, in.q, sizes.k_dim, layer_name(layer, "q_rotated"));
  ValueId k_cache, v_cache;
  if (in.k == kNoValue) {
    k_cache = b.stored(CacheRole::kKeys, in.kv_layer);
    v_cache = b.stored(CacheRole::kValues, in.kv_layer);
  } else {
    k_cache = b.cache(CacheRole::kKeys, layer, at, sizes.n_kv, sizes.k_dim, in.turn, in.rope_factors);
    k_cache = b.store(CacheRole::kKeys, layer, at, k_cache, in.k);
    v_cache = b.cache(CacheRole::kValues, layer, at, sizes.n_kv, sizes.v_dim, {.n_rot = 0}, kNoValue);
    v_cache = b.store(CacheRole::kValues, layer, at, v_cache, in.v);
  }
  ops::Attention op;
  op.n_heads = sizes.n;
  op.scale = scale_of(a, sizes.k_dim);
  op.softcap = a.softcap;
  op.window = in.window;
  op.chunked = in.chunked;
  op.alibi = a.alibi;
  // A layer that sees the keys of another attends where those lie.
  const NodeTag own = b.entered();
  if (in.k == kNoValue) b.enter(own.part, in.kv_layer);
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
                             .hidden = at.hidden,
                             .head_terms = in.head_terms},
                            layer_name(layer, "attention"));
  b.enter(own.part, own.layer);
  return b.rotated(CacheRole::kValues, out, sizes.v_dim, layer_name(layer, "attention_rotated_back"));
}

ValueId attend_to_source(Builder& b, int layer, const Projections& of) {
  const AttentionParams& a = *b.hparams().attention;
  const ModelGraph& m = b.model();
  const SourceInputs& source = m.source;
  ops::Attention op;
  op.n_heads = a.n_heads;
  op.scale = scale_of(a, a.k_head_dim);
  const std::string name = layer_name(layer, "attention_to_source");
  const ValueId out =
      b.add(op,
            {.q = b.rotated(CacheRole::kKeys, of.q, a.k_head_dim, layer_name(layer, "source_q_rotated")),
             .k = b.store_source(CacheRole::kKeys, layer, of.k, a.n_kv_heads, a.k_head_dim),
             .v = b.store_source(CacheRole::kValues, layer, of.v, a.n_kv_heads, a.v_head_dim),
             .positions = m.positions,
             .sequences = m.sequences,
             .extents = source.extents,
             .counts = source.extent_counts,
             .ends = source.ends,
             .hidden_first = source.hidden_first,
             .hidden = source.hidden},
            name);
  return b.rotated(CacheRole::kValues, out, a.v_head_dim, name + "_rotated_back");
}

ValueId attention(Builder& b, int layer, ValueId x, const AttentionBlock& block, ValueId& residual) {
  const HParams& h = b.hparams();
  const CellInputs& at = b.cells(block.window);
  const auto [q, k, v, gate] = project(b, layer, x, block);
  const ValueId sinks = block.sinks ? b.weight(layer_name(layer, "attn_sinks.weight"),
                                               {sizes_of(*h.attention, block.n_heads, 0, 0, 0).n})
                                    : kNoValue;
  ValueId out = attend_to_caches(b, layer, at,
                                 {.q = q,
                                  .k = k,
                                  .v = v,
                                  .n_heads = block.n_heads,
                                  .n_kv_heads = block.n_kv_heads,
                                  .k_dim = block.head_dim,
                                  .v_dim = block.head_dim,
                                  .turn = block.rope ? block.rope_params : ops::Rope{.n_rot = 0},
                                  .rope_factors = block.rope_factors,
                                  .head_terms = sinks,
                                  .window = block.window,
                                  .chunked = block.chunked,
                                  .kv_layer = block.kv_layer});
  if (gate != kNoValue) {
    const ValueId share = b.add(ops::Unary{UnaryKind::kSigmoid}, {gate}, layer_name(layer, "gate_sigmoid"));
    out = b.add(ops::Mul{}, {out, share}, layer_name(layer, "attention_gated"));
  }
  if (const float scale = h.attention->value_scale; scale != 1.0f)
    out = b.add(ops::Scale{scale}, {out}, layer_name(layer, "attention_scaled_values"));
  if (block.finish) out = block.finish(x, out);
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
  const std::int64_t taps = b.hparams().ssm->conv_taps;
  const std::string part = n == n_all ? "" : "@" + std::to_string(begin);
  // A layer may have several.
  const std::string own = name.substr(name.rfind('.') + 1);
  const ValueId state = b.running_state(own + part, layer, taps - 1, n);
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

ValueId gated_ffn(Builder& b, int layer, ValueId x, Activation activation, std::int64_t width) {
  const HParams& h = b.hparams();
  if (width == 0) width = h.ffn.width;
  const ValueId gate = linear(b, x, layer_name(layer, "ffn_gate"), width);
  const ValueId up = linear(b, x, layer_name(layer, "ffn_up"), width);
  const ValueId product = b.add(ops::Glu{activation}, {gate, up}, layer_name(layer, "ffn_glu"));
  return linear(b, product, layer_name(layer, "ffn_down"), h.n_embd);
}

ValueId fused_gated_ffn(Builder& b, int layer, ValueId x, Activation activation) {
  const HParams& h = b.hparams();
  const std::int64_t width = h.ffn.width;
  const std::string name = layer_name(layer, "ffn_up");
  const ValueId gate = linear_rows(b, x, name, 2 * width, 0, width);
  const ValueId up = linear_rows(b, x, name, 2 * width, width, width);
  const ValueId product = b.add(ops::Glu{activation}, {gate, up}, layer_name(layer, "ffn_glu"));
  return linear(b, product, layer_name(layer, "ffn_down"), h.n_embd);
}

ValueId plain_ffn(Builder& b, int layer, ValueId x, Activation activation) {
  const HParams& h = b.hparams();
  const ValueId up = linear(b, x, layer_name(layer, "ffn_up"), h.ffn.width);
  const ValueId active = b.add(ops::Activate{activation}, {up}, layer_name(layer, "ffn_active"));
  return linear(b, active, layer_name(layer, "ffn_down"), h.n_embd);
}

ValueId add(Builder& b, ValueId x, ValueId y, const std::string& name) {
  return b.add(ops::Add{}, {x, y}, name);
}

ValueId ffn(Builder& b, int layer, ValueId x, Ffn kind, Activation activation) {
  const std::optional<ExpertParams>& experts = b.hparams().experts;
  if (experts && layer >= experts->n_dense_layers && (layer + 1) % experts->step == 0)
    return expert_ffn(b, layer, x, activation);
  if (kind == Ffn::kPlain) return plain_ffn(b, layer, x, activation);
  return kind == Ffn::kFused ? fused_gated_ffn(b, layer, x, activation) : gated_ffn(b, layer, x, activation);
}

namespace {

/// The file's frequency divisors for rope, once for all layers; kNoValue if it has none.
ValueId factors_of_file(Builder& b) {
  constexpr const char* kFactors = "rope_freqs.weight";
  if (b.has("rope_factors_short.weight") || b.has("rope_factors_long.weight")) return long_rope_factors(b);
  return b.has(kFactors) ? b.weight(kFactors, {b.hparams().rope.n_rot / 2}) : kNoValue;
}

}  // namespace

ValueId layers(Builder& b, ValueId x, const Decoder& how) {
  const HParams& h = b.hparams();
  ValueId factors = how.attention.rope_factors;
  if (factors == kNoValue && !how.attend && how.attention.rope) factors = factors_of_file(b);
  /// The output of a block, normed and scaled for the residual sum.
  const auto added = [&](ValueId y, int layer, const char* norm_name, const char* name) {
    if (how.norms_behind) y = norm(b, how.norm, y, layer_name(layer, norm_name));
    const float scale = h.blocks.residual_scale;
    return scale == 1.0f ? y : b.add(ops::Scale{scale}, {y}, layer_name(layer, name));
  };
  const auto before = [&](ValueId y, const std::string& name, const std::string& result = {}) {
    return how.norms_before ? norm(b, how.norm, y, name, result) : y;
  };
  for (int layer = 0; layer < h.n_layers; ++layer) {
    AttentionBlock block = how.attention;
    block.rope_factors = factors;
    if (how.vary) how.vary(layer, block);
    const auto name_of = [&](const char* own, const char* common) {
      return layer_name(layer, !how.parallel || b.has(layer_name(layer, own) + ".weight") ? own : common);
    };
    b.enter(Part::kAttention, layer);
    const ValueId all_rows = x;
    const std::string attention_norm =
        how.parallel ? name_of("attn_norm_2", "attn_norm") : layer_name(layer, "attn_norm");
    const ValueId normed = layer > 0 || how.first_norm ? before(x, attention_norm) : x;
    const ValueId attended =
        added(how.attend ? how.attend(layer, normed, x) : attention(b, layer, normed, block, x), layer,
              "post_attention_norm", "attention_scaled");
    ValueId sum = add(b, x, attended, layer_name(layer, "after_attention"));
    if (how.norms_of_sums) sum = norm(b, how.norm, sum, layer_name(layer, "attn_output_norm"));
    b.enter(Part::kFeedForward, layer);
    const std::string ffn_norm = name_of(how.ffn_norm, "attn_norm");
    ValueId ffn_in = normed;
    if (!how.parallel) {
      ffn_in = before(sum, ffn_norm);
    } else if (x != all_rows || ffn_norm != attention_norm) {
      ffn_in = before(x, ffn_norm, layer_name(layer, "ffn_in"));
    }
    const ValueId ffn_out =
        how.own_ffn ? how.own_ffn(layer, ffn_in) : ffn(b, layer, ffn_in, how.ffn, how.activation);
    x = b.pass_on(layer, add(b, sum, added(ffn_out, layer, "post_ffw_norm", "ffn_scaled"),
                             layer_name(layer, "after_ffn")));
    x = add_deepstack(b, layer, x);
    if (how.norms_of_sums) x = norm(b, how.norm, x, layer_name(layer, "layer_output_norm"));
  }
  return x;
}

ValueId decoder(Builder& b, ValueId x, const Decoder& how) {
  return output_logits(b, how.norm, layers(b, x, how));
}

std::function<ValueId(int, ValueId, ValueId&)> mixed_layers(Builder& b, const AttentionBlock& block,
                                                            const Mixer& recurrent) {
  return [&b, block, recurrent](int layer, ValueId x, ValueId& residual) {
    if (b.hparams().layers[to_size(layer)] == LayerKind::kAttention)
      return attention(b, layer, x, block, residual);
    b.enter(Part::kRecurrent, layer);
    return recurrent(b, layer, x, residual);
  };
}

ValueId selective_scan(Builder& b, int layer, const ScanInputs& in) {
  const SsmParams& ssm = *b.hparams().ssm;
  const ValueId state = b.running_state("scan", layer, ssm.n_state, ssm.n_inner);
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
    x = b.pass_on(layer, add(b, x, out, layer_name(layer, "after_scan")));
  }
  return output_logits(b, NormKind::kRms, x);
}

namespace {

/// Logits, of tokens that are never to be chosen the least number.
ValueId leave_out(Builder& b, ValueId logits, const std::string& name) {
  const HParams& h = b.hparams();
  std::vector<float> added(to_size(h.n_vocab), 0.0f);
  std::fill_n(added.begin() + h.logits.first_left_out, h.logits.n_left_out,
              std::numeric_limits<float>::lowest());
  return b.add(ops::Add{}, {logits, b.constant("left_out", {h.n_vocab}, std::move(added))},
               name + "_of_others");
}

}  // namespace

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
  if (h.logits.scale != 1.0f) x = b.add(ops::Scale{h.logits.scale}, {x}, "outputs_scaled");
  const char* const weight = b.has("output.weight") ? "output.weight" : "token_embd.weight";
  const auto logits_of = [&](ValueId rows, const std::string& name) {
    const ValueId all = b.product(rows, weight, "output.bias", h.n_vocab, 0, h.n_vocab, name);
    const ValueId logits = h.logits.n_left_out > 0 ? leave_out(b, all, name) : all;
    return h.logits.softcap > 0.0f ? b.add(ops::Softcap{h.logits.softcap}, {logits}, name + "_capped")
                                   : logits;
  };
  if (!b.wants_best()) return logits_of(x, "logits");
  // All rows in one product, so that the weights are read once. Rows that are not among logit_rows are never
  // written.
  const ValueId all = logits_of(x, "logits_of_outputs");
  b.take_best(all);
  return b.add(ops::GetRows{}, {all, b.model().logit_rows}, "logits");
}

}  // namespace weft::model
