// Phi-3.5-MoE (arXiv 2404.14219): layer norms, biases everywhere, LongRope, and two experts of each row,
// chosen one after the other (SparseMixer, arXiv 2409.12136).
#include <limits>

#include "model/blocks.h"
#include "model/family.h"

namespace weft::model {
namespace {

constexpr int kUsed = 2;

void read_phimoe(const Metadata& metadata, HParams& h) {
  h.rope.neox = true;
  require_experts(metadata, h);
  if (h.experts->n_used != kUsed)
    metadata.refuse("expert_used_count",
                    "found " + std::to_string(h.experts->n_used) + ", expected " + std::to_string(kUsed));
}

/// The weight of each is its share among those whose logits are near its own; for the second one without the
/// first.
ChosenExperts choose(Builder& b, int layer, ValueId x) {
  constexpr float kNear = 0.02f, kNone = -std::numeric_limits<float>::infinity();
  const HParams& h = b.hparams();
  const auto add = [&](auto op, std::initializer_list<ValueId> inputs, const std::string& name) {
    return b.add(std::move(op), inputs, layer_name(layer, name.c_str()));
  };
  const ValueId logits = linear(b, x, layer_name(layer, "ffn_gate_inp"), h.experts->n);
  const ValueId ids = add(ops::TopK{kUsed}, {logits}, "experts");
  const ValueId best = add(ops::TakeAlong{.axis = 1}, {logits, ids}, "best_logits");
  const ValueId sizes = add(ops::Unary{UnaryKind::kAbs}, {logits}, "logit_sizes");
  const auto column = [&](ValueId value, int i, const std::string& name) {
    return add(ops::Slice{.axis = 1, .begin = i, .end = i + 1}, {value}, name + std::to_string(i));
  };
  const auto weight = [&](int i) {
    const std::string n = std::to_string(i);
    const ValueId own = column(best, i, "best_logit_");
    const ValueId less = add(ops::Binary{BinaryKind::kSub}, {own, logits}, "logits_less_" + n);
    const ValueId scale = add(ops::Binary{BinaryKind::kMaximum}, {sizes, own}, "logits_scale_" + n);
    const ValueId away = add(ops::Binary{BinaryKind::kDiv}, {less, scale}, "logits_away_" + n);
    const ValueId near = add(ops::Compare{CompareKind::kLessEqual, kNear}, {away}, "logits_near_" + n);
    ValueId kept = add(ops::Where{kNone}, {near, logits}, "logits_kept_" + n);
    if (i > 0) {
      ValueId numbers = b.model().graph.find("expert_numbers");
      if (numbers == kNoValue) numbers = b.add(ops::Arange{.size = h.experts->n}, {}, "expert_numbers");
      const ValueId other = add(ops::Compare{CompareKind::kNotEqual}, {column(ids, 0, "expert_"), numbers},
                                "is_another_expert");
      kept = add(ops::Where{kNone}, {other, kept}, "logits_left_" + n);
    }
    const ValueId shares = add(ops::Softmax{}, {kept}, "expert_shares_" + n);
    return add(ops::TakeAlong{.axis = 1}, {shares, column(ids, i, "expert_at_")}, "expert_weight_" + n);
  };
  const ValueId first = weight(0);
  return {ids, add(ops::Concat{}, {first, weight(1)}, "expert_weights")};
}

ValueId build_phimoe(Builder& b) {
  const HParams& h = b.hparams();
  Decoder how;
  how.norm = NormKind::kLayer;
  how.attention.rope_params = h.rope;
  how.attention.window = h.window_size();
  how.own_ffn = [&](int layer, ValueId x) {
    return chosen_experts(b, layer, x, choose(b, layer, x), plain_glu(b, Activation::kSilu));
  };
  return decoder(b, embed_tokens(b), how);
}

}  // namespace

const Family kPhiMoe = {"phimoe", read_phimoe, build_phimoe};

}  // namespace weft::model
