// The blocks of experts (blocks.h).
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "base/to_size.h"
#include "model/blocks.h"
#include "model/factor_name.h"
#include "weft/error.h"

namespace weft::model {

namespace {

/// Takes the count of a layer with experts from counts by layer.
int of_layer(const std::vector<int>& counts, int layer, const char* key) {
  const int n = counts[to_size(layer)];
  if (n == 0)
    throw Error(ErrorCode::kInvalidFile, std::string("metadata key ") + key + ": found 0 for layer " +
                                             std::to_string(layer) + ", which has experts");
  return n;
}
int experts_used(const ExpertParams& e, int layer) {
  return of_layer(e.n_used_of, layer, "expert_used_count");
}
std::int64_t expert_width(const ExpertParams& e, int layer) {
  return of_layer(e.width_of, layer, "expert_feed_forward_length");
}

/// The nodes of a layer's router, in the order of its steps.
class Router {
 public:
  Router(Builder& b, int layer) : b_(b), e_(*b.hparams().experts), layer_(layer) {}

  ChosenExperts choose(ValueId logits) {
    const std::string bias = layer_name(layer_, "exp_probs_b.bias");
    const bool biased = has_in_any_layer(b_, "exp_probs_b.bias");
    if (!e_.sigmoid && e_.n_groups == e_.n_groups_used && !biased) {
      const ValueId ids = add(ops::TopK{used()}, {logits}, "experts");
      const ops::ExpertWeights op{.normalise = e_.normalise, .scale = e_.scale};
      return {ids, add(op, {logits, ids}, "expert_weights")};
    }
    const ValueId scores = e_.sigmoid ? add(ops::Unary{UnaryKind::kSigmoid}, {logits}, "expert_scores")
                                      : add(ops::Softmax{}, {logits}, "expert_scores");
    ValueId choice = scores;
    if (biased) choice = add(ops::Add{}, {scores, b_.weight(bias, {e_.n})}, "experts_to_choose");
    if (e_.n_groups > e_.n_groups_used) choice = keep_best_groups(choice);
    const ValueId ids = add(ops::TopK{used()}, {choice}, "experts");
    ValueId weights = add(ops::TakeAlong{.axis = 1}, {scores, ids}, "expert_weights_taken");
    if (e_.normalise) {
      const ValueId sum = add(ops::Reduce{.kind = ReduceKind::kSum, .axes = 2, .keep = true}, {weights},
                              "expert_weights_sum");
      constexpr float kLeast = 1e-20f;
      const ValueId divisor =
          add(ops::Binary{.kind = BinaryKind::kAdd, .scalar = kLeast}, {sum}, "expert_weights_divisor");
      weights = add(ops::Binary{BinaryKind::kDiv}, {weights, divisor}, "expert_weights_normed");
    }
    if (e_.scale != 1.0f) weights = add(ops::Scale{e_.scale}, {weights}, "expert_weights_scaled");
    return {ids, weights};
  }

 private:
  int used() const { return experts_used(e_, layer_); }
  template <typename T>
  ValueId add(T op, std::initializer_list<ValueId> inputs, const char* name) {
    return b_.add(std::move(op), inputs, layer_name(layer_, name));
  }

  /// Scores of the other groups become minus infinity. A group is as good as its two best experts together;
  /// of softmax's scores, as its best one.
  ValueId keep_best_groups(ValueId scores) {
    const Dim rows = b_.model().graph.value(scores).shape[0];
    const std::int64_t groups = e_.n_groups, of_group = e_.n / e_.n_groups;
    const int n_best = e_.sigmoid && of_group > 1 ? 2 : 1;
    const ValueId by_group = add(ops::Reshape{{rows * groups, of_group}}, {scores}, "experts_by_group");
    const ValueId ids = add(ops::TopK{n_best}, {by_group}, "best_of_groups");
    const ValueId best = add(ops::TakeAlong{.axis = 1}, {by_group, ids}, "best_scores_of_groups");
    const ValueId sums = add(ops::Reduce{.kind = ReduceKind::kSum, .axes = 2}, {best}, "group_sums");
    const ValueId score = add(ops::Reshape{{rows, groups}}, {sums}, "group_scores");
    const ValueId chosen = add(ops::TopK{e_.n_groups_used}, {score}, "groups");
    const ValueId each = add(ops::Reshape{{rows, e_.n_groups_used, 1}}, {chosen}, "groups_apart");
    const ValueId numbers = add(ops::Arange{.size = groups}, {}, "group_numbers");
    const ValueId same = add(ops::Compare{CompareKind::kEqual}, {each, numbers}, "groups_met");
    const ValueId met = add(ops::Cast{DType::kF32}, {same}, "groups_met_as_floats");
    const ValueId any = add(ops::Reduce{.kind = ReduceKind::kMax, .axes = 2}, {met}, "groups_chosen");
    const ValueId is_chosen =
        add(ops::Compare{.kind = CompareKind::kGreater, .scalar = 0.5f}, {any}, "is_group_chosen");
    const ValueId mask = add(ops::Reshape{{rows, groups, 1}}, {is_chosen}, "group_mask");
    const ValueId grouped = add(ops::Reshape{{rows, groups, of_group}}, {scores}, "experts_of_groups");
    const ValueId kept = add(ops::Where{.otherwise = -std::numeric_limits<float>::infinity()},
                             {mask, grouped}, "experts_of_chosen_groups");
    return add(ops::Reshape{{rows, e_.n}}, {kept}, "experts_to_choose_from");
  }

  Builder& b_;
  const ExpertParams& e_;
  int layer_;
};

/// The products of chosen experts.
class Experts {
 public:
  Experts(Builder& b, int layer, const ChosenExperts& chosen, std::int64_t n_experts)
      : b_(b), e_(*b.hparams().experts), layer_(layer), chosen_(chosen), n_experts_(n_experts) {
    b.enter(Part::kExperts, layer);
  }

  /// Rows for the chosen experts: as they are, or, if ExpertParams::weights_before, with their weights.
  ValueId inputs(ValueId x) {
    if (!e_.weights_before) return x;
    const Dim rows = b_.model().graph.value(x).shape[0];
    const ValueId apart =
        b_.add(ops::Reshape{{rows, 1, b_.hparams().n_embd}}, {x}, layer_name(layer_, "ffn_in_apart"));
    const ValueId weights = b_.add(ops::Reshape{{rows, used(), 1}}, {chosen_.weights},
                                   layer_name(layer_, "expert_weights_apart"));
    return b_.add(ops::Mul{}, {apart, weights}, layer_name(layer_, "ffn_in_weighted"));
  }

  ValueId product(ValueId input, const std::string& full, std::int64_t n_out, std::int64_t n_in) {
    const std::string weight = full + ".weight";
    const ValueId unscaled = b_.add(ops::MatmulExperts{},
                                    {b_.weight(weight, {n_experts_, n_out, n_in}), input, chosen_.ids}, full);
    const bool is_of_outputs = factor_is_of_outputs(b_.hparams().architecture, weight);
    const auto scaled = [&](ValueId y) { return b_.with_factor(y, weight, chosen_.ids); };
    const ValueId adapted =
        b_.adapted_experts(input, is_of_outputs ? unscaled : scaled(unscaled), weight, chosen_.ids);
    const ValueId out = is_of_outputs ? scaled(adapted) : adapted;
    if (!b_.has(full + ".bias")) return out;
    // A row of biases for each row and expert.
    const Dim rows = b_.model().graph.value(out).shape[0];
    const std::string ids_name = layer_name(layer_, "experts_in_a_row");
    ValueId ids = b_.model().graph.find(ids_name);
    if (ids == kNoValue) ids = b_.add(ops::Reshape{{rows * used()}}, {chosen_.ids}, ids_name);
    const ValueId biases =
        b_.add(ops::GetRows{}, {b_.weight(full + ".bias", {n_experts_, n_out}), ids}, full + "_bias_rows");
    const ValueId shaped = b_.add(ops::Reshape{{rows, used(), n_out}}, {biases}, full + "_biases");
    return b_.add(ops::Add{}, {out, shaped}, full + "_biased");
  }

  /// The sum of the experts' rows, by their weights. What follows is no longer of experts.
  ValueId sum(ValueId down, const std::string& name) {
    const ValueId out = e_.weights_before
                            ? b_.add(ops::Reduce{.kind = ReduceKind::kSum, .axes = 2}, {down}, name)
                            : b_.add(ops::SumExperts{}, {down, chosen_.weights}, name);
    b_.enter(Part::kFeedForward, layer_);
    return out;
  }

 private:
  int used() const { return experts_used(e_, layer_); }

  Builder& b_;
  const ExpertParams& e_;
  int layer_;
  ChosenExperts chosen_;
  std::int64_t n_experts_;
};

/// The products of experts and what `glu` makes of a gate's and the other's rows.
ValueId experts(Builder& b, int layer, ValueId x, const ChosenExperts& chosen, const Glu& glu,
                const ExpertStack& stack) {
  const HParams& h = b.hparams();
  const auto name = [&](const std::string& part) { return layer_name(layer, (part + stack.ending).c_str()); };
  Experts of(b, layer, chosen, stack.n > 0 ? stack.n : h.experts->n);
  x = of.inputs(x);
  const std::int64_t width = stack.n > 0 ? stack.width : expert_width(*h.experts, layer);
  ValueId gate, up;
  if (b.has(name("ffn_gate_up_") + ".weight")) {
    const ValueId both = of.product(x, name("ffn_gate_up_"), 2 * width, h.n_embd);
    const auto half = [&](int i, const char* part) {
      const Dim begin = i * width, end = (i + 1) * width;
      return b.add(ops::Slice{.axis = 2, .begin = begin, .end = end}, {both}, name(part));
    };
    gate = half(0, "ffn_gate_");
    up = half(1, "ffn_up_");
  } else {
    gate = of.product(x, name("ffn_gate_"), width, h.n_embd);
    up = of.product(x, name("ffn_up_"), width, h.n_embd);
  }
  const ValueId product = glu(gate, up, name("ffn_glu_"));
  const std::string out =
      stack.ending == ExpertStack().ending ? layer_name(layer, "ffn_out") : name("ffn_out_");
  return of.sum(of.product(product, name("ffn_down_"), h.n_embd, width), out);
}

}  // namespace

Glu plain_glu(Builder& b, Activation activation) {
  return [&b, activation](ValueId gate, ValueId up, const std::string& name) {
    return b.add(ops::Glu{activation}, {gate, up}, name);
  };
}

Glu clamped_glu(Builder& b, float limit) {
  if (limit == 0.0f) return plain_glu(b, Activation::kSilu);
  return [&b, limit](ValueId gate, ValueId up, const std::string& name) {
    constexpr float kNone = -std::numeric_limits<float>::infinity();
    const ValueId active = b.add(ops::Activate{Activation::kSilu}, {gate}, name + "_active");
    const ValueId capped = b.add(ops::Clamp{kNone, limit}, {active}, name + "_capped");
    return b.add(ops::Mul{}, {capped, b.add(ops::Clamp{-limit, limit}, {up}, name + "_clamped")}, name);
  };
}

ValueId shared_expert(Builder& b, int layer, ValueId x, const Glu& glu) {
  const HParams& h = b.hparams();
  const std::int64_t width = h.experts->shared_width;
  const ValueId gate = linear(b, x, layer_name(layer, "ffn_gate_shexp"), width);
  const ValueId up = linear(b, x, layer_name(layer, "ffn_up_shexp"), width);
  const ValueId product = glu(gate, up, layer_name(layer, "ffn_shared_glu"));
  const ValueId out = linear(b, product, layer_name(layer, "ffn_down_shexp"), h.n_embd);
  const std::string share = layer_name(layer, "ffn_gate_inp_shexp");
  if (!has_in_any_layer(b, "ffn_gate_inp_shexp.weight")) return out;
  const ValueId logit = linear(b, x, share, 1);
  const ValueId weight = b.add(ops::Unary{UnaryKind::kSigmoid}, {logit}, share + "_sigmoid");
  return b.add(ops::Mul{}, {out, weight}, layer_name(layer, "ffn_shared"));
}

ChosenExperts choose_experts(Builder& b, int layer, ValueId x) {
  const std::optional<ExpertParams>& experts = b.hparams().experts;
  const std::string name = layer_name(layer, "ffn_gate_inp");
  ValueId logits = linear(b, x, name, experts ? experts->n : 0);
  if (!experts)
    throw Error(ErrorCode::kInvalidFile, "tensor " + name + ".weight is of a model without experts");
  if (experts->router_softcap > 0.0f)
    logits = b.add(ops::Softcap{experts->router_softcap}, {logits}, layer_name(layer, "router_capped"));
  return Router(b, layer).choose(logits);
}

ValueId chosen_experts(Builder& b, int layer, ValueId x, const ChosenExperts& chosen, const Glu& glu,
                       const ExpertStack& stack) {
  return experts(b, layer, x, chosen, glu, stack);
}

ValueId expert_ffn(Builder& b, int layer, ValueId x, Activation activation) {
  const Glu glu = plain_glu(b, activation);
  const ValueId out = chosen_experts(b, layer, x, choose_experts(b, layer, x), glu);
  if (b.hparams().experts->shared_width == 0) return out;
  return add(b, out, shared_expert(b, layer, x, glu), layer_name(layer, "ffn_sum"));
}

ValueId plain_expert_ffn(Builder& b, int layer, ValueId x, Activation activation) {
  const HParams& h = b.hparams();
  const ExpertParams& e = *h.experts;
  const auto name = [&](const char* part) { return layer_name(layer, part); };
  const bool latent = e.row_width > 0;
  const std::int64_t width = expert_width(e, layer);
  const std::int64_t columns = latent ? e.row_width : h.n_embd;
  const ValueId rows = latent ? linear(b, x, name("ffn_latent_down"), columns) : x;
  Experts of(b, layer, choose_experts(b, layer, x), e.n);
  const ValueId up = of.product(rows, name("ffn_up_exps"), width, columns);
  const ValueId active = b.add(ops::Activate{activation}, {up}, name("ffn_active_exps"));
  ValueId out = of.sum(of.product(active, name("ffn_down_exps"), columns, width), name("ffn_out"));
  if (latent) out = linear(b, out, name("ffn_latent_up"), h.n_embd);
  if (e.shared_width == 0) return out;
  const ValueId shared_up = linear(b, x, name("ffn_up_shexp"), e.shared_width);
  const ValueId shared = b.add(ops::Activate{activation}, {shared_up}, name("ffn_shared_active"));
  return add(b, out, linear(b, shared, name("ffn_down_shexp"), h.n_embd), name("ffn_sum"));
}

ValueId expert_ffn_clamped(Builder& b, int layer, ValueId x, float limit) {
  const Glu glu = [&](ValueId gate, ValueId up, const std::string& name) {
    constexpr float kNone = -std::numeric_limits<float>::infinity();
    gate = b.add(ops::Clamp{kNone, limit}, {gate}, name + "_gate_clamped");
    up = b.add(ops::Clamp{-limit, limit}, {up}, name + "_up_clamped");
    const ValueId shifted =
        b.add(ops::Binary{.kind = BinaryKind::kAdd, .scalar = 1.0f}, {up}, name + "_up_shifted");
    const ValueId active = b.add(ops::Activate{Activation::kGeluQuick}, {gate}, name + "_gate_active");
    return b.add(ops::Mul{}, {active, shifted}, name);
  };
  return experts(b, layer, x, choose_experts(b, layer, x), glu, {});
}

}  // namespace weft::model
