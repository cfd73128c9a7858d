#include "model/hparams.h"

#include <algorithm>
#include <limits>
#include <span>

#include "base/counted.h"
#include "base/to_size.h"
#include "weft/error.h"

namespace weft::model {

int HParams::n_layers_of(LayerKind kind) const {
  return static_cast<int>(std::count(layers.begin(), layers.end(), kind));
}

void read_unused_layers(const Metadata& metadata, HParams& h) {
  h.n_layers_unused = metadata.get_int("nextn_predict_layers", 0, h.n_layers - 1, 0);
  h.n_layers -= h.n_layers_unused;
  h.layers.resize(to_size(h.n_layers));
}

void read_scales(const Metadata& metadata, HParams& h) {
  // Files say 0 where there is none.
  const auto scale = [&](std::string_view key, float otherwise) {
    const float found = metadata.get_float(key, 0.0, kMaxFactor, 0.0f);
    return found == 0.0f ? otherwise : metadata.get_float(key, kMinFactor, kMaxFactor, otherwise);
  };
  h.embedding.scale = scale("embedding_scale", 1.0f);
  h.blocks.residual_scale = scale("residual_scale", 1.0f);
  h.attention->scale = scale("attention.scale", 0.0f);
  h.logits.scale = 1.0f / scale("logit_scale", 1.0f);
}

void read_pooling(const Metadata& metadata, HParams& h) {
  constexpr std::string_view kKey = "pooling_type";
  constexpr int kLastType = static_cast<int>(PoolingType::kRank);
  int type = metadata.get_int(kKey, std::numeric_limits<int>::min(), std::numeric_limits<int>::max(), -1);
  if (type < -1 || type > kLastType) {
    if (h.encoder) metadata.refuse(kKey, "found " + std::to_string(type) + ", expected -1 to 4");
    h.notes.push_back(metadata.about(kKey, "found " + std::to_string(type) + ", which is ignored"));
    type = -1;
  }
  if (type >= 0) h.pooling = static_cast<PoolingType>(type);
  if (h.pooling != PoolingType::kRank) return;
  // The pooling for a reranker's classifier. ModernBERT's files without the key use the mean.
  const PoolingType usual = h.architecture == "modern-bert" ? PoolingType::kMean : PoolingType::kCls;
  h.pooling = static_cast<PoolingType>(
      metadata.get_int("classifier.pooling_type", static_cast<int>(PoolingType::kMean),
                       static_cast<int>(PoolingType::kCls), static_cast<int>(usual)));
}

namespace {

/// context_length. Without a positive value: the rows of a table of positions, else 0.
int read_length(const Metadata& metadata, std::vector<std::string>& notes) {
  constexpr std::string_view kKey = "context_length", kTable = "position_embd.weight";
  std::string lack = "missing";
  if (const std::optional<std::int64_t> length = metadata.find_int(kKey)) {
    if (*length > 0) return metadata.require_int(kKey, 1, kMaxContext);
    lack = "found " + std::to_string(*length) + ", expected 1 or more";
  }
  const gguf::TensorInfo* const table = metadata.find_tensor(kTable);
  if (table == nullptr) {
    notes.push_back(
        metadata.about(kKey, lack + "; contexts are as long as you ask for (n_ctx, -c of the program)"));
    return 0;
  }
  const std::int64_t rows = table->shape.front();
  if (rows > kMaxContext) metadata.refuse(kKey, lack + ", and " + std::string(kTable) + " has too many rows");
  notes.push_back(metadata.about(kKey, lack + "; tensor " + std::string(kTable) + " has " +
                                           base::counted(rows, "row") + "; weft uses the rows"));
  return static_cast<int>(rows);
}

/// Dynamic scaling changes nothing up to the trained length.
void note_dynamic_scaling(const Metadata& metadata, const ops::Rope& rope, std::vector<std::string>& notes) {
  constexpr std::string_view kKey = "rope.scaling.type";
  if (metadata.get_string(kKey, "") != "dynamic") return;
  const std::string length = rope.n_ctx_orig > 0 ? " of " + base::counted(rope.n_ctx_orig, "token") : "";
  notes.push_back(metadata.about(
      kKey,
      "found \"dynamic\", which weft does not apply; output is worse beyond the trained length" + length));
}

NormParams read_norm(const Metadata& metadata) {
  NormParams norm;
  norm.eps = metadata.get_float("attention.layer_norm_rms_epsilon", 0.0, 1.0,
                                metadata.get_float("attention.layer_norm_epsilon", 0.0, 1.0, -1.0f));
  if (norm.eps < 0.0f) metadata.refuse("attention.layer_norm_rms_epsilon", "missing, expected 0 to 1");
  return norm;
}

/// The rows of the embedding.
int read_vocabulary_size(const Metadata& metadata, std::vector<std::string>& notes) {
  const gguf::TensorInfo* const embedding = metadata.find_tensor("token_embd.weight");
  if (embedding == nullptr) throw Error(ErrorCode::kInvalidFile, "tensor token_embd.weight is missing");
  std::span<const std::int64_t> table = embedding->shape;
  while (table.size() > 2 && table.front() == 1) table = table.subspan(1);
  if (table.size() != 2 || table[0] > kMaxVocabulary)
    throw Error(ErrorCode::kInvalidFile, "tensor token_embd.weight must be a matrix of at most 2^24 rows");
  const auto n = static_cast<int>(table[0]);
  // Files state it with or without the rows that fill the matrix up.
  if (const int stated = metadata.get_int("vocab_size", 0, kMaxVocabulary, n); stated != n)
    notes.push_back(metadata.about("vocab_size", "found " + std::to_string(stated) +
                                                     ", tensor token_embd.weight has " + std::to_string(n) +
                                                     " rows; weft uses the rows"));
  return n;
}

}  // namespace

HParams read_hparams(const Metadata& metadata, LayerMix mix) {
  HParams h;
  h.architecture = metadata.architecture();
  h.n_layers = metadata.require_int("block_count", 1, kMaxLayers);
  h.n_embd = metadata.require_int("embedding_length", 1, kMaxWidth);
  h.n_ctx_train = read_length(metadata, h.notes);
  h.ffn = read_feed_forward(metadata, mix, h.n_layers, h.notes);
  if (mix == LayerMix::kRecurrent) {
    h.layers.assign(to_size(h.n_layers), LayerKind::kRecurrent);
  } else {
    h.attention = read_heads(metadata, mix, h.n_layers, h.n_embd, h.layers);
    h.rope = read_rope(metadata, h.attention->k_head_dim, h.n_ctx_train);
    note_dynamic_scaling(metadata, h.rope, h.notes);
    h.window = read_window(metadata);
    h.attention->softcap = metadata.get_float("attn_logit_softcapping", 0.0, 1e6, 0.0f);
  }
  h.norm = read_norm(metadata);
  h.experts = read_experts(metadata, h.n_layers, h.ffn.width, h.notes);
  h.logits.softcap = metadata.get_float("final_logit_softcapping", 0.0, 1e6, 0.0f);
  h.n_vocab = read_vocabulary_size(metadata, h.notes);
  return h;
}

}  // namespace weft::model
