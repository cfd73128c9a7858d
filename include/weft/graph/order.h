// Since 0.1
#pragma once
// The language's functions that count, move, order and draw elements (ops/order.h), and functions made of
// them. As in value.h: negative axes count from the innermost, -1; all throw Error kInvalidArgument with the
// user's line.
#include <cstdint>
#include <initializer_list>
#include <span>
#include <vector>

#include "weft/graph/value.h"

#pragma GCC visibility push(default)

namespace weft {

// Values from nothing.

/// {n} of I32 or F32: begin, begin + step ... below end (above it, where the step is negative and both are
/// constants), of which there are n = max((end - begin) / step rounded up, 0).
Value arange(Graph& graph, Dim begin, Dim end, std::int64_t step = 1, DType dtype = DType::kI32,
             Where where = Where::current());
/// A value of that many elements, all the same.
Value full(Graph& graph, Shape shape, float value, Where where = Where::current());
Value zeros(Graph& graph, Shape shape, Where where = Where::current());
Value ones(Graph& graph, Shape shape, Where where = Where::current());

// Types, and integers. + - * maximum minimum and comparisons also work on I32, if both operands are I32. A
// number as an operand must then be an integer.

/// As F32 or I32: itself, if it is that already. See ops::Cast for other numbers than integers.
Value cast(Value x, DType dtype, Where where = Where::current());
/// I32 division, rounded down; by 0: 0.
Value floor_divide(Value a, Value b, Where where = Where::current());
Value floor_divide(Value a, std::int32_t b, Where where = Where::current());
/// I32 remainder, with the sign of b; by 0: 0.
Value remainder(Value a, Value b, Where where = Where::current());
Value remainder(Value a, std::int32_t b, Where where = Where::current());
/// I32 of 0 and 1, of I32.
Value logical_and(Value a, Value b, Where where = Where::current());
Value logical_or(Value a, Value b, Where where = Where::current());
Value logical_not(Value x, Where where = Where::current());
/// I32, 1 where it holds.
Value isnan(Value x, Where where = Where::current());
Value isinf(Value x, Where where = Where::current());
Value isfinite(Value x, Where where = Where::current());

Value erf(Value x, Where where = Where::current());
Value expm1(Value x, Where where = Where::current());
Value log1p(Value x, Where where = Where::current());

// Over some axes, or all if none are named.

Value prod(Value x, const Axes& axes = {}, bool keep = false, Where where = Where::current());
/// log(sum(e^x)), where no sum goes past the largest float.
Value logsumexp(Value x, const Axes& axes = {}, bool keep = false, Where where = Where::current());
/// I32: whether any, or each, is not 0. NaN is not 0.
Value any(Value x, const Axes& axes = {}, bool keep = false, Where where = Where::current());
Value all(Value x, const Axes& axes = {}, bool keep = false, Where where = Where::current());
/// I32: the place along the axis, the first among equals.
Value argmin(Value x, int axis, bool keep = false, Where where = Where::current());

// Elements in other places.

/// With the last elements of the axes first. A view.
Value flip(Value x, const Axes& axes, Where where = Where::current());
/// Values of one shape, along a new axis.
Value stack(std::initializer_list<Value> values, int axis = 0, Where where = Where::current());
/// Parts of these sizes along an axis, which must be as large as they are together. Views.
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

/// x with the elements that the indices name in place of an axis: their shape takes its place, as numpy.take.
Value take(Value x, Value indices, int axis, Where where = Where::current());
/// indices of x's shape but for the axis -> elements along it, as torch.gather.
Value take_along_axis(Value x, Value indices, int axis, Where where = Where::current());
/// x with `source`, of the indices' shape, stored along the axis, the last one where several meet; or added.
/// As torch.scatter and scatter_add.
Value scatter(Value x, Value indices, Value source, int axis, Where where = Where::current());
Value scatter_add(Value x, Value indices, Value source, int axis, Where where = Where::current());
/// x with rows of the axis stored, or added: indices {m}, source of x's shape but for m along the axis. As
/// torch.index_copy and index_add.
Value set_rows(Value x, Value indices, Value source, int axis = 0, Where where = Where::current());
Value index_add(Value x, Value indices, Value source, int axis = 0, Where where = Where::current());

Value cumsum(Value x, int axis, Where where = Where::current());
/// See ops::Argsort for NaN and equal elements.
Value argsort(Value x, int axis = -1, bool descending = false, Where where = Where::current());
Value sort(Value x, int axis = -1, bool descending = false, Where where = Where::current());

// Random numbers: the same for the same seed and counter (I32 {1}, an input that each step sets anew), on
// every device. Give each its own seed.

/// From low on, below high but for rounding.
Value random_uniform(Value counter, Shape shape, std::uint64_t seed, float low = 0.0f, float high = 1.0f,
                     Where where = Where::current());
Value random_normal(Value counter, Shape shape, std::uint64_t seed, float mean = 0.0f, float deviation = 1.0f,
                    Where where = Where::current());

}  // namespace weft

#pragma GCC visibility pop
