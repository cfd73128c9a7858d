// The language's functions that count, move, order and draw elements.
#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "base/to_size.h"
#include "graph/int_value.h"
#include "graph/operands.h"
#include "graph/refuse.h"
#include "weft/error.h"
#include "weft/graph/order.h"

namespace weft {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

/// A node without inputs.
Value make(Graph& graph, Op op, std::initializer_list<Dim> sizes, const Where& where) {
  const std::string op_name(to_string(op));
  for (const Dim& size : sizes)
    if (size.last_symbol() >= static_cast<SymbolId>(graph.symbols().size()))
      refuse(op_name + ": a size has a symbol of another graph", where);
  try {
    const Value result(graph, graph.add(std::move(op), std::span<const ValueId>(), graph.free_name(op_name)));
    graph.set_source(graph.value(result.id()).producer, where);
    return result;
  } catch (const Error& error) {
    refuse(error.what(), where);
  }
}

Dim product(const std::vector<Dim>& dims, int begin, int end) {
  Dim all = 1;
  for (int i = begin; i < end; ++i) all = all * dims[index(i)];
  return all;
}

/// x as {axes before the axis, two axes, axes after it}. The axis is the first of the two if `in_front`; the
/// other one has size 1.
Value around_axis(Value x, int axis, bool in_front, const Where& where) {
  const std::vector<Dim> dims = dims_of(x.shape());
  const Dim before = product(dims, 0, axis), after = product(dims, axis + 1, x.rank());
  const Dim& size = dims[index(axis)];
  return reshape(x, in_front ? Shape{before, size, 1, after} : Shape{before, 1, size, after}, where);
}

/// Repeats each element of the axis, or all of it.
Value repeat_axis(const char* op, Value x, std::int64_t times, int axis, bool each, const Where& where) {
  const int at = axis_of(op, x, axis, where);
  if (times < 0) refuse(std::string(op) + ": " + text(x) + " cannot be there less than 0 times", where);
  std::vector<Dim> dims = dims_of(x.shape());
  Dim& size = dims[index(at)];
  Dim total;
  try {
    total = size * times;
  } catch (const Error& error) {
    refuse(std::string(op) + ": " + text(x) + ", " + std::to_string(times) + " times: " + error.what(),
           where);
  }
  const Value apart = around_axis(x, at, each, where);
  const Shape all = apart.shape();
  const Value repeated = broadcast_to(
      apart, each ? Shape{all[0], size, times, all[3]} : Shape{all[0], times, size, all[3]}, where);
  size = total;
  return reshape(repeated, Shape(dims), where);
}

/// x with zeros outside of the triangle.
Value triangle(const char* op, Value x, std::int64_t diagonal, bool lower, const Where& where) {
  check(op, x, {}, where);
  if (x.rank() < 2) refuse(std::string(op) + ": " + text(x) + " is no matrix", where);
  constexpr std::int64_t most = std::int64_t{1}
                                << 30;  // More than any axis, and row numbers still fit 32 bits.
  diagonal = std::clamp(diagonal, -most, most);
  const Value columns = arange(x.graph(), 0, x.size(-1), 1, DType::kI32, where);
  const Value rows =
      unsqueeze(arange(x.graph(), diagonal, Dim(diagonal) + x.size(-2), 1, DType::kI32, where), 1, where);
  const Value kept = lower ? less_equal(columns, rows, where) : greater_equal(columns, rows, where);
  return is_int(x) ? int_binary(IntKind::kMul, x, kept, where) : weft::where(kept, x, 0.0f, where);
}

/// Indices {m} as indices along an axis of a value of that shape, of which they take the axis' place.
Value along(const char* op, Value x, Value indices, int axis, const Where& where) {
  check(op, indices, {}, where);
  if (indices.rank() != 1) refuse(std::string(op) + ": " + text(indices) + " must have one axis", where);
  std::vector<Dim> dims = dims_of(x.shape()), open(dims.size(), Dim(1));
  open[index(axis)] = dims[index(axis)] = indices.shape()[0];
  return broadcast_to(reshape(indices, Shape(open), where), Shape(dims), where);
}

}  // namespace

Value arange(Graph& graph, Dim begin, Dim end, std::int64_t step, DType dtype, Where where) {
  if (step == 0) refuse("arange: its step is 0", where);
  if (step == std::numeric_limits<std::int64_t>::min()) refuse("arange: its step is too large", where);
  Dim size;
  try {
    size = step > 0 ? (end - begin + (step - 1)) / step : (begin - end + (-step - 1)) / -step;
  } catch (const Error& error) {
    refuse("arange: " + std::string(error.what()), where);
  }
  if (size.is_constant() && size.constant() < 0) size = 0;
  return make(graph, ops::Arange{size, begin, step, dtype}, {size, begin}, where);
}

Value full(Graph& graph, Shape shape, float value, Where where) {
  const Value zero = make(graph, ops::Arange{1, 0, 0, DType::kF32}, {}, where);
  const Value one = value == 0.0f ? zero : apply(ops::Binary{BinaryKind::kAdd, value}, {zero}, where);
  return shape.rank() == 0 ? squeeze(one, 0, where) : broadcast_to(one, std::move(shape), where);
}
Value zeros(Graph& graph, Shape shape, Where where) { return full(graph, std::move(shape), 0.0f, where); }
Value ones(Graph& graph, Shape shape, Where where) { return full(graph, std::move(shape), 1.0f, where); }

Value cast(Value x, DType dtype, Where where) {
  check("cast", x, {}, where);
  return x.dtype() == dtype ? x : apply(ops::Cast{dtype}, {x}, where);
}

Value floor_divide(Value a, Value b, Where where) {
  check("floor_divide", b, {}, where);
  return int_binary(IntKind::kFloorDivide, a, b, where);
}
Value floor_divide(Value a, std::int32_t b, Where where) {
  return apply(ops::IntBinary{IntKind::kFloorDivide, b}, {a}, where);
}
Value remainder(Value a, Value b, Where where) {
  check("remainder", b, {}, where);
  return int_binary(IntKind::kRemainder, a, b, where);
}
Value remainder(Value a, std::int32_t b, Where where) {
  return apply(ops::IntBinary{IntKind::kRemainder, b}, {a}, where);
}
Value logical_and(Value a, Value b, Where where) {
  check("logical_and", b, {}, where);
  return int_binary(IntKind::kAnd, a, b, where);
}
Value logical_or(Value a, Value b, Where where) {
  check("logical_or", b, {}, where);
  return int_binary(IntKind::kOr, a, b, where);
}
Value logical_not(Value x, Where where) {
  check("logical_not", x, {}, where);
  if (!is_int(x)) refuse("logical_not: " + text(x) + " must be i32", where);
  return equal(x, 0.0f, where);
}
Value isnan(Value x, Where where) { return not_equal(x, x, where); }
Value isinf(Value x, Where where) { return equal(abs(x, where), kInf, where); }
Value isfinite(Value x, Where where) { return less(abs(x, where), kInf, where); }

Value erf(Value x, Where where) { return apply(ops::Unary{UnaryKind::kErf}, {x}, where); }
Value expm1(Value x, Where where) { return apply(ops::Unary{UnaryKind::kExpm1}, {x}, where); }
Value log1p(Value x, Where where) { return apply(ops::Unary{UnaryKind::kLog1p}, {x}, where); }

Value prod(Value x, const Axes& axes, bool keep, Where where) {
  return reduce(ReduceKind::kProd, x, axes, keep, where);
}
Value logsumexp(Value x, const Axes& axes, bool keep, Where where) {
  // Relative to the largest element; an infinite one is the result.
  const Value most = max(x, axes, true, where);
  const Value base = weft::where(isfinite(most, where), most, 0.0f, where);
  const Value terms = exp(apply(ops::Binary{BinaryKind::kSub}, {x, base}, where), where);
  const Value rest = log(sum(terms, axes, true, where), where);
  const Value result = apply(ops::Add{}, {rest, base}, where);
  return keep ? result : reduce(ReduceKind::kSum, result, axes, false, where);
}
Value any(Value x, const Axes& axes, bool keep, Where where) {
  const Value holds = cast(not_equal(x, 0.0f, where), DType::kF32, where);
  return greater(max(holds, axes, keep, where), 0.5f, where);
}
Value all(Value x, const Axes& axes, bool keep, Where where) {
  const Value holds = cast(not_equal(x, 0.0f, where), DType::kF32, where);
  return greater(min(holds, axes, keep, where), 0.5f, where);
}
Value argmin(Value x, int axis, bool keep, Where where) {
  check("argmin", x, {}, where);
  return argmax(apply(ops::Unary{UnaryKind::kNeg}, {x}, where), axis, keep, where);
}

Value flip(Value x, const Axes& axes, Where where) {
  check("flip", x, {}, where);
  ops::Flip op;
  for (const int axis : axes.list()) {
    const std::uint32_t bit = 1u << axis_of("flip", x, axis, where);
    if ((op.axes & bit) != 0) refuse("flip: an axis is named twice", where);
    op.axes |= bit;
  }
  return apply(op, {x}, where);
}

Value stack(std::initializer_list<Value> values, int axis, Where where) {
  if (values.size() == 0) refuse("stack: it has no inputs", where);
  const Value first = *values.begin();
  check("stack", first, {}, where);
  const int at = axis_of("stack", first, axis, first.rank() + 1, where);
  std::vector<Value> parts;
  for (const Value& value : values) parts.push_back(unsqueeze(value, at, where));
  return apply(ops::Concat{at}, parts, where);
}

std::vector<Value> split(Value x, std::span<const Dim> sizes, int axis, Where where) {
  const int at = axis_of("split", x, axis, where);
  std::vector<Value> parts;
  Dim begin = 0;
  for (const Dim& size : sizes) {
    check("split", x, {size}, where);
    const Dim end = begin + size;
    parts.push_back(apply(ops::Slice{at, begin, end, 1}, {x}, where));
    begin = end;
  }
  if (!(begin == x.shape()[at]))
    refuse("split: the sizes add up to " + to_string(begin, x.graph().symbols()) + ", axis " +
               std::to_string(axis) + " of " + text(x) + " has another size",
           where);
  return parts;
}

std::vector<Value> split(Value x, int n_parts, int axis, Where where) {
  const int at = axis_of("split", x, axis, where);
  constexpr int kMost = 1 << 16;
  if (n_parts < 1 || n_parts > kMost)
    refuse("split: " + text(x) + " cannot have " + std::to_string(n_parts) + " parts", where);
  const Dim size = x.shape()[at] / n_parts;
  if (!(size * n_parts == x.shape()[at]))
    refuse("split: axis " + std::to_string(axis) + " of " + text(x) + " has no " + std::to_string(n_parts) +
               " equal parts",
           where);
  return split(x, std::vector<Dim>(to_size(n_parts), size), axis, where);
}

Value repeat(Value x, std::int64_t times, int axis, Where where) {
  return repeat_axis("repeat", x, times, axis, true, where);
}
Value tile(Value x, std::int64_t times, int axis, Where where) {
  return repeat_axis("tile", x, times, axis, false, where);
}
Value tril(Value x, std::int64_t diagonal, Where where) { return triangle("tril", x, diagonal, true, where); }
Value triu(Value x, std::int64_t diagonal, Where where) {
  return triangle("triu", x, diagonal, false, where);
}

Value one_hot(Value indices, Dim n_classes, Where where) {
  check("one_hot", indices, {n_classes}, where);
  const Value classes = arange(indices.graph(), 0, n_classes, 1, DType::kI32, where);
  const Value apart = unsqueeze(indices, -1, where);
  return cast(equal(apart, classes, where), DType::kF32, where);
}

Value take(Value x, Value indices, int axis, Where where) {
  const int at = axis_of("take", x, axis, where);
  check("take", indices, {}, where);
  const Dim n = product(dims_of(indices.shape()), 0, indices.rank());
  const Value flat = indices.rank() == 1 ? indices : reshape(indices, Shape{n}, where);
  const Value taken = apply(ops::TakeAlong{at}, {x, along("take", x, flat, at, where)}, where);
  if (indices.rank() == 1) return taken;
  std::vector<Dim> dims = dims_of(x.shape());
  const std::vector<Dim> own = dims_of(indices.shape());
  if (dims.size() - 1 + own.size() > Shape::kMaxRank)
    refuse("take: the result of " + text(x) + " and " + text(indices) + " has more axes than there can be",
           where);
  dims.erase(dims.begin() + at);
  dims.insert(dims.begin() + at, own.begin(), own.end());
  return reshape(taken, Shape(dims), where);
}

Value take_along_axis(Value x, Value indices, int axis, Where where) {
  const int at = axis_of("take_along_axis", x, axis, where);
  check("take_along_axis", indices, {}, where);
  return apply(ops::TakeAlong{at}, {x, indices}, where);
}
Value scatter(Value x, Value indices, Value source, int axis, Where where) {
  return apply(ops::Scatter{axis_of("scatter", x, axis, where), false}, {x, indices, source}, where);
}
Value scatter_add(Value x, Value indices, Value source, int axis, Where where) {
  return apply(ops::Scatter{axis_of("scatter_add", x, axis, where), true}, {x, indices, source}, where);
}
Value set_rows(Value x, Value indices, Value source, int axis, Where where) {
  const int at = axis_of("set_rows", x, axis, where);
  return apply(ops::Scatter{at, false}, {x, along("set_rows", x, indices, at, where), source}, where);
}
Value index_add(Value x, Value indices, Value source, int axis, Where where) {
  const int at = axis_of("index_add", x, axis, where);
  return apply(ops::Scatter{at, true}, {x, along("index_add", x, indices, at, where), source}, where);
}

Value cumsum(Value x, int axis, Where where) {
  return apply(ops::Cumsum{axis_of("cumsum", x, axis, where)}, {x}, where);
}
Value argsort(Value x, int axis, bool descending, Where where) {
  return apply(ops::Argsort{axis_of("argsort", x, axis, where), descending}, {x}, where);
}
Value sort(Value x, int axis, bool descending, Where where) {
  return take_along_axis(x, argsort(x, axis, descending, where), axis, where);
}

Value random_uniform(Value counter, Shape shape, std::uint64_t seed, float low, float high, Where where) {
  check("random_uniform", counter, shape, where);
  const Value x = apply(ops::Random{RandomKind::kUniform, seed, std::move(shape)}, {counter}, where);
  if (low == 0.0f && high == 1.0f) return x;
  return apply(ops::Binary{BinaryKind::kAdd, low}, {apply(ops::Scale{high - low}, {x}, where)}, where);
}
Value random_normal(Value counter, Shape shape, std::uint64_t seed, float mean, float deviation,
                    Where where) {
  check("random_normal", counter, shape, where);
  const Value x = apply(ops::Random{RandomKind::kNormal, seed, std::move(shape)}, {counter}, where);
  if (mean == 0.0f && deviation == 1.0f) return x;
  return apply(ops::Binary{BinaryKind::kAdd, mean}, {apply(ops::Scale{deviation}, {x}, where)}, where);
}

}  // namespace weft
