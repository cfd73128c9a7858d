#pragma once
// A model's hyper-parameters from its metadata, checked: counts are within weft's limits, and divisibility
// holds. Tensors are checked against them when the graph is built (builder.h).
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gguf/gguf.h"
#include "weft/graph/op.h"

namespace weft::model {

// Bounds of what any model can sensibly ask for: far above today's largest, far below what could overflow.
inline constexpr std::int64_t kMaxLayers = 1024;
inline constexpr std::int64_t kMaxWidth = 1 << 20;
inline constexpr std::int64_t kMaxFfWidth = 16 * kMaxWidth;
inline constexpr std::int64_t kMaxHeads = 1 << 14;
inline constexpr std::int64_t kMaxHeadDim = 1024;
inline constexpr std::int64_t kMaxRank = 1 << 20;  ///< Of low-rank products.
inline constexpr std::int64_t kMaxExperts = 4096;
inline constexpr std::int64_t kMaxContext = 1 << 28;
inline constexpr std::int64_t kMaxVocabulary = 1 << 24;
inline constexpr std::int64_t kMaxConvTaps = 64;
inline constexpr std::int64_t kMaxSsmState = 4096;
inline constexpr double kMinFactor = 1e-6, kMaxFactor = 1e6;

/// Reads an architecture's keys ("llama.block_count") with bounds. Errors name the key, its value and the
/// expected one. A value that would give another model is refused; a wrong value without effect costs a note
/// (HParams::notes).
class Metadata {
 public:
  Metadata(const gguf::File& file, std::string architecture)
      : file_(file), architecture_(std::move(architecture)) {}

  const std::string& architecture() const { return architecture_; }
  int require_int(std::string_view key, std::int64_t min, std::int64_t max) const;
  int get_int(std::string_view key, std::int64_t min, std::int64_t max, int otherwise) const;
  /// A count for each of n layers, given once for all or as an array.
  std::vector<int> get_per_layer(std::string_view key, int n_layers, std::int64_t min, std::int64_t max,
                                 int otherwise) const;
  /// The same where the counts must be equal.
  int get_uniform(std::string_view key, int n_layers, std::int64_t min, std::int64_t max,
                  int otherwise) const;
  /// The same, where non-zero counts must be equal; 0 if all are 0.
  int get_uniform_or_none(std::string_view key, int n_layers, std::int64_t max, int otherwise) const;
  /// A required array of `least` to `most` numbers.
  std::vector<int> get_ints(std::string_view key, std::size_t least, std::size_t most, std::int64_t min,
                            std::int64_t max) const;
  float require_float(std::string_view key, double min, double max) const;
  float get_float(std::string_view key, double min, double max, float otherwise) const;
  bool has(std::string_view key) const { return file_.find(full(key)) != nullptr; }
  /// One for each of n layers, given once for all or as an array. Refuses a missing key.
  std::vector<float> get_floats(std::string_view key, int n_layers, double min, double max) const;
  bool get_bool(std::string_view key, bool otherwise) const;
  /// One for each of n layers; nullopt where the key is not an array.
  std::optional<std::vector<bool>> get_bools(std::string_view key, int n_layers) const;
  std::string get_string(std::string_view key, std::string_view otherwise) const;
  bool has_tensor(const std::string& name) const { return file_.find_tensor(name) != nullptr; }

  [[noreturn]] void refuse(std::string_view key, const std::string& reason) const;
  /// For HParams::notes.
  std::string about(std::string_view key, const std::string& what) const {
    return "metadata key " + full(key) + ": " + what;
  }

 private:
  std::string full(std::string_view key) const { return architecture_ + "." + std::string(key); }

  const gguf::File& file_;
  std::string architecture_;
};

/// The token mixer of a layer.
enum class LayerKind : std::uint8_t {
  kAttention,
  kRecurrent,  ///< A running state of a fixed size.
  kBoth,
  kNeither,  ///< The layer has only a feed-forward part.
};

/// The kinds of layers of a family. With kMixed, layers whose head_count_kv is 0 are recurrent. With kVaried
/// all have attention, with different n_kv_heads and n_ff. With kSparse n_heads differs as well, and each of
/// the three may be 0.
enum class LayerMix : std::uint8_t { kAttention, kRecurrent, kMixed, kVaried, kSparse };

/// Pooling of hidden states, with the numbers of files.
enum class PoolingType : std::uint8_t { kNone, kMean, kCls, kLast, kRank };

/// The parameters of xIELU.
struct Xielu {
  float positive, negative, beta, eps;
};

struct HParams {
  std::string architecture;
  std::vector<std::string> notes;  ///< Oddities of the file, and how they are read: a sentence each.
  int n_layers = 0;
  int n_embd = 0;
  int n_vocab = 0;
  int n_ctx_train = 0;
  int n_ff = 0;
  std::vector<LayerKind> layers;
  // For attention layers; 0 without attention.
  int n_heads = 0;
  int n_kv_heads = 0;
  int k_head_dim = 0;
  int v_head_dim = 0;
  std::vector<int> n_heads_of;     ///< By layer; n_heads is the most of them.
  std::vector<int> n_kv_heads_of;  ///< The same of n_kv_heads.
  std::vector<int> n_ff_of;        ///< The same of n_ff.
  int head_dim_window = 0;         ///< The head size of sliding layers, if it differs, and ...
  int n_rot_window = 0;            ///< ... the part of their heads that rope turns.
  float norm_eps = 0.0f;
  ops::Rope rope;  ///< Of most layers; head_dim set.

  /// Pairs of a head that turn by positions of time, lines and columns (M-RoPE). All 0: there is one axis.
  std::array<int, 3> rope_sections{};
  bool rope_interleaved = false;  ///< Their pairs alternate; otherwise they follow one another.
  int n_deepstack = 0;            ///< The first layers, after each of which rows of an image are added to.

  int n_experts = 0;  ///< 0: dense
  int n_experts_used = 0;
  int n_ff_expert = 0;
  std::vector<int> n_experts_used_of;  ///< By layer; n_experts_used is the most of them.
  std::vector<int> n_ff_expert_of;     ///< The same of n_ff_expert.
  int n_expert_rows = 0;               ///< Width of experts' inputs and outputs, 0: n_embd
  int n_ff_shared = 0;                 ///< Of the expert of all rows, 0: none
  int n_dense_layers = 0;              ///< The first ones, which have no experts.
  int n_expert_groups = 1;             ///< Only the experts of some groups, the best ones, are chosen from.
  int n_expert_groups_used = 1;
  bool sigmoid_router = false;    ///< Scores of experts are sigmoids, not shares of a softmax.
  bool normalise_experts = true;  ///< Weights of the chosen ones to sum 1.
  float expert_scale = 1.0f;      ///< Of all their weights.
  float router_softcap = 0.0f;    ///< Softcap of the router's logits, 0: none
  bool weights_before = false;    ///< They multiply the inputs of experts, not the outputs.
  int n_of_chunk = 0;             ///< Experts that share a small additional one, 0: none
  int n_ff_chunk = 0;             ///< Its n_ff ...
  float chunk_scale = 0.0f;       ///< ... and the factor of its output.
  std::vector<float> expert_limits, shared_limits;  ///< By layer: see clamped_glu (blocks.h).
  int expert_step = 1;      ///< One layer in expert_step has experts: the last of them.
  int n_layers_unused = 0;  ///< The last layers of the file: they draft further tokens.

  // Attention over a latent row (MLA), where rows are q_rank and kv_rank wide; 0 where there is none.
  int q_rank = 0;  ///< 0: queries are projected at once.
  int kv_rank = 0;
  int k_nope_dim = 0;  ///< The part of a head's keys that rope does not turn.
  int v_out_dim = 0;   ///< Of a head's values.

  int window = 0;                  ///< The window of sliding layers, 0: none
  std::vector<bool> sliding;       ///< By layer, where a family has both kinds (read_sliding).
  float rope_base_window = 0.0f;   ///< Rope's base in sliding layers.
  bool learned_positions = false;  ///< Positions are rows of a table, so they are below n_ctx_train.
  float attention_softcap = 0.0f;
  float alibi = 0.0f;          ///< See ops::Attention.
  int temperature_length = 0;  ///< Of queries: see temperatures (blocks.h). 0: none
  float temperature_scale = 0.0f;
  float logit_softcap = 0.0f;
  bool parallel = false;       ///< Attention and feed-forward part in parallel, where models differ.
  float qkv_clamp = 0.0f;      ///< Limit of Q, K and V, 0: none
  bool rope_layers = true;     ///< Whether attention knows positions, where models differ.
  bool norm_weights = true;    ///< Norms of whole rows multiply with weights.
  bool norms_behind = false;   ///< Norms apply to outputs of blocks, not to inputs, where models differ.
  float head_norm_eps = 0.0f;  ///< For layer norms of heads, 0: norm_eps
  int n_left_out = 0;          ///< Tokens from first_left_out on that are never chosen.
  int first_left_out = 0;
  bool ffn_silu = false;  ///< In place of GELU, where models differ.

  bool k_may_be_v = false;   ///< In layers without attn_v.
  int n_altup = 0;           ///< Versions of a row in the layers (AltUp), ...
  int altup_active = 0;      ///< ... and the one that layers work on.
  int n_embd_per_layer = 0;  ///< Width of the embedding of each layer, 0: none
  int n_layers_with_kv = 0;  ///< The first layers have K and V; the others use these.
  /// By layer: gates keep the amount above their mean plus this many standard deviations. -infinity: all of
  /// it.
  std::vector<float> gate_cuts;
  std::vector<Xielu> xielu;  ///< By layer, where that is the activation.

  // Factors of some families.
  float embedding_scale = 1.0f;
  float attention_scale = 0.0f;  ///< 0: 1 / sqrt(k_head_dim)
  float residual_scale = 1.0f;   ///< Factor of block outputs.
  float value_scale = 1.0f;      ///< Factor of attention outputs.
  float logit_scale = 1.0f;

  // For recurrent layers; 0 where a family does not use them.
  int conv_taps = 0;       ///< Tokens of a short convolution: the row's own and the ones before.
  int n_ssm_inner = 0;     ///< Columns of a selective scan ...
  int n_ssm_state = 0;     ///< ... and the numbers of its state for each of them.
  int n_ssm_dt_rank = 0;   ///< Mamba
  bool ssm_norms = false;  ///< Mamba whose dt, B and C are normed, without weights.
  int n_ssm_heads = 0;     ///< Mamba-2 and delta nets ...
  int n_ssm_groups = 0;    ///< ... and the groups of heads that share the projections of the state.

  // RWKV-7: the inner widths of the low-rank products for decays, rates, values' shares and gates.
  int decay_rank = 0;
  int rate_rank = 0;
  int value_rank = 0;
  int gate_rank = 0;      ///< 0: no gates
  int mix_rank = 0;       ///< RWKV-6: the same for shares of the row before.
  int n_per_halving = 0;  ///< RWKV-6: x is halved after each n_per_halving layers, 0: never.

  int n_distance_buckets = 0;  ///< For the bias of scores by a key's distance (T5).

  // Encoder-decoder families (ModelGraph::source); n_layers counts the decoder's.
  int n_encoder_layers = 0;
  std::int32_t first_token = -1;  ///< The first token of each sequence.

  bool encoder = false;   ///< The family has no cache.
  bool one_text = false;  ///< The encoder computes one input a step.
  std::optional<PoolingType> pooling = {};

  bool reads_source() const { return n_encoder_layers > 0; }
  bool has_axes() const { return rope_sections != std::array<int, 3>{}; }
  /// The size of an embedding that replaces a token: its own row, and the rows that are added after layers.
  int n_embd_input() const { return n_embd * (1 + n_deepstack); }
  int n_layers_of(LayerKind kind) const;
  bool recurrent() const {
    return n_layers_of(LayerKind::kRecurrent) > 0 || n_layers_of(LayerKind::kBoth) > 0;
  }
};

/// Reads the keys of all families; a family adds its own. n_vocab comes from the embedding.
HParams read_hparams(const gguf::File& file, const Metadata& metadata, LayerMix mix);

/// The layer among n that sees the whole sequence.
enum class FullLayer : std::uint8_t { kLast, kFirst };
/// The layers with the window: as in attention.sliding_window_pattern (an array, or n), otherwise all but one
/// in n.
void read_sliding(const Metadata& metadata, HParams& hparams, int n, FullLayer full = FullLayer::kLast);
/// attention.shared_kv_layers: n_layers_with_kv. Refuses layers that find none to share with (kv_layer_of).
void read_layers_with_kv(const Metadata& metadata, HParams& hparams);
/// The last of the first n_layers_with_kv layers that slides as this one does, or does not; -1 if none.
int kv_layer_of(const HParams& hparams, int layer);
/// Refuses a model without experts.
void require_experts(const Metadata& metadata, const HParams& hparams);
/// Reads the keys of routers like DeepSeek's: expert_gating_func, expert_weights_norm, expert_weights_scale,
/// groups, leading_dense_block_count, expert_shared_count.
void read_router(const Metadata& metadata, HParams& hparams);
/// nextn_predict_layers, which count among block_count.
void read_unused_layers(const Metadata& metadata, HParams& hparams);
/// The factors of Granite: embedding_scale, residual_scale, attention.scale and logit_scale. Logits are
/// divided by the last one.
void read_scales(const Metadata& metadata, HParams& hparams);

/// rope.dimension_sections, which is required.
void read_sections(const Metadata& metadata, HParams& hparams);

/// The axis by which a pair of a head turns.
std::size_t axis_of_pair(const HParams& hparams, int pair);

/// pooling_type.
void read_pooling(const Metadata& metadata, HParams& hparams);

/// conv_taps, from this key.
int read_conv_taps(const Metadata& metadata, std::string_view key);
/// The keys "ssm.*" that Mamba and Mamba-2 share.
void read_ssm(const Metadata& metadata, HParams& hparams);

/// Further keys of Mamba-2 and delta nets: heads and groups.
void read_ssm_heads(const Metadata& metadata, HParams& hparams);
/// The recurrent layers: as in attention.recurrent_layers, otherwise all but every
/// full_attention_interval-th.
void read_recurrent_layers(const Metadata& metadata, HParams& hparams);

/// The keys "rope.*" of linear and YaRN scaling (dimension count, base, factor, ...) into a rope op.
ops::Rope read_rope(const Metadata& metadata, int head_dim, int n_ctx_train);

}  // namespace weft::model
