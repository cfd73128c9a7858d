// T5 (arXiv 1910.10683), also Flan-T5, mT5 and UMT5: an encoder reads the source. The decoder attends to the
// source's rows between its own attention and its feed-forward part. No positions, but a bias of each head by
// the distance of the key, in buckets; norms without means; scores are not scaled. The encoder reads one
// sequence a step.
#include <algorithm>
#include <cmath>
#include <vector>

#include "base/to_size.h"
#include "model/encoder.h"
#include "model/family.h"

namespace weft::model {
namespace {

/// Behind this distance all keys are as far.
constexpr int kFar = 128;

void read_t5(const Metadata& metadata, HParams& h) {
  if (h.encoder) h.encoder->one_text = true;
  AttentionParams& a = *h.attention;
  a.scale = 1.0f;
  a.n_distance_buckets = metadata.require_int("attention.relative_buckets_count", 4, 4 * kFar);
  if (a.n_distance_buckets % 4 != 0)
    metadata.refuse("attention.relative_buckets_count",
                    "found " + std::to_string(a.n_distance_buckets) + ", expected a multiple of 4");
  if (a.n_kv_heads != a.n_heads)
    metadata.refuse("attention.head_count_kv",
                    "found " + std::to_string(a.n_kv_heads) + ", expected the number of heads");
}

void read_both(const Metadata& metadata, HParams& h) {
  read_t5(metadata, h);
  SourceParams& source = h.source.emplace();
  source.n_layers = h.n_layers;
  h.n_layers = metadata.get_int("decoder_block_count", 1, kMaxLayers, h.n_layers);
  const auto n = to_size(h.n_layers);
  h.layers.resize(n, LayerKind::kAttention);
  for (std::vector<int>* const sizes :
       {&h.attention->n_heads_of, &h.attention->n_kv_heads_of, &h.ffn.width_of})
    sizes->resize(n, sizes->front());
  // All begin with the padding, which is the first token of their vocabulary.
  source.first_token = metadata.get_int("decoder_start_token_id", 0, h.n_vocab - 1, 0);
  // Where the head is the embedding, it reads rows that are scaled.
  if (!metadata.has_tensor("output.weight")) h.logits.scale = 1.0f / std::sqrt(static_cast<float>(h.n_embd));
}

/// The least distances of all buckets but the first, in one direction. Half of the buckets have one distance
/// each, the others more and more.
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

/// The common part of encoder and decoder layers. Names of tensors begin with `side`, "enc" or "dec".
class Layers {
 public:
  Layers(Builder& b, const char* side, int n_layers)
      : b_(b), h_(b.hparams()), a_(*h_.attention), n_layers_(n_layers), side_(side) {}

 protected:
  std::string name(int layer, const char* part) const {
    return std::string(side_) + "." + layer_name(layer, part);
  }
  ValueId layer_norm(int layer, ValueId x, const char* part) {
    return norm(b_, NormKind::kRms, x, name(layer, part));
  }
  template <typename T>
  ValueId add(T op, std::initializer_list<ValueId> inputs, const std::string& result) {
    return b_.add(std::move(op), inputs, result);
  }
  ValueId projected(ValueId x, int layer, const char* part, std::int64_t head_dim) {
    return linear(b_, x, name(layer, part), a_.n_heads * head_dim);
  }

  /// Whether some layer from this one on has such a tensor, so that layers without theirs are reported.
  bool has_from(int first, const char* part) const {
    for (int layer = first; layer < n_layers_; ++layer)
      if (b_.has(name(layer, part))) return true;
    return false;
  }
  /// The layer whose bias this one has: its own, as in UMT5, or the first one's.
  int biased_as(int layer) const { return has_from(1, "attn_rel_b.weight") ? layer : 0; }
  ValueId bias_table(int layer) {
    return b_.weight(name(layer, "attn_rel_b.weight"), {a_.n_distance_buckets, a_.n_heads});
  }

  /// x and what the feed-forward part adds. T5 has ReLU, its later versions a gate with GELU.
  ValueId with_feed_forward(int layer, ValueId x) {
    b_.enter(Part::kFeedForward, layer);
    const ValueId in = layer_norm(layer, x, "ffn_norm");
    const ValueId up = linear(b_, in, name(layer, "ffn_up"), h_.ffn.width);
    ValueId active;
    if (has_from(0, "ffn_gate.weight")) {
      const ValueId gate = linear(b_, in, name(layer, "ffn_gate"), h_.ffn.width);
      active = add(ops::Glu{Activation::kGelu}, {gate, up}, name(layer, "ffn_glu"));
    } else {
      active = add(ops::Activate{Activation::kRelu}, {up}, name(layer, "ffn_active"));
    }
    const ValueId out = linear(b_, active, name(layer, "ffn_down"), h_.n_embd);
    return model::add(b_, x, out, name(layer, "after_ffn"));
  }

  Builder& b_;
  const HParams& h_;
  const AttentionParams& a_;
  const int n_layers_;

 private:
  const char* const side_;
};

class T5Encoder : Layers {
 public:
  /// `positions` of the rows of one sequence.
  T5Encoder(Builder& b, int n_layers, ValueId positions)
      : Layers(b, "enc", n_layers), positions_(positions), rows_(b.model().graph.value(positions).shape[0]) {}

  /// Of embedded tokens.
  ValueId build(ValueId x) {
    for (int layer = 0; layer < n_layers_; ++layer) {
      // Where there are more of them than the decoder has, the last ones belong to its last layer.
      b_.enter(Part::kAttention, std::min(layer, h_.n_layers - 1));
      x = model::add(b_, x, attend(layer, layer_norm(layer, x, "attn_norm")), name(layer, "after_attention"));
      x = with_feed_forward(layer, x);
    }
    return norm(b_, NormKind::kRms, x, "enc.output_norm");
  }

 private:
  /// For each pair of rows, the bucket of their distance: keys ahead have the second half. {rows * rows}
  ValueId buckets() {
    if (buckets_ != kNoValue) return buckets_;
    const int half = a_.n_distance_buckets / 2;
    const std::vector<float> bounds = bucket_bounds(half);
    const ValueId away = distances(b_, positions_);
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

  /// {1, heads, rows, rows}
  ValueId bias(int layer) {
    const int from = biased_as(layer);
    const std::string called = name(from, "bias");
    if (const ValueId known = b_.model().graph.find(called); known != kNoValue) return known;
    const ValueId taken = add(ops::GetRows{}, {bias_table(from), buckets()}, called + "_of_pairs");
    const ValueId apart = add(ops::Reshape{{1, rows_, rows_, a_.n_heads}}, {taken}, called + "_apart");
    return add(ops::Permute{{0, 3, 1, 2}}, {apart}, called);
  }

  ValueId attend(int layer, ValueId x) {
    const Projections of = {projected(x, layer, "attn_q", a_.k_head_dim),
                            projected(x, layer, "attn_k", a_.k_head_dim),
                            projected(x, layer, "attn_v", a_.v_head_dim)};
    const ValueId out = attend_to_step(b_, of, a_.scale, bias(layer), name(layer, "attention"));
    return linear(b_, out, name(layer, "attn_o"), h_.n_embd);
  }

  const ValueId positions_;
  const Dim rows_;
  ValueId buckets_ = kNoValue;
};

class T5Decoder : Layers {
 public:
  explicit T5Decoder(Builder& b) : Layers(b, "dec", b.hparams().n_layers) {}

  /// `source`: what the encoder made of it.
  ValueId build(ValueId source) {
    ValueId x = embed_tokens(b_);
    for (int layer = 0; layer < n_layers_; ++layer) {
      b_.enter(Part::kAttention, layer);
      x = model::add(b_, x, attend(layer, layer_norm(layer, x, "attn_norm")), name(layer, "after_attention"));
      x = with_source(layer, x, source);
      x = b_.pass_on(layer, with_feed_forward(layer, x));
    }
    return output_logits(b_, NormKind::kRms, x, "dec.output_norm");
  }

 private:
  /// Rows see those before them only, so there is one direction, and the bias follows from the distance
  /// alone. {heads, distances}
  ValueId bias(int layer) {
    const int from = biased_as(layer);
    const std::string called = name(from, "bias");
    if (const ValueId known = b_.model().graph.find(called); known != kNoValue) return known;
    const ValueId taken = add(ops::GetRows{}, {bias_table(from), buckets()}, called + "_of_distances");
    return add(ops::Permute{{1, 0}}, {taken}, called);
  }
  ValueId buckets() {
    const std::string called = "buckets_of_distances";
    if (const ValueId known = b_.model().graph.find(called); known != kNoValue) return known;
    const std::vector<float> bounds = bucket_bounds(a_.n_distance_buckets);
    std::vector<float> bucket_of;
    for (int distance = 0; distance <= kFar; ++distance)
      bucket_of.push_back(static_cast<float>(
          std::upper_bound(bounds.begin(), bounds.end(), static_cast<float>(distance)) - bounds.begin()));
    return add(ops::Cast{DType::kI32}, {b_.constant("bucket_of", {kFar + 1}, std::move(bucket_of))}, called);
  }

  ValueId attend(int layer, ValueId x) {
    const ValueId out = attend_to_caches(b_, layer, b_.model().full,
                                         {.q = projected(x, layer, "attn_q", a_.k_head_dim),
                                          .k = projected(x, layer, "attn_k", a_.k_head_dim),
                                          .v = projected(x, layer, "attn_v", a_.v_head_dim),
                                          .head_terms = bias(layer)});
    return linear(b_, out, name(layer, "attn_o"), h_.n_embd);
  }

  ValueId with_source(int layer, ValueId x, ValueId source) {
    const ValueId in = layer_norm(layer, x, "cross_attn_norm");
    const ValueId out = attend_to_source(b_, layer,
                                         {.q = projected(in, layer, "cross_attn_q", a_.k_head_dim),
                                          .k = projected(source, layer, "cross_attn_k", a_.k_head_dim),
                                          .v = projected(source, layer, "cross_attn_v", a_.v_head_dim)});
    const ValueId wanted = wanted_rows(b_, layer, out, x);
    return model::add(b_, x, linear(b_, wanted, name(layer, "cross_attn_o"), h_.n_embd),
                      name(layer, "after_source"));
  }
};

ValueId build_t5(Builder& b) {
  const ValueId x = embed_tokens(b);
  const ValueId rows = T5Encoder(b, b.hparams().n_layers, b.model().positions).build(x);
  b.enter(Part::kHead);
  const TextInputs& texts = b.model().texts;
  return b.add(ops::RaggedMean{}, {rows, texts.pool_begins, texts.pool_ends}, "pooled");
}

ValueId build_both(Builder& b) {
  const SourceInputs& in = b.model().source;
  const ValueId x = embed_rows(b, in.tokens, "source_embeddings");
  return T5Decoder(b).build(T5Encoder(b, b.hparams().source->n_layers, in.positions).build(x));
}

}  // namespace

const Family kT5 = {"t5", read_both, build_both, LayerMix::kAttention, FamilyKind::kEncoderDecoder};
const Family kT5Encoder = {"t5encoder", read_t5, build_t5, LayerMix::kAttention, FamilyKind::kEncoder};

}  // namespace weft::model
