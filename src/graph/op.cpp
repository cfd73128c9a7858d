#include "weft/graph/op.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <string>

#include "graph/general_rules.h"
#include "graph/order_rules.h"
#include "graph/window_rules.h"
#include "weft/graph/extent.h"

namespace weft {
namespace {

ValueType rule(const ops::GetRows&, const Inputs& in) {
  in.require(in.shape(0).rank() == 2, 0, "must be a matrix");
  in.integer(1, DType::kI32, 1);
  return f32({in.shape(1)[0], in.size(0, 1)});
}

ValueType rule(const ops::Norm& op, const Inputs& in) {
  in.known(op.kind, NormKind::kL2);
  in.f32(0, 1);
  const std::int64_t columns = in.shape(0).columns();
  const std::int64_t group = op.group == 0 ? columns : op.group;
  in.require(group > 0 && columns % group == 0, 0, "must have a multiple of the group's columns");
  for (int i = 1; i < in.size(); ++i) in.vector(i, group);
  return f32(in.shape(0));
}

ValueType rule(const ops::Add&, const Inputs& in) { return sum_or_product(in); }
ValueType rule(const ops::Mul&, const Inputs& in) { return sum_or_product(in); }

ValueType rule(const ops::Scale&, const Inputs& in) { return each_element(in); }
ValueType rule(const ops::Softcap&, const Inputs& in) { return each_element(in); }
ValueType rule(const ops::Activate& op, const Inputs& in) {
  in.known(op.kind, Activation::kSoftplus);
  return each_element(in);
}

ValueType rule(const ops::Softmax&, const Inputs& in) {
  in.require(in.shape(0).rank() > 0, 0, "must have columns");
  return each_element(in);
}

ValueType rule(const ops::Glu& op, const Inputs& in) {
  in.known(op.kind, Activation::kSoftplus);
  in.f32(0, 1);
  in.f32(1, 1);
  in.require(in.shape(1) == in.shape(0), 1, "must have the shape of input 0");
  return f32(in.shape(0));
}

ValueType rule(const ops::Override&, const Inputs& in) {
  in.f32(0);
  in.f32(1);
  in.require(in.shape(1) == in.shape(0), 1, "must have the shape of input 0");
  in.index_per_row(2, 0);
  return f32(in.shape(0));
}

ValueType rule(const ops::Matmul&, const Inputs& in) {
  in.require(in.shape(0).rank() == 2, 0, "must be a matrix");
  in.f32(1);
  in.require(in.shape(1).rank() == 2, 1, "must be a matrix");
  in.require(in.shape(0)[1] == in.shape(1)[1], 1, "must have as many columns as the weight");
  if (in.size() == 3) in.vector(2, in.size(0, 0));
  return f32({in.shape(1)[0], in.size(0, 0)});
}

ValueType rule(const ops::Rope& op, const Inputs& in) {
  in.f32(0);
  in.require(op.head_dim > 0 && in.shape(0).columns() % op.head_dim == 0, 0, "must consist of whole heads");
  in.require(op.n_rot > 0 && op.n_rot % 2 == 0 && op.n_rot <= op.head_dim, 0,
             "must have n_rot even and within a head");
  in.index_per_row(1, 0);
  if (in.size() == 3) in.vector(2, op.n_rot / 2);
  return f32(in.shape(0));
}

bool is_hadamard_block(int n) {
  return n >= 2 && n <= ops::Hadamard::kMaxBlock && std::has_single_bit(static_cast<unsigned>(n));
}

ValueType rule(const ops::Hadamard& op, const Inputs& in) {
  in.f32(0, 1);
  in.require(is_hadamard_block(op.block), 0, "must have blocks of a power of two, from 2 to 512");
  in.require(in.shape(0).columns() % op.block == 0, 0, "must consist of whole blocks");
  return f32(in.shape(0));
}

/// Cells of caches are in pages; slots are single.
void cache(const Inputs& in, int i, bool slots = false) {
  static_assert(kPageCells == 64);
  in.require(in.shape(i).rank() == 3, i, "must be {cells, heads, head_dim}");
  in.require(slots || in.size(i, 0) % kPageCells == 0, i, "must have whole pages of 64 cells");
}

ValueType rule(const ops::MoveCells& op, const Inputs& in) {
  constexpr auto at = input_places<ops::MoveCells>();
  in.known(op.role, CacheRole::kSlots);
  cache(in, at.cache);
  in.require(in.has(at.deltas) || op.rope.n_rot == 0, at.cache, "needs deltas where keys are turned");
  for (const int i : {at.from, at.to, at.deltas}) {
    if (!in.has(i)) continue;
    in.integer(i, DType::kI32, 1);
    in.require(in.shape(i)[0] == in.shape(at.from)[0], i, "must have one entry per cell");
  }
  in.require(op.rope.n_rot % 2 == 0 && op.rope.n_rot <= in.size(at.cache, 2), at.cache,
             "must have n_rot even and within a head");
  in.require(op.hadamard == 0 || (is_hadamard_block(op.hadamard) && in.size(at.cache, 2) % op.hadamard == 0),
             at.cache, "must have heads of whole blocks, a power of two from 2 to 512");
  if (in.has(at.factors)) in.vector(at.factors, op.rope.n_rot / 2);
  return {in.dtype(at.cache), in.shape(at.cache)};
}

ValueType rule(const ops::StoreCache& op, const Inputs& in) {
  in.known(op.role, CacheRole::kSlots);
  cache(in, 0, op.role == CacheRole::kSlots);
  in.require(op.role != CacheRole::kSlots || in.dtype(0) == DType::kF32, 0, "must be f32 for plain rows");
  in.f32(1);
  in.require(in.shape(1).columns() == in.size(0, 1) * in.size(0, 2), 1, "must fit the cache's heads");
  in.index_per_row(2, 1);
  return {in.dtype(0), in.shape(0)};
}

ValueType rule(const ops::Attention& op, const Inputs& in) {
  constexpr auto at = input_places<ops::Attention>();
  in.f32(at.q);
  const Shape &q = in.shape(at.q), &k = in.shape(at.k), &v = in.shape(at.v);
  cache(in, at.k);
  cache(in, at.v);
  const std::int64_t kv_heads = in.size(at.k, 1);
  in.require(in.size(at.v, 1) == kv_heads && v[0] == k[0], at.v, "must match the K cache");
  in.require(op.n_heads > 0 && op.n_heads % kv_heads == 0, at.q, "must have a multiple of the cache's heads");
  in.require(q.columns() == op.n_heads * in.size(at.k, 2), at.q, "must have the cache's head size");
  for (const int i : {at.positions, at.sequences, at.ends, at.hidden_first}) in.index_per_row(i, at.q);
  in.integer(at.extents, DType::kI32, 3);
  in.require(in.shape(at.extents)[2] == Dim(kExtentWords) && in.shape(at.extents)[1].is_constant(),
             at.extents, "must be {sequences, extents, 6} with a constant number of extents");
  in.integer(at.counts, DType::kI32, 1);
  in.require(in.shape(at.counts)[0] == in.shape(at.extents)[0], at.counts,
             "must have one count per sequence");
  in.integer(at.hidden, DType::kI32, 2);
  in.require(in.shape(at.hidden)[1] == Dim(kHiddenWords), at.hidden, "must be {hidden, 4}");
  const auto is_amount = [](float number) { return std::isfinite(number) && number >= 0.0f; };
  in.require(std::isfinite(op.scale) && is_amount(op.softcap) && is_amount(op.alibi), at.q,
             "must be with a finite scale, and a softcap and ALiBi that are finite and not negative");
  in.require(op.window >= 0 && (op.window > 0 || !op.chunked), at.q,
             "must be with a window that is not negative, and has a size where it is chunked");
  in.require(op.alibi == 0.0f || op.softcap == 0.0f, at.q, "must be without a softcap where ALiBi is used");
  if (in.has(at.head_terms) && in.shape(at.head_terms).rank() == 1) {
    in.vector(at.head_terms, op.n_heads);
  } else if (in.has(at.head_terms)) {
    in.f32(at.head_terms);
    const Shape& bias = in.shape(at.head_terms);
    in.require(
        bias.rank() == 2 && bias[0] == Dim(op.n_heads) && bias[1].is_constant() && bias[1].constant() > 0,
        at.head_terms, "must be sinks {heads}, or a bias {heads, distances}");
    in.require(op.softcap == 0.0f, at.head_terms, "must not be a bias if there is a softcap");
  }
  return f32({q[0], op.n_heads * in.size(at.v, 2)});
}

/// The slots {s, rows, columns of x} of a recurrent op, and the slots that each row of x starts from and
/// stores its state in.
void slots(const Inputs& in, int state, int x, int from, int to) {
  in.f32(x);
  in.require(in.shape(x).rank() == 2, x, "must be a matrix");
  in.require(in.dtype(state) == DType::kF32, state, "must be f32");
  in.require(in.shape(state).rank() == 3 && in.shape(state)[2] == in.shape(x)[1], state,
             "must be {slots, rows, columns of x}");
  in.index_per_row(from, x);
  in.index_per_row(to, x);
}

ValueType rule(const ops::ShortConv&, const Inputs& in) {
  constexpr auto at = input_places<ops::ShortConv>();
  slots(in, at.state, at.x, at.from, at.to);
  const std::int64_t columns = in.shape(at.x).columns();
  const std::int64_t taps = in.size(at.state, 1) + 1;
  in.require(in.shape(at.weight) == Shape{columns, taps}, at.weight,
             "must have a row for each column and one tap more than the state");
  if (in.has(at.bias)) in.vector(at.bias, columns);
  return f32(in.shape(at.x));
}

ValueType rule(const ops::SelectiveScan&, const Inputs& in) {
  constexpr auto at = input_places<ops::SelectiveScan>();
  slots(in, at.state, at.x, at.from, at.to);
  const std::int64_t columns = in.shape(at.x).columns();
  const std::int64_t n_state = in.size(at.state, 1);
  in.require(n_state > 0, at.state, "must have rows");
  in.f32(at.b);
  const bool heads = in.shape(at.a).rank() == 1;
  const std::int64_t n_heads = heads ? in.size(at.a, 0) : columns;
  in.require(n_heads > 0 && columns % n_heads == 0, at.a, "must have one entry for each head of x");
  const Dim rows = in.shape(at.x)[0];
  in.f32(at.dt);
  in.require(in.shape(at.dt) == Shape{rows, n_heads}, at.dt, "must have a column for each row of a");
  const std::int64_t n_groups = std::max<std::int64_t>(in.shape(at.b).columns() / n_state, 1);
  in.require(n_groups == 1 || (heads && n_heads % n_groups == 0), at.b, "must have groups of whole heads");
  for (const int i : {at.b, at.c}) {
    in.f32(i);
    in.require(in.shape(i) == Shape{rows, n_groups * n_state}, i,
               "must have a column for each row of the state, for each group");
  }
  if (heads) {
    in.vector(at.a, n_heads);
  } else {
    in.require(in.shape(at.a) == Shape{columns, n_state}, at.a, "must have a row for each column of x");
  }
  in.vector(at.skip, n_heads);
  return f32(in.shape(at.x));
}

ValueType rule(const ops::DeltaRule&, const Inputs& in) {
  constexpr auto at = input_places<ops::DeltaRule>();
  in.require(in.dtype(at.state) == DType::kF32, at.state, "must be f32");
  in.require(in.shape(at.state).rank() == 3, at.state, "must be {slots, rows of all heads, columns}");
  for (const int i : {at.q, at.k, at.v, at.decay, at.beta}) {
    in.f32(i);
    in.require(in.shape(i).rank() == 2 && in.shape(i)[0] == in.shape(at.v)[0], i,
               "must have a row for each of v");
  }
  const std::int64_t rows = in.size(at.state, 1), columns = in.size(at.state, 2);
  const std::int64_t v_columns = in.shape(at.v).columns(), k_columns = in.shape(at.k).columns();
  in.require(columns > 0 && v_columns > 0 && v_columns % columns == 0, at.v,
             "must have the state's columns for each head");
  const std::int64_t heads = v_columns / columns;
  in.require(rows > 0 && rows % heads == 0, at.state, "must have equal rows for each head");
  const std::int64_t d_k = rows / heads;
  in.require(d_k <= kMaxHeadDim && columns <= kMaxHeadDim, at.state, "must have heads of at most 4096");
  in.require(k_columns > 0 && k_columns % d_k == 0 && heads % (k_columns / d_k) == 0, at.k,
             "must have the rows of a head for each group of heads");
  in.require(in.shape(at.q).columns() == k_columns, at.q, "must have the columns of k");
  const std::int64_t n_decay = in.shape(at.decay).columns();
  in.require(n_decay == heads || n_decay == rows, at.decay,
             "must have a column for each head, or each row of one");
  in.require(in.shape(at.beta).columns() == (in.has(at.removed) ? rows : heads), at.beta,
             "must have a column for each head, or, with removed keys, for each row of one");
  if (in.has(at.removed)) {
    in.f32(at.removed);
    in.require(in.shape(at.removed) == Shape{in.shape(at.v)[0], rows}, at.removed,
               "must have a column for each row of the state");
    in.require(k_columns == rows, at.k, "must have keys for each head where others are removed");
    in.require(n_decay == rows, at.decay, "must have a column for each row of the state here");
  }
  in.index_per_row(at.from, at.v);
  in.index_per_row(at.to, at.v);
  return f32(in.shape(at.v));
}

ValueType rule(const ops::TopK& op, const Inputs& in) {
  in.f32(0);
  in.require(in.shape(0).rank() == 2, 0, "must be a matrix");
  in.require(op.k > 0 && op.k <= in.shape(0).columns(), 0,
             "must have at least k columns, and k be 1 at least");
  return {DType::kI32, {in.shape(0)[0], op.k}};
}

ValueType rule(const ops::Best& op, const Inputs& in) {
  in.f32(0);
  in.require(in.shape(0).rank() == 2, 0, "must be a matrix");
  in.require(op.n > 0 && op.n <= in.shape(0).columns(), 0, "must have at least n columns");
  in.require(in.shape(0).columns() <= ops::Best::kMaxColumns, 0, "must have at most 2^24 columns");
  if (in.size() == 2) in.index_per_row(1, 0);
  return f32({in.shape(0)[0], 2 * std::int64_t{op.n}});
}

ValueType rule(const ops::LogSumExp&, const Inputs& in) {
  in.f32(0);
  in.require(in.shape(0).rank() == 2, 0, "must be a matrix");
  in.index_per_row(1, 0);
  return f32({in.shape(0)[0], 2});
}

ValueType rule(const ops::ExpertWeights&, const Inputs& in) {
  in.f32(0);
  in.require(in.shape(0).rank() == 2, 0, "must be a matrix");
  in.integer(1, DType::kI32, 2);
  in.require(in.shape(1)[0] == in.shape(0)[0], 1, "must have one row per row of input 0");
  return f32(in.shape(1));
}

ValueType rule(const ops::MatmulExperts&, const Inputs& in) {
  in.require(in.shape(0).rank() == 3, 0, "must be {experts, outputs, inputs}");
  in.f32(1);
  in.integer(2, DType::kI32, 2);
  const int rank = in.shape(1).rank();
  in.require(in.shape(1)[0] == in.shape(2)[0] && (rank == 2 || in.shape(1)[1] == in.shape(2)[1]), 1,
             "must have the rows of the ids");
  in.require(in.shape(1).back() == in.shape(0)[2], 1, "must have as many columns as the weight");
  return f32({in.shape(2)[0], in.shape(2)[1], in.shape(0)[1]});
}

ValueType rule(const ops::SumExperts&, const Inputs& in) {
  in.f32(0, 3);
  in.f32(1);
  in.require(in.shape(1)[0] == in.shape(0)[0] && in.shape(1)[1] == in.shape(0)[1], 1,
             "must have one weight per expert");
  return f32({in.shape(0)[0], in.shape(0)[2]});
}

ValueType rule(const ops::RaggedAttention& op, const Inputs& in) {
  constexpr auto at = input_places<ops::RaggedAttention>();
  in.f32(at.q);
  in.require(in.shape(at.q).rank() == 2, at.q, "must be a matrix");
  const auto columns = [&](int i) {
    in.f32(i);
    const int rank = in.shape(i).rank();
    in.require(rank == 2 || rank == 3, i, "must be a matrix, or a state {rows, heads, head_dim}");
    return rank == 3 ? in.size(i, 1) * in.size(i, 2) : in.size(i, 1);
  };
  const std::int64_t q = in.shape(at.q).columns(), k = columns(at.k), v = columns(at.v);
  in.require(op.n_heads > 0 && q % op.n_heads == 0 && q > 0, at.q, "must consist of n_heads heads");
  const std::int64_t head_dim = q / op.n_heads;
  in.require(k > 0 && k % head_dim == 0 && op.n_heads % (k / head_dim) == 0, at.k,
             "must consist of heads as large as those of q, by whose number n_heads can be divided");
  in.require(v > 0 && v % (k / head_dim) == 0, at.v, "must have as many heads as k");
  in.require(head_dim <= kMaxHeadDim && v / (k / head_dim) <= kMaxHeadDim, at.q, "has too large heads");
  in.require(in.shape(at.v)[0] == in.shape(at.k)[0], at.v, "must have the rows of k");
  in.index_per_row(at.begins, at.q);
  in.index_per_row(at.ends, at.q);
  return f32({in.shape(at.q)[0], op.n_heads * (v / (k / head_dim))});
}

ValueType rule(const ops::RaggedMean&, const Inputs& in) {
  in.f32(0);
  in.require(in.shape(0).rank() == 2, 0, "must be a matrix");
  in.integer(1, DType::kI32, 1);
  in.integer(2, DType::kI32, 1);
  in.require(in.shape(2) == in.shape(1), 2, "must have as many entries as input 1");
  return f32({in.shape(1)[0], in.shape(0).columns()});
}

}  // namespace

std::string_view to_string(const Op& op) {
  if (const auto* custom = std::get_if<ops::Custom>(&op); custom != nullptr && !custom->name.empty())
    return custom->name;
  return std::visit([](const auto& o) { return o.kName; }, op);
}

bool is_view(const Op& op) {
  return std::holds_alternative<ops::Reshape>(op) || std::holds_alternative<ops::Permute>(op) ||
         std::holds_alternative<ops::Slice>(op) || std::holds_alternative<ops::BroadcastTo>(op) ||
         std::holds_alternative<ops::Flip>(op);
}

ValueType infer(const Op& op, std::span<const ValueType> inputs) {
  return std::visit(
      [&](const auto& o) {
        const int n = static_cast<int>(inputs.size());
        if (n < o.kMinInputs || n > o.kMaxInputs)
          refuse_op(o.kName, "takes " + std::to_string(o.kMinInputs) + " to " + std::to_string(o.kMaxInputs) +
                                 " inputs, got " + std::to_string(n));
        return rule(o, Inputs(o.kName, inputs));
      },
      op);
}

}  // namespace weft
