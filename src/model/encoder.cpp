#include "model/encoder.h"

#include <bit>
#include <cmath>
#include <string>

namespace weft::model {
namespace {

/// ALiBi, both ways: a score is less by the distance times the head's slope.
ValueId alibi_bias(Builder& b) {
  const AttentionParams& a = *b.hparams().attention;
  if (const ValueId known = b.model().graph.find("alibi"); known != kNoValue) return known;
  std::vector<float> slopes;
  const int paired = static_cast<int>(std::bit_floor(static_cast<unsigned>(a.n_heads)));
  for (int head = 0; head < a.n_heads; ++head) {
    const float place = static_cast<float>(head) + (head < paired ? 1.0f : 0.5f);
    const float of = head < paired ? place : place - static_cast<float>(paired);
    slopes.push_back(-std::exp2(-a.alibi * of / static_cast<float>(paired)));
  }
  const ValueId away =
      b.add(ops::Unary{UnaryKind::kAbs}, {distances(b, b.model().positions)}, "distances_either_way");
  const ValueId of_heads = b.constant("alibi_slopes", {a.n_heads}, std::move(slopes));
  const ValueId slope = b.add(ops::Reshape{{1, a.n_heads, 1, 1}}, {of_heads}, "alibi_slopes_apart");
  return b.add(ops::Mul{}, {slope, away}, "alibi");
}

ValueId attend_to_text(Builder& b, int layer, ValueId x, const AttentionBlock& block) {
  const HParams& h = b.hparams();
  const Projections of = project(b, layer, x, block);
  const std::string name = layer_name(layer, "attention");
  if (h.encoder->one_text)
    return linear(b, attend_to_step(b, of, h.attention->scale, alibi_bias(b), name),
                  layer_name(layer, "attn_output"), h.n_embd);
  const TextInputs& texts = b.texts(block.window);
  const ops::RaggedAttention op = {.n_heads = h.attention->n_heads, .scale = h.attention->scale};
  const ValueId out = b.add(op,
                            {.q = of.q,
                             .k = of.k,
                             .v = of.v,
                             .begins = block.window > 0 ? texts.window_begins : texts.begins,
                             .ends = block.window > 0 ? texts.window_ends : texts.ends},
                            name);
  return linear(b, out, layer_name(layer, "attn_output"), h.n_embd);
}

/// A product with as many rows as the file's weight has.
ValueId linear_as_it_is(Builder& b, ValueId x, const std::string& name) {
  return linear(b, x, name, b.rows_of(name + ".weight"));
}

/// The scores of rows by the file's classifier; kNoValue where it has none.
ValueId classify(Builder& b, ValueId x, Activation activation) {
  const auto has = [&](const char* name) { return b.has(std::string(name) + ".weight"); };
  if (!has("cls") && !has("cls.output")) return kNoValue;
  if (has("cls")) {
    x = linear_as_it_is(b, x, "cls");
    x = activation == Activation::kNone ? b.add(ops::Unary{UnaryKind::kTanh}, {x}, "cls_active")
                                        : b.add(ops::Activate{activation}, {x}, "cls_active");
  }
  if (has("cls.norm")) x = norm(b, NormKind::kLayer, x, "cls.norm");
  return has("cls.output") ? linear_as_it_is(b, x, "cls.output") : x;
}

}  // namespace

ValueId distances(Builder& b, ValueId positions) {
  if (const ValueId known = b.model().graph.find("distances"); known != kNoValue) return known;
  const Dim rows = b.model().graph.value(positions).shape[0];
  const ValueId at = b.add(ops::Cast{DType::kF32}, {positions}, "places");
  const ValueId of_rows = b.add(ops::Reshape{{rows, 1}}, {at}, "places_of_rows");
  return b.add(ops::Binary{BinaryKind::kSub}, {at, of_rows}, "distances");
}

ValueId attend_to_step(Builder& b, const Projections& of, float scale, ValueId bias,
                       const std::string& name) {
  const AttentionParams& a = *b.hparams().attention;
  const Dim rows = b.model().graph.value(of.q).shape[0];
  const auto heads = [&](ValueId x, std::int64_t n, std::int64_t dim, const char* part) {
    const ValueId apart = b.add(ops::Reshape{{1, rows, n, dim}}, {x}, name + part + "_apart");
    return b.add(ops::Permute{{0, 2, 1, 3}}, {apart}, name + part);
  };
  const ValueId out = b.add(ops::DenseAttention{.scale = scale},
                            {.q = heads(of.q, a.n_heads, a.k_head_dim, "_q"),
                             .k = heads(of.k, a.n_kv_heads, a.k_head_dim, "_k"),
                             .v = heads(of.v, a.n_kv_heads, a.v_head_dim, "_v"),
                             .bias = bias},
                            name + "_heads");
  const ValueId by_row = b.add(ops::Permute{{0, 2, 1, 3}}, {out}, name + "_rows");
  return b.add(ops::Reshape{{rows, std::int64_t{a.n_heads} * a.v_head_dim}}, {by_row}, name);
}

ValueId embed_texts(Builder& b, NormKind kind) {
  const HParams& h = b.hparams();
  ValueId x = embed_tokens(b);
  const auto rows = [&](const std::string& table, std::int64_t n, ValueId ids) {
    const ValueId taken =
        b.add(ops::GetRows{}, {b.weight(table + ".weight", {n, h.n_embd}), ids}, table + "_rows");
    x = add(b, x, taken, "with_" + table);
  };
  if (h.embedding.learned_positions) rows("position_embd", h.n_ctx_train, b.model().positions);
  if (b.has("token_types.weight"))
    rows("token_types", b.rows_of("token_types.weight"), b.model().texts.types);
  return b.has("token_embd_norm.weight") ? norm(b, kind, x, "token_embd_norm") : x;
}

ValueId encoder(Builder& b, ValueId x, Decoder how, Activation classifier) {
  how.attend = [&b, &how](int layer, ValueId in, ValueId&) {
    AttentionBlock block = how.attention;
    if (how.vary) how.vary(layer, block);
    return attend_to_text(b, layer, in, block);
  };
  x = layers(b, x, how);
  b.enter(Part::kHead);
  for (const char* const name : {"output_norm", "enc.output_norm"})
    if (b.has(std::string(name) + ".weight")) x = norm(b, how.norm, x, name);
  const TextInputs& texts = b.model().texts;
  x = b.add(ops::RaggedMean{}, {x, texts.pool_begins, texts.pool_ends}, "pooled");
  b.take_scores(classify(b, x, classifier));
  for (const char* const name : {"dense_2", "dense_3"})
    if (b.has(std::string(name) + ".weight")) x = linear_as_it_is(b, x, name);
  return x;
}

}  // namespace weft::model
