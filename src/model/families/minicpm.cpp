// MiniCPM (arXiv 2404.06395): Llama with factors at embeddings, residuals and logits. MiniCPM 3: keys and
// values of all heads are unfolded from one latent row (MLA) before they are kept.
#include <cmath>

#include "model/blocks.h"
#include "model/family.h"

namespace weft::model {
namespace {

constexpr float kEmbeddingScale = 12.0f, kDepthScale = 1.4f, kBaseWidth = 256.0f;

void read_minicpm(const Metadata& metadata, HParams& h) {
  const float depth_scale = kDepthScale / std::sqrt(static_cast<float>(h.n_layers));
  const float width = static_cast<float>(h.n_embd) / kBaseWidth;
  h.embedding.scale = metadata.get_float("embedding_scale", kMinFactor, kMaxFactor, kEmbeddingScale);
  h.blocks.residual_scale = metadata.get_float("residual_scale", kMinFactor, kMaxFactor, depth_scale);
  h.logits.scale = 1.0f / metadata.get_float("logit_scale", kMinFactor, kMaxFactor, width);
}

void read_minicpm3(const Metadata& metadata, HParams& h) {
  read_minicpm(metadata, h);
  h.rope.neox = true;
  AttentionParams& a = *h.attention;
  LatentParams& latent = h.latent.emplace();
  latent.q_rank = metadata.require_int("attention.q_lora_rank", 1, kMaxRank);
  latent.kv_rank = metadata.require_int("attention.kv_lora_rank", 1, kMaxRank);
  latent.k_nope_dim = a.k_head_dim - h.rope.n_rot;
  if (latent.k_nope_dim < 1)
    metadata.refuse("rope.dimension_count",
                    "found " + std::to_string(h.rope.n_rot) + ", expected less than attention.key_length");
  if (a.n_kv_heads != a.n_heads)
    metadata.refuse("attention.head_count_kv",
                    "found " + std::to_string(a.n_kv_heads) + ", expected the number of heads");
  const int dim = head_dim_of_width(metadata, h.n_embd, a.n_heads);
  a.v_head_dim = metadata.get_int("attention.value_length", 1, kMaxHeadDim, dim);
}

ValueId build_minicpm(Builder& b) {
  Decoder how;
  how.attention.rope_params = b.hparams().rope;
  return decoder(b, embed_tokens(b), how);
}

ValueId attend3(Builder& b, int layer, ValueId x, ValueId factors, ValueId& residual) {
  const HParams& h = b.hparams();
  const ModelGraph& m = b.model();
  const auto name = [&](const char* part) { return layer_name(layer, part); };
  const Dim rows = m.graph.value(x).shape[0];
  const std::int64_t heads = h.attention->n_heads, turned = h.rope.n_rot, nope = h.latent->k_nope_dim;
  const std::int64_t key_dim = h.attention->k_head_dim, values = h.attention->v_head_dim;
  const std::int64_t rank = h.latent->kv_rank;
  /// Columns [begin, end) of each head.
  const auto slice = [&](ValueId value, std::int64_t begin, std::int64_t end, const char* called) {
    return b.add(ops::Slice{.axis = 2, .begin = begin, .end = end}, {value}, name(called));
  };
  /// The rotated part comes first, as rope requires.
  const auto join = [&](ValueId first, ValueId second, const char* called) {
    const std::string full = name(called);
    const ValueId both = b.add(ops::Concat{.axis = 2}, {first, second}, full + "_joined");
    const ValueId flat = b.add(ops::Reshape{{rows, heads * key_dim}}, {both}, full);
    return b.add(h.rope, {flat, m.positions, factors}, full + "_rope");
  };

  const ValueId q_latent =
      norm(b, NormKind::kRms, linear(b, x, name("attn_q_a"), h.latent->q_rank), name("attn_q_a_norm"));
  ValueId q = linear(b, q_latent, name("attn_q_b"), heads * key_dim);
  q = b.add(ops::Reshape{{rows, heads, key_dim}}, {q}, name("q_heads"));
  q = join(slice(q, nope, key_dim, "q_pe"), slice(q, 0, nope, "q_nope"), "q");

  const std::string kv_a = name("attn_kv_a_mqa");
  const ValueId latent =
      norm(b, NormKind::kRms, linear_rows(b, x, kv_a, rank + turned, 0, rank), name("attn_kv_a_norm"));
  ValueId k_turned = linear_rows(b, x, kv_a, rank + turned, rank, turned);
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

ValueId build_minicpm3(Builder& b) {
  Decoder how;
  const ValueId factors = long_rope_factors(b);
  how.attend = [&b, factors](int layer, ValueId x, ValueId& residual) {
    return attend3(b, layer, x, factors, residual);
  };
  return decoder(b, embed_tokens(b), how);
}

}  // namespace

const Family kMiniCpm = {"minicpm", read_minicpm, build_minicpm};
const Family kMiniCpm3 = {"minicpm3", read_minicpm3, build_minicpm3};

}  // namespace weft::model
