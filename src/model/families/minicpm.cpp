// MiniCPM (arXiv 2404.06395): Llama with factors at embeddings, residuals and logits. MiniCPM 3: keys and
// values of all heads are unfolded from one latent row (MLA) before they are kept.
#include <cmath>

#include "model/blocks.h"
#include "model/family.h"

namespace weft::model {
namespace {

constexpr float kEmbeddingScale = 12.0f, kDepthScale = 1.4f, kBaseWidth = 256.0f;

void read(const Metadata& metadata, HParams& h) {
  const float depth_scale = kDepthScale / std::sqrt(static_cast<float>(h.n_layers));
  const float width = static_cast<float>(h.n_embd) / kBaseWidth;
  h.embedding_scale = metadata.get_float("embedding_scale", kMinFactor, kMaxFactor, kEmbeddingScale);
  h.residual_scale = metadata.get_float("residual_scale", kMinFactor, kMaxFactor, depth_scale);
  h.logit_scale = 1.0f / metadata.get_float("logit_scale", kMinFactor, kMaxFactor, width);
}

void read3(const Metadata& metadata, HParams& h) {
  read(metadata, h);
  h.rope.neox = true;
  h.q_rank = metadata.require_int("attention.q_lora_rank", 1, kMaxRank);
  h.kv_rank = metadata.require_int("attention.kv_lora_rank", 1, kMaxRank);
  h.k_nope_dim = h.k_head_dim - h.rope.n_rot;
  if (h.k_nope_dim < 1)
    metadata.refuse("rope.dimension_count",
                    "found " + std::to_string(h.rope.n_rot) + ", expected less than attention.key_length");
  if (h.n_kv_heads != h.n_heads)
    metadata.refuse("attention.head_count_kv",
                    "found " + std::to_string(h.n_kv_heads) + ", expected the number of heads");
  if (h.n_embd % h.n_heads != 0 || h.n_embd / h.n_heads > kMaxHeadDim)
    metadata.refuse("attention.head_count", "found " + std::to_string(h.n_heads) +
                                                ", expected a divisor of the embedding length " +
                                                std::to_string(h.n_embd));
  h.v_head_dim = metadata.get_int("attention.value_length", 1, kMaxHeadDim, h.n_embd / h.n_heads);
}

ValueId build(Builder& b) {
  Decoder how;
  how.attention.rope_params = b.hparams().rope;
  return decoder(b, embed_tokens(b), how);
}

ValueId attend3(Builder& b, int layer, ValueId x, ValueId factors, ValueId& residual) {
  const HParams& h = b.hparams();
  const ModelGraph& m = b.model();
  const auto name = [&](const char* part) { return layer_name(layer, part); };
  const Dim rows = m.graph.value(x).shape[0];
  const std::int64_t heads = h.n_heads, turned = h.rope.n_rot, nope = h.k_nope_dim, values = h.v_head_dim;
  /// Columns [begin, end) of each head.
  const auto slice = [&](ValueId value, std::int64_t begin, std::int64_t end, const char* called) {
    return b.add(ops::Slice{.axis = 2, .begin = begin, .end = end}, {value}, name(called));
  };
  /// The rotated part comes first, as rope requires.
  const auto join = [&](ValueId first, ValueId second, const char* called) {
    const std::string full = name(called);
    const ValueId both = b.add(ops::Concat{.axis = 2}, {first, second}, full + "_joined");
    const ValueId flat = b.add(ops::Reshape{{rows, heads * h.k_head_dim}}, {both}, full);
    return b.add(h.rope, {flat, m.positions, factors}, full + "_rope");
  };

  const ValueId q_latent =
      norm(b, NormKind::kRms, linear(b, x, name("attn_q_a"), h.q_rank), name("attn_q_a_norm"));
  ValueId q = linear(b, q_latent, name("attn_q_b"), heads * h.k_head_dim);
  q = b.add(ops::Reshape{{rows, heads, h.k_head_dim}}, {q}, name("q_heads"));
  q = join(slice(q, nope, h.k_head_dim, "q_pe"), slice(q, 0, nope, "q_nope"), "q");

  const std::string kv_a = name("attn_kv_a_mqa");
  const ValueId latent = norm(b, NormKind::kRms, linear_rows(b, x, kv_a, h.kv_rank + turned, 0, h.kv_rank),
                              name("attn_kv_a_norm"));
  ValueId k_turned = linear_rows(b, x, kv_a, h.kv_rank + turned, h.kv_rank, turned);
  k_turned = b.add(ops::Reshape{{rows, 1, turned}}, {k_turned}, name("k_pe"));
  k_turned = b.add(ops::BroadcastTo{{rows, heads, turned}}, {k_turned}, name("k_pe_of_heads"));
  ValueId kv = linear(b, latent, name("attn_kv_b"), heads * (nope + values));
  kv = b.add(ops::Reshape{{rows, heads, nope + values}}, {kv}, name("kv_heads"));
  const ValueId k = join(k_turned, slice(kv, 0, nope, "k_nope"), "k_unfolded");
  ValueId v = slice(kv, nope, nope + values, "v_heads");
  v = b.add(ops::Reshape{{rows, heads * values}}, {v}, name("v_unfolded"));

  const ValueId out = attend_to_caches(b, layer, b.cells(0),
                                       {.q = q, .k = k, .v = v, .turn = h.rope, .rope_factors = factors});
  return linear(b, wanted_rows(b, layer, out, residual), name("attn_output"), h.n_embd);
}

ValueId build3(Builder& b) {
  Decoder how;
  const ValueId factors = long_rope_factors(b);
  how.attend = [&b, factors](int layer, ValueId x, ValueId& residual) {
    return attend3(b, layer, x, factors, residual);
  };
  return decoder(b, embed_tokens(b), how);
}

}  // namespace

const Family kMiniCpm = {"minicpm", read, build};
const Family kMiniCpm3 = {"minicpm3", read3, build3};

}  // namespace weft::model
