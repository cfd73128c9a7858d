#pragma once
// The blocks that families are made of. A block reads its weights by the names that GGUF files give them
// ("blk.3.attn_q.weight") and adds its nodes to the graph. Its nodes belong to the part of the model that the
// family has entered (Builder::enter); embed_tokens, output_logits and the experts of expert_ffn enter their
// own.
#include <functional>
#include <string>

#include "model/builder.h"

namespace weft::model {

/// Whether a model has such tensors, so that a layer that lacks its own is told.
bool has_in_any_layer(const Builder& b, const char* name);

/// The rows of the embedding for the step's tokens, scaled. Some of them may be given by the host instead.
/// {n_tokens, n_embd}
ValueId embed_tokens(Builder& b);
/// Rows of the embedding for these ids. {ids, n_embd}
ValueId embed_rows(Builder& b, ValueId ids, const std::string& result);

/// x plus the rows of position_embd.weight {n_ctx_train, n_embd} for the step's positions.
ValueId add_learned_positions(Builder& b, ValueId x);

/// LongRope has one set of factors for contexts that fit the original length and one for longer ones. Both
/// are loaded: the context decides. kNoValue where the file has none.
ValueId long_rope_factors(Builder& b);

/// Queries or keys, turned by HParams's rope: by the step's positions, or by positions on several axes
/// (M-RoPE).
ValueId turn(Builder& b, ValueId x, const ops::Rope& rope, ValueId factors, const std::string& result);

/// For the first EmbeddingParams::n_deepstack layers: x, plus the row's embedding for this layer if an
/// embedding replaces the token. For other layers x.
ValueId add_deepstack(Builder& b, int layer, ValueId x);

/// Embeddings that each layer has of its own, n_embd_per_layer wide: rows of per_layer_token_embd and a
/// projection of x, together. {n_tokens, n_layers * n_embd_per_layer}
ValueId embed_for_layers(Builder& b, ValueId x);
/// Applies a layer's own embedding to x, the rows after attention: post_norm(proj(gelu(inp_gate x) * own)).
ValueId own_input(Builder& b, int layer, ValueId layer_inputs, ValueId x);

/// RMS norm with a weight, or layer norm with a weight and, where the file has it, a bias: tensors
/// `name`.weight and `name`.bias. The result is named `result`, or `name` if that is empty.
ValueId norm(Builder& b, NormKind kind, ValueId x, const std::string& name, const std::string& result = {});

/// A product with `name`.weight {n_out, columns of x} and, where the file has it, `name`.bias.
ValueId linear(Builder& b, ValueId x, const std::string& name, std::int64_t n_out);
/// The same with rows [begin, begin + n_out) of a fused weight of n_all rows.
ValueId linear_rows(Builder& b, ValueId x, const std::string& name, std::int64_t n_all, std::int64_t begin,
                    std::int64_t n_out);

/// Norms of Q and K (attn_q_norm, attn_k_norm).
enum class QkNorm : std::uint8_t {
  kNone,
  kHeads,         ///< RMS norm of each head, with the same weights for all.
  kTurned,        ///< The same after rope.
  kRow,           ///< RMS norm of all heads together.
  kOwnOfHead,     ///< Layer norm of each head, with weights and, where the file has them, biases of its own.
  kOwnRmsOfHead,  ///< RMS norm of each head, with weights of its own.
  kTurnedPlain,   ///< As kTurned, without weights.
};

struct AttentionBlock {
  QkNorm qk_norm = QkNorm::kNone;
  bool rope = true;
  bool sinks = false;  ///< attn_sinks: see ops::Attention.
  /// attn_q has a gate after the queries of each head; the attention's output is multiplied with its sigmoid.
  bool gated = false;
  ops::Rope rope_params;
  ValueId rope_factors = kNoValue;  ///< kNoValue: layers() takes the file's.
  int window = 0;                   ///< 0: all positions
  bool chunked = false;             ///< See ops::Attention.
  /// {n_tokens, 1}: queries are multiplied with it (temperatures).
  ValueId temperature = kNoValue;
  bool v_norm = false;  ///< RMS norm of V's heads, without weights.
  int n_heads = 0;      ///< 0: HParams's
  int n_kv_heads = 0;   ///< The same.
  int head_dim = 0;     ///< Of Q, K and V; 0: HParams's
  /// The layer whose keys and values this one sees, for want of its own.
  int kv_layer = NodeTag::kNone;
  /// Changes the output of attention, {n_tokens, n_heads * v_head_dim}, before the output projection. x is
  /// the input of the block.
  std::function<ValueId(ValueId x, ValueId attended)> finish;
};
/// Gives the block the window of sliding layers and their rope, which has a base of its own and no scaling.
void slide_unscaled(const HParams& hparams, AttentionBlock& block);

struct Projections {
  ValueId q, k, v;
  ValueId gate = kNoValue;  ///< AttentionBlock::gated
};
/// Projections of x (attn_qkv where the file has it, or attn_q, attn_k and attn_v), with their norms, turned.
/// A layer that sees the keys of another has queries alone.
Projections project(Builder& b, int layer, ValueId x, const AttentionBlock& block);

/// Projections, cache write, attention and the output projection. In the last layer only rows that something
/// is wanted of come out, and `residual` is reduced to them as well.
ValueId attention(Builder& b, int layer, ValueId x, const AttentionBlock& block, ValueId& residual);

/// Queries, keys and values of a layer, ready for its caches. Without keys and values, attention reads the
/// caches of kv_layer.
struct Attended {
  ValueId q, k, v;
  int n_heads = 0, n_kv_heads = 0, k_dim = 0, v_dim = 0;  ///< 0: HParams's
  ops::Rope turn = {.n_rot = 0};                          ///< How the caches turn keys that move.
  ValueId rope_factors = kNoValue;
  ValueId head_terms = kNoValue;  ///< See ops::Attention.
  int window = 0;
  bool chunked = false;
  int kv_layer = NodeTag::kNone;
};
/// Stores keys and values, and attends to what the sequences have. {n_tokens, n_heads * v_head_dim}
ValueId attend_to_caches(Builder& b, int layer, const CellInputs& at, const Attended& in);

/// Stores keys and values of the source's rows, and attends to the sources of the sequences, with queries of
/// the step's tokens. {n_tokens, n_heads * v_head_dim}
ValueId attend_to_source(Builder& b, int layer, const Projections& of);

/// 1 + scale * log(1 + floor((position + first) / length)), with the scale and length of TemperatureParams.
/// It sharpens the attention of rows at late positions. {n_tokens, 1}
ValueId temperatures(Builder& b, int first);

/// In the last layer, x and `residual` reduced to the rows that something is wanted of. Elsewhere all rows.
ValueId wanted_rows(Builder& b, int layer, ValueId x, ValueId& residual);

/// A causal convolution of x's columns with `name`.weight {columns, conv_taps} and, where the file has it,
/// `name`.bias.
ValueId short_conv(Builder& b, int layer, ValueId x, const std::string& name);
/// The same with columns [begin, begin + columns of x) of a weight of n_all.
ValueId short_conv_columns(Builder& b, int layer, ValueId x, const std::string& name, std::int64_t n_all,
                           std::int64_t begin);

/// ffn_down(activation(ffn_gate x) * ffn_up x), `width` wide; 0: as HParams says.
ValueId gated_ffn(Builder& b, int layer, ValueId x, Activation activation, std::int64_t width = 0);
/// The same where ffn_up holds gate and up in one matrix, the gate first.
ValueId fused_gated_ffn(Builder& b, int layer, ValueId x, Activation activation);
/// ffn_down(activation(ffn_up x))
ValueId plain_ffn(Builder& b, int layer, ValueId x, Activation activation);
/// The router's choice for each row, {m, k} each.
struct ChosenExperts {
  ValueId ids, weights;
};
/// Chooses experts as in HParams, with ffn_gate_inp and, if the file has it, exp_probs_b.
ChosenExperts choose_experts(Builder& b, int layer, ValueId x);
/// Combines the rows of gate and up; the result is named `name`.
using Glu = std::function<ValueId(ValueId gate, ValueId up, const std::string& name)>;
/// activation(gate) * up
Glu plain_glu(Builder& b, Activation activation);
/// silu(gate), up to `limit`, times up, between -limit and limit. 0: without limits.
Glu clamped_glu(Builder& b, float limit);

/// The experts of a layer that tensors ffn_gate_ENDING ... hold.
struct ExpertStack {
  std::string ending = "exps";
  std::int64_t n = 0, width = 0;  ///< n 0: HParams's, both
};
/// The gated products of these experts, summed with their weights; or of rows that are multiplied with the
/// weights, if ExpertParams::weights_before. Gate and up may be one tensor (ffn_gate_up_exps), the gate
/// first. Products have the biases that the file has.
ValueId chosen_experts(Builder& b, int layer, ValueId x, const ChosenExperts& chosen, const Glu& glu,
                       const ExpertStack& stack = {});
/// The product that all rows go through: see expert_ffn.
ValueId shared_expert(Builder& b, int layer, ValueId x, const Glu& glu);
/// A router picks experts for each row (HParams says how); their gated products are summed with the router's
/// weights. Products have the biases that the file has. To them comes, where ExpertParams::shared_width is
/// not 0, the product that all rows go through (ffn_gate_shexp ...), times sigmoid(ffn_gate_inp_shexp x)
/// where the file has that.
ValueId expert_ffn(Builder& b, int layer, ValueId x, Activation activation);
/// The same without gates, activation(up x): of the experts, which read and write rows of n_expert_rows
/// columns (ffn_latent_down and ffn_latent_up lead there and back), and of the product that all rows go
/// through.
ValueId plain_expert_ffn(Builder& b, int layer, ValueId x, Activation activation);
/// The chosen experts with the gate of gpt-oss: (clamp(up) + 1) * g * sigmoid(1.702 g), g being the gate up
/// to `limit`.
ValueId expert_ffn_clamped(Builder& b, int layer, ValueId x, float limit);
ValueId add(Builder& b, ValueId x, ValueId y, const std::string& name);

/// The feed-forward parts of layers without experts.
enum class Ffn : std::uint8_t {
  kGated,  ///< gated_ffn
  kFused,  ///< fused_gated_ffn
  kPlain,  ///< plain_ffn
};
/// A layer's feed-forward network of that kind, or, after ExpertParams::n_dense_layers, its experts.
ValueId ffn(Builder& b, int layer, ValueId x, Ffn kind, Activation activation);

/// The options of decoders with attention and feed-forward blocks.
struct Decoder {
  NormKind norm = NormKind::kRms;
  bool norms_before = true;    ///< Norms of a block's input: attn_norm and ffn_norm.
  bool norms_behind = false;   ///< Norms of a block's output: post_attention_norm and post_ffw_norm.
  bool norms_of_sums = false;  ///< Norms of a block's sum: attn_output_norm and layer_output_norm.
  bool first_norm = true;      ///< Where norms_before: whether there is an attn_norm in the first layer.
  const char* ffn_norm = "ffn_norm";
  /// Both blocks read the layer's x. The norm for attention is attn_norm_2, that for the other ffn_norm;
  /// where the file lacks one of them, it is attn_norm.
  bool parallel = false;
  AttentionBlock attention;
  /// Changes the block for a layer, if layers differ.
  std::function<void(int layer, AttentionBlock&)> vary;
  /// In place of attention(): see there.
  std::function<ValueId(int layer, ValueId x, ValueId& residual)> attend;
  Ffn ffn = Ffn::kGated;
  Activation activation = Activation::kSilu;  ///< Of ffn.
  /// In place of ffn(); gets the layer and its input.
  std::function<ValueId(int, ValueId)> own_ffn;
};
/// The layers, x + attention(norm(x)) and x + ffn(norm(x)).
ValueId layers(Builder& b, ValueId x, const Decoder& how);
/// The layers, then the output norm and the logits.
ValueId decoder(Builder& b, ValueId x, const Decoder& how);

/// A layer that the family says is recurrent, or attention: what mixes the tokens of its normed input. In the
/// last layer only rows that something is wanted of come out, and `residual` is reduced to them as well.
using Mixer = std::function<ValueId(Builder& b, int layer, ValueId x, ValueId& residual)>;
/// Decoder::attend of layers that are partly recurrent (HParams::layers).
std::function<ValueId(int, ValueId, ValueId&)> mixed_layers(Builder& b, const AttentionBlock& block,
                                                            const Mixer& recurrent);

struct ScanInputs {
  ValueId x, dt, b, c, a, skip;  ///< See ops::SelectiveScan.
};
/// The scan of a layer over its running state.
ValueId selective_scan(Builder& b, int layer, const ScanInputs& in);

/// The layers of Mamba models, x + ssm_out(scan(norm(x))), then the output norm and the logits. `scan` gets
/// the layer and its normed input.
ValueId scan_decoder(Builder& b, ValueId x, const std::function<ValueId(int, ValueId)>& scan);

/// The head: a norm with `norm_name`'s weights, and the product with output.weight, or with the embedding
/// where the file has none. Where GraphSizes::n_best asks for them, also the best of the logits. It also adds
/// the normed rows whose embeddings are wanted.
ValueId output_logits(Builder& b, NormKind kind, ValueId x, const std::string& norm_name = "output_norm");

}  // namespace weft::model
