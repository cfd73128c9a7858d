// Since 0.1
#pragma once
// Functions that make ranges, move, sort and draw elements (ops/order.h), and functions built on them. The
// rules of value.h hold: negative axes count from the innermost, -1, and errors are Error kInvalidArgument
// with the program's line.
#include <cstdint>
#include <initializer_list>
#include <span>
#include <vector>

#include "weft/graph/value.h"

#pragma GCC visibility push(default)

namespace weft {

// Values without inputs.

/// {n} I32 or F32: begin, begin + step, ... up to but excluding end, so n = max(ceil((end - begin) / step),
/// 0). The step may be negative if begin and end are constants.
Value arange(Graph& graph, Dim begin, Dim end, std::int64_t step = 1, DType dtype = DType::kI32,
             Where where = Where::current());
/// F32 of this shape, with all elements equal.
Value full(Graph& graph, Shape shape, float value, Where where = Where::current());
Value zeros(Graph& graph, Shape shape, Where where = Where::current());
Value ones(Graph& graph, Shape shape, Where where = Where::current());

// Types and integers. + - * maximum, minimum and comparisons also take two I32 operands, or an I32 operand
// and an integer.

/// Converts to F32 or I32; x itself if it has that type. See ops::Cast for rounding.
Value cast(Value x, DType dtype, Where where = Where::current());
/// I32 division, rounded down. Division by 0 gives 0.
Value floor_divide(Value a, Value b, Where where = Where::current());
Value floor_divide(Value a, std::int32_t b, Where where = Where::current());
/// I32 remainder, with the sign of b. 0 for b = 0.
Value remainder(Value a, Value b, Where where = Where::current());
Value remainder(Value a, std::int32_t b, Where where = Where::current());
/// Logical functions of I32, where 0 is false. Results are 0 or 1.
Value logical_and(Value a, Value b, Where where = Where::current());
Value logical_or(Value a, Value b, Where where = Where::current());
Value logical_not(Value x, Where where = Where::current());
/// I32: 1 where true, otherwise 0.
Value isnan(Value x, Where where = Where::current());
Value isinf(Value x, Where where = Where::current());
Value isfinite(Value x, Where where = Where::current());

Value erf(Value x, Where where = Where::current());
Value expm1(Value x, Where where = Where::current());
Value log1p(Value x, Where where = Where::current());

// Reductions over some axes; over all if none are given.

Value prod(Value x, const Axes& axes = {}, bool keep = false, Where where = Where::current());
/// log(sum(e^x)), computed without overflow.
Value logsumexp(Value x, const Axes& axes = {}, bool keep = false, Where where = Where::current());
/// I32: 1 if any, or all, elements are not 0. NaN counts as not 0.
Value any(Value x, const Axes& axes = {}, bool keep = false, Where where = Where::current());
Value all(Value x, const Axes& axes = {}, bool keep = false, Where where = Where::current());
/// I32: the index along the axis, the first among equals.
Value argmin(Value x, int axis, bool keep = false, Where where = Where::current());

// Functions that move elements.

/// Reverses axes. A view.
Value flip(Value x, const Axes& axes, Where where = Where::current());
/// Joins values of the same shape along a new axis.
Value stack(std::initializer_list<Value> values, int axis = 0, Where where = Where::current());
/// Parts of these sizes along an axis, whose size must be their sum. Views.
std::vector<Value> split(Value x, std::span<const Dim> sizes, int axis = 0, Where where = Where::current());
/// Parts of equal size.
std::vector<Value> split(Value x, int n_parts, int axis = 0, Where where = Where::current());
/// Repeats each element of an axis, as numpy.repeat.
Value repeat(Value x, std::int64_t times, int axis, Where where = Where::current());
/// Repeats an axis as a whole, as numpy.tile.
Value tile(Value x, std::int64_t times, int axis, Where where = Where::current());
/// The lower and upper triangle of the last two axes; other elements are 0. tril keeps elements whose column
/// is at most row + diagonal, triu those whose column is at least that.
Value tril(Value x, std::int64_t diagonal = 0, Where where = Where::current());
Value triu(Value x, std::int64_t diagonal = 0, Where where = Where::current());
/// indices I32 of up to 3 axes -> F32 with one more axis of size n_classes: 1 at the index, 0 elsewhere. All
/// are 0 if the index is out of range.
Value one_hot(Value indices, Dim n_classes, Where where = Where::current());

/// Elements of an axis at `indices`, as numpy.take. The indices' shape replaces the axis.
Value take(Value x, Value indices, int axis, Where where = Where::current());
/// Elements along an axis at `indices`, as torch.gather. The indices have x's shape except along the axis.
Value take_along_axis(Value x, Value indices, int axis, Where where = Where::current());
/// x with `source` stored (scatter) or added (scatter_add) at `indices` along an axis, as torch.scatter and
/// torch.scatter_add. source and indices have the same shape. If indices repeat, the last stored element
/// wins.
Value scatter(Value x, Value indices, Value source, int axis, Where where = Where::current());
Value scatter_add(Value x, Value indices, Value source, int axis, Where where = Where::current());
/// x with slices of an axis replaced (set_rows) or added to (index_add), as torch.index_copy and
/// torch.index_add. indices {m}; source has x's shape, except m along the axis.
Value set_rows(Value x, Value indices, Value source, int axis = 0, Where where = Where::current());
Value index_add(Value x, Value indices, Value source, int axis = 0, Where where = Where::current());

Value cumsum(Value x, int axis, Where where = Where::current());
/// See ops::Argsort for NaN and equal elements.
Value argsort(Value x, int axis = -1, bool descending = false, Where where = Where::current());
Value sort(Value x, int axis = -1, bool descending = false, Where where = Where::current());

// Random numbers: they depend only on the seed, the counter and the element's index, and are the same on all
// devices. counter: I32 {1}, an input to which each step gives a new value. Give each node its own seed.

/// At least low, and below high (rounding may give high).
Value random_uniform(Value counter, Shape shape, std::uint64_t seed, float low = 0.0f, float high = 1.0f,
                     Where where = Where::current());
Value random_normal(Value counter, Shape shape, std::uint64_t seed, float mean = 0.0f, float deviation = 1.0f,
                    Where where = Where::current());

}  // namespace weft

#pragma GCC visibility pop
