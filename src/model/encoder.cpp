#include "model/encoder.h"

#include <cmath>
#include <string>

namespace weft::model {
namespace {

ValueId attend_to_text(Builder& b, int layer, ValueId x, const AttentionBlock& block) {
  const HParams& h = b.hparams();
  const Projections of = project(b, layer, x, block);
  const TextInputs& texts = b.texts(block.window);
  const ops::RaggedAttention op = {.n_heads = h.n_heads, .scale = h.attention_scale};
  const ValueId out = b.add(op,
                            {.q = of.q,
                             .k = of.k,
                             .v = of.v,
                             .begins = block.window > 0 ? texts.window_begins : texts.begins,
                             .ends = block.window > 0 ? texts.window_ends : texts.ends},
                            layer_name(layer, "attention"));
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

ValueId embed_texts(Builder& b, NormKind kind) {
  const HParams& h = b.hparams();
  ValueId x = embed_tokens(b);
  const auto rows = [&](const std::string& table, std::int64_t n, ValueId ids) {
    const ValueId taken =
        b.add(ops::GetRows{}, {b.weight(table + ".weight", {n, h.n_embd}), ids}, table + "_rows");
    x = add(b, x, taken, "with_" + table);
  };
  if (h.learned_positions) rows("position_embd", h.n_ctx_train, b.model().positions);
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
  if (b.has("output_norm.weight")) x = norm(b, how.norm, x, "output_norm");
  const TextInputs& texts = b.model().texts;
  x = b.add(ops::RaggedMean{}, {x, texts.pool_begins, texts.pool_ends}, "pooled");
  b.take_scores(classify(b, x, classifier));
  for (const char* const name : {"dense_2", "dense_3"})
    if (b.has(std::string(name) + ".weight")) x = linear_as_it_is(b, x, name);
  return x;
}

}  // namespace weft::model
