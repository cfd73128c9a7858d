#include "graph/order_rules.h"

#include <cmath>

namespace weft {
namespace {

void has_axis(const Inputs& in, int i, int axis) {
  in.require(axis >= 0 && axis < in.shape(i).rank(), i, "must have the axis that is named");
}

void i32(const Inputs& in, int i) { in.require(in.dtype(i) == DType::kI32, i, "must be i32"); }

/// Input i has the sizes of input 0, but for the axis.
void fits_along(const Inputs& in, int i, int axis) {
  in.require(in.shape(i).rank() == in.shape(0).rank(), i, "must have as many axes as input 0");
  for (int d = 0; d < in.shape(0).rank(); ++d)
    in.require(d == axis || in.shape(i)[d] == in.shape(0)[d], i,
               "must have the sizes of input 0 but for the axis");
}

void not_negative(std::string_view op, const Shape& shape) {
  for (int i = 0; i < shape.rank(); ++i)
    if (shape[i].is_constant() && shape[i].constant() < 0) refuse_op(op, "its result has a negative size");
}

/// x {t, b, n_gates * h}, weight {n_gates * h, h}. Returns h.
std::int64_t cell_size(const Inputs& in, std::int64_t n_gates) {
  in.f32(0, 3);
  in.require(in.shape(0).rank() == 3, 0, "must be {times, sequences, gates}");
  in.require(in.shape(1).rank() == 2, 1, "must be a matrix");
  const std::int64_t h = in.size(1, 1);
  in.require(h > 0 && h <= (std::int64_t{1} << 24) && in.size(1, 0) == n_gates * h, 1,
             "must have a row for each gate, and a column, of each output");
  in.require(in.shape(0).columns() == n_gates * h, 0, "must have a column for each row of the weight");
  return h;
}

/// A state before the first time: {b, h}.
void first_state(const Inputs& in, int i, std::int64_t h) {
  if (!in.has(i)) return;
  in.f32(i);
  in.require(in.shape(i) == Shape{in.shape(0)[1], h}, i,
             "must have a row for each sequence, as long as the outputs");
}

}  // namespace

ValueType rule(const ops::Arange& op, const Inputs&) {
  if (op.dtype != DType::kF32 && op.dtype != DType::kI32) refuse_op("arange", "it gives f32 or i32");
  not_negative("arange", Shape{op.size});
  return {op.dtype, Shape{op.size}};
}

ValueType rule(const ops::Cast& op, const Inputs& in) {
  in.f32_or_i32(0);
  in.require((op.to == DType::kF32 || op.to == DType::kI32) && op.to != in.dtype(0), 0,
             "must be f32 to become i32, or i32 to become f32");
  return {op.to, in.shape(0)};
}

ValueType rule(const ops::IntBinary& op, const Inputs& in) {
  in.known(op.kind, IntKind::kOr);
  for (int i = 0; i < in.size(); ++i) i32(in, i);
  return {DType::kI32, in.broadcast(0, in.size())};
}

ValueType rule(const ops::TakeAlong& op, const Inputs& in) {
  in.f32_or_i32(0);
  i32(in, 1);
  has_axis(in, 0, op.axis);
  fits_along(in, 1, op.axis);
  return {in.dtype(0), in.shape(1)};
}

ValueType rule(const ops::Scatter& op, const Inputs& in) {
  in.f32_or_i32(0);
  i32(in, 1);
  has_axis(in, 0, op.axis);
  fits_along(in, 1, op.axis);
  in.require(in.dtype(2) == in.dtype(0), 2, "must have the type of input 0");
  in.require(in.shape(2) == in.shape(1), 2, "must have the shape of the indices");
  return {in.dtype(0), in.shape(0)};
}

ValueType rule(const ops::Cumsum& op, const Inputs& in) {
  in.f32_or_i32(0);
  has_axis(in, 0, op.axis);
  return {in.dtype(0), in.shape(0)};
}

ValueType rule(const ops::Argsort& op, const Inputs& in) {
  in.f32_or_i32(0);
  has_axis(in, 0, op.axis);
  return {DType::kI32, in.shape(0)};
}

ValueType rule(const ops::Random& op, const Inputs& in) {
  in.known(op.kind, RandomKind::kNormal);
  i32(in, 0);
  in.require(in.shape(0) == Shape{1}, 0, "must be one number, {1}");
  not_negative("random", op.shape);
  return f32(op.shape);
}

ValueType rule(const ops::DenseAttention& op, const Inputs& in) {
  constexpr auto at = input_places<ops::DenseAttention>();
  for (const int i : {at.q, at.k, at.v}) {
    in.f32(i);
    in.require(in.shape(i).rank() == 4, i, "must be {sequences, heads, rows, columns}");
    in.require(in.shape(i)[0] == in.shape(at.q)[0], i, "must have as many sequences as q");
  }
  in.require(std::isfinite(op.scale) && std::isfinite(op.softcap) && op.softcap >= 0.0f, at.q,
             "needs a scale that is a number, and a softcap of 0 or more");
  const std::int64_t n_heads = in.size(at.q, 1), n_groups = in.size(at.k, 1);
  const std::int64_t k_dim = in.shape(at.q).columns(), v_dim = in.shape(at.v).columns();
  in.require(n_heads > 0 && n_groups > 0 && n_heads % n_groups == 0, at.k,
             "must have as many heads as q, or a divisor of them");
  in.require(k_dim > 0 && k_dim <= kMaxHeadDim && v_dim > 0 && v_dim <= kMaxHeadDim, at.q,
             "must have heads of 1 to 4096 columns, and so must v");
  in.require(in.shape(at.k).columns() == k_dim, at.k, "must have as many columns as q");
  in.require(in.size(at.v, 1) == n_groups, at.v, "must have as many heads as k");
  in.require(in.shape(at.v)[2] == in.shape(at.k)[2], at.v, "must have as many rows as k");
  const Shape& q = in.shape(at.q);
  if (in.has(at.bias)) {
    in.f32_or_i32(at.bias);
    const Shape scores = {q[0], q[1], q[2], in.shape(at.k)[2]};
    const Shape& bias = in.shape(at.bias);
    for (int i = 0; i < bias.rank(); ++i) {
      const Dim& size = bias[bias.rank() - 1 - i];
      in.require(size == 1 || size == scores[3 - i], at.bias,
                 "must broadcast to {sequences, heads, rows of q, rows of k}");
    }
  }
  if (in.has(at.sinks)) in.vector(at.sinks, n_heads);
  return f32({q[0], q[1], q[2], v_dim});
}

ValueType rule(const ops::Lstm&, const Inputs& in) {
  const std::int64_t h = cell_size(in, 4);
  first_state(in, 2, h);
  first_state(in, 3, h);
  return f32({2, in.shape(0)[0], in.shape(0)[1], h});
}

ValueType rule(const ops::Gru&, const Inputs& in) {
  const std::int64_t h = cell_size(in, 3);
  first_state(in, 2, h);
  if (in.has(3)) in.vector(3, h);
  return f32({in.shape(0)[0], in.shape(0)[1], h});
}

ValueType rule(const ops::Flip& op, const Inputs& in) {
  in.f32_or_i32(0);
  in.require((op.axes >> in.shape(0).rank()) == 0, 0, "must have the axes that are flipped");
  return {in.dtype(0), in.shape(0)};
}

}  // namespace weft
