// Since 0.1
#pragma once
// Ops of language models: matrix products, norms, attention over caches, recurrent layers, experts.
//
// In shapes, m is the number of rows of a step (usually its tokens), and "?" marks an optional input.
// Matrices are {rows, columns}, and weights {outputs, inputs}. x and results are F32 unless noted otherwise.
#include <cstdint>
#include <string_view>

#include "weft/graph/kinds.h"
#include "weft/graph/value_id.h"

#pragma GCC visibility push(default)

namespace weft::ops {

/// table {n, d}, ids {m} I32 -> {m, d}: rows of a weight (token embeddings) or of a result (rows whose logits
/// are wanted). Ids that were computed and are out of range are clamped.
struct GetRows {
  static constexpr std::string_view kName = "get_rows";
  static constexpr int kMinInputs = 2, kMaxInputs = 2;
  friend bool operator==(const GetRows&, const GetRows&) = default;
};

/// x {m, d}, rows {m, d}, use {m} I32 -> {m, d}: row r of `rows` where use[r] is not 0, of x elsewhere.
struct Override {
  static constexpr std::string_view kName = "override";
  static constexpr int kMinInputs = 3, kMaxInputs = 3;
  friend bool operator==(const Override&, const Override&) = default;
};

/// x {..., g*d}, weight {d}?, bias {d}? -> the same shape. Each `group` of columns (0: the whole row) is
/// normalised on its own, multiplied by the weight, and the bias is added.
struct Norm {
  static constexpr std::string_view kName = "norm";
  static constexpr int kMinInputs = 1, kMaxInputs = 3;
  NormKind kind = NormKind::kRms;
  float eps = 1e-5f;
  std::int64_t group = 0;
  friend bool operator==(const Norm&, const Norm&) = default;
};

/// a + b, broadcast (see Unary).
struct Add {
  static constexpr std::string_view kName = "add";
  static constexpr int kMinInputs = 2, kMaxInputs = 2;
  friend bool operator==(const Add&, const Add&) = default;
};

/// a * b, broadcast (see Unary).
struct Mul {
  static constexpr std::string_view kName = "mul";
  static constexpr int kMinInputs = 2, kMaxInputs = 2;
  friend bool operator==(const Mul&, const Mul&) = default;
};

/// x * factor
struct Scale {
  static constexpr std::string_view kName = "scale";
  static constexpr int kMinInputs = 1, kMaxInputs = 1;
  float factor = 1.0f;
  friend bool operator==(const Scale&, const Scale&) = default;
};

/// x {m, d1}, y {m, d2}, ... -> {m, d1 + d2 + ...}: joins columns, or values of any rank along another axis.
struct Concat {
  static constexpr std::string_view kName = "concat";
  static constexpr int kMinInputs = 1, kMaxInputs = 16;
  static constexpr int kColumns = -1;
  int axis = kColumns;
  friend bool operator==(const Concat&, const Concat&) = default;
};

/// cap * tanh(x / cap)
struct Softcap {
  static constexpr std::string_view kName = "softcap";
  static constexpr int kMinInputs = 1, kMaxInputs = 1;
  float cap = 1.0f;
  friend bool operator==(const Softcap&, const Softcap&) = default;
};

struct Activate {
  static constexpr std::string_view kName = "activate";
  static constexpr int kMinInputs = 1, kMaxInputs = 1;
  Activation kind = Activation::kSilu;
  friend bool operator==(const Activate&, const Activate&) = default;
};

/// x {..., d} -> the same shape: softmax of each row's columns. A row of minus infinity only gives zeros.
struct Softmax {
  static constexpr std::string_view kName = "softmax";
  static constexpr int kMinInputs = 1, kMaxInputs = 1;
  friend bool operator==(const Softmax&, const Softmax&) = default;
};

/// gate, up -> activation(gate) * up
struct Glu {
  static constexpr std::string_view kName = "glu";
  static constexpr int kMinInputs = 2, kMaxInputs = 2;
  Activation kind = Activation::kSilu;
  friend bool operator==(const Glu&, const Glu&) = default;
};

/// weight {o, i}, x {m, i}, bias {o}? -> {m, o}
struct Matmul {
  static constexpr std::string_view kName = "matmul";
  static constexpr int kMinInputs = 2, kMaxInputs = 3;
  friend bool operator==(const Matmul&, const Matmul&) = default;
};

/// Rotary position embedding (arXiv 2104.09864) with YaRN scaling (arXiv 2309.00071).
/// x {m, h*head_dim}, positions {m} I32, factors {n_rot/2}? -> as x. Frequencies are divided by `factors`.
struct Rope {
  static constexpr std::string_view kName = "rope";
  static constexpr int kMinInputs = 2, kMaxInputs = 3;
  int head_dim = 0;
  int n_rot = 0;      ///< The rotated elements of a head.
  bool neox = false;  ///< Rotates pairs (i, i + n_rot/2); otherwise pairs (2i, 2i + 1).
  float freq_base = 10000.0f;
  float freq_scale = 1.0f;   ///< 1 / factor of linear or YaRN scaling.
  float ext_factor = 0.0f;   ///< YaRN's mix of interpolation and extrapolation, 0: off.
  float attn_factor = 1.0f;  ///< Multiplies the rotated values.
  float beta_fast = 32.0f;
  float beta_slow = 1.0f;
  int n_ctx_orig = 0;       ///< Context length before scaling.
  bool whole_pairs = true;  ///< YaRN's ramp begins and ends at whole pairs of elements.
  friend bool operator==(const Rope&, const Rope&) = default;
};

/// x {..., n*block} -> the same shape. Each `block` of columns is multiplied by the Hadamard matrix of that
/// size (Sylvester's construction), divided by sqrt(block). `block` is a power of two from 2 to kMaxBlock.
/// The matrix is symmetric and orthogonal, so applying the op twice returns x up to rounding.
struct Hadamard {
  static constexpr std::string_view kName = "hadamard";
  static constexpr int kMinInputs = 1, kMaxInputs = 1;
  static constexpr int kMaxBlock = 512;
  int block = 64;
  friend bool operator==(const Hadamard&, const Hadamard&) = default;
};

/// cache state, from {c} I32, to {c} I32, deltas {c} I32?, factors {n_rot/2}? -> the cache. Copies cell
/// from[i] to cell to[i], one after another, and rotates keys by deltas[i] positions on the way. With
/// rope.n_rot 0 nothing is rotated, and deltas may be absent. If `hadamard` is not 0, keys are stored as
/// Hadamard{hadamard} of themselves: a rotation by positions applies to the keys before that.
struct MoveCells {
  static constexpr std::string_view kName = "move_cells";
  struct Inputs {
    ValueId cache, from, to;
    ValueId deltas = kNoValue, factors = kNoValue;
  };
  static constexpr int kMinInputs = 3, kMaxInputs = 5;
  CacheRole role = CacheRole::kKeys;
  Rope rope = {};
  int hadamard = 0;
  friend bool operator==(const MoveCells&, const MoveCells&) = default;
};

/// cache state, x {m, h*head_dim}, cells {m} I32 -> the cache, with row i stored in cell cells[i]. With
/// kSlots the state is F32 and rows are stored unchanged.
struct StoreCache {
  static constexpr std::string_view kName = "store_cache";
  static constexpr int kMinInputs = 3, kMaxInputs = 3;
  CacheRole role = CacheRole::kKeys;
  friend bool operator==(const StoreCache&, const StoreCache&) = default;
};

/// Paged attention over a KV cache, by extents (graph/extent.h). q {m, n_heads*k_head_dim}, K cache, V cache,
/// positions {m} I32, sequences {m} I32, extents {s, p, 6} I32, counts {s} I32, ends {m} I32, hidden_first
/// {m} I32, hidden {h, 4} I32, head_terms? -> {m, n_heads*v_head_dim}.
///
/// Row r belongs to sequence i = sequences[r], which has the first counts[i] entries of extents[i]. It
/// attends to the sequence's cells at positions below ends[r] and within the window. For causal attention
/// ends[r] is positions[r] + 1. If hidden_first[r] is not -1, the cells of hidden[hidden_first[r]] and of the
/// following entries with the same row (HiddenCells) are left out.
///
/// Terms of scores, all optional:
/// - head_terms {n_heads}: attention sinks. A row that attends to anything has one more score per head, with
/// a
///   value of zeros.
/// - head_terms {n_heads, n} F32: a bias by distance (T5, arXiv 1910.10683). A score of head h gets
///   head_terms[h, min(d, n - 1)], where d is the distance from the row's position.
/// - alibi: ALiBi (arXiv 2108.12409) subtracts d times the slope of the head. With p the largest power of two
///   in n_heads, the slope is 2^(-alibi * (h + 1) / p) for h < p, and 2^(-alibi * (h - p + 0.5) / p) for
///   others.
struct Attention {
  static constexpr std::string_view kName = "attention";
  struct Inputs {
    ValueId q, k, v;  ///< k and v are caches.
    ValueId positions, sequences, extents, counts, ends, hidden_first, hidden;
    ValueId head_terms = kNoValue;
  };
  static constexpr int kMinInputs = 10, kMaxInputs = 11;
  int n_heads = 0;
  float scale = 1.0f;
  float softcap = 0.0f;  ///< 0: off. It excludes ALiBi and a bias by distance.
  int window = 0;        ///< The sliding window in positions, the row's own included. 0: none.
  /// Chunked attention: the window begins at the last multiple of `window` up to the row's position.
  bool chunked = false;
  float alibi = 0.0f;  ///< 0: off
  friend bool operator==(const Attention&, const Attention&) = default;
};

// Recurrent layers. A state has slots, one running state each. Row r reads the state in slot from[r]
// (negative: zeros) and stores the next one in slot to[r]. Rows run in order, so a row may continue the state
// that an earlier row of the step has stored. Other slots do not change. Each state belongs to one node,
// which changes it as a side effect.

/// Causal depthwise convolution over a row and its k - 1 predecessors.
/// state {s, k-1, d} (the predecessors, oldest first), x {m, d}, weight {d, k} (oldest first), from {m} I32,
/// to {m} I32, bias {d}? -> {m, d}
struct ShortConv {
  static constexpr std::string_view kName = "short_conv";
  struct Inputs {
    ValueId state, x, weight, from, to;
    ValueId bias = kNoValue;
  };
  static constexpr int kMinInputs = 5, kMaxInputs = 6;
  friend bool operator==(const ShortConv&, const ShortConv&) = default;
};

/// The selective scan of Mamba (arXiv 2312.00752). For each column j and state row i:
///   h[i, j] = exp(dt[j] * a[j, i]) * h[i, j] + dt[j] * b[i] * x[j]
///   y[j] = sum_i c[i] * h[i, j] + skip[j] * x[j]
/// state {s, n, d}, x {m, d}, dt {m, d}, b {m, n}, c {m, n}, a {d, n}, skip {d}, from {m} I32, to {m} I32
/// -> {m, d}
/// Mamba-2 (arXiv 2405.21060) has e heads of d/e columns with one dt, a and skip each, and g groups of e/g
/// heads with one b and c each: dt {m, e}, b {m, g*n}, c {m, g*n}, a {e}, skip {e}. The rest is the same.
struct SelectiveScan {
  static constexpr std::string_view kName = "selective_scan";
  struct Inputs {
    ValueId state, x, dt, b, c, a, skip, from, to;
  };
  static constexpr int kMinInputs = 9, kMaxInputs = 9;
  friend bool operator==(const SelectiveScan&, const SelectiveScan&) = default;
};

/// The gated delta rule (arXiv 2412.06464). The state S {d_k, d_v} of each head maps keys to values. A row
/// lets it decay, moves its value for the key k towards v by the fraction beta, and reads it with the query
/// q:
///   S = decay * S
///   S = S + k (beta * (v - k^T S))^T
///   y = q^T S
/// state {s, h*d_k, d_v}, q {m, g*d_k}, k {m, g*d_k}, v {m, h*d_v}, decay {m, h} (per head) or {m, h*d_k}
/// (per row of a state), beta {m, h}, from {m} I32, to {m} I32 -> {m, h*d_v}
/// Head j uses head j / (h/g) of q and k, or head j % g if `tiled`.
///
/// RWKV-7 (arXiv 2503.14456): with removed {m, h*d_k}?, decay and beta are {m, h*d_k}, g is h, and
///   S = decay * S - (beta * removed) (removed^T S)^T + k v^T
struct DeltaRule {
  static constexpr std::string_view kName = "delta_rule";
  struct Inputs {
    ValueId state, q, k, v, decay, beta, from, to;
    ValueId removed = kNoValue;
  };
  static constexpr int kMinInputs = 8, kMaxInputs = 9;
  bool tiled = false;
  friend bool operator==(const DeltaRule&, const DeltaRule&) = default;
};

/// x {m, e} -> {m, k} I32: the indices of each row's k largest elements, lower indices first among equals.
/// NaN counts as minus infinity.
struct TopK {
  static constexpr std::string_view kName = "top_k";
  static constexpr int kMinInputs = 1, kMaxInputs = 1;
  int k = 1;
  friend bool operator==(const TopK&, const TopK&) = default;
};

/// x {m, d}, counts {m} I32? -> {m, 2n}: each row's n largest elements, largest first and lower indices first
/// among equals; then their indices, as floats. NaN becomes minus infinity. With counts, row r has only
/// counts[r] (0 to n) results; the others are minus infinity and -1.
struct Best {
  static constexpr std::string_view kName = "best";
  /// Indices must be exact as floats.
  static constexpr int kMinInputs = 1, kMaxInputs = 2;
  static constexpr std::int64_t kMaxColumns = std::int64_t{1} << 24;
  int n = 1;
  friend bool operator==(const Best&, const Best&) = default;
};

/// x {m, d}, ids {m} I32 -> {m, 2}: for each row log(sum(e^x)), then its element in column ids[r]. If ids[r]
/// is kNoColumn, the second is minus infinity. If it is kNoRow, the row is skipped: both are minus infinity.
/// NaN counts as minus infinity. In the sum, plus infinity counts as the largest float.
struct LogSumExp {
  static constexpr std::string_view kName = "log_sum_exp";
  static constexpr int kMinInputs = 2, kMaxInputs = 2;
  static constexpr std::int32_t kNoColumn = -1, kNoRow = -2;
  friend bool operator==(const LogSumExp&, const LogSumExp&) = default;
};

/// Router logits {m, e}, ids {m, k} I32 -> {m, k}: the weights of the chosen experts, by a softmax over all
/// experts.
struct ExpertWeights {
  static constexpr std::string_view kName = "expert_weights";
  static constexpr int kMinInputs = 2, kMaxInputs = 2;
  bool normalise = true;  ///< Scale the chosen weights to sum 1, as a softmax over the chosen experts has.
  float scale = 1.0f;
  friend bool operator==(const ExpertWeights&, const ExpertWeights&) = default;
};

/// weight {e, o, i}, x {m, i} or {m, k, i}, ids {m, k} I32 -> {m, k, o}: products with the chosen experts'
/// weights.
struct MatmulExperts {
  static constexpr std::string_view kName = "matmul_experts";
  static constexpr int kMinInputs = 3, kMaxInputs = 3;
  friend bool operator==(const MatmulExperts&, const MatmulExperts&) = default;
};

/// x {m, k, d}, weights {m, k} -> {m, d}: the weighted sum over k, in order.
struct SumExperts {
  static constexpr std::string_view kName = "sum_experts";
  static constexpr int kMinInputs = 2, kMaxInputs = 2;
  friend bool operator==(const SumExperts&, const SumExperts&) = default;
};

}  // namespace weft::ops

#pragma GCC visibility pop
