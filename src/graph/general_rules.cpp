#include "graph/general_rules.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/to_size.h"
#include "graph/operands.h"

namespace weft {
namespace {

const Dim kOne = 1;

/// Dimension `from_last` of a shape, counted from the innermost, 1 where it is missing.
const Dim& aligned_dim(const Shape& shape, int from_last) {
  return from_last < shape.rank() ? shape[shape.rank() - 1 - from_last] : kOne;
}

/// The broadcast shape of two shapes; nullopt if they do not broadcast.
std::optional<Shape> broadcast(const Shape& a, const Shape& b) {
  std::vector<Dim> dims(to_size(std::max(a.rank(), b.rank())));
  for (std::size_t i = 0; i < dims.size(); ++i) {
    const Dim &x = aligned_dim(a, static_cast<int>(i)), &y = aligned_dim(b, static_cast<int>(i));
    if (!(x == y) && !(x == kOne) && !(y == kOne)) return std::nullopt;
    dims[dims.size() - 1 - i] = x == kOne ? y : x;
  }
  return Shape(dims);
}

Dim product(const Shape& shape) {
  Dim all = 1;
  for (int i = 0; i < shape.rank(); ++i) all = all * shape[i];
  return all;
}

}  // namespace

Shape Inputs::broadcast(int i, int n) const {
  Shape result = shape(i);
  while (++i < n) {
    const auto both = weft::broadcast(result, shape(i));
    require(both.has_value(), i,
            "must have the shape of the inputs before it, or one that broadcasts with it");
    result = *both;
  }
  return result;
}

ValueType each_element(const Inputs& in) {
  in.any_f32(0);
  return f32(in.shape(0));
}

ValueType sum_or_product(const Inputs& in) {
  in.any_f32(0);
  in.any_f32(1);
  return f32(in.broadcast(0, 2));
}

ValueType rule(const ops::Concat& op, const Inputs& in) {
  const int rank = in.shape(0).rank(), axis = op.axis == ops::Concat::kColumns ? rank - 1 : op.axis;
  in.require(axis >= 0 && axis < rank, 0, "must have the axis along which values are joined");
  std::vector<Dim> dims = dims_of(in.shape(0));
  Dim& total = dims[to_size(axis)] = 0;
  for (int i = 0; i < in.size(); ++i) {
    in.any_f32(i);
    in.require(in.shape(i).rank() == rank, i, "must have as many axes as input 0");
    for (int d = 0; d < rank; ++d)
      in.require(d == axis || in.shape(i)[d] == in.shape(0)[d], i, "must have the other sizes of input 0");
    total = total + in.shape(i)[axis];
  }
  return f32(Shape(dims));
}

ValueType rule(const ops::Unary& op, const Inputs& in) {
  in.known(op.kind, UnaryKind::kLog1p);
  return each_element(in);
}

ValueType rule(const ops::Clamp& op, const Inputs& in) {
  in.require(op.low <= op.high, 0, "must be clamped to a range whose low end is not above its high end");
  return each_element(in);
}

ValueType rule(const ops::Binary& op, const Inputs& in) {
  in.known(op.kind, BinaryKind::kPow);
  in.any_f32(0);
  if (!in.has(1)) return f32(in.shape(0));
  in.any_f32(1);
  in.require(op.kind != BinaryKind::kAdd && op.kind != BinaryKind::kMul, 1,
             "must be left out: of two values these are add and mul");
  return f32(in.broadcast(0, 2));
}

ValueType rule(const ops::Compare& op, const Inputs& in) {
  in.known(op.kind, CompareKind::kGreaterEqual);
  in.f32_or_i32(0);
  if (in.has(1)) {
    in.require(in.dtype(1) == in.dtype(0), 1, "must have the type of input 0");
  } else if (in.dtype(0) == DType::kI32) {
    in.require(std::trunc(op.scalar) == op.scalar && std::fabs(op.scalar) < 0x1p31f, 0,
               "must be compared with a whole number of 32 bits");
  }
  return {DType::kI32, in.broadcast(0, in.size())};
}

ValueType rule(const ops::Where&, const Inputs& in) {
  in.require(in.dtype(0) == DType::kI32, 0, "must be i32");
  for (int i = 1; i < in.size(); ++i) in.any_f32(i);
  return f32(in.broadcast(0, in.size()));
}

ValueType rule(const ops::Reduce& op, const Inputs& in) {
  in.known(op.kind, ReduceKind::kProd);
  in.any_f32(0);
  const Shape& shape = in.shape(0);
  in.require((op.axes >> shape.rank()) == 0, 0, "must have the axes that are reduced");
  std::vector<Dim> dims;
  for (int i = 0; i < shape.rank(); ++i) {
    const bool reduced = (op.axes >> i & 1) != 0;
    if (!reduced || op.keep) dims.push_back(reduced ? kOne : shape[i]);
  }
  return {op.kind == ReduceKind::kArgmax ? DType::kI32 : DType::kF32, Shape(dims)};
}

ValueType rule(const ops::BatchMatmul&, const Inputs& in) {
  for (const int i : {0, 1}) {
    in.any_f32(i);
    in.require(in.shape(i).rank() >= 2, i, "must be a matrix, or several");
  }
  std::vector<Dim> a = dims_of(in.shape(0)), b = dims_of(in.shape(1));
  const Dim rows = a[a.size() - 2], columns = b.back();
  in.require(a.back() == b[b.size() - 2], 1, "must have as many rows as input 0 has columns");
  a.resize(a.size() - 2);
  b.resize(b.size() - 2);
  const auto batch = broadcast(Shape(a), Shape(b));
  in.require(batch.has_value(), 1, "must have as many matrices as input 0, or such that broadcast with them");
  std::vector<Dim> dims = dims_of(*batch);
  dims.push_back(rows);
  dims.push_back(columns);
  return f32(Shape(dims));
}

ValueType rule(const ops::Pad& op, const Inputs& in) {
  in.any_f32(0);
  std::vector<Dim> dims = dims_of(in.shape(0));
  for (std::size_t i = 0; i < op.before.size(); ++i) {
    in.require(op.before[i] >= 0 && op.after[i] >= 0, 0, "must be padded with 0 elements or more");
    in.require(i < dims.size() || (op.before[i] == 0 && op.after[i] == 0), 0,
               "must have the axes that are padded");
    if (i < dims.size()) dims[i] = dims[i] + op.before[i] + op.after[i];
  }
  return f32(Shape(dims));
}

ValueType rule(const ops::Reshape& op, const Inputs& in) {
  in.f32_or_i32(0);
  for (int i = 0; i < op.shape.rank(); ++i)
    in.require(!op.shape[i].is_constant() || op.shape[i].constant() >= 0, 0, "must have sizes of 0 or more");
  in.require(product(op.shape) == product(in.shape(0)), 0, "must have as many elements as the new shape");
  return {in.dtype(0), op.shape};
}

ValueType rule(const ops::Permute& op, const Inputs& in) {
  in.f32_or_i32(0);
  const Shape& shape = in.shape(0);
  std::vector<Dim> dims;
  std::uint32_t seen = 0;
  for (int i = 0; i < shape.rank(); ++i) {
    const int axis = op.axes[to_size(i)];
    in.require(axis >= 0 && axis < shape.rank() && (seen >> axis & 1) == 0, 0,
               "must have each axis named once");
    seen |= 1u << axis;
    dims.push_back(shape[axis]);
  }
  return {in.dtype(0), Shape(dims)};
}

ValueType rule(const ops::Slice& op, const Inputs& in) {
  in.f32_or_i32(0);
  in.require(op.axis >= 0 && op.axis < in.shape(0).rank(), 0, "must have the axis that is sliced");
  in.require(op.step > 0, 0, "must be sliced with a step above 0");
  std::vector<Dim> dims = dims_of(in.shape(0));
  Dim& size = dims[to_size(op.axis)];
  const auto above = [](const Dim& a, const Dim& b) {
    return a.is_constant() && b.is_constant() && a.constant() > b.constant();
  };
  in.require(!above(0, op.begin) && !above(op.begin, op.end) && !above(op.end, size), 0,
             "must be sliced from 0 or more to its size or less");
  size = (op.end - op.begin + (op.step - 1)) / op.step;
  return {in.dtype(0), Shape(dims)};
}

ValueType rule(const ops::BroadcastTo& op, const Inputs& in) {
  in.f32_or_i32(0);
  in.require(broadcast(in.shape(0), op.shape) == op.shape, 0,
             "must be a shape that broadcasts to the new one");
  return {in.dtype(0), op.shape};
}

}  // namespace weft
