#pragma once
// What the ops are, in double and as plainly as they can be written. For conformance only: slow, and sharing
// nothing with a backend. Rows are contiguous, one after another; shapes are as in the op table.
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "weft/graph/extent.h"
#include "weft/graph/op.h"

namespace weft::conformance {

using Values = std::vector<double>;
using Indices = std::vector<std::int32_t>;

std::string parameter_text(const Op& op);  ///< " silu", " cap 30", ...
double activate(Activation kind, double x);
/// Add and Mul; b is as long as a or repeats.
Values binary(const Op& op, const Values& a, const Values& b);
/// Scale, Softcap and Activate.
Values unary(const Op& op, const Values& a);
Values softmax(const Values& x, std::size_t columns);
Values glu(const ops::Glu& op, const Values& gate, const Values& up);
/// Vectors that are empty are left out.
Values norm(const ops::Norm& op, const Values& x, std::size_t group, const Values& weight,
            const Values& bias);
Values matmul(const Values& weight, const Values& x, std::size_t columns, const Values& bias);

struct ExpertShape {
  std::int64_t experts, outputs, columns, k;
  bool x_of_each;
};
Values matmul_experts(const Values& weight, const Values& x, const Indices& ids, const ExpertShape& shape);
/// Rows of ops::Best; `counts` may be empty.
Values best(const Values& x, std::size_t columns, std::size_t n, const Indices& counts);
Values log_sum_exp(const Values& x, std::size_t columns, const Indices& ids);
Indices top_k(const Values& x, std::size_t columns, std::size_t k);
Values expert_weights(const ops::ExpertWeights& op, const Values& logits, std::size_t columns,
                      const Indices& ids, std::size_t k);

Values hadamard(const ops::Hadamard& op, const Values& x);
Values rope(const ops::Rope& op, const Values& x, std::size_t columns, const Indices& positions,
            const Values& factors);
/// Changes `cache`, whose cells have `width` elements.
void move_cells(const ops::MoveCells& op, Values& cache, std::size_t width, const Indices& from,
                const Indices& to, const Indices& deltas);

struct AttentionCase {
  ops::Attention op;
  std::int64_t n_kv_heads = 0, k_dim = 0, v_dim = 0;
  Values q, k, v;  ///< k and v: {cells, heads, dim}
  Indices positions, sequences;
  std::vector<Extent> extents;  ///< {sequences, width}
  std::int64_t width = 0;
  Indices counts, ends, hidden_first;
  std::vector<HiddenCells> hidden;
  Values sinks;
  Values distance_bias;  ///< {heads, n_distances}
  std::size_t n_distances = 0;
};
Values attention(const AttentionCase& a);

struct ConvCase {
  std::size_t columns, taps;
  Values state, x, weight, bias;
  Indices from, to;
};
Values short_conv(ConvCase& a);  ///< Changes a.state.

struct ScanCase {
  std::size_t columns = 0, n_state = 0;
  std::size_t heads = 0;  ///< 0: each column has its own dt and a.
  std::size_t groups = 1;
  Values state, x, dt, b, c, a, skip;
  Indices from, to;
};
Values selective_scan(ScanCase& a);  ///< Changes a.state.

struct DeltaCase {
  std::size_t heads = 1, groups = 1, keys = 1, columns = 1;  ///< Keys and columns of a head's state.
  bool tiled = false, own_decays = false;
  Values state, q, k, v, decay, beta, removed;  ///< `removed` may be empty.
  Indices from, to;
};
Values delta_rule(DeltaCase& a);  ///< Changes a.state.

}  // namespace weft::conformance
