#include "model/latent_attention.h"

namespace weft::model {

namespace {

/// Each row's number of a head, for all heads: an expert is one head here.
ValueId heads_of_rows(Builder& b, const Dim& rows, const std::string& name) {
  const std::int64_t n = b.hparams().attention->n_heads;
  if (const ValueId known = b.model().graph.find(name); known != kNoValue) return known;
  ValueId heads = b.model().graph.find("heads");
  if (heads == kNoValue) heads = b.add(ops::Arange{.size = n}, {}, "heads");
  return b.add(ops::BroadcastTo{{rows, n}}, {heads}, name);
}

}  // namespace

ValueId latent_attention(Builder& b, int layer, ValueId x, ValueId& residual, bool rope,
                         ValueId temperature) {
  const HParams& h = b.hparams();
  const ModelGraph& m = b.model();
  const CellInputs& at = b.cells(0);
  const auto name = [&](const char* part) { return layer_name(layer, part); };
  const auto rows_of = [&](ValueId value) { return m.graph.value(value).shape[0]; };
  const Dim rows = rows_of(x);
  const LatentParams& l = *h.latent;
  const std::int64_t heads = h.attention->n_heads, turned = h.rope.n_rot, key_dim = l.k_nope_dim + turned;

  ValueId q = x;
  if (l.q_rank > 0)
    q = norm(b, NormKind::kRms, linear(b, x, name("attn_q_a"), l.q_rank), name("attn_q_a_norm"));
  q = linear(b, q, name(l.q_rank > 0 ? "attn_q_b" : "attn_q"), heads * key_dim);
  q = b.add(ops::Reshape{{rows, heads, key_dim}}, {q}, name("q_heads"));
  const ValueId q_nope = b.add(ops::Slice{.axis = 2, .begin = 0, .end = l.k_nope_dim}, {q}, name("q_nope"));
  const ValueId q_turned =
      b.add(ops::Slice{.axis = 2, .begin = l.k_nope_dim, .end = key_dim}, {q}, name("q_pe"));
  ValueId q_latent = b.add(ops::MatmulExperts{},
                           {b.weight(name("attn_k_b.weight"), {heads, l.kv_rank, l.k_nope_dim}), q_nope,
                            heads_of_rows(b, rows, "heads_of_rows")},
                           name("q_latent"));
  q_latent = b.with_factor(q_latent, name("attn_k_b.weight"));
  // The rotated part comes first, as rope requires.
  q = b.add(ops::Concat{.axis = 2}, {q_turned, q_latent}, name("q_joined"));
  q = b.add(ops::Reshape{{rows, heads * h.attention->k_head_dim}}, {q}, name("q"));
  if (rope) q = b.add(h.rope, {q, m.positions}, name("q_rope"));
  if (temperature != kNoValue) q = b.add(ops::Mul{}, {q, temperature}, name("q_sharpened"));

  const std::string kv = name("attn_kv_a_mqa");
  const std::int64_t n_kv = l.kv_rank + turned;
  const ValueId latent =
      norm(b, NormKind::kRms, linear_rows(b, x, kv, n_kv, 0, l.kv_rank), name("attn_kv_a_norm"));
  const ValueId k_turned = linear_rows(b, x, kv, n_kv, l.kv_rank, turned);
  ValueId k = b.add(ops::Concat{}, {k_turned, latent}, name("k_joined"));
  if (rope) k = b.add(h.rope, {k, m.positions}, name("k_rope"));

  const ValueId out = attend_to_caches(
      b, layer, at, {.q = q, .k = k, .v = latent, .turn = rope ? h.rope : ops::Rope{.n_rot = 0}});
  const ValueId wanted = wanted_rows(b, layer, out, residual);
  const Dim n_wanted = rows_of(wanted);
  const ValueId by_head =
      b.add(ops::Reshape{{n_wanted, heads, l.kv_rank}}, {wanted}, name("attended_latent"));
  ValueId values =
      b.add(ops::MatmulExperts{},
            {b.weight(name("attn_v_b.weight"), {heads, l.v_out_dim, l.kv_rank}), by_head,
             heads_of_rows(b, n_wanted, n_wanted == rows ? "heads_of_rows" : "heads_of_wanted_rows")},
            name("attended_heads"));
  values = b.with_factor(values, name("attn_v_b.weight"));
  const ValueId flat = b.add(ops::Reshape{{n_wanted, heads * l.v_out_dim}}, {values}, name("attended"));
  return linear(b, flat, name("attn_output"), h.n_embd);
}

}  // namespace weft::model
