// Gemma 3n (Google, 2025): four forms of each row pass through the layers, which compute one and predict and
// correct the others from it (AltUp, arXiv 2301.13310). A low-rank path runs in parallel to attention
// (LAuReL, arXiv 2411.07501). Each layer has an embedding, and only the largest gates pass. Late layers see
// the keys and values of earlier ones.
#include <cmath>
#include <limits>

#include "base/to_size.h"
#include "model/blocks.h"
#include "model/family.h"

namespace weft::model {
namespace {

constexpr int kLaurelRank = 64;

void read_gemma3n(const Metadata& metadata, HParams& h) {
  constexpr int kPattern = 5, kMostForms = 16;
  h.rope.neox = true;
  h.embedding.scale = std::sqrt(static_cast<float>(h.n_embd));
  h.attention->scale = 1.0f;
  require_window(metadata, h);
  read_sliding(metadata, h, kPattern);
  AltupParams& altup = h.altup.emplace();
  altup.n = metadata.require_int("altup.num_inputs", 2, kMostForms);
  altup.active = metadata.require_int("altup.active_idx", 0, altup.n - 1);
  h.embedding.n_per_layer = metadata.require_int("embedding_length_per_layer_input", 1, kMaxWidth);
  read_layers_with_kv(metadata, h);
  h.ffn.gate_cuts = metadata.get_floats("activation_sparsity_scale", h.n_layers,
                                        -std::numeric_limits<double>::infinity(), 1e3);
}

class Gemma3n {
 public:
  explicit Gemma3n(Builder& b) : b_(b), h_(b.hparams()), altup_(*h_.altup) {}

  ValueId build() {
    const ValueId x = embed_tokens(b_);
    layer_inputs_ = embed_for_layers(b_, x);
    ValueId forms = make_forms(x);
    for (int layer = 0; layer < h_.n_layers; ++layer) forms = add_layer(layer, forms);
    b_.enter(Part::kHead);
    return output_logits(b_, NormKind::kRms, unite(forms));
  }

 private:
  template <typename T>
  ValueId add(T op, std::initializer_list<ValueId> inputs, const std::string& name) {
    return b_.add(std::move(op), inputs, name);
  }
  Dim rows_of(ValueId value) const { return b_.model().graph.value(value).shape[0]; }
  /// One of the forms {m, n_altup, n_embd}, as rows.
  ValueId form(ValueId forms, int i, const std::string& name) {
    const ValueId one = add(ops::Slice{.axis = 1, .begin = i, .end = i + 1}, {forms}, name + "_apart");
    return add(ops::Reshape{{rows_of(forms), h_.n_embd}}, {one}, name);
  }
  ValueId apart(ValueId x, const std::string& name) {
    return add(ops::Reshape{{rows_of(x), 1, h_.n_embd}}, {x}, name);
  }
  ValueId mean_square(ValueId x, std::uint32_t axes, const std::string& name) {
    const ValueId square = add(ops::Unary{UnaryKind::kSquare}, {x}, name + "_squares");
    return add(ops::Reduce{.kind = ReduceKind::kMean, .axes = axes, .keep = true}, {square}, name);
  }

  /// All forms but the first, each by a matrix of its own, as long as the first one.
  ValueId project_others(ValueId first, ValueId x, const std::string& name) {
    constexpr float kLeast = 1e-5f;
    const Dim rows = rows_of(first);
    const std::int64_t others = altup_.n - 1;
    ValueId numbers = b_.model().graph.find("altup_numbers");
    if (numbers == kNoValue) numbers = add(ops::Arange{.size = others}, {}, "altup_numbers");
    const ValueId ids = add(ops::BroadcastTo{{rows, others}}, {numbers}, name + "_ids");
    const ValueId weight = b_.weight(name + ".weight", {others, h_.n_embd, h_.n_embd});
    const ValueId made = b_.with_factor(add(ops::MatmulExperts{}, {weight, x, ids}, name), name + ".weight");
    const ValueId wanted =
        add(ops::Unary{UnaryKind::kSqrt}, {mean_square(first, 2, name + "_target_square")}, name + "_target");
    const ValueId target = add(ops::Reshape{{rows, 1, 1}}, {wanted}, name + "_target_apart");
    const ValueId square = add(ops::Clamp{kLeast, std::numeric_limits<float>::infinity()},
                               {mean_square(made, 4, name + "_square")}, name + "_square_clamped");
    const ValueId size = add(ops::Unary{UnaryKind::kSqrt}, {square}, name + "_size");
    const ValueId scaled = add(ops::Mul{}, {made, target}, name + "_scaled");
    return add(ops::Binary{BinaryKind::kDiv}, {scaled, size}, name + "_as_long");
  }

  ValueId make_forms(ValueId x) {
    const ValueId others = project_others(x, x, "altup_proj");
    return add(ops::Concat{.axis = 1}, {apart(x, "first_form"), others}, "forms");
  }

  ValueId unite(ValueId forms) {
    const ValueId first = form(forms, 0, "first_form_behind");
    const ValueId rest = add(ops::Slice{.axis = 1, .begin = 1, .end = altup_.n}, {forms}, "other_forms");
    const ValueId others = project_others(first, rest, "altup_unembd_proj");
    const ValueId all =
        add(ops::Concat{.axis = 1}, {apart(first, "first_form_apart"), others}, "forms_behind");
    return add(ops::Reduce{.kind = ReduceKind::kMean, .axes = 2}, {all}, "forms_united");
  }

  ValueId modalities(int layer, ValueId x, const char* name) {
    const std::string full = layer_name(layer, name);
    ValueId y = norm(b_, NormKind::kRms, x, layer_name(layer, "altup_router_norm"), full + "_normed");
    y = add(ops::Scale{1.0f / static_cast<float>(h_.n_embd)}, {y}, full + "_scaled");
    y = b_.product(y, layer_name(layer, "altup_router.weight"), "", altup_.n, 0, altup_.n, full + "_logits");
    return add(ops::Unary{UnaryKind::kTanh}, {y}, full);
  }

  ValueId predict(int layer, ValueId forms, ValueId active) {
    const std::int64_t n = altup_.n;
    const ValueId flat =
        linear(b_, modalities(layer, active, "modalities"), layer_name(layer, "altup_predict_coef"), n * n);
    const ValueId mixes = add(ops::Reshape{{rows_of(forms), n, n}}, {flat}, layer_name(layer, "altup_mixes"));
    const ValueId mixed = add(ops::BatchMatmul{}, {mixes, forms}, layer_name(layer, "altup_mixed"));
    return add(ops::Add{}, {mixed, forms}, layer_name(layer, "predictions"));
  }

  ValueId correct(int layer, ValueId predictions, ValueId active, ValueId activated) {
    const std::int64_t n = altup_.n;
    const ValueId raw = linear(b_, modalities(layer, activated, "modalities_behind"),
                               layer_name(layer, "altup_correct_coef"), n);
    const ValueId shares =
        add(ops::Binary{.kind = BinaryKind::kAdd, .scalar = 1.0f}, {raw}, layer_name(layer, "altup_shares"));
    const ValueId each =
        add(ops::Reshape{{rows_of(predictions), n, 1}}, {shares}, layer_name(layer, "altup_shares_apart"));
    const ValueId news =
        add(ops::Binary{BinaryKind::kSub}, {activated, active}, layer_name(layer, "innovation"));
    const ValueId spread = add(ops::Mul{}, {apart(news, layer_name(layer, "innovation_apart")), each},
                               layer_name(layer, "news"));
    return add(ops::Add{}, {spread, predictions}, layer_name(layer, "corrected"));
  }

  ValueId laurel(int layer, ValueId x) {
    const ValueId low = linear(b_, x, layer_name(layer, "laurel_l"), kLaurelRank);
    const ValueId high = linear(b_, low, layer_name(layer, "laurel_r"), h_.n_embd);
    const ValueId normed = norm(b_, NormKind::kRms, high, layer_name(layer, "laurel_post_norm"));
    return add(ops::Add{}, {x, normed}, layer_name(layer, "laurel"));
  }

  ValueId feed_forward(int layer, ValueId x) {
    const std::string name = layer_name(layer, "ffn_gate");
    ValueId gate = linear(b_, x, name, h_.ffn.width);
    if (const float cut = h_.ffn.gate_cuts[to_size(layer)]; std::isfinite(cut)) {
      const ops::Reduce mean_of_row{.kind = ReduceKind::kMean, .axes = 2, .keep = true};
      const ValueId mean = add(mean_of_row, {gate}, name + "_mean");
      const ValueId above = add(ops::Binary{BinaryKind::kSub}, {gate, mean}, name + "_above_mean");
      const ValueId deviation =
          add(ops::Unary{UnaryKind::kSqrt}, {mean_square(above, 2, name + "_variance")}, name + "_deviation");
      const ValueId least = add(ops::Scale{cut}, {deviation}, name + "_least");
      const ValueId over = add(ops::Binary{BinaryKind::kSub}, {above, least}, name + "_over");
      gate = add(ops::Activate{Activation::kRelu}, {over}, name + "_left");
    }
    const ValueId up = linear(b_, x, layer_name(layer, "ffn_up"), h_.ffn.width);
    const ValueId product = add(ops::Glu{Activation::kGelu}, {gate, up}, layer_name(layer, "ffn_glu"));
    return linear(b_, product, layer_name(layer, "ffn_down"), h_.n_embd);
  }

  /// What the layer's own embedding makes of the corrected form.
  ValueId add_own_input(int layer, ValueId corrected) {
    const auto name = [&](const char* part) { return layer_name(layer, part); };
    const ValueId scale = b_.weight(name("altup_correct_scale.weight"), {h_.n_embd});
    ValueId x = form(corrected, altup_.active, name("corrected_active"));
    x = add(ops::Mul{}, {x, scale}, name("corrected_scaled"));
    x = own_input(b_, layer, layer_inputs_, x);
    const ValueId first =
        add(ops::Slice{.axis = 1, .begin = 0, .end = 1}, {corrected}, name("corrected_first"));
    const ValueId rest =
        add(ops::Slice{.axis = 1, .begin = 1, .end = altup_.n}, {corrected}, name("corrected_others"));
    const ValueId moved = add(ops::Add{}, {rest, apart(x, name("own_input_apart"))}, name("others_moved"));
    return add(ops::Concat{.axis = 1}, {first, moved}, name("forms"));
  }

  ValueId add_layer(int layer, ValueId forms) {
    const auto name = [&](const char* part) { return layer_name(layer, part); };
    const std::int64_t width = altup_.n * std::int64_t{h_.n_embd};
    b_.enter(Part::kAttention, layer);
    ValueId predictions = predict(layer, forms, form(forms, altup_.active, name("active_before")));
    const ValueId active = form(predictions, altup_.active, name("active"));
    const ValueId normed = norm(b_, NormKind::kRms, active, name("attn_norm"));

    // What else is needed of the rows that attention leaves.
    const ValueId flat =
        add(ops::Reshape{{rows_of(predictions), width}}, {predictions}, name("predictions_flat"));
    ValueId kept = add(ops::Concat{}, {flat, laurel(layer, normed)}, name("kept"));
    const bool sliding = h_.slides(layer);
    AttentionBlock block;
    block.qk_norm = QkNorm::kHeads;
    block.v_norm = true;
    block.rope_params = h_.rope;
    if (sliding) {
      block.window = h_.window->size;
      block.rope_params.freq_base = h_.window->rope_base;
    }
    if (layer >= h_.attention->n_layers_with_kv) block.kv_layer = kv_layer_of(h_, layer);
    const ValueId attended =
        norm(b_, NormKind::kRms, attention(b_, layer, normed, block, kept), name("post_attention_norm"));
    const auto columns = [&](std::int64_t begin, std::int64_t end, const char* part) {
      return add(ops::Slice{.axis = 1, .begin = begin, .end = end}, {kept}, name(part));
    };
    predictions = add(ops::Reshape{{rows_of(kept), altup_.n, h_.n_embd}},
                      {columns(0, width, "predictions_kept")}, name("predictions_of_rows"));
    const ValueId active_kept = form(predictions, altup_.active, name("active_of_rows"));
    const ValueId gated = model::add(b_, active_kept, attended, name("after_attention"));
    const ValueId both =
        model::add(b_, gated, columns(width, width + h_.n_embd, "laurel_of_rows"), name("after_laurel"));
    const ValueId sum = add(ops::Scale{std::sqrt(0.5f)}, {both}, name("after_laurel_scaled"));

    b_.enter(Part::kFeedForward, layer);
    const ValueId ffn_in = norm(b_, NormKind::kRms, sum, name("ffn_norm"));
    const ValueId ffn_out = norm(b_, NormKind::kRms, feed_forward(layer, ffn_in), name("post_ffw_norm"));
    const ValueId activated = model::add(b_, sum, ffn_out, name("after_ffn"));
    const ValueId corrected = correct(layer, predictions, active_kept, activated);
    return b_.pass_on(layer, add_own_input(layer, corrected));
  }

  Builder& b_;
  const HParams& h_;
  const AltupParams& altup_;
  ValueId layer_inputs_ = kNoValue;
};

ValueId build_gemma3n(Builder& b) { return Gemma3n(b).build(); }

}  // namespace

const Family kGemma3n = {"gemma3n", read_gemma3n, build_gemma3n};

}  // namespace weft::model
