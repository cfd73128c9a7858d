#pragma once
// The blocks that families are made of. A block reads its weights by the names that GGUF files give them
// ("blk.3.attn_q.weight") and adds its nodes to the graph. Its nodes belong to the part of the model that the
// family has entered (Builder::enter); embed_tokens, output_logits and the experts of expert_ffn enter their
// own.
#include <functional>
#include <string>

#include "model/builder.h"

namespace weft::model {

/// The rows of the embedding for the step's tokens, scaled. Some of them may be given by the host instead.
/// {n_tokens, n_embd}
ValueId embed_tokens(Builder& b, float scale = 1.0f);

/// RMS norm with a weight, or layer norm with weight and bias: tensors `name`.weight and `name`.bias. What it
/// makes is called `result`, or `name`.
ValueId norm(Builder& b, NormKind kind, ValueId x, const std::string& name, const std::string& result = {});

/// A product with `name`.weight {n_out, columns of x} and, where the file has it, `name`.bias.
ValueId linear(Builder& b, ValueId x, const std::string& name, std::int64_t n_out);
/// The same with rows [begin, begin + n_out) of a fused weight of n_all rows.
ValueId linear_rows(Builder& b, ValueId x, const std::string& name, std::int64_t n_all, std::int64_t begin,
                    std::int64_t n_out);

struct AttentionBlock {
  bool fused_qkv = false;   ///< attn_qkv instead of attn_q, attn_k and attn_v.
  bool head_norms = false;  ///< RMS norm of each head of Q and K (attn_q_norm, attn_k_norm).
  bool rope = true;
  ops::Rope rope_params;
  ValueId rope_factors = kNoValue;
  float scale = 0.0f;  ///< 0: 1 / sqrt(head_dim)
  int window = 0;      ///< 0: all positions
};
/// Projections, rope, cache write, attention and the output projection. In the last layer only rows that
/// something is wanted of come out, and `residual` is reduced to them as well.
ValueId attention(Builder& b, int layer, ValueId x, const AttentionBlock& block, ValueId& residual);

/// In the last layer, x and `residual` reduced to the rows that something is wanted of. Elsewhere all rows.
ValueId wanted_rows(Builder& b, int layer, ValueId x, ValueId& residual);

/// A causal convolution of x's columns with `name`.weight {columns, conv_taps} and, where the file has it,
/// `name`.bias.
ValueId short_conv(Builder& b, int layer, ValueId x, const std::string& name);
/// The same with columns [begin, begin + columns of x) of a weight of n_all.
ValueId short_conv_columns(Builder& b, int layer, ValueId x, const std::string& name, std::int64_t n_all,
                           std::int64_t begin);

/// ffn_down(activation(ffn_gate x) * ffn_up x)
ValueId gated_ffn(Builder& b, int layer, ValueId x, Activation activation);
/// The same where ffn_up holds gate and up in one matrix, the gate first.
ValueId fused_gated_ffn(Builder& b, int layer, ValueId x, Activation activation);
/// ffn_down(activation(ffn_up x))
ValueId plain_ffn(Builder& b, int layer, ValueId x, Activation activation);
/// A router picks experts for each row; their gated products are summed with the router's weights.
ValueId expert_ffn(Builder& b, int layer, ValueId x, Activation activation, bool normalise);

ValueId add(Builder& b, ValueId x, ValueId y, const std::string& name);

/// The layers that most decoders have, x + attention(norm(x)) and x + ffn(norm(x)), and behind them the
/// output norm and the logits. `ffn` gets the layer and its normed input.
ValueId pre_norm_decoder(Builder& b, NormKind kind, ValueId x, const AttentionBlock& block,
                         const std::function<ValueId(int, ValueId)>& ffn);

struct ScanInputs {
  ValueId x, dt, b, c, a, skip;  ///< See ops::SelectiveScan.
};
/// The scan of a layer over its running state.
ValueId selective_scan(Builder& b, int layer, const ScanInputs& in);

/// The layers that Mambas have, x + ssm_out(scan(norm(x))), and behind them the output norm and the logits.
/// `scan` gets the layer and its normed input.
ValueId scan_decoder(Builder& b, ValueId x, const std::function<ValueId(int, ValueId)>& scan);

/// The head: a norm with `norm_name`'s weights, and the product with output.weight, or with the embedding
/// where the file has none. Where GraphSizes::n_best asks for them, also the best of the logits. And what the
/// norm makes of rows whose embeddings are wanted.
ValueId output_logits(Builder& b, NormKind kind, ValueId x, const std::string& norm_name = "output_norm");

}  // namespace weft::model
