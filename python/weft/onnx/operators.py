"""The ops of ONNX that weft computes: THE table, at the end, and what stands in it.

A function gets the node, its inputs in their order (a Tensor, a known array, or None) and its attributes as keywords with
ONNX's defaults: an attribute that a function lacks is refused. It gives a value of the type of the node's first tensor, or
Tensors of others. NotImplemented: this case is left to ONNX's own definition of the op by others. What ONNX defines by others
needs no row here, unless weft has it as a whole."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from inspect import signature
from typing import Any, Optional

import numpy as np
from onnx import TensorProto, numpy_helper

from .. import _weft, ops
from ..errors import UnsupportedError
from .build import TYPES, Node, Tensor, type_name
from .known import product, sizes
from .wide import MOST, aligned, along, expanded, is_one, permuted

Value = _weft.Value
BOOL, FLOAT, INT64 = TensorProto.BOOL, TensorProto.FLOAT, TensorProto.INT64
# Whole numbers below 32 bits wrap around at their own size: how many there are, and the least.
NARROW = {TensorProto.INT8: (1 << 8, -(1 << 7)), TensorProto.UINT8: (1 << 8, 0),
          TensorProto.INT16: (1 << 16, -(1 << 15)), TensorProto.UINT16: (1 << 16, 0)}  # fmt: skip


def wrapped(value: Value, onnx_type: int) -> Value:
    if onnx_type not in NARROW:
        return value
    count, least = NARROW[onnx_type]
    return ops.remainder(value + -least, count) + least if least else ops.remainder(value, count)


def axis_of(axis: int, rank: int) -> int:
    if not -rank <= axis < max(rank, 1):
        raise UnsupportedError(f"there is no axis {axis} of {rank}")
    return axis + rank if axis < 0 else axis


def constant_size(x: Any, axis: int) -> int:
    size = x.shape[axis]
    if not isinstance(size, int):
        raise UnsupportedError(f"the size of axis {axis} must be a number, not {size}: give it in sizes=")
    return size


# Of each element.


def unary(make: Callable[[Value], Value], to: Optional[int] = None) -> Callable[..., Any]:
    def convert(at: Node, x: Any) -> Any:
        if at.is_whole(x):
            raise UnsupportedError(f"weft does not have it for {type_name(at.type(x))}")
        return Tensor(make(at.elements(x)), at.type(x) if to is None else to, wide=x.shape if len(x.shape) > MOST else None)

    return convert


def absolute(at: Node, x: Any) -> Any:
    v = at.value(x)
    return ops.abs(v) if v.dtype == "f32" else wrapped(ops.maximum(v, negative(v)), at.type(x))


def negative(v: Value) -> Value:
    return -v if v.dtype == "f32" else v * -1


def sign(at: Node, x: Any) -> Any:
    v = at.value(x)
    signs = ops.cast(ops.greater(v, 0.0) - ops.less(v, 0.0), v.dtype)
    return ops.where(ops.isnan(v), v, signs) if v.dtype == "f32" else signs


def is_inf(at: Node, x: Any, *, detect_negative: int = 1, detect_positive: int = 1) -> Any:
    v = at.value(x)
    if detect_negative and detect_positive:
        return Tensor(ops.isinf(v), BOOL)
    if detect_positive:
        return Tensor(ops.equal(v, math.inf), BOOL)
    return Tensor(ops.equal(v, -math.inf if detect_negative else math.nan), BOOL)


def gelu(at: Node, x: Any, *, approximate: str = "none") -> Any:
    return {"none": ops.gelu, "tanh": ops.gelu_tanh}[approximate](at.value(x))


def leaky_relu(at: Node, x: Any, *, alpha: float = 0.01) -> Any:
    v = at.value(x)
    return ops.maximum(v, 0.0) + ops.minimum(v, 0.0) * alpha


def elu(at: Node, x: Any, *, alpha: float = 1.0) -> Any:
    v = at.value(x)
    return ops.maximum(v, 0.0) + ops.expm1(ops.minimum(v, 0.0)) * alpha


def swish(at: Node, x: Any, *, alpha: float = 1.0) -> Any:
    v = at.value(x)
    return ops.silu(v) if alpha == 1.0 else v * ops.sigmoid(v * alpha)


def inverse_hyperbolic_sine(v: Value) -> Value:
    """By the size of x: what cancels for negative ones does not for positive."""
    a = ops.abs(v)
    size = ops.log1p(a + a * a / (ops.sqrt(a * a + 1.0) + 1.0))
    return ops.where(ops.less(v, 0.0), -size, size)


def clip(at: Node, x: Any, least: Any = None, most: Any = None, *, min: Optional[float] = None, max: Optional[float] = None) -> Any:
    v = at.value(x)
    for bound, number, make in ((least, min, ops.maximum), (most, max, ops.minimum)):
        if bound is not None:
            v = with_number(make, make)(v, at.value(bound) if isinstance(bound, Tensor) else scalar(bound, v))
        elif number is not None:
            v = make(v, number)
    return v


def cast_to(at: Node, x: Any, to: int) -> Any:
    if to not in TYPES:
        raise UnsupportedError(f"weft has no {type_name(to)}")
    v = at.value(x)
    if to == BOOL:
        v = v if at.type(x) == BOOL else ops.not_equal(v, 0.0)
    elif to in NARROW:
        v = wrapped(ops.cast(v, "i32"), to)
    else:
        v = ops.cast(v, TYPES[to])
    return Tensor(v, to)


def cast(at: Node, x: Any, *, to: int, saturate: int = 1, round_mode: str = "up") -> Any:
    return cast_to(at, x, to)


def cast_like(at: Node, x: Any, like: Any, *, saturate: int = 1, round_mode: str = "up") -> Any:
    return cast_to(at, x, at.type(like))


# Of two.


def scalar(x: Any, other: Any) -> Any:
    """A known array of one element as a number, where weft takes that beside the other operand and none of its digits is
    lost."""
    if not isinstance(x, np.ndarray) or x.size != 1 or x.ndim > len(other.shape) or x.dtype == object:
        return None
    number = float(x.reshape(-1)[0])
    return number if x.dtype.kind == "f" or abs(number) <= 1 << 24 else None


def with_number(of_values: Callable[..., Any], of_numbers: Callable[..., Any]) -> Callable[[Value, Any], Value]:
    return lambda a, b: of_values(a, b) if isinstance(b, Value) else of_numbers(a, b)


def operands(at: Node, a: Any, b: Any) -> tuple[Value, Any]:
    number = scalar(b, a) if isinstance(a, Tensor) else None
    return at.value(a), at.value(b) if number is None else number


def binary(make: Callable[[Value, Any], Value], to: Optional[int] = None) -> Callable[..., Any]:
    def convert(at: Node, a: Any, b: Any) -> Any:
        kind = at.type(a)
        made, wide = over_both(at, a, b, make)
        return Tensor(made, to, wide=wide) if to is not None else Tensor(wrapped(made, kind), kind, wide=wide)

    return convert


def over_both(at: Node, a: Any, b: Any, make: Callable[[Value, Any], Value]) -> tuple[Value, Optional[tuple[Any, ...]]]:
    if max(len(a.shape), len(b.shape)) <= MOST:
        return make(*operands(at, a, b)), None
    left, right = aligned(a.shape, b.shape)
    rank = max(len(a.shape), len(b.shape))
    both = zip([1] * (rank - len(a.shape)) + list(a.shape), [1] * (rank - len(b.shape)) + list(b.shape), strict=True)
    shape = tuple(y if is_one(x) else x for x, y in both)
    made = make(ops.reshape(at.elements(a), left), ops.reshape(at.elements(b), right))
    return ops.reshape(made, (product(shape),)), shape


def all_of(make: Callable[[Value, Any], Value]) -> Callable[..., Any]:
    def convert(at: Node, *all: Any) -> Any:
        made = at.value(all[0])
        for one in all[1:]:
            made = make(made, at.value(one))
        return made

    return convert


def mean_of(at: Node, *all: Any) -> Any:
    return all_of(lambda a, b: a + b)(at, *all) * (1 / len(all))


def divide(at: Node, a: Any, b: Any) -> Any:
    v, w = at.value(a), at.value(b)
    if v.dtype == "f32":
        return operands(at, a, b)[0] / operands(at, a, b)[1]
    # Towards 0, where floor_divide goes down.
    down = ops.floor_divide(v, w)
    uneven = ops.logical_and(ops.not_equal(down * w, v), ops.less(down, 0.0))
    return Tensor(wrapped(down + uneven, at.type(a)), at.type(a))


def modulo(at: Node, a: Any, b: Any, *, fmod: int = 0) -> Any:
    v, w = at.value(a), at.value(b)
    if v.dtype == "i32" and not fmod:
        return ops.remainder(v, w)
    if v.dtype == "i32":
        rest = ops.remainder(ops.maximum(v, v * -1), ops.maximum(w, w * -1))
        return ops.where(ops.less(v, 0.0), rest * -1, rest)
    size, step = ops.abs(v), ops.abs(w)
    rest = size - ops.where(ops.isinf(step), zeros(v.graph, step.shape), ops.floor(size / step) * step)
    rest = ops.where(ops.isfinite(v), ops.where(ops.less(v, 0.0), -rest, rest), math.nan)
    if fmod:
        return rest
    # With the sign of the divisor.
    return ops.where(ops.less(rest * ops.cast(ops.less(w, 0.0) * -2 + 1, "f32"), 0.0), rest + w, rest)


def zeros(graph: Any, shape: Sequence[Any], dtype: str = "f32") -> Value:
    return ops.cast(ops.full(graph, shape, 0.0), dtype)


def power(at: Node, a: Any, b: Any) -> Any:
    kind = at.type(a)
    if at.is_whole(a):
        raise UnsupportedError(f"weft does not have it for {type_name(kind)}")
    if isinstance(b, np.ndarray) and b.dtype.kind in "iu":
        b = b.astype(np.float32)
    base, exponent = operands(at, a, b)
    return ops.pow(base, ops.cast(exponent, "f32") if isinstance(exponent, Value) else exponent)


def where(at: Node, condition: Any, a: Any, b: Any) -> Any:
    number = scalar(b, a) if isinstance(a, Tensor) and not at.is_whole(a) else None
    kind = at.type(a)
    return Tensor(ops.where(at.value(condition), at.value(a), at.value(b) if number is None else number), kind)


# Products.


def factor(at: Node, x: Any) -> Value:
    """Of a product of two values."""
    return at.builder.fixed_input(x) if isinstance(x, np.ndarray) else at.value(x)


def rows_times(v: Value, weight: Value, bias: Optional[Value] = None) -> Value:
    """linear of rows that stand in any number of axes."""
    if v.ndim == 2:
        return ops.linear(v, weight, bias)
    rows = ops.reshape(v, (product(v.shape[:-1]), v.shape[-1]))
    return ops.reshape(ops.linear(rows, weight, bias), (*v.shape[:-1], weight.shape[0]))


def matmul(at: Node, a: Any, b: Any) -> Any:
    if at.is_whole(a):
        raise UnsupportedError(f"weft does not have it for {type_name(at.type(a))}")
    kind = at.type(a)
    v = factor(at, a)
    is_row, is_column = v.ndim == 1, len(b.shape) == 1
    if is_row:
        v = ops.unsqueeze(v, 0)
    if isinstance(b, np.ndarray) and b.ndim == 2:
        made = rows_times(v, at.weight(at.builder.transposed(b)))
    else:
        w = factor(at, b)
        made = ops.matmul(v, ops.unsqueeze(w, 1) if is_column else w)
    if is_column:
        made = ops.squeeze(made, -1)
    if is_row:
        made = ops.squeeze(made, -1 if is_column else -2)
    return Tensor(made, kind)


def gemm(at: Node, a: Any, b: Any, c: Any = None, *, alpha: float = 1.0, beta: float = 1.0, transA: int = 0, transB: int = 0) -> Any:
    v = factor(at, a)
    if v.dtype != "f32":
        raise UnsupportedError(f"weft does not have it for {type_name(at.type(a))}")
    if transA:
        v = ops.transpose(v)
    bias = None
    if isinstance(b, np.ndarray):
        # A row of numbers for all rows is the layer's own.
        if isinstance(c, np.ndarray) and c.shape == (b.shape[0 if transB else 1],) and alpha == beta == 1.0:
            bias, c = at.value(c), None
        made = ops.linear(v, at.weight(b if transB else at.builder.transposed(b)), bias)
    else:
        made = ops.matmul(v, ops.transpose(at.value(b)) if transB else at.value(b))
    if alpha != 1.0:
        made = made * alpha
    if c is not None:
        made = made + (at.value(c) if beta == 1.0 else at.value(c) * beta)
    return Tensor(made, at.type(a))


# Over axes.


def axes_given(at: Node, x: Any, axes_input: Any, axes: Any, empty_is_none: int) -> Optional[list[int]]:
    """Which axes are reduced; None: none of them."""
    rank = len(x.shape)
    given = at.ints(axes_input) if axes_input is not None else axes
    if not given:
        return None if empty_is_none else list(range(rank))
    return [axis_of(axis, rank) for axis in given]


def reduction(make: Callable[..., Value], before: Optional[Callable[[Value], Value]] = None,
              after: Optional[Callable[[Value], Value]] = None, whole: bool = False) -> Callable[..., Any]:  # fmt: skip
    def convert(at: Node, x: Any, axes_input: Any = None, *, axes: Any = None, keepdims: int = 1, noop_with_empty_axes: int = 0) -> Any:
        v = at.value(x)
        if v.dtype == "i32" and not whole:
            raise UnsupportedError(f"weft does not have it for {type_name(at.type(x))}")
        over = axes_given(at, x, axes_input, axes, noop_with_empty_axes)
        if before is not None:
            v = before(v)
        if over is not None and v.ndim > 0:
            v = make(v, over, bool(keepdims))
        return after(v) if after is not None else v

    return convert


def flat_axes(v: Value, over: Sequence[int]) -> Value:
    """With these axes as one behind the others."""
    kept = [axis for axis in range(v.ndim) if axis not in over]
    shape = [v.shape[axis] for axis in kept] + [product(v.shape[axis] for axis in over)]
    return ops.reshape(ops.permute(v, kept + list(over)), shape)


def of_whole(make: Callable[[Value], Value]) -> Callable[..., Value]:
    """A reduction of whole numbers by what orders or adds them exactly: the last of a row."""

    def reduce(v: Value, over: Sequence[int], keep: bool) -> Value:
        row = make(flat_axes(v, over))
        shape = [1 if axis in over else size for axis, size in enumerate(v.shape) if keep or axis not in over]
        return ops.reshape(ops.slice(row, -1, row.shape[-1] - 1, row.shape[-1]), shape)

    return reduce


def by_kind(of_numbers: Callable[..., Value], of_whole_ones: Callable[..., Value]) -> Callable[..., Value]:
    return lambda v, over, keep: (of_numbers if v.dtype == "f32" else of_whole_ones)(v, over, keep)


def extreme(of_numbers: Callable[..., Value], of_truths: Callable[..., Value]) -> Callable[..., Any]:
    def convert(at: Node, x: Any, *others: Any, **given: Any) -> Any:
        return reduction(of_truths if at.type(x) == BOOL else of_numbers, whole=True)(at, x, *others, **given)

    # What it takes is what reductions take.
    convert.__signature__ = REDUCES  # type: ignore[attr-defined]
    return convert


def place_of(make: Callable[..., Value]) -> Callable[..., Any]:
    def convert(at: Node, x: Any, *, axis: int = 0, keepdims: int = 1, select_last_index: int = 0) -> Any:
        v = at.value(x)
        if select_last_index:
            last = make(ops.flip(v, axis), axis, bool(keepdims))
            return Tensor(last * -1 + (constant_size(v, axis) - 1), INT64)
        return Tensor(make(v, axis, bool(keepdims)), INT64)

    return convert


def softmax(at: Node, x: Any, *, axis: Optional[int] = None) -> Any:
    return over_softmax_axis(at, x, axis, ops.softmax)


def log_softmax(at: Node, x: Any, *, axis: Optional[int] = None) -> Any:
    return over_softmax_axis(at, x, axis, lambda v, a: v - ops.logsumexp(v, a, True))


def hardmax(at: Node, x: Any, *, axis: Optional[int] = None) -> Any:
    def make(v: Value, along: int) -> Value:
        places = ops.argmax(v, along, True)
        size = constant_size(v, along)
        shape = [1] * v.ndim
        shape[along] = size
        return ops.cast(ops.equal(places, ops.reshape(ops.arange(v.graph, 0, size), shape)), "f32")

    return over_softmax_axis(at, x, axis, make)


def over_softmax_axis(at: Node, x: Any, axis: Optional[int], make: Callable[[Value, int], Value]) -> Any:
    v = at.value(x)
    if at.version >= 13:
        return make(v, axis_of(-1 if axis is None else axis, v.ndim))
    # Once all axes from this one on were one.
    first = axis_of(1 if axis is None else axis, v.ndim)
    if first == v.ndim - 1:
        return make(v, first)
    flat = ops.reshape(v, (product(v.shape[:first]), product(v.shape[first:])))
    return ops.reshape(make(flat, 1), v.shape)


def cumulative_sum(at: Node, x: Any, axis: Any, *, exclusive: int = 0, reverse: int = 0) -> Any:
    v = at.value(x)
    along = axis_of(at.number(axis), v.ndim)
    if reverse:
        v = ops.flip(v, along)
    made = ops.cumsum(v, along)
    if exclusive:
        made = ops.slice(shifted(made, along), along, 0, v.shape[along])
    return ops.flip(made, along) if reverse else made


def shifted(v: Value, axis: int) -> Value:
    """With a zero in front."""
    return ops.concat([zeros(v.graph, [*v.shape[:axis], 1, *v.shape[axis + 1 :]], v.dtype), v], axis)


# Elements in other places.


def reshape(at: Node, x: Any, shape: Any = None, *, allowzero: int = 0, **old: Any) -> Any:
    v = at.elements(x)
    wanted = [x.shape[i] if isinstance(size, int) and size == 0 and not allowzero else size for i, size in enumerate(at.ints(shape))]
    if -1 in wanted:
        wanted[wanted.index(-1)] = rest_of(x.shape, [size for size in wanted if not (isinstance(size, int) and size == -1)])
    return at.shaped(v, wanted, x)


def rest_of(shape: Sequence[Any], others: Sequence[Any]) -> Any:
    """The size that is left: what stands on both sides counts for nothing."""
    above, below = list(shape), []
    for one in others:
        if one in above:
            above.remove(one)
        else:
            below.append(one)
    total, divisor = product(above), product(below)
    if not isinstance(divisor, int) or divisor < 1 or (total // divisor) * divisor != total:
        raise UnsupportedError(f"the size that -1 stands for must be plain: {list(shape)} without {list(others)}; give it in sizes=")
    return total // divisor


def flatten(at: Node, x: Any, *, axis: int = 1) -> Any:
    first = axis + len(x.shape) if axis < 0 else axis
    return ops.reshape(at.elements(x), (product(x.shape[:first]), product(x.shape[first:])))


def squeeze(at: Node, x: Any, axes_input: Any = None, *, axes: Any = None) -> Any:
    given = at.ints(axes_input) if axes_input is not None else axes
    shape = list(x.shape)
    gone = [axis for axis, size in enumerate(shape) if is_one(size)] if given is None else [axis_of(one, len(shape)) for one in given]
    if not all(is_one(shape[axis]) for axis in gone):
        raise UnsupportedError(f"an axis that goes must have the size 1: {shape} without {gone}")
    return at.shaped(at.elements(x), [size for axis, size in enumerate(shape) if axis not in gone], x)


def unsqueeze(at: Node, x: Any, axes_input: Any = None, *, axes: Any = None) -> Any:
    given = at.ints(axes_input) if axes_input is not None else axes
    shape = list(x.shape)
    for axis in sorted(axis_of(one, len(shape) + len(given)) for one in given):
        shape.insert(axis, 1)
    return at.shaped(at.elements(x), shape, x)


def transpose(at: Node, x: Any, *, perm: Optional[Sequence[int]] = None) -> Any:
    rank = len(x.shape)
    order = list(range(rank))[::-1] if perm is None else [axis_of(one, rank) for one in perm]
    if order == list(range(rank)):
        return x
    if rank <= MOST:
        return ops.permute(at.value(x), order)
    return at.shaped(permuted(at.elements(x), x.shape, order), [x.shape[axis] for axis in order], x)


def concat(at: Node, *all: Any, axis: int) -> Any:
    first = all[0]
    parts = [one for one in all if not (isinstance(one, np.ndarray) and one.size == 0)]
    rank = len(first.shape)
    where_to = axis_of(axis, rank)
    if rank <= MOST:
        return Tensor(ops.concat([at.value(one) for one in parts], where_to), at.type(first))
    size: Any = 0
    for one in parts:
        size = size + one.shape[where_to]
    rows = [along(at.elements(one), one.shape, where_to, lambda v, _: v) for one in parts]
    return at.shaped(ops.concat(rows, 1), [*first.shape[:where_to], size, *first.shape[where_to + 1 :]], first)


def of_axis(at: Node, x: Any, axis: int, make: Callable[[Value, int], Value]) -> Any:
    """What `make` does to one axis, which keeps the others."""
    if len(x.shape) <= MOST:
        return Tensor(make(at.value(x), axis), at.type(x))
    made = along(at.elements(x), x.shape, axis, make)
    return at.shaped(made, [*x.shape[:axis], made.shape[1], *x.shape[axis + 1 :]], x)


def split(at: Node, x: Any, parts: Any = None, *, axis: int = 0, split: Any = None, num_outputs: int = 0) -> Any:
    where_to = axis_of(axis, len(x.shape))
    given = at.ints(parts) if parts is not None else split
    if given is None:
        size, n = constant_size(x, where_to), num_outputs or at.n_outputs
        each = -(-size // n)
        given = [each] * (n - 1) + [size - each * (n - 1)]
    made, begin = [], 0
    for part in given:
        bounds = begin, begin + part
        made.append(of_axis(at, x, where_to, lambda v, a, bounds=bounds: ops.slice(v, a, *bounds)))
        begin = begin + part
    return made


def slice_of(at: Node, x: Any, starts_input: Any = None, ends_input: Any = None, axes_input: Any = None, steps_input: Any = None, *,
             starts: Any = None, ends: Any = None, axes: Any = None) -> Any:  # fmt: skip
    begins = at.ints(starts_input) if starts_input is not None else starts
    stops = at.ints(ends_input) if ends_input is not None else ends
    of_axes = at.ints(axes_input) if axes_input is not None else axes or range(len(begins))
    steps = at.ints(steps_input) if steps_input is not None else [1] * len(begins)
    for axis, *bounds in zip(of_axes, begins, stops, steps, strict=True):
        x = of_axis(at, x, axis_of(axis, len(x.shape)), lambda v, a, bounds=bounds: cut(v, a, *bounds))
    return x


def cut(v: Value, axis: int, begin: Any, end: Any, step: int) -> Value:
    """Of one axis, as Python's slices."""
    size = v.shape[axis]
    if step < 0:
        if not all(isinstance(one, int) for one in (size, begin, end)):
            if begin in (-1, (1 << 63) - 1, (1 << 31) - 1) and end < -(1 << 30):
                return ops.slice(ops.flip(v, axis), axis, 0, size, -step)
            raise UnsupportedError(f"a slice with the step {step} needs sizes that are numbers")
        low, high, back = slice(begin, end, step).indices(size)
        v = ops.flip(v, axis)
        return ops.slice(v, axis, size - 1 - low, max(size - 1 - high, size - 1 - low), -back)
    if all(isinstance(one, int) for one in (size, begin, end)):
        low, high, _ = slice(begin, end, step).indices(size)
        return v if (low, high, step) == (0, size, 1) else ops.slice(v, axis, low, max(low, high), step)

    def bound(one: Any) -> Any:
        if not isinstance(one, int):
            return one
        if one >= (1 << 31) - 1:
            return size
        if one < -(1 << 30):
            return 0
        return one

    first, last = bound(begin), bound(end)
    whole = isinstance(first, int) and first == 0 and last == size and step == 1
    return v if whole else ops.slice(v, axis, first, last, step)


def places(at: Node, indices: Any, size: Any) -> Value:
    """Indices along an axis; negative ones count from its end."""
    if isinstance(indices, np.ndarray) and isinstance(size, int):
        if indices.size and (indices.min() < -size or indices.max() >= size):
            raise UnsupportedError(f"an index is out of range of {size} elements")
        return at.value(np.where(indices < 0, indices + size, indices).astype(np.int32))
    v = at.value(indices)
    behind = v + size if isinstance(size, int) else v + at.value(sizes([size]))
    return ops.where(ops.less(v, 0.0), behind, v)


def gather(at: Node, x: Any, indices: Any, *, axis: int = 0) -> Any:
    rank = len(x.shape)
    where_from = axis_of(axis, rank)
    size = x.shape[where_from]
    others = list(x.shape[:where_from]), list(x.shape[where_from + 1 :])
    if isinstance(indices, np.ndarray) and indices.ndim == 0 and indices.dtype != object:
        place = int(indices)
        begin = place if place >= 0 else size + place
        one = along(at.elements(x), x.shape, where_from, lambda v, a: ops.slice(v, a, begin, begin + 1))
        return at.shaped(one, [*others[0], *others[1]], x)
    at_places = places(at, indices, size)
    shape = [*others[0], *at_places.shape, *others[1]]
    flat_places = ops.reshape(at_places, (product(at_places.shape),))
    if rank == 2 and where_from == 0 and isinstance(x, np.ndarray) and x.dtype.kind == "f":
        return at.shaped(ops.take(at.weight(x), flat_places), shape, x)
    if rank <= MOST:
        return at.shaped(ops.take(at.value(x), flat_places, where_from), shape, x)
    return at.shaped(along(at.elements(x), x.shape, where_from, lambda v, a: ops.take(v, flat_places, a)), shape, x)


def gather_elements(at: Node, x: Any, indices: Any, *, axis: int = 0) -> Any:
    v = at.value(x)
    along = axis_of(axis, v.ndim)
    at_places = places(at, indices, v.shape[along])
    for other, size in enumerate(at_places.shape):
        if other != along and v.shape[other] != size:
            v = ops.slice(v, other, 0, size)
    return Tensor(ops.take_along_axis(v, at_places, along), at.type(x))


def scatter_elements(at: Node, x: Any, indices: Any, updates: Any, *, axis: int = 0, reduction: str = "none") -> Any:
    v, source = at.value(x), at.value(updates)
    along = axis_of(axis, v.ndim)
    store = {"none": ops.scatter, "add": ops.scatter_add}.get(reduction)
    if store is None:
        raise UnsupportedError(f"weft does not have reduction={reduction!r}")
    return Tensor(store(v, places(at, indices, v.shape[along]), source, along), at.type(x))


def flat_places(at: Node, indices: Any, shape: Sequence[Any]) -> Value:
    """Places in a value whose first axes, of these sizes, are one."""
    n = indices.shape[-1]
    stride, made = product(shape[1:n]), None
    for place in range(n):
        if isinstance(indices, np.ndarray):
            one: Any = indices[..., place]
        else:
            one = Tensor(ops.squeeze(ops.slice(at.value(indices), -1, place, place + 1), -1), INT64)
        stride = product(constant_size_of(size) for size in shape[place + 1 : n])
        part = places(at, one, shape[place]) * stride
        made = part if made is None else made + part
    assert made is not None
    return ops.reshape(made, (product(indices.shape[:-1]),))


def constant_size_of(size: Any) -> int:
    if not isinstance(size, int):
        raise UnsupportedError(f"a size must be a number, not {size}: give it in sizes=")
    return size


def gather_nd(at: Node, x: Any, indices: Any, *, batch_dims: int = 0) -> Any:
    if batch_dims:
        raise UnsupportedError(f"weft does not have batch_dims={batch_dims}")
    v, n = at.value(x), indices.shape[-1]
    rest = v.shape[n:]
    flat = ops.reshape(v, (product(v.shape[:n]), product(rest)))
    made = ops.take(flat, flat_places(at, indices, v.shape), 0)
    return at.shaped(made, (*indices.shape[:-1], *rest), x)


def scatter_nd(at: Node, x: Any, indices: Any, updates: Any, *, reduction: str = "none") -> Any:
    store = {"none": ops.set_rows, "add": ops.index_add}.get(reduction)
    if store is None:
        raise UnsupportedError(f"weft does not have reduction={reduction!r}")
    v, n = at.value(x), indices.shape[-1]
    width = product(v.shape[n:])
    flat = ops.reshape(v, (product(v.shape[:n]), width))
    rows = ops.reshape(at.value(updates), (product(indices.shape[:-1]), width))
    made = store(flat, flat_places(at, indices, v.shape), rows, 0)
    return Tensor(ops.reshape(made, v.shape), at.type(x))


def expand(at: Node, x: Any, shape: Any) -> Any:
    wanted = at.ints(shape)
    rank = max(len(x.shape), len(wanted))
    own, given = [1] * (rank - len(x.shape)) + list(x.shape), [1] * (rank - len(wanted)) + wanted
    target = [b if is_one(a) else a for a, b in zip(own, given, strict=True)]
    if rank <= MOST:
        return ops.broadcast_to(at.value(x), target)
    return at.shaped(expanded(at.elements(x), own, target), target, x)


def tile(at: Node, x: Any, repeats: Any) -> Any:
    v = at.value(x)
    for axis, times in enumerate(at.ints(repeats)):
        if times != 1:
            v = ops.tile(v, times, axis)
    return v


def pad(at: Node, x: Any, pads_input: Any = None, value_input: Any = None, axes: Any = None, *, mode: str = "constant",
        pads: Any = None, value: float = 0.0) -> Any:  # fmt: skip
    v = at.value(x)
    given = at.ints(pads_input) if pads_input is not None else pads
    along = [axis_of(axis, v.ndim) for axis in at.ints(axes)] if axes is not None else list(range(v.ndim))
    if value_input is not None and mode == "constant":
        value = at.number(value_input)
    for place, axis in enumerate(along):
        before, after = given[place], given[place + len(along)]
        if before < 0 or after < 0:
            size = v.shape[axis]
            v = ops.slice(v, axis, max(-before, 0), size - max(-after, 0))
            before, after = max(before, 0), max(after, 0)
        if before == after == 0:
            continue
        if mode == "constant":
            v = padded(v, axis, before, after, value)
        else:
            kind = {"reflect": "reflect", "edge": "edge", "wrap": "wrap"}[mode]
            order = np.pad(np.arange(constant_size(v, axis)), (before, after), mode=kind)  # type: ignore[call-overload]
            v = ops.take(v, at.value(order.astype(np.int32)), axis)
    return v


def padded(v: Value, axis: int, before: int, after: int, value: float) -> Value:
    if v.dtype == "f32":
        return ops.pad(v, axis, before, after, value)

    def block(size: int) -> list[Value]:
        shape = [*v.shape[:axis], size, *v.shape[axis + 1 :]]
        return [ops.cast(ops.full(v.graph, shape, float(value)), "i32")] if size else []

    return ops.concat([*block(before), v, *block(after)], axis)


def trilu(at: Node, x: Any, k: Any = None, *, upper: int = 1) -> Any:
    v = at.value(x)
    diagonal = 0 if k is None else int(at.number(k))
    make = ops.triu if upper else ops.tril
    if v.dtype == "f32":
        return make(v, diagonal)
    seen = make(ops.full(v.graph, v.shape[-2:], 1.0), diagonal)
    return v * ops.cast(seen, "i32")


def top_k(at: Node, x: Any, k_input: Any = None, *, k: int = 0, axis: int = -1, largest: int = 1, sorted: int = 1) -> Any:
    v = at.value(x)
    along = axis_of(axis, v.ndim)
    n = int(at.number(k_input)) if k_input is not None else k
    order = ops.slice(ops.argsort(v, along, bool(largest)), along, 0, n)
    return ops.take_along_axis(v, order, along), Tensor(order, INT64)


def one_hot(at: Node, indices: Any, depth: Any, values: Any, *, axis: int = -1) -> Any:
    n = int(at.number(depth))
    v = at.value(indices, "i32")
    hot = ops.one_hot(ops.where(ops.less(v, 0.0), v + n, v), n)
    kind = at.type(values)
    off_on = at.value(values)
    off, on = ops.slice(off_on, 0, 0, 1), ops.slice(off_on, 0, 1, 2)
    made = ops.where(ops.cast(hot, "i32"), on, off)
    along = axis_of(axis, made.ndim)
    order = list(range(made.ndim - 1))
    order.insert(along, made.ndim - 1)
    return Tensor(ops.permute(made, order) if along != made.ndim - 1 else made, kind)


def constant_of_shape(at: Node, shape: Any, *, value: Any = None) -> Any:
    number = 0.0 if value is None else float(numpy_helper.to_array(value).reshape(-1)[0])
    kind = FLOAT if value is None else value.data_type
    return Tensor(ops.cast(ops.full(at.graph, at.ints(shape), number), TYPES[kind]), kind)


def numbers_from(at: Node, start: Any, limit: Any, delta: Any, **_: Any) -> Any:
    (begin,), (end,), (step,) = at.ints(start), at.ints(limit), at.ints(delta)
    kind = at.type(start)
    return Tensor(ops.arange(at.graph, begin, end, step, TYPES[kind]), kind)


def shape_of(at: Node, x: Any, *, start: int = 0, end: Optional[int] = None) -> Any:
    return sizes(x.shape[start:end])


def size_of(at: Node, x: Any) -> Any:
    return sizes([product(x.shape)]).reshape(())


def identity(at: Node, x: Any) -> Any:
    return x


def dropout(at: Node, x: Any, ratio_input: Any = None, training: Any = None, *, ratio: float = 0.5, seed: int = 0) -> Any:
    if training is not None and at.number(training) and (ratio_input is None or at.number(ratio_input) != 0):
        raise UnsupportedError("weft does not train: training_mode is true")
    mask = None
    if at.n_outputs > 1:
        mask = Tensor(ops.cast(ops.full(at.graph, x.shape, 1.0), "i32"), BOOL)
    return (x, mask) if mask is not None else x


def depth_to_space(at: Node, x: Any, *, blocksize: int, mode: str = "DCR") -> Any:
    """In two steps, for values have four axes at most: each moves one number of a channel behind its axis."""
    v, b = at.value(x), blocksize
    n, c, h, w = v.shape
    deep = constant_size(v, 1) // (b * b)
    if mode == "DCR":
        v = ops.permute(ops.reshape(v, (n * b, b, deep * h * w)), [0, 2, 1])
        v = ops.permute(ops.reshape(v, (n, b, deep * h, w * b)), [0, 2, 1, 3])
    else:
        v = ops.permute(ops.reshape(v, (n * (deep * b), b, h * w)), [0, 2, 1])
        v = ops.permute(ops.reshape(v, (n * deep, b, h, w * b)), [0, 2, 1, 3])
    return ops.reshape(v, (n, deep, h * b, w * b))


def space_to_depth(at: Node, x: Any, *, blocksize: int, mode: str = "DCR") -> Any:
    v, b = at.value(x), blocksize
    n, c, h, w = v.shape[0], constant_size(v, 1), constant_size(v, 2) // blocksize, constant_size(v, 3) // blocksize
    if mode == "DCR":
        v = ops.permute(ops.reshape(v, (n, c * h, b, w * b)), [0, 2, 1, 3])
        v = ops.permute(ops.reshape(v, (n * b, c * h * w, b)), [0, 2, 1])
    else:
        v = ops.permute(ops.reshape(v, (n * c, h, b, w * b)), [0, 2, 1, 3])
        v = ops.permute(ops.reshape(v, (n * (c * b), h * w, b)), [0, 2, 1])
    return ops.reshape(v, (n, c * b * b, h, w))


# Windows. A signal {n, c, t} is a picture of height 1.


class Windows:
    """How windows move over a signal or a picture: of each axis (height, width) a number."""

    def __init__(self, x: Value, kernel: Sequence[int], strides: Any, dilations: Any, pads: Any, auto_pad: str) -> None:
        n = len(kernel)
        if n not in (1, 2) or x.ndim != n + 2:
            raise UnsupportedError(f"weft has windows over 1 or 2 axes, not {x.ndim - 2}")
        self.is_signal = n == 1
        front = [1] if self.is_signal else []
        self.kernel = front + list(kernel)
        self.stride = front + list(strides or [1] * n)
        self.dilation = front + list(dilations or [1] * n)
        given = list(pads or [0] * 2 * n)
        zero = [0] if self.is_signal else []
        self.before, self.after = zero + given[:n], zero + given[n:]
        self.x = self.picture(x)
        self.sizes = self.x.shape[2:]
        self.span = [d * (k - 1) + 1 for d, k in zip(self.dilation, self.kernel, strict=True)]
        if auto_pad in ("SAME_UPPER", "SAME_LOWER"):
            for i in range(2):
                missing = self.span[i] - 1
                if self.stride[i] > 1:
                    size = constant_size_of(self.sizes[i])
                    missing = max((-(-size // self.stride[i]) - 1) * self.stride[i] + self.span[i] - size, 0)
                small, large = missing // 2, missing - missing // 2
                self.before[i], self.after[i] = (small, large) if auto_pad == "SAME_UPPER" else (large, small)
        elif auto_pad not in ("NOTSET", "VALID"):
            raise UnsupportedError(f"weft does not have auto_pad={auto_pad!r}")
        self.extra = [0, 0]

    def picture(self, v: Value) -> Value:
        return ops.unsqueeze(v, 2) if self.is_signal else v

    def back(self, v: Value) -> Value:
        return ops.squeeze(v, 2) if self.is_signal else v

    def round_up(self) -> None:
        """ceil_mode: windows that begin in the picture or before it count, too, where they reach out of it behind."""
        for i in range(2):
            size = constant_size_of(self.sizes[i])
            room = size + self.before[i] + self.after[i] - self.span[i]
            steps = -(-room // self.stride[i])
            if steps * self.stride[i] >= size + self.before[i]:
                steps -= 1
            self.extra[i] = max(steps * self.stride[i] - room, 0)

    def padded(self, value: float) -> Value:
        v = self.x
        for i in range(2):
            if self.before[i] or self.after[i] + self.extra[i]:
                v = ops.pad(v, 2 + i, self.before[i], self.after[i] + self.extra[i], value)
        return v

    @property
    def are_even(self) -> bool:
        return self.before == self.after and not any(self.extra)

    @property
    def have_gaps(self) -> bool:
        return self.dilation != [1, 1]

    @property
    def are_within(self) -> bool:
        return all(2 * before <= kernel for before, kernel in zip(self.before, self.kernel, strict=True))


def pair(list_of_two: Sequence[int]) -> tuple[int, int]:
    return list_of_two[0], list_of_two[1]


def four_axes(at: Node, w: Any, is_signal: bool) -> Any:
    """A kernel over pictures."""
    if not is_signal:
        return w
    return np.expand_dims(at.known(w), 2) if isinstance(w, np.ndarray) else Tensor(ops.unsqueeze(at.value(w), 2), at.type(w))


def convolution(at: Node, x: Any, w: Any, bias: Any = None, *, auto_pad: str = "NOTSET", dilations: Any = None, group: int = 1,
                kernel_shape: Any = None, pads: Any = None, strides: Any = None) -> Any:  # fmt: skip
    windows = Windows(at.value(x), w.shape[2:], strides, dilations, pads, auto_pad)
    kernel = four_axes(at, w, windows.is_signal)
    v = windows.x if windows.are_even else windows.padded(0.0)
    weight = at.weight(at.builder.kept(kernel, w)) if isinstance(kernel, np.ndarray) else at.value(kernel)
    made = ops.conv2d(v, weight, None if bias is None else at.value(bias), pair(windows.stride),
                      pair(windows.before) if windows.are_even else 0, pair(windows.dilation), group)  # fmt: skip
    return windows.back(made)


def transposed_convolution(at: Node, x: Any, w: Any, bias: Any = None, *, auto_pad: str = "NOTSET", dilations: Any = None,
                           group: int = 1, kernel_shape: Any = None, output_padding: Any = None, output_shape: Any = None,
                           pads: Any = None, strides: Any = None) -> Any:  # fmt: skip
    at.known(w)
    windows = Windows(at.value(x), w.shape[2:], strides, dilations, None, "NOTSET")
    front = [0] if windows.is_signal else []
    n = len(w.shape) - 2
    more = front + list(output_padding or [0] * n)
    given = list(pads or [0] * 2 * n)
    before, after = front + given[:n], front + given[n:]
    wanted = None if output_shape is None else ([1] if windows.is_signal else []) + list(output_shape)[-n:]
    for i in range(2):
        if wanted is None and auto_pad not in ("SAME_UPPER", "SAME_LOWER"):
            continue
        size = constant_size_of(windows.sizes[i])
        full = windows.stride[i] * (size - 1) + more[i] + windows.span[i]
        total = full - (wanted[i] if wanted is not None else size * windows.stride[i])
        if total < 0:
            more[i], total = more[i] - total, 0
        small, large = total // 2, total - total // 2
        before[i], after[i] = (small, large) if auto_pad == "SAME_UPPER" else (large, small)
    # What is cut off differs in front and behind: the whole is made, and cut.
    kernel = at.builder.kept(four_axes(at, w, windows.is_signal), w)
    even = before == after and all(m < max(s, d) for m, s, d in zip(more, windows.stride, windows.dilation, strict=True))
    made = ops.conv_transpose2d(windows.x, at.weight(kernel), None if bias is None else at.value(bias), pair(windows.stride),
                                pair(before) if even else 0, pair(more) if even else 0, pair(windows.dilation), group)  # fmt: skip
    if not even:
        if any(more):
            raise UnsupportedError("weft does not have this output_padding beside these pads")
        for i in range(2):
            if before[i] or after[i]:
                made = ops.slice(made, 2 + i, before[i], made.shape[2 + i] - after[i])
    return windows.back(made)


def taps(windows: Windows, v: Value, combine: Callable[[Value, Value], Value]) -> Value:
    """Windows with gaps: element by element of the kernel, all windows at once."""
    made: Optional[Value] = None
    for y in range(windows.kernel[0]):
        for x in range(windows.kernel[1]):
            part = v
            for axis, place in ((2, y), (3, x)):
                begin = place * windows.dilation[axis - 2]
                end = v.shape[axis] - (windows.span[axis - 2] - 1 - begin)
                part = ops.slice(part, axis, begin, end, windows.stride[axis - 2])
            made = part if made is None else combine(made, part)
    assert made is not None
    return made


def max_pool(at: Node, x: Any, *, kernel_shape: Any, auto_pad: str = "NOTSET", ceil_mode: int = 0, dilations: Any = None,
             pads: Any = None, storage_order: int = 0, strides: Any = None) -> Any:  # fmt: skip
    windows = Windows(at.value(x, "f32"), kernel_shape, strides, dilations, pads, auto_pad)
    if ceil_mode:
        windows.round_up()
    direct = windows.are_even and windows.are_within
    v = windows.x if direct and not windows.have_gaps else windows.padded(-math.inf)
    if windows.have_gaps:
        made = taps(windows, v, ops.maximum)
    else:
        made = ops.max_pool2d(v, pair(windows.kernel), pair(windows.stride), pair(windows.before) if direct else 0)
    return ops.cast(windows.back(made), TYPES[at.type(x)])


def window_counts(at: Node, windows: Windows, count_pads: bool) -> Value:
    """How many elements each window has, {h', w'}."""
    counts = []
    for i in range(2):
        size = constant_size_of(windows.sizes[i])
        there = np.pad(np.ones(size), (windows.before[i], windows.after[i]), constant_values=float(count_pads))
        there = np.pad(there, (0, windows.extra[i]))
        seen = np.lib.stride_tricks.sliding_window_view(there, windows.span[i])[:: windows.stride[i], :: windows.dilation[i]]
        counts.append(seen.sum(-1))
    return at.value(np.outer(*counts).astype(np.float32))


def window_sums(windows: Windows) -> Value:
    v = windows.padded(0.0)
    if windows.have_gaps:
        return taps(windows, v, lambda a, b: a + b)
    return ops.avg_pool2d(v, pair(windows.kernel), pair(windows.stride), 0) * float(np.prod(windows.kernel))


def average_pool(at: Node, x: Any, *, kernel_shape: Any, auto_pad: str = "NOTSET", ceil_mode: int = 0, count_include_pad: int = 0,
                 dilations: Any = None, pads: Any = None, strides: Any = None) -> Any:  # fmt: skip
    windows = Windows(at.value(x), kernel_shape, strides, dilations, pads, auto_pad)
    if ceil_mode:
        windows.round_up()
    if windows.are_even and windows.are_within and not windows.have_gaps:
        made = ops.avg_pool2d(windows.x, pair(windows.kernel), pair(windows.stride), pair(windows.before), bool(count_include_pad))
    else:
        made = window_sums(windows) / window_counts(at, windows, bool(count_include_pad))
    return windows.back(made)


def norm_pool(at: Node, x: Any, *, kernel_shape: Any, auto_pad: str = "NOTSET", ceil_mode: int = 0, dilations: Any = None,
              p: int = 2, pads: Any = None, strides: Any = None) -> Any:  # fmt: skip
    windows = Windows(ops.pow(ops.abs(at.value(x)), float(p)), kernel_shape, strides, dilations, pads, auto_pad)
    if ceil_mode:
        windows.round_up()
    return ops.pow(windows.back(window_sums(windows)), 1 / p)


def over_pictures(make: Callable[..., Value]) -> Callable[..., Any]:
    def convert(at: Node, x: Any) -> Any:
        v = at.value(x)
        return make(v, list(range(2, v.ndim)), True)

    return convert


def by_channel(at: Node, x: Any, rank: int) -> Value:
    """Numbers of channels {c}, beside values {n, c, ...}."""
    if isinstance(x, np.ndarray):
        return at.value(at.builder.kept(x.reshape(-1, *[1] * (rank - 2)), x))
    v = at.value(x)
    return ops.reshape(v, (*v.shape, *[1] * (rank - 2)))


def batch_norm(at: Node, x: Any, scale: Any, bias: Any, mean: Any, variance: Any, *, epsilon: float = 1e-5, momentum: float = 0.9,
               training_mode: int = 0, spatial: int = 1) -> Any:  # fmt: skip
    if training_mode or not spatial:
        raise UnsupportedError(f"weft does not have training_mode={training_mode}, spatial={spatial}")
    v = at.value(x)
    if all(isinstance(one, np.ndarray) for one in (scale, bias, mean, variance)):
        factor = scale.astype(np.float64) / np.sqrt(variance.astype(np.float64) + epsilon)
        summand = bias - mean * factor
        channels = (by_channel(at, one.astype(np.float32), v.ndim) for one in (factor, summand))
        return v * next(channels) + next(channels)
    s, b, m, d = (by_channel(at, one, v.ndim) for one in (scale, bias, mean, variance))
    return (v - m) * (s * ops.rsqrt(d + epsilon)) + b


def instance_norm(at: Node, x: Any, scale: Any, bias: Any, *, epsilon: float = 1e-5) -> Any:
    v = at.value(x)
    over = list(range(2, v.ndim))
    away = v - ops.mean(v, over, True)
    return away * ops.rsqrt(ops.mean(ops.square(away), over, True) + epsilon) * by_channel(at, scale, v.ndim) + by_channel(at, bias, v.ndim)


def of_last_axes(make: Callable[..., Value]) -> Callable[..., Any]:
    """Norms of rows that end the shape."""

    def convert(at: Node, x: Any, scale: Any, bias: Any = None, *, axis: int = -1, epsilon: float = 1e-5, stash_type: int = 1) -> Any:
        v = at.value(x)
        first = axis_of(axis, v.ndim)
        rest = tuple(v.shape[first:])
        if sum(at.wanted) > 1 or any(one is not None and tuple(one.shape) != rest for one in (scale, bias)):
            return NotImplemented
        columns = product(rest)
        if not isinstance(columns, int):
            return NotImplemented

        def row(one: Any) -> Value:
            return at.value(at.builder.kept(one.reshape(-1), one)) if isinstance(one, np.ndarray) else ops.reshape(at.value(one), (columns,))

        flat = v if len(rest) == 1 else ops.reshape(v, (*v.shape[:first], columns))
        weights = [row(one) for one in (scale, bias) if one is not None]
        made = make(flat, *weights, eps=epsilon)
        return made if len(rest) == 1 else ops.reshape(made, v.shape)

    return convert


def lp_norm(at: Node, x: Any, *, axis: int = -1, p: int = 2) -> Any:
    v = at.value(x)
    size = ops.sum(ops.abs(v), axis, True) if p == 1 else ops.sqrt(ops.sum(ops.square(v), axis, True))
    return ops.where(ops.equal(ops.broadcast_to(size, v.shape), 0.0), ops.full(v.graph, v.shape, 0.0), v / size)


def local_response(at: Node, x: Any, *, alpha: float = 1e-4, beta: float = 0.75, bias: float = 1.0, size: int) -> Any:
    v = at.value(x)
    before = (size - 1) // 2
    squares = ops.pad(ops.square(v), 1, before, size - 1 - before)
    channels = v.shape[1]
    total = None
    for place in range(size):
        part = ops.slice(squares, 1, place, channels + place)
        total = part if total is None else total + part
    assert total is not None
    return v * ops.pow(total * (alpha / size) + bias, -beta)


def resize(at: Node, x: Any, roi: Any = None, scales: Any = None, wanted: Any = None, *, antialias: int = 0, axes: Any = None,
           coordinate_transformation_mode: str = "half_pixel", cubic_coeff_a: float = -0.75, exclude_outside: int = 0,
           extrapolation_value: float = 0.0, keep_aspect_ratio_policy: str = "stretch", mode: str = "nearest",
           nearest_mode: str = "round_prefer_floor") -> Any:  # fmt: skip
    if at.version < 11:
        scales, coordinate_transformation_mode, nearest_mode = roi, "asymmetric", "floor"
    v = at.value(x)
    along = [axis_of(axis, v.ndim) for axis in axes] if axes is not None else list(range(v.ndim))
    if scales is not None and at.known(scales).size:
        factors = [float(one) for one in at.known(scales).tolist()]
    else:
        goals = at.ints(wanted)
        factors = [1.0 if goal == v.shape[axis] else goal / constant_size(v, axis) for axis, goal in zip(along, goals, strict=True)]
        scales = None
    if scales is None and keep_aspect_ratio_policy != "stretch":
        one = (min if keep_aspect_ratio_policy == "not_larger" else max)(factors)
        factors = [one] * len(factors)
        goals = [int(constant_size(v, axis) * one + 0.5) for axis in along]
    for place, (axis, factor_of) in enumerate(zip(along, factors, strict=True)):
        if factor_of == 1.0:
            continue
        size = constant_size(v, axis)
        # A scale says a length that need not be whole.
        length = size * factor_of if scales is not None or keep_aspect_ratio_policy != "stretch" else float(goals[place])
        goal = math.floor(length) if scales is not None else goals[place]
        from_places = source_places(size, goal, length, factor_of, coordinate_transformation_mode)
        v = along_places(at, v, axis, from_places, factor_of, mode, nearest_mode, cubic_coeff_a, bool(exclude_outside), bool(antialias))
    return v


def source_places(size: int, goal: int, length: float, scale: float, mode: str) -> Any:
    """Where in an axis of `size` elements the elements of the result come from."""
    y = np.arange(goal, dtype=np.float64)
    if mode == "align_corners":
        return y * (size - 1) / (length - 1) if length != 1 else y * 0.0
    if mode == "asymmetric":
        return y / scale
    if mode == "pytorch_half_pixel" and length <= 1:
        return y * 0.0
    if mode in ("half_pixel", "pytorch_half_pixel"):
        return (y + 0.5) / scale - 0.5
    if mode == "half_pixel_symmetric":
        return size / 2 * (1 - goal / length) + (y + 0.5) / scale - 0.5
    raise UnsupportedError(f"weft does not have coordinate_transformation_mode={mode!r}")


def along_places(at: Node, v: Value, axis: int, from_places: Any, scale: float, mode: str, nearest_mode: str, a: float,
                 exclude_outside: bool, antialias: bool) -> Value:  # fmt: skip
    """An axis read at places between its elements."""
    size = constant_size(v, axis)
    if mode == "nearest":
        nearest = {
            "round_prefer_floor": lambda p: np.ceil(p - 0.5), "round_prefer_ceil": lambda p: np.floor(p + 0.5),
            "floor": np.floor, "ceil": np.ceil,
        }[nearest_mode](from_places)  # fmt: skip
        return ops.take(v, at.value(np.clip(nearest, 0, size - 1).astype(np.int32)), axis)
    # Each element of the result is a mean of neighbours: as a product with their shares.
    reach, stretch = (2 if mode == "cubic" else 1), (min(scale, 1.0) if antialias else 1.0)
    low = np.floor(from_places)
    first, last = math.floor(-reach / stretch) + 1, math.ceil(reach / stretch)
    shares = np.zeros((len(from_places), size))
    for step in range(first, last + 1):
        share = kernel_at((low + step - from_places) * stretch, mode, a)
        neighbour = low + step
        if exclude_outside:
            share = np.where((neighbour < 0) | (neighbour >= size), 0.0, share)
        np.add.at(shares, (np.arange(len(from_places)), np.clip(neighbour, 0, size - 1).astype(int)), share)
    shares /= shares.sum(1, keepdims=True)
    order = [*(one for one in range(v.ndim) if one != axis), axis]
    made = rows_times(ops.permute(v, order), at.weight(shares.astype(np.float32)))
    return ops.permute(made, [order.index(one) for one in range(v.ndim)])


def kernel_at(distance: Any, mode: str, a: float) -> Any:
    d = np.abs(distance)
    if mode == "linear":
        return np.maximum(1 - d, 0)
    if mode != "cubic":
        raise UnsupportedError(f"weft does not have mode={mode!r}")
    near, far = ((a + 2) * d - (a + 3)) * d * d + 1, (((d - 5) * d + 8) * d - 4) * a
    return np.where(d <= 1, near, np.where(d < 2, far, 0.0))


def upsample(at: Node, x: Any, scales_input: Any = None, *, scales: Any = None, mode: str = "nearest") -> Any:
    v = at.value(x)
    given = at.known(scales_input).tolist() if scales_input is not None else scales
    for axis, scale in enumerate(given):
        if scale != 1:
            size = constant_size(v, axis)
            y = np.arange(math.floor(size * scale)) / scale
            v = along_places(at, v, axis, y, scale, mode, "floor", 0.0, False, False)
    return v


# Products of named axes, and attention.


def einsum(at: Node, *all: Any, equation: str) -> Any:
    terms, _, result = equation.replace(" ", "").partition("->")
    inputs = terms.split(",")
    if "..." in equation or len(inputs) > 2 or any(len(set(one)) < len(one) for one in [*inputs, result]):
        raise UnsupportedError(f"weft does not have the equation {equation!r}")
    if "->" not in equation:
        letters = "".join(inputs)
        result = "".join(sorted(one for one in set(letters) if letters.count(one) == 1))
    parts = []
    for place, (names, x) in enumerate(zip(inputs, all, strict=True)):
        others = result + "".join(inputs[:place] + inputs[place + 1 :])
        alone = [i for i, name in enumerate(names) if name not in others]
        v = factor(at, x)
        parts.append(("".join(name for name in names if name in others), ops.sum(v, alone, False) if alone else v))
    names, made = parts[0]
    if len(parts) == 2:
        (left, a), (right, b) = parts
        size_of = dict(zip(left, a.shape, strict=True)) | dict(zip(right, b.shape, strict=True))
        batch = [name for name in left if name in right and name in result]
        rows = [name for name in left if name not in right]
        columns = [name for name in right if name not in left]
        inner = [name for name in left if name in right and name not in result]

        def matrices(v: Value, own: str, *groups: Sequence[str]) -> Value:
            v = ops.permute(v, [own.index(name) for group in groups for name in group]) if v.ndim else v
            return ops.reshape(v, [product(size_of[name] for name in group) for group in groups])

        made = ops.matmul(matrices(a, left, batch, rows, inner), matrices(b, right, batch, inner, columns))
        names = "".join([*batch, *rows, *columns])
        made = ops.reshape(made, [size_of[name] for name in names])
    return ops.permute(made, [names.index(name) for name in result]) if result else made


def attention(at: Node, q: Any, k: Any, v: Any, mask: Any = None, past_key: Any = None, past_value: Any = None, lengths: Any = None, *,
              is_causal: int = 0, kv_num_heads: int = 0, left_window_size: int = -1, q_num_heads: int = 0, qk_matmul_output_mode: int = 0,
              right_window_size: int = -1, scale: float = 0.0, softcap: float = 0.0, softmax_precision: int = 1) -> Any:  # fmt: skip
    if len(at.wanted) > 3 and at.wanted[3]:
        raise UnsupportedError("weft does not give the scores of attention")
    is_flat = len(q.shape) == 3

    def heads(x: Any, n: int) -> Value:
        if not is_flat:
            return at.value(x)
        b, s, width = x.shape
        return ops.permute(ops.reshape(at.value(x), (b, s, n, width // n)), [0, 2, 1, 3])

    queries, keys, values = heads(q, q_num_heads), heads(k, kv_num_heads), heads(v, kv_num_heads)
    past: Any = 0
    if past_key is not None:
        past = past_key.shape[2]
        keys, values = ops.concat([at.value(past_key), keys], 2), ops.concat([at.value(past_value), values], 2)
    graph, m, n = queries.graph, queries.shape[2], keys.shape[2]
    key, seen = ops.reshape(ops.arange(graph, 0, n), (1, 1, 1, n)), None

    def see(allowed: Value) -> None:
        nonlocal seen
        seen = allowed if seen is None else ops.logical_and(seen, allowed)

    plain = is_causal and lengths is None and isinstance(past, int) and past == 0
    if left_window_size >= 0 or right_window_size >= 0 or (is_causal and not plain) or lengths is not None:
        place = ops.reshape(ops.arange(graph, past, past + m), (1, 1, m, 1))
        if lengths is not None:
            held = ops.reshape(at.value(lengths), (lengths.shape[0], 1, 1, 1))
            see(ops.less(key, held))
            if past_key is None:
                place = place + (held - m if isinstance(m, int) else held - at.value(sizes([m])))
        if is_causal:
            see(ops.less_equal(key, place))
            plain = False
        if left_window_size >= 0:
            see(ops.greater_equal(key, place - left_window_size))
        if right_window_size >= 0:
            see(ops.less_equal(key, place + right_window_size))
    bias = None
    if mask is not None:
        bias = at.value(mask)
        if bias.shape[-1] != n:
            bias = padded(bias, bias.ndim - 1, 0, n - bias.shape[-1], 0 if at.type(mask) == BOOL else -math.inf)
        if at.type(mask) == BOOL:
            see(bias)
            bias = None
    if seen is not None:
        bias = seen if bias is None else ops.where(seen, bias, -math.inf)
    made = ops.scaled_dot_product_attention(queries, keys, values, bias, bool(plain), scale, softcap)
    if is_flat:
        made = ops.permute(made, [0, 2, 1, 3])
        made = ops.reshape(made, (made.shape[0], made.shape[1], made.shape[2] * made.shape[3]))
    return [made, keys, values][: at.n_outputs]


def prelu(at: Node, x: Any, slope: Any) -> Any:
    v = at.value(x)
    steep = by_channel(at, slope, v.ndim) if at.version < 7 and slope.shape != (1,) else at.value(slope)
    return ops.maximum(v, 0.0) + ops.minimum(v, 0.0) * steep


# Recurrent cells.


def directions(direction: str) -> list[bool]:
    """Whether each goes backwards."""
    return {"forward": [False], "reverse": [True], "bidirectional": [False, True]}[direction]


def gates(array: Any, order: Sequence[int]) -> Any:
    """Rows of gates in another order."""
    parts = np.split(array, len(order))
    return np.concatenate([parts[place] for place in order])


def recurrent(at: Node, x: Any, w: Any, r: Any, starts: Sequence[Any], direction: str, layout: int,
              cell: Callable[..., tuple[Value, ...]]) -> Any:  # fmt: skip
    """Y {t, directions, b, h} and what is left of each state {directions, b, h}."""
    at.known(w), at.known(r)
    v = at.value(x)
    if layout:
        v = ops.permute(v, [1, 0, 2])
    outputs, lefts = [], []
    for place, back in enumerate(directions(direction)):
        own = []
        for one in starts:
            own.append(None if one is None else at.value(one))
            if own[-1] is not None:
                start = ops.permute(own[-1], [1, 0, 2]) if layout else own[-1]
                own[-1] = ops.squeeze(ops.slice(start, 0, place, place + 1), 0)
        y, *left = cell(place, ops.flip(v, 0) if back else v, own)
        outputs.append(ops.unsqueeze(ops.flip(y, 0) if back else y, 1))
        lefts.append([ops.unsqueeze(one, 0) for one in left])
    y = outputs[0] if len(outputs) == 1 else ops.concat(outputs, 1)
    left = [one[0] if len(one) == 1 else ops.concat(list(one), 0) for one in zip(*lefts, strict=True)]
    if layout:
        y, left = ops.permute(y, [2, 0, 1, 3]), [ops.permute(one, [1, 0, 2]) for one in left]
    return [y, *left]


def check_cell(lengths: Any, activations: Any, usual: Sequence[str], direction: str, clip: float) -> None:
    if lengths is not None:
        raise UnsupportedError("weft does not have sequence_lens")
    if activations is not None and list(activations) != list(usual) * len(directions(direction)):
        raise UnsupportedError(f"weft does not have activations={activations}")
    if clip:
        raise UnsupportedError(f"weft does not have clip={clip}")


def lstm(at: Node, x: Any, w: Any, r: Any, bias: Any = None, lengths: Any = None, h0: Any = None, c0: Any = None, peephole: Any = None, *,
         hidden_size: int, direction: str = "forward", layout: int = 0, activations: Any = None, activation_alpha: Any = None,
         activation_beta: Any = None, clip: float = 0.0, input_forget: int = 0) -> Any:  # fmt: skip
    check_cell(lengths, activations, ["Sigmoid", "Tanh", "Tanh"], direction, clip)
    if input_forget or peephole is not None:
        raise UnsupportedError("weft does not have input_forget, and no peepholes")
    order = [0, 2, 3, 1]  # ONNX has i o f g.

    def cell(place: int, v: Value, starts: Sequence[Any]) -> tuple[Value, ...]:
        b = None
        if bias is not None:
            both = np.split(at.known(bias)[place], 2)
            b = at.value(gates(both[0] + both[1], order))
        h, c = starts
        return ops.lstm(rows_times(v, at.weight(gates(w[place], order)), b), at.weight(gates(r[place], order)), h, c)

    return recurrent(at, x, w, r, [h0, c0], direction, layout, cell)


def gru(at: Node, x: Any, w: Any, r: Any, bias: Any = None, lengths: Any = None, h0: Any = None, *, hidden_size: int,
        direction: str = "forward", layout: int = 0, activations: Any = None, activation_alpha: Any = None, activation_beta: Any = None,
        clip: float = 0.0, linear_before_reset: int = 0) -> Any:  # fmt: skip
    check_cell(lengths, activations, ["Sigmoid", "Tanh"], direction, clip)
    if not linear_before_reset:
        raise UnsupportedError("weft does not have linear_before_reset=0")
    order = [1, 0, 2]  # ONNX has z r n.

    def cell(place: int, v: Value, starts: Sequence[Any]) -> tuple[Value, ...]:
        b = own = None
        if bias is not None:
            outer, inner = (gates(one, order) for one in np.split(at.known(bias)[place], 2))
            own = at.value(inner[2 * hidden_size :].copy())
            b = at.value(outer + np.concatenate([inner[: 2 * hidden_size], np.zeros(hidden_size, outer.dtype)]))
        return ops.gru(rows_times(v, at.weight(gates(w[place], order)), b), at.weight(gates(r[place], order)), starts[0], own)

    return recurrent(at, x, w, r, [h0], direction, layout, cell)


# Of 8 bits.


def along_axis(at: Node, x: Any, rank: int, axis: int) -> Value:
    """Numbers for all, or one for each place along an axis, beside a value of this rank."""
    v = at.value(x, "f32")
    if v.ndim > 1:
        raise UnsupportedError("weft has no scales of blocks")
    if v.ndim == 0 or v.shape == (1,):
        return ops.reshape(v, ()) if v.ndim else v
    shape: list[Any] = [1] * rank
    shape[axis_of(axis, rank)] = v.shape[0]
    return ops.reshape(v, shape)


def quantize(at: Node, x: Any, scale: Any, zero: Any = None, *, axis: int = 1, block_size: int = 0, output_dtype: int = 0,
             precision: int = 0, saturate: int = 1) -> Any:  # fmt: skip
    kind = at.type(zero) if zero is not None else output_dtype or TensorProto.UINT8
    if kind not in NARROW or block_size:
        raise UnsupportedError(f"weft does not quantize to {type_name(kind)}" + (" in blocks" if block_size else ""))
    count, least = NARROW[kind]
    v = at.value(x, "f32")
    made = ops.round(v / along_axis(at, scale, v.ndim, axis))
    if zero is not None:
        made = made + along_axis(at, zero, v.ndim, axis)
    return Tensor(ops.cast(ops.clamp(made, float(least), float(least + count - 1)), "i32"), kind)


def dequantize(at: Node, x: Any, scale: Any, zero: Any = None, *, axis: int = 1, block_size: int = 0, output_dtype: int = 0) -> Any:
    if block_size:
        raise UnsupportedError("weft does not dequantize blocks")
    v = at.value(x, "f32")
    if zero is not None:
        v = v - along_axis(at, zero, v.ndim, axis)
    return Tensor(v * along_axis(at, scale, v.ndim, axis), output_dtype or at.type(scale))


REDUCES = signature(reduction(ops.sum))

OPERATORS: Mapping[str, Callable[..., Any]] = {
    "Abs": absolute,
    "Acosh": unary(lambda v: ops.log1p((v - 1.0) + ops.sqrt((v - 1.0) * (v + 1.0)))),
    "Add": binary(lambda a, b: a + b),
    "And": binary(ops.logical_and, BOOL),
    "ArgMax": place_of(ops.argmax),
    "ArgMin": place_of(ops.argmin),
    "Asinh": unary(inverse_hyperbolic_sine),
    "Attention": attention,
    "Atanh": unary(lambda v: (ops.log1p(v) - ops.log1p(-v)) * 0.5),
    "AveragePool": average_pool,
    "BatchNormalization": batch_norm,
    "Cast": cast,
    "CastLike": cast_like,
    "Ceil": unary(ops.ceil),
    "Clip": clip,
    "Concat": concat,
    "ConstantOfShape": constant_of_shape,
    "Conv": convolution,
    "ConvTranspose": transposed_convolution,
    "Cos": unary(ops.cos),
    "Cosh": unary(lambda v: (ops.exp(v) + ops.exp(-v)) * 0.5),
    "CumSum": cumulative_sum,
    "DepthToSpace": depth_to_space,
    "DequantizeLinear": dequantize,
    "Div": divide,
    "Dropout": dropout,
    "Einsum": einsum,
    "Elu": elu,
    "Equal": binary(ops.equal, BOOL),
    "Erf": unary(ops.erf),
    "Exp": unary(ops.exp),
    "Expand": expand,
    "Flatten": flatten,
    "Floor": unary(ops.floor),
    "GRU": gru,
    "Gather": gather,
    "GatherElements": gather_elements,
    "GatherND": gather_nd,
    "Gelu": gelu,
    "Gemm": gemm,
    "GlobalAveragePool": over_pictures(ops.mean),
    "GlobalMaxPool": over_pictures(ops.max),
    "Greater": binary(ops.greater, BOOL),
    "GreaterOrEqual": binary(ops.greater_equal, BOOL),
    "Hardmax": hardmax,
    "Identity": identity,
    "InstanceNormalization": instance_norm,
    "IsInf": is_inf,
    "IsNaN": unary(ops.isnan, BOOL),
    "LRN": local_response,
    "LSTM": lstm,
    "LayerNormalization": of_last_axes(ops.layer_norm),
    "LeakyRelu": leaky_relu,
    "Less": binary(ops.less, BOOL),
    "LessOrEqual": binary(ops.less_equal, BOOL),
    "Log": unary(ops.log),
    "LogSoftmax": log_softmax,
    "LpNormalization": lp_norm,
    "LpPool": norm_pool,
    "MatMul": matmul,
    "Max": all_of(ops.maximum),
    "MaxPool": max_pool,
    "Mean": mean_of,
    "Min": all_of(ops.minimum),
    "Mod": modulo,
    "Mul": binary(lambda a, b: a * b),
    "Neg": lambda at, x: Tensor(wrapped(negative(at.value(x)), at.type(x)), at.type(x)),
    "Not": lambda at, x: ops.logical_not(at.value(x)),
    "OneHot": one_hot,
    "Or": binary(ops.logical_or, BOOL),
    "PRelu": prelu,
    "Pad": pad,
    "Pow": power,
    "QuantizeLinear": quantize,
    "RMSNormalization": of_last_axes(ops.rms_norm),
    "Range": numbers_from,
    "Reciprocal": unary(ops.reciprocal),
    "ReduceL1": reduction(ops.sum, before=ops.abs),
    "ReduceL2": reduction(ops.sum, before=ops.square, after=ops.sqrt),
    "ReduceLogSum": reduction(ops.sum, after=ops.log),
    "ReduceLogSumExp": reduction(ops.logsumexp),
    "ReduceMax": extreme(by_kind(ops.max, of_whole(lambda v: ops.sort(v, -1))), ops.any),
    "ReduceMean": reduction(ops.mean),
    "ReduceMin": extreme(by_kind(ops.min, of_whole(lambda v: ops.sort(v, -1, True))), ops.all),
    "ReduceProd": reduction(ops.prod),
    "ReduceSum": reduction(by_kind(ops.sum, of_whole(lambda v: ops.cumsum(v, -1))), whole=True),
    "ReduceSumSquare": reduction(ops.sum, before=ops.square),
    "Relu": unary(ops.relu),
    "Reshape": reshape,
    "Resize": resize,
    "Round": unary(ops.round),
    "ScatterElements": scatter_elements,
    "Scatter": scatter_elements,
    "ScatterND": scatter_nd,
    "Shape": shape_of,
    "Sigmoid": unary(ops.sigmoid),
    "Sign": sign,
    "Sin": unary(ops.sin),
    "Sinh": unary(lambda v: (ops.expm1(v) - ops.expm1(-v)) * 0.5),
    "Size": size_of,
    "Slice": slice_of,
    "Softmax": softmax,
    "Softplus": unary(ops.softplus),
    "SpaceToDepth": space_to_depth,
    "Split": split,
    "Sqrt": unary(ops.sqrt),
    "Squeeze": squeeze,
    "Sub": binary(lambda a, b: a - b),
    "Sum": all_of(lambda a, b: a + b),
    "Swish": swish,
    "Tan": unary(lambda v: ops.sin(v) / ops.cos(v)),
    "Tanh": unary(ops.tanh),
    "Tile": tile,
    "TopK": top_k,
    "Transpose": transpose,
    "Trilu": trilu,
    "Unsqueeze": unsqueeze,
    "Upsample": upsample,
    "Where": where,
    "Xor": binary(ops.not_equal, BOOL),
}
