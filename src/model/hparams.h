#pragma once
// What a model's metadata says of its shape, checked: every count is within what weft can hold, and what must
// divide does. Tensors are checked against it when the graph is built (builder.h).
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
  /// The same where those that are not 0 must be equal; 0 if all are.
  int get_uniform_or_none(std::string_view key, int n_layers, std::int64_t max, int otherwise) const;
  /// An array of so many numbers, which must be there.
  std::vector<int> get_ints(std::string_view key, std::size_t least, std::size_t most, std::int64_t min,
                            std::int64_t max) const;
  float require_float(std::string_view key, double min, double max) const;
  float get_float(std::string_view key, double min, double max, float otherwise) const;
  bool has(std::string_view key) const { return file_.find(full(key)) != nullptr; }
  /// One for each of n layers, given once for all or as an array; refuses where there is none.
  std::vector<float> get_floats(std::string_view key, int n_layers, double min, double max) const;
  bool get_bool(std::string_view key, bool otherwise) const;
  /// One for each of n layers; nullopt where the key is no array.
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

/// What mixes a layer's tokens.
enum class LayerKind : std::uint8_t {
  kAttention,
  kRecurrent,  ///< A running state, of a fixed size whatever the length of the text.
  kBoth,
  kNeither,  ///< The layer is a feed-forward part alone.
};

/// Which kinds a family's layers may have. In kMixed those whose head_count_kv is 0 are recurrent.
/// In kVaried, which have attention, they differ in n_kv_heads and n_ff; in kSparse in n_heads as well, and
/// each of the three may be 0.
enum class LayerMix : std::uint8_t { kAttention, kRecurrent, kMixed, kVaried, kSparse };

/// What becomes of a text's hidden states: numbered as files do.
enum class PoolingType : std::uint8_t { kNone, kMean, kCls, kLast, kRank };

/// The numbers of xIELU, as they are used.
struct Xielu {
  float positive, negative, beta, eps;
};

struct HParams {
  std::string architecture;
  std::vector<std::string> notes;  ///< What of the file was odd, and how it is read: a sentence each.
  int n_layers = 0;
  int n_embd = 0;
  int n_vocab = 0;
  int n_ctx_train = 0;
  int n_ff = 0;
  std::vector<LayerKind> layers;
  // Of attention layers; 0 where a model has none.
  int n_heads = 0;
  int n_kv_heads = 0;
  int k_head_dim = 0;
  int v_head_dim = 0;
  std::vector<int> n_heads_of;     ///< By layer; n_heads is the most of them.
  std::vector<int> n_kv_heads_of;  ///< The same of n_kv_heads.
  std::vector<int> n_ff_of;        ///< The same of n_ff.
  int head_dim_window = 0;         ///< Of sliding layers, where it is another one, and ...
  int n_rot_window = 0;            ///< ... what turns of their heads.
  float norm_eps = 0.0f;
  ops::Rope rope;  ///< Of most layers; head_dim set.

  /// Pairs of a head that turn by positions of time, lines and columns (M-RoPE); 0 of all: there is one axis.
  std::array<int, 3> rope_sections{};
  bool rope_interleaved = false;  ///< They take turns, as long as they last; else they follow one another.
  int n_deepstack = 0;            ///< The first layers, behind each of which a picture's rows are added to.

  int n_experts = 0;  ///< 0: dense
  int n_experts_used = 0;
  int n_ff_expert = 0;
  std::vector<int> n_experts_used_of;  ///< By layer; n_experts_used is the most of them.
  std::vector<int> n_ff_expert_of;     ///< The same of n_ff_expert.
  int n_expert_rows = 0;               ///< Columns of what experts read and write, 0: n_embd
  int n_ff_shared = 0;                 ///< Of the expert that all rows go through, 0: none
  int n_dense_layers = 0;              ///< The first ones, which have no experts.
  int n_expert_groups = 1;             ///< Only the experts of some groups, the best ones, are chosen from.
  int n_expert_groups_used = 1;
  bool sigmoid_router = false;    ///< Scores of experts are sigmoids, not shares of a softmax.
  bool normalise_experts = true;  ///< Weights of the chosen ones to sum 1.
  float expert_scale = 1.0f;      ///< Of all their weights.
  float router_softcap = 0.0f;    ///< Of the router's logits, 0: none
  bool weights_before = false;    ///< They multiply what experts read, not what they give.
  int n_of_chunk = 0;             ///< Experts that share a small one beside them, 0: none
  int n_ff_chunk = 0;             ///< Of that ...
  float chunk_scale = 0.0f;       ///< ... and the factor of what it gives.
  std::vector<float> expert_limits, shared_limits;  ///< By layer: see clamped_glu (blocks.h).
  int expert_step = 1;                              ///< Every so many layers the last has experts.
  int n_layers_unused = 0;  ///< Behind the others in the file: for drafts of tokens to come.

  // Attention over a latent row (MLA), where rows are q_rank and kv_rank wide; 0 where there is none.
  int q_rank = 0;  ///< 0: queries are projected at once.
  int kv_rank = 0;
  int k_nope_dim = 0;  ///< Of a head's keys, what does not turn.
  int v_out_dim = 0;   ///< Of a head's values.

  int window = 0;                  ///< Of sliding layers, 0: none
  std::vector<bool> sliding;       ///< By layer, where a family has both kinds (read_sliding).
  float rope_base_window = 0.0f;   ///< Rope's base in sliding layers.
  bool learned_positions = false;  ///< Positions are rows of a table of n_ctx_train: none can be beyond it.
  float attention_softcap = 0.0f;
  float alibi = 0.0f;          ///< See ops::Attention.
  int temperature_length = 0;  ///< Of queries: see temperatures (blocks.h). 0: none
  float temperature_scale = 0.0f;
  float logit_softcap = 0.0f;
  bool parallel = false;       ///< Attention and feed-forward part beside each other, where models differ.
  float qkv_clamp = 0.0f;      ///< Of Q, K and V, 0: none
  bool rope_layers = true;     ///< Whether attention knows positions, where models differ.
  bool norm_weights = true;    ///< Norms of whole rows multiply with weights.
  bool norms_behind = false;   ///< Norms are of what blocks add, not of what they read, where models differ.
  float head_norm_eps = 0.0f;  ///< Of layer norms of heads, 0: norm_eps
  int n_left_out = 0;          ///< Tokens, from first_left_out on, that are never to be chosen.
  int first_left_out = 0;
  bool ffn_silu = false;  ///< In place of GELU, where models differ.

  bool k_may_be_v = false;   ///< In layers without attn_v.
  int n_altup = 0;           ///< Forms of a row that go through the layers together (AltUp), ...
  int altup_active = 0;      ///< ... and the one that layers work on.
  int n_embd_per_layer = 0;  ///< Of the embedding that each layer has of its own, 0: none
  int n_layers_with_kv = 0;  ///< The first ones; the others see keys and values of these.
  /// By layer: of gates what is above their mean by so many standard deviations is left. -infinity: all.
  std::vector<float> gate_cuts;
  std::vector<Xielu> xielu;  ///< Of each layer, where that is the activation.

  // Factors, of families that have them.
  float embedding_scale = 1.0f;
  float attention_scale = 0.0f;  ///< 0: 1 / sqrt(k_head_dim)
  float residual_scale = 1.0f;   ///< Of what a block adds.
  float value_scale = 1.0f;      ///< Of what was attended to.
  float logit_scale = 1.0f;

  // Of recurrent layers, 0 where a family has no use for them.
  int conv_taps = 0;       ///< Tokens that a short convolution sees: the last ones and the row's own.
  int n_ssm_inner = 0;     ///< Columns of a selective scan ...
  int n_ssm_state = 0;     ///< ... and the numbers of its state for each of them.
  int n_ssm_dt_rank = 0;   ///< Mamba
  bool ssm_norms = false;  ///< Mamba whose dt, B and C are normed, without weights.
  int n_ssm_heads = 0;     ///< Mamba-2 and delta nets ...
  int n_ssm_groups = 0;    ///< ... and the groups of heads that share the projections of the state.

  // Of RWKV-7, how wide what chooses decays, rates, values' shares and gates is in between.
  int decay_rank = 0;
  int rate_rank = 0;
  int value_rank = 0;
  int gate_rank = 0;      ///< 0: no gates
  int mix_rank = 0;       ///< RWKV-6: of what chooses shares of the row before.
  int n_per_halving = 0;  ///< RWKV-6: behind each so many layers x is halved, 0: never.

  int n_distance_buckets = 0;  ///< Of scores' bias by the distance of a key (T5).

  // Of families that write about a source (ModelGraph::source); n_layers are those that write.
  int n_encoder_layers = 0;
  std::int32_t first_token = -1;  ///< That each text begins with.

  bool encoder = false;   ///< Of a family without a cache.
  bool one_text = false;  ///< Of an encoder that reads one text a step.
  std::optional<PoolingType> pooling = {};

  bool reads_source() const { return n_encoder_layers > 0; }
  bool has_axes() const { return rope_sections != std::array<int, 3>{}; }
  /// Of a row that stands in a token's place: its own numbers, and what is added behind layers.
  int n_embd_input() const { return n_embd * (1 + n_deepstack); }
  int n_layers_of(LayerKind kind) const;
  bool recurrent() const {
    return n_layers_of(LayerKind::kRecurrent) > 0 || n_layers_of(LayerKind::kBoth) > 0;
  }
};

/// Reads what all families share; a family adds its own. n_vocab comes from the embedding.
HParams read_hparams(const gguf::File& file, const Metadata& metadata, LayerMix mix);

/// Of n layers of which one sees all of a text, which that is.
enum class FullLayer : std::uint8_t { kLast, kFirst };
/// Which layers have the window: as attention.sliding_window_pattern says (an array, or n), or all but one in
/// n.
void read_sliding(const Metadata& metadata, HParams& hparams, int n, FullLayer full = FullLayer::kLast);
/// attention.shared_kv_layers: n_layers_with_kv. Refuses layers that find none to share with (kv_layer_of).
void read_layers_with_kv(const Metadata& metadata, HParams& hparams);
/// The last of the first n_layers_with_kv layers that slides as this one does, or does not; -1 if none.
int kv_layer_of(const HParams& hparams, int layer);
/// Refuses a model without experts.
void require_experts(const Metadata& metadata, const HParams& hparams);
/// What routers of DeepSeek's kind have: expert_gating_func, expert_weights_norm, expert_weights_scale,
/// groups, leading_dense_block_count, expert_shared_count.
void read_router(const Metadata& metadata, HParams& hparams);
/// nextn_predict_layers, which count among block_count.
void read_unused_layers(const Metadata& metadata, HParams& hparams);
/// The factors that Granite has: embedding_scale, residual_scale, attention.scale and logit_scale, by which
/// its logits are divided.
void read_scales(const Metadata& metadata, HParams& hparams);

/// rope.dimension_sections, which must be there.
void read_sections(const Metadata& metadata, HParams& hparams);

/// The axis by which a pair of a head turns.
std::size_t axis_of_pair(const HParams& hparams, int pair);

/// pooling_type.
void read_pooling(const Metadata& metadata, HParams& hparams);

/// conv_taps, from this key.
int read_conv_taps(const Metadata& metadata, std::string_view key);
/// The keys "ssm.*" that Mamba and Mamba-2 share.
void read_ssm(const Metadata& metadata, HParams& hparams);

/// Those that Mamba-2 and delta nets add: heads and groups.
void read_ssm_heads(const Metadata& metadata, HParams& hparams);
/// Which layers are recurrent: as attention.recurrent_layers says, or all but every
/// full_attention_interval-th.
void read_recurrent_layers(const Metadata& metadata, HParams& hparams);

/// The keys "rope.*" of linear and YaRN scaling (dimension count, base, factor, ...) into a rope op.
ops::Rope read_rope(const Metadata& metadata, int head_dim, int n_ctx_train);

}  // namespace weft::model
