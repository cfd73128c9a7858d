#pragma once
// A model's hyper-parameters from its metadata, checked: counts are within weft's limits, and divisibility
// holds. Tensors are checked against them when the graph is built (builder.h).
//
// HParams has a group for each part of a model. Parts that only some models have are optional: code asks for
// the group (`if (h.experts)`). Each group has a function that reads and checks its keys.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/to_size.h"
#include "model/metadata.h"
#include "model/params/attention.h"
#include "model/params/experts.h"
#include "model/params/feed_forward.h"
#include "model/params/latent.h"
#include "model/params/recurrent.h"
#include "model/params/rope.h"
#include "weft/graph/op.h"

namespace weft::model {

/// Pooling of hidden states, with the numbers of files.
enum class PoolingType : std::uint8_t { kNone, kMean, kCls, kLast, kRank };

/// The rows that enter the layers.
struct EmbeddingParams {
  float scale = 1.0f;
  bool learned_positions = false;  ///< Positions are rows of a table, so they are below n_ctx_train.
  int n_per_layer = 0;             ///< Width of the embedding of each layer, 0: none
  int n_deepstack = 0;             ///< The first layers, after each of which rows of an image are added to.
};

struct NormParams {
  float eps = 0.0f;
  float head_eps = 0.0f;  ///< For layer norms of heads, 0: eps
  bool weights = true;    ///< Norms of whole rows multiply with weights.
};

/// The attention and feed-forward blocks of a layer, where models of a family differ.
struct BlockParams {
  bool parallel = false;        ///< Both read the layer's input.
  bool norms_behind = false;    ///< Norms apply to outputs of blocks, not to inputs.
  float residual_scale = 1.0f;  ///< Factor of block outputs.
};

/// The head.
struct LogitParams {
  float scale = 1.0f;
  float softcap = 0.0f;  ///< 0: none
  int n_left_out = 0;    ///< Tokens from first_left_out on that are never chosen.
  int first_left_out = 0;
};

/// Several versions of a row in the layers (AltUp). Present in Gemma 3n.
struct AltupParams {
  int n = 0;       ///< Versions; at least 2.
  int active = 0;  ///< The one that layers work on.
};

/// The encoder of encoder-decoder families (ModelGraph::source). HParams::n_layers counts the decoder's.
struct SourceParams {
  int n_layers = 0;
  std::int32_t first_token = 0;  ///< The first token of each sequence of the decoder.
};

/// Families without a cache.
struct EncoderParams {
  bool one_text = false;  ///< The encoder computes one input a step.
};

struct HParams {
  std::string architecture;
  std::vector<std::string> notes;  ///< Oddities of the file, and how they are read: a sentence each.
  int n_layers = 0;
  int n_layers_unused = 0;  ///< Further layers of the file: they draft tokens.
  int n_embd = 0;
  int n_vocab = 0;
  int n_ctx_train = 0;  ///< 0: the file does not say.
  std::vector<LayerKind> layers;
  std::optional<PoolingType> pooling = {};

  EmbeddingParams embedding;
  NormParams norm;
  BlockParams blocks;
  FeedForwardParams ffn;
  LogitParams logits;
  ops::Rope rope;  ///< Of most layers; head_dim set.

  std::optional<AttentionParams> attention = {};
  std::optional<WindowParams> window = {};
  std::optional<RopeAxes> axes = {};
  std::optional<LatentParams> latent = {};
  std::optional<ExpertParams> experts = {};
  std::optional<SsmParams> ssm = {};
  std::optional<RwkvParams> rwkv = {};
  std::optional<AltupParams> altup = {};
  std::optional<SourceParams> source = {};
  std::optional<EncoderParams> encoder = {};

  /// The size of an embedding that replaces a token: its own row, and the rows that are added after layers.
  int n_embd_input() const { return n_embd * (1 + embedding.n_deepstack); }
  int n_layers_of(LayerKind kind) const;
  bool recurrent() const {
    return n_layers_of(LayerKind::kRecurrent) > 0 || n_layers_of(LayerKind::kBoth) > 0;
  }
  /// Head sizes of the caches; 0 without attention.
  int k_head_dim() const { return attention ? attention->k_head_dim : 0; }
  int v_head_dim() const { return attention ? attention->v_head_dim : 0; }
  /// Whether the layer is one of WindowParams::sliding.
  bool slides(int layer) const {
    return window && !window->sliding.empty() && window->sliding[to_size(layer)];
  }
  /// The window of a layer that slides, 0 for others.
  int window_of(int layer) const { return slides(layer) ? window->size : 0; }
  /// The window of families whose layers all slide; 0: none
  int window_size() const { return window ? window->size : 0; }
};

/// Reads the keys of all families; a family adds its own. n_vocab comes from the embedding.
HParams read_hparams(const Metadata& metadata, LayerMix mix);

/// nextn_predict_layers, which count among block_count.
void read_unused_layers(const Metadata& metadata, HParams& hparams);
/// The factors of Granite: embedding_scale, residual_scale, attention.scale and logit_scale. Logits are
/// divided by the last one.
void read_scales(const Metadata& metadata, HParams& hparams);
/// pooling_type.
void read_pooling(const Metadata& metadata, HParams& hparams);

}  // namespace weft::model
