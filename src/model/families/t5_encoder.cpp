// The encoder of T5 (arXiv 1910.10683), as of Flan-T5, mT5 and UMT5: no positions, but a bias of each head by
// how far a key is away, in buckets; norms without means; scores are not scaled. It reads one text a step.
#include <algorithm>
#include <cmath>
#include <vector>

#include "model/encoder.h"
#include "model/family.h"

namespace weft::model {
namespace {

/// Behind this distance all keys are as far.
constexpr int kFar = 128;

void read(const Metadata& metadata, HParams& h) {
  h.one_text = true;
  h.n_distance_buckets = metadata.require_int("attention.relative_buckets_count", 4, 4 * kFar);
  if (h.n_distance_buckets % 4 != 0)
    metadata.refuse("attention.relative_buckets_count",
                    "found " + std::to_string(h.n_distance_buckets) + ", expected a multiple of 4");
  if (h.n_kv_heads != h.n_heads)
    metadata.refuse("attention.head_count_kv",
                    "found " + std::to_string(h.n_kv_heads) + ", expected as many as there are heads");
}

/// The least distances that are in a bucket behind the first one, in one direction: half of the buckets hold
/// one distance each, the others ever more.
std::vector<float> bucket_bounds(int n_buckets) {
  const int exact = n_buckets / 2;
  std::vector<float> bounds;
  for (int distance = 1, last = 0; distance <= kFar; ++distance) {
    int bucket = distance;
    if (distance >= exact) {
      const float share = std::log(static_cast<float>(distance) / static_cast<float>(exact)) /
                          std::log(static_cast<float>(kFar) / static_cast<float>(exact));
      bucket =
          std::min(exact + static_cast<int>(share * static_cast<float>(n_buckets - exact)), n_buckets - 1);
    }
    for (; last < bucket; ++last) bounds.push_back(static_cast<float>(distance));
  }
  return bounds;
}

class T5Encoder {
 public:
  explicit T5Encoder(Builder& b) : b_(b), h_(b.hparams()), rows_(Dim(1, b.model().n_tokens)) {}

  ValueId build() {
    ValueId x = embed_tokens(b_);
    for (int layer = 0; layer < h_.n_layers; ++layer) {
      b_.enter(Part::kAttention, layer);
      x = model::add(b_, x, attend(layer, layer_norm(layer, x, "attn_norm")), name(layer, "after_attention"));
      b_.enter(Part::kFeedForward, layer);
      const ValueId out = feed_forward(layer, layer_norm(layer, x, "ffn_norm"));
      x = b_.pass_on(layer, model::add(b_, x, out, name(layer, "after_ffn")));
    }
    b_.enter(Part::kHead);
    x = norm(b_, NormKind::kRms, x, "enc.output_norm");
    const TextInputs& texts = b_.model().texts;
    return b_.add(ops::RaggedMean{}, {x, texts.pool_begins, texts.pool_ends}, "pooled");
  }

 private:
  static std::string name(int layer, const char* part) { return "enc." + layer_name(layer, part); }
  ValueId layer_norm(int layer, ValueId x, const char* part) {
    return norm(b_, NormKind::kRms, x, name(layer, part));
  }
  template <typename T>
  ValueId add(T op, std::initializer_list<ValueId> inputs, const std::string& result) {
    return b_.add(std::move(op), inputs, result);
  }

  /// Of each pair of rows, the bucket of their distance: keys ahead have the second half. {rows * rows}
  ValueId buckets() {
    if (buckets_ != kNoValue) return buckets_;
    const int half = h_.n_distance_buckets / 2;
    const std::vector<float> bounds = bucket_bounds(half);
    const ValueId away = distances(b_);
    const ValueId far = add(ops::Unary{UnaryKind::kAbs}, {away}, "distances_either_way");
    const ValueId apart = add(ops::Reshape{{rows_, rows_, 1}}, {far}, "distances_apart");
    const ValueId least = b_.constant("bucket_bounds", {static_cast<std::int64_t>(bounds.size())}, bounds);
    const ValueId passed = add(ops::Compare{CompareKind::kGreaterEqual}, {apart, least}, "bounds_passed");
    const ValueId counted = add(ops::Cast{DType::kF32}, {passed}, "bounds_counted");
    const ValueId near =
        add(ops::Reduce{.kind = ReduceKind::kSum, .axes = 4}, {counted}, "buckets_either_way");
    const ValueId ahead =
        add(ops::Compare{.kind = CompareKind::kGreater, .scalar = 0.0f}, {away}, "keys_ahead");
    const ValueId second = add(ops::Scale{static_cast<float>(half)},
                               {add(ops::Cast{DType::kF32}, {ahead}, "keys_ahead_as_floats")}, "second_half");
    const ValueId both = add(ops::Add{}, {near, second}, "buckets_as_floats");
    const ValueId whole = add(ops::Cast{DType::kI32}, {both}, "buckets_of_rows");
    return buckets_ = add(ops::Reshape{{rows_ * rows_}}, {whole}, "buckets");
  }

  /// {1, heads, rows, rows}: of the first layer for all that have none of their own.
  ValueId bias(int layer) {
    const int from = b_.has(name(layer, "attn_rel_b.weight")) ? layer : 0;
    const std::string called = name(from, "bias");
    if (const ValueId known = b_.model().graph.find(called); known != kNoValue) return known;
    const ValueId table = b_.weight(name(from, "attn_rel_b.weight"), {h_.n_distance_buckets, h_.n_heads});
    const ValueId taken = add(ops::GetRows{}, {table, buckets()}, called + "_of_pairs");
    const ValueId apart = add(ops::Reshape{{1, rows_, rows_, h_.n_heads}}, {taken}, called + "_apart");
    return add(ops::Permute{{0, 3, 1, 2}}, {apart}, called);
  }

  ValueId attend(int layer, ValueId x) {
    const auto projected = [&](const char* part, std::int64_t dim) {
      return linear(b_, x, name(layer, part), h_.n_heads * dim);
    };
    const Projections of = {projected("attn_q", h_.k_head_dim), projected("attn_k", h_.k_head_dim),
                            projected("attn_v", h_.v_head_dim)};
    const ValueId out = attend_to_step(b_, of, 1.0f, bias(layer), name(layer, "attention"));
    return linear(b_, out, name(layer, "attn_o"), h_.n_embd);
  }

  /// T5 has ReLU, its later versions a gate with GELU.
  ValueId feed_forward(int layer, ValueId x) {
    const ValueId up = linear(b_, x, name(layer, "ffn_up"), h_.n_ff);
    ValueId active;
    if (b_.has("enc.blk.0.ffn_gate.weight")) {
      const ValueId gate = linear(b_, x, name(layer, "ffn_gate"), h_.n_ff);
      active = add(ops::Glu{Activation::kGelu}, {gate, up}, name(layer, "ffn_glu"));
    } else {
      active = add(ops::Activate{Activation::kRelu}, {up}, name(layer, "ffn_active"));
    }
    return linear(b_, active, name(layer, "ffn_down"), h_.n_embd);
  }

  Builder& b_;
  const HParams& h_;
  const Dim rows_;
  ValueId buckets_ = kNoValue;
};

ValueId build(Builder& b) { return T5Encoder(b).build(); }

}  // namespace

const Family kT5Encoder = {"t5encoder", read, build, LayerMix::kAttention, FamilyKind::kEncoder};

}  // namespace weft::model
