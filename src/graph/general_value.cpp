// The language's functions for values of any rank.
#include <algorithm>
#include <utility>
#include <vector>

#include "base/to_size.h"
#include "graph/int_value.h"
#include "graph/operands.h"
#include "graph/refuse.h"
#include "weft/error.h"
#include "weft/graph/order.h"
#include "weft/graph/value.h"

namespace weft {
namespace {

Value unary(UnaryKind kind, Value x, const Where& where) { return apply(ops::Unary{kind}, {x}, where); }
Value binary(BinaryKind kind, Value a, Value b, const Where& where) {
  if (!b) refuse("binary: the second operand is an empty value", where);
  if (const auto of_ints = int_kind(kind); of_ints && are_ints(a, b))
    return int_binary(*of_ints, a, b, where);
  return apply(ops::Binary{kind}, {a, b}, where);
}
Value binary(BinaryKind kind, Value a, float b, const Where& where) {
  if (const auto of_ints = int_kind(kind); of_ints && is_int(a))
    return int_binary(*of_ints, a, b, false, where);
  return apply(ops::Binary{kind, b, false}, {a}, where);
}
Value binary(BinaryKind kind, float a, Value b, const Where& where) {
  if (const auto of_ints = int_kind(kind); of_ints && is_int(b))
    return int_binary(*of_ints, b, a, true, where);
  return apply(ops::Binary{kind, a, true}, {b}, where);
}
Value compare(CompareKind kind, Value a, Value b, const Where& where) {
  if (!b) refuse("compare: the second operand is an empty value", where);
  return apply(ops::Compare{kind}, {a, b}, where);
}
Value compare(CompareKind kind, Value a, float b, const Where& where) {
  return apply(ops::Compare{kind, b}, {a}, where);
}

template <typename B>
Comparison compared(CompareKind kind, const Operand& a, B b) {
  return Comparison(compare(kind, a.value, b, a.where));
}

/// a, of I32, where the condition compares so with 0; else the number. Exact, as whole numbers wrap around.
Value chosen_int(Value condition, Value a, float number, CompareKind kind, const Where& where) {
  const Value holds = compare(kind, condition, 0.0f, where);
  const Value difference = int_binary(IntKind::kSub, a, number, false, where);
  const Value kept = int_binary(IntKind::kMul, difference, holds, where);
  return int_binary(IntKind::kAdd, kept, number, false, where);
}

/// The value of -1 in the new shape of x. Nothing if that is not a size.
std::optional<Dim> rest_of(const Shape& from, const Shape& to) {
  Dim all = 1, known = 1;
  for (int i = 0; i < from.rank(); ++i) all = all * from[i];
  for (int i = 0; i < to.rank(); ++i)
    if (!(to[i] == Dim(-1))) known = known * to[i];
  if (const auto times = all.multiple_of(known)) return Dim(*times);
  if (!known.is_constant() || known.constant() <= 0) return std::nullopt;
  Dim rest = all / known.constant();
  if (!(rest * known == all)) return std::nullopt;
  return rest;
}

}  // namespace

Value operator+(Operand a, float b) { return binary(BinaryKind::kAdd, a.value, b, a.where); }
Value operator+(float a, Operand b) { return binary(BinaryKind::kAdd, b.value, a, b.where); }
Value operator-(Operand a, Value b) { return binary(BinaryKind::kSub, a.value, b, a.where); }
Value operator-(Operand a, float b) { return binary(BinaryKind::kSub, a.value, b, a.where); }
Value operator-(float a, Operand b) { return binary(BinaryKind::kSub, a, b.value, b.where); }
Value operator-(Operand x) {
  if (is_int(x.value)) return int_binary(IntKind::kSub, x.value, 0.0f, true, x.where);
  return unary(UnaryKind::kNeg, x.value, x.where);
}
Value operator/(Operand a, Value b) { return binary(BinaryKind::kDiv, a.value, b, a.where); }
Value operator/(Operand a, float b) { return binary(BinaryKind::kDiv, a.value, b, a.where); }
Value operator/(float a, Operand b) { return binary(BinaryKind::kDiv, a, b.value, b.where); }

Value abs(Value x, Where where) { return unary(UnaryKind::kAbs, x, where); }
Value square(Value x, Where where) { return unary(UnaryKind::kSquare, x, where); }
Value sqrt(Value x, Where where) { return unary(UnaryKind::kSqrt, x, where); }
Value rsqrt(Value x, Where where) { return unary(UnaryKind::kRsqrt, x, where); }
Value reciprocal(Value x, Where where) { return unary(UnaryKind::kReciprocal, x, where); }
Value exp(Value x, Where where) { return unary(UnaryKind::kExp, x, where); }
Value log(Value x, Where where) { return unary(UnaryKind::kLog, x, where); }
Value sin(Value x, Where where) { return unary(UnaryKind::kSin, x, where); }
Value cos(Value x, Where where) { return unary(UnaryKind::kCos, x, where); }
Value tanh(Value x, Where where) { return unary(UnaryKind::kTanh, x, where); }
Value sigmoid(Value x, Where where) { return unary(UnaryKind::kSigmoid, x, where); }
Value floor(Value x, Where where) { return unary(UnaryKind::kFloor, x, where); }
Value ceil(Value x, Where where) { return unary(UnaryKind::kCeil, x, where); }
Value round(Value x, Where where) { return unary(UnaryKind::kRound, x, where); }
Value clamp(Value x, float low, float high, Where where) { return apply(ops::Clamp{low, high}, {x}, where); }

Value maximum(Value a, Value b, Where where) { return binary(BinaryKind::kMaximum, a, b, where); }
Value maximum(Value a, float b, Where where) { return binary(BinaryKind::kMaximum, a, b, where); }
Value minimum(Value a, Value b, Where where) { return binary(BinaryKind::kMinimum, a, b, where); }
Value minimum(Value a, float b, Where where) { return binary(BinaryKind::kMinimum, a, b, where); }
Value pow(Value a, Value b, Where where) { return binary(BinaryKind::kPow, a, b, where); }
Value pow(Value a, float b, Where where) { return binary(BinaryKind::kPow, a, b, where); }
Value pow(float a, Value b, Where where) { return binary(BinaryKind::kPow, a, b, where); }

Value equal(Value a, Value b, Where where) { return compare(CompareKind::kEqual, a, b, where); }
Value equal(Value a, float b, Where where) { return compare(CompareKind::kEqual, a, b, where); }
Value not_equal(Value a, Value b, Where where) { return compare(CompareKind::kNotEqual, a, b, where); }
Value not_equal(Value a, float b, Where where) { return compare(CompareKind::kNotEqual, a, b, where); }
Value less(Value a, Value b, Where where) { return compare(CompareKind::kLess, a, b, where); }
Value less(Value a, float b, Where where) { return compare(CompareKind::kLess, a, b, where); }
Value less_equal(Value a, Value b, Where where) { return compare(CompareKind::kLessEqual, a, b, where); }
Value less_equal(Value a, float b, Where where) { return compare(CompareKind::kLessEqual, a, b, where); }
Value greater(Value a, Value b, Where where) { return compare(CompareKind::kGreater, a, b, where); }
Value greater(Value a, float b, Where where) { return compare(CompareKind::kGreater, a, b, where); }
Value greater_equal(Value a, Value b, Where where) {
  return compare(CompareKind::kGreaterEqual, a, b, where);
}
Value greater_equal(Value a, float b, Where where) {
  return compare(CompareKind::kGreaterEqual, a, b, where);
}

Comparison operator<(Operand a, Value b) { return compared(CompareKind::kLess, a, b); }
Comparison operator<(Operand a, float b) { return compared(CompareKind::kLess, a, b); }
Comparison operator<(float a, Operand b) { return compared(CompareKind::kGreater, b, a); }
Comparison operator<=(Operand a, Value b) { return compared(CompareKind::kLessEqual, a, b); }
Comparison operator<=(Operand a, float b) { return compared(CompareKind::kLessEqual, a, b); }
Comparison operator<=(float a, Operand b) { return compared(CompareKind::kGreaterEqual, b, a); }
Comparison operator>(Operand a, Value b) { return compared(CompareKind::kGreater, a, b); }
Comparison operator>(Operand a, float b) { return compared(CompareKind::kGreater, a, b); }
Comparison operator>(float a, Operand b) { return compared(CompareKind::kLess, b, a); }
Comparison operator>=(Operand a, Value b) { return compared(CompareKind::kGreaterEqual, a, b); }
Comparison operator>=(Operand a, float b) { return compared(CompareKind::kGreaterEqual, a, b); }
Comparison operator>=(float a, Operand b) { return compared(CompareKind::kLessEqual, b, a); }

Value where(Value condition, Value a, Value b, Where where) {
  if (!b) refuse("where: the last operand is an empty value", where);
  if (are_ints(a, b)) {  // b + (a - b) where it holds: exact, as whole numbers wrap around.
    const Value holds = compare(CompareKind::kNotEqual, condition, 0.0f, where);
    const Value difference = int_binary(IntKind::kSub, a, b, where);
    return int_binary(IntKind::kAdd, b, int_binary(IntKind::kMul, difference, holds, where), where);
  }
  return apply(ops::Where{}, {condition, a, b}, where);
}
Value where(Value condition, Value a, float b, Where where) {
  if (is_int(a)) return chosen_int(condition, a, b, CompareKind::kNotEqual, where);
  return apply(ops::Where{b}, {condition, a}, where);
}
Value where(Value condition, float a, Value b, Where where) {
  if (is_int(b)) return chosen_int(condition, b, a, CompareKind::kEqual, where);
  return apply(ops::Where{a}, {compare(CompareKind::kEqual, condition, 0.0f, where), b}, where);
}
Value where(Value condition, float a, float b, Where where) {
  check("where", condition, {}, where);
  return weft::where(condition, full(condition.graph(), {}, a, where), b, where);
}

Value sum(Value x, const Axes& axes, bool keep, Where where) {
  return reduce(ReduceKind::kSum, x, axes, keep, where);
}
Value mean(Value x, const Axes& axes, bool keep, Where where) {
  return reduce(ReduceKind::kMean, x, axes, keep, where);
}
Value max(Value x, const Axes& axes, bool keep, Where where) {
  return reduce(ReduceKind::kMax, x, axes, keep, where);
}
Value min(Value x, const Axes& axes, bool keep, Where where) {
  return reduce(ReduceKind::kMin, x, axes, keep, where);
}
Value var(Value x, const Axes& axes, bool keep, Where where) {
  const Value from_mean = binary(BinaryKind::kSub, x, mean(x, axes, true, where), where);
  return mean(square(from_mean, where), axes, keep, where);
}
Value argmax(Value x, int axis, bool keep, Where where) {
  return reduce(ReduceKind::kArgmax, x, {axis}, keep, where);
}

Value concat(std::initializer_list<Value> values, int axis, Where where) {
  if (values.size() == 0) refuse("concat: it has no inputs", where);
  return apply(ops::Concat{axis_of("concat", *values.begin(), axis, where)}, values, where);
}

Value matmul(Value a, Value b, Where where) {
  for (const Value& value : {a, b})
    if (value && value.graph().value(value.id()).kind == ValueKind::kWeight)
      refuse("matmul: " + text(value) + " is a weight; linear(x, weight) multiplies with one", where);
  if (!b) refuse("matmul: the second operand is an empty value", where);
  return apply(ops::BatchMatmul{}, {a, b}, where);
}

Value reshape(Value x, Shape shape, Where where) {
  check("reshape", x, shape, where);
  std::vector<Dim> dims = dims_of(shape);
  const auto n_open = std::count(dims.begin(), dims.end(), Dim(-1));
  if (n_open == 1) {
    const auto rest = rest_of(x.shape(), shape);
    if (!rest)
      refuse("reshape: " + text(x) + " has no size that can take the place of -1 in " +
                 to_string(shape, x.graph().symbols()),
             where);
    std::replace(dims.begin(), dims.end(), Dim(-1), *rest);
  }
  return apply(ops::Reshape{Shape(dims)}, {x}, where);
}

Value permute(Value x, const Axes& axes, Where where) {
  check("permute", x, {}, where);
  if (static_cast<int>(axes.list().size()) != x.rank())
    refuse("permute: " + text(x) + " has another number of axes than are named", where);
  ops::Permute op;
  std::transform(axes.list().begin(), axes.list().end(), op.axes.begin(),
                 [&](int axis) { return axis_of("permute", x, axis, where); });
  return apply(op, {x}, where);
}

Value transpose(Value x, int axis_a, int axis_b, Where where) {
  ops::Permute op;
  std::swap(op.axes[index(axis_of("transpose", x, axis_a, where))],
            op.axes[index(axis_of("transpose", x, axis_b, where))]);
  return apply(op, {x}, where);
}

Value slice(Value x, int axis, Dim begin, Dim end, std::int64_t step, Where where) {
  check("slice", x, {begin, end}, where);
  ops::Slice op{axis_of("slice", x, axis, where), std::move(begin), std::move(end), step};
  for (Dim* const dim : {&op.begin, &op.end})
    if (dim->is_constant() && dim->constant() < 0) *dim = x.shape()[op.axis] + *dim;
  return apply(op, {x}, where);
}

Value broadcast_to(Value x, Shape shape, Where where) {
  check("broadcast_to", x, shape, where);
  return apply(ops::BroadcastTo{std::move(shape)}, {x}, where);
}

Value squeeze(Value x, int axis, Where where) {
  const int at = axis_of("squeeze", x, axis, where);
  std::vector<Dim> dims = dims_of(x.shape());
  if (!(x.shape()[at] == Dim(1)))
    refuse("squeeze: axis " + std::to_string(axis) + " of " + text(x) + " has not size 1", where);
  dims.erase(dims.begin() + at);
  return apply(ops::Reshape{Shape(dims)}, {x}, where);
}

Value unsqueeze(Value x, int axis, Where where) {
  check("unsqueeze", x, {}, where);
  if (x.rank() == Shape::kMaxRank)
    refuse("unsqueeze: " + text(x) + " has as many axes as there can be", where);
  const int at = axis_of("unsqueeze", x, axis, x.rank() + 1, where);
  std::vector<Dim> dims = dims_of(x.shape());
  dims.insert(dims.begin() + at, Dim(1));
  return apply(ops::Reshape{Shape(dims)}, {x}, where);
}

Value pad(Value x, int axis, std::int64_t before, std::int64_t after, float value, Where where) {
  ops::Pad op;
  const auto at = to_size(axis_of("pad", x, axis, where));
  op.before[at] = before;
  op.after[at] = after;
  op.value = value;
  return apply(op, {x}, where);
}

}  // namespace weft
