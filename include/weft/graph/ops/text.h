// Since 0.1
#pragma once
// Ops of language models: products, norms, attention over caches, recurrent layers, experts.
//
// Shapes: m is the number of rows of a step (usually n_tokens). Matrices are {rows, columns}, weights
// {outputs, inputs}. "x" and the results are F32 unless noted otherwise.
#include <cstdint>
#include <string_view>

#include "weft/graph/kinds.h"
#include "weft/graph/value_id.h"

#pragma GCC visibility push(default)

namespace weft::ops {

/// table {n, d}, ids {m} I32 -> {m, d}: rows of a weight (embeddings) or of x (the rows whose logits are
/// wanted). Computed ids that are out of range are clamped.
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

/// x {..., g*d}, weight {d}?, bias {d}? -> the same shape: each group of `group` columns (0: the whole row)
/// is normed on its own and multiplied with the weight.
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

/// x {m, d1}, y {m, d2}, ... -> {m, d1 + d2 + ...}: columns side by side, or values of any rank along another
/// of their axes.
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

/// x {..., d} -> the same shape: e^x of a row's columns, by their sum; zeros of a row of only -infinity.
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
  int n_rot = 0;      ///< Elements of a head that turn.
  bool neox = false;  ///< Pairs (i, i + n_rot/2); otherwise (2i, 2i + 1).
  float freq_base = 10000.0f;
  float freq_scale = 1.0f;   ///< 1 / factor of linear or YaRN scaling.
  float ext_factor = 0.0f;   ///< YaRN's mix of interpolation and extrapolation, 0: off.
  float attn_factor = 1.0f;  ///< Multiplies the rotated values.
  float beta_fast = 32.0f;
  float beta_slow = 1.0f;
  int n_ctx_orig = 0;       ///< Context length before scaling.
  bool whole_pairs = true;  ///< YaRN's ramp begins and ends at whole pairs.
  friend bool operator==(const Rope&, const Rope&) = default;
};

/// cache state, from {c} I32, to {c} I32, deltas {c} I32?, factors {n_rot/2}? -> the cache after its cells
/// were copied, one after another. Keys are turned by `deltas` positions on the way. With n_rot 0 they are
/// not turned, and deltas may be left out.
struct MoveCells {
  static constexpr std::string_view kName = "move_cells";
  struct Inputs {
    ValueId cache, from, to;
    ValueId deltas = kNoValue, factors = kNoValue;
  };
  static constexpr int kMinInputs = 3, kMaxInputs = 5;
  CacheRole role = CacheRole::kKeys;
  Rope rope = {};
  friend bool operator==(const MoveCells&, const MoveCells&) = default;
};

/// cache state, x {m, h*head_dim}, cells {m} I32 -> the cache after the rows were stored in the cells. With
/// kSlots they are stored unchanged, and the state is F32.
struct StoreCache {
  static constexpr std::string_view kName = "store_cache";
  static constexpr int kMinInputs = 3, kMaxInputs = 3;
  CacheRole role = CacheRole::kKeys;
  friend bool operator==(const StoreCache&, const StoreCache&) = default;
};

/// Attention over extents (graph/extent.h). q {m, n_heads*k_head_dim}, K cache, V cache, positions {m} I32,
/// sequences {m} I32 (rows of the table), extents {s, p, 6} I32, counts {s} I32 (extents in use), ends {m}
/// I32, hidden_first {m} I32, hidden {h, 4} I32 -> {m, n_heads*v_head_dim}. Row r attends to the cells of its
/// sequence at positions below ends[r] (its own and those before, where text is read in order), within the
/// window. Cells that are hidden from it are left out: hidden[hidden_first[r]] and the following entries of
/// the same row (HiddenCells). Where hidden_first[r] is -1, none are hidden. head_terms {n_heads}? are sinks:
/// each head of a row that sees anything has one more score. It takes its share of the weights and adds no
/// value. With head_terms {n_heads, n}? F32, which are a bias by distance (T5, arXiv 1910.10683), a score of
/// head h is more by head_terms[h, min(d, n - 1)], d being the distance from the row's position. With ALiBi
/// (arXiv 2108.12409) a score is less by the distance from the row's position times the head's slope:
/// 2^(-alibi * (h + 1) / p) for the first p heads, p being the largest power of two in n_heads, and 2^(-alibi
/// * (h - p + 0.5) / p) for the others.
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
  float softcap = 0.0f;  ///< 0: off. Not together with ALiBi or a bias by distance.
  int window = 0;  ///< 0: all; otherwise none before the last `window` positions, the row's own included.
  bool chunked = false;  ///< None before a multiple of the window instead: the last one up to the row's own.
  float alibi = 0.0f;    ///< 0: off
  friend bool operator==(const Attention&, const Attention&) = default;
};

// Recurrent layers. Row r continues the running state in slot from[r] (negative: a state of zeros) and stores
// the next state in slot to[r]. Rows run in order, so a later row of the step may continue the state that an
// earlier one stored. A slot to which no row of the step writes stays as it is. Each state belongs to one
// node, which changes it as a side effect.

/// Causal convolution of each column on its own, over a row's k - 1 predecessors and itself.
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

/// The scan of Mamba (arXiv 2312.00752): for each column j and state h[i, j]
///   h[i, j] = exp(dt[j] * a[j, i]) * h[i, j] + dt[j] * b[i] * x[j]
///   y[j] = sum_i c[i] * h[i, j] + skip[j] * x[j]
/// state {s, n, d}, x {m, d}, dt {m, d}, b {m, n}, c {m, n}, a {d, n}, skip {d}, from {m} I32, to {m} I32
/// -> {m, d}
/// Mamba-2 (arXiv 2405.21060) has one dt, a and skip for each of e heads of d/e columns, and one b and c for
/// each of g groups of e/g heads: dt {m, e}, b {m, g*n}, c {m, g*n}, a {e}, skip {e}; the rest is the same.
struct SelectiveScan {
  static constexpr std::string_view kName = "selective_scan";
  struct Inputs {
    ValueId state, x, dt, b, c, a, skip, from, to;
  };
  static constexpr int kMinInputs = 9, kMaxInputs = 9;
  friend bool operator==(const SelectiveScan&, const SelectiveScan&) = default;
};

/// The gated delta rule (arXiv 2412.06464). Each head's state S {d_k, d_v} decays, moves its value for the
/// key k by the share beta towards v, and is read with q:
///   S = decay * S
///   S = S + k (beta * (v - k^T S))^T
///   y = q^T S
/// state {s, h*d_k, d_v}, q {m, g*d_k}, k {m, g*d_k}, v {m, h*d_v}, decay {m, h} (per head) or {m, h*d_k}
/// (per row of a state), beta {m, h}, from {m} I32, to {m} I32 -> {m, h*d_v}. Head j reads head j / (h/g) of
/// q and k, or head j % g if `tiled`. RWKV-7 (arXiv 2503.14456) removes the value of a separate key,
/// `removed`, with a share for each row. With removed {m, h*d_k}?, decay and beta are {m, h*d_k}, g is h, and
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

/// x {m, e} -> {m, k} I32: indices of the k largest, lower first among equals; NaN counts as minus infinity.
struct TopK {
  static constexpr std::string_view kName = "top_k";
  static constexpr int kMinInputs = 1, kMaxInputs = 1;
  int k = 1;
  friend bool operator==(const TopK&, const TopK&) = default;
};

/// x {m, d}, counts {m} I32? -> {m, 2n}: the n largest of a row, largest first, lower index first among
/// equals, then their indices, as floats. NaN counts as minus infinity, and becomes that. If row r wants only
/// the first counts[r] (0 to n), the other results are minus infinity and -1.
struct Best {
  static constexpr std::string_view kName = "best";
  static constexpr int kMinInputs = 1, kMaxInputs = 2;
  static constexpr std::int64_t kMaxColumns = std::int64_t{1} << 24;  ///< Whole numbers that a float holds.
  int n = 1;
  friend bool operator==(const Best&, const Best&) = default;
};

/// x {m, d}, ids {m} I32 -> {m, 2}: the logarithm of the sum of e^x over a row, then the row's value at
/// column ids[r], or minus infinity if that is kNoColumn. If ids[r] is kNoRow, neither is wanted and both are
/// minus infinity. NaN counts as minus infinity. In the sum, plus infinity counts as the largest number.
struct LogSumExp {
  static constexpr std::string_view kName = "log_sum_exp";
  static constexpr int kMinInputs = 2, kMaxInputs = 2;
  static constexpr std::int32_t kNoColumn = -1, kNoRow = -2;
  friend bool operator==(const LogSumExp&, const LogSumExp&) = default;
};

/// Router logits {m, e}, ids {m, k} -> {m, k}: the experts' weights.
struct ExpertWeights {
  static constexpr std::string_view kName = "expert_weights";
  static constexpr int kMinInputs = 2, kMaxInputs = 2;
  bool normalise = true;  ///< Of the chosen ones to sum 1 (the same as a softmax over the chosen).
  float scale = 1.0f;
  friend bool operator==(const ExpertWeights&, const ExpertWeights&) = default;
};

/// weight {e, o, i}, x {m, i} or {m, k, i}, ids {m, k} I32 -> {m, k, o}
struct MatmulExperts {
  static constexpr std::string_view kName = "matmul_experts";
  static constexpr int kMinInputs = 3, kMaxInputs = 3;
  friend bool operator==(const MatmulExperts&, const MatmulExperts&) = default;
};

/// x {m, k, d}, weights {m, k} -> {m, d}: sum over k, in order.
struct SumExperts {
  static constexpr std::string_view kName = "sum_experts";
  static constexpr int kMinInputs = 2, kMaxInputs = 2;
  friend bool operator==(const SumExperts&, const SumExperts&) = default;
};

}  // namespace weft::ops

#pragma GCC visibility pop
