"""The functions for building graphs. Each has its name in NumPy or PyTorch.

An operand may be a value, an array of NumPy, which becomes a constant of the graph, or, of functions of two, a number."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Optional, Union

from . import _weft
from ._weft.ops import *  # noqa: F403
from ._weft.ops import (
    abs, add, argsort, broadcast_to, cast, clamp, concat, divide, exp, expm1, full, greater, less, log, logsumexp, matmul, maximum,
    minimum, multiply, pow, reshape, remainder, sin, cos, slice, sqrt, subtract, take, take_along_axis, var,
)  # fmt: skip

Value = _weft.Value
Axis = Optional[Union[int, Sequence[int]]]

# Other names of the same.
absolute, power, mod = abs, pow, remainder
sub, mul, div, true_divide = subtract, multiply, divide, divide
clip, bmm, expand = clamp, matmul, broadcast_to


def negative(x: Value) -> Value:
    return -x


neg = negative


def cat(values: Sequence[Any], axis: int = 0) -> Value:
    """concat() with the first axis as the default, as in PyTorch."""
    return concat(values, axis)


concatenate = cat


def zeros(graph: _weft.Graph, shape: Sequence[Any]) -> Value:
    return full(graph, shape, 0.0)


def ones(graph: _weft.Graph, shape: Sequence[Any]) -> Value:
    return full(graph, shape, 1.0)


def sign(x: Value) -> Value:
    """-1, 0 or 1."""
    return cast(subtract(greater(x, 0.0), less(x, 0.0)), x.dtype)


def tan(x: Value) -> Value:
    return divide(sin(x), cos(x))


def sinh(x: Value) -> Value:
    return multiply(subtract(expm1(x), expm1(-x)), 0.5)


def cosh(x: Value) -> Value:
    return multiply(add(exp(x), exp(-x)), 0.5)


def std(x: Value, axis: Axis = None, keepdims: bool = False) -> Value:
    """The population standard deviation, as in NumPy."""
    return sqrt(var(x, axis, keepdims))


def log2(x: Value) -> Value:
    return multiply(log(x), 1.4426950408889634)


def log10(x: Value) -> Value:
    return multiply(log(x), 0.4342944819032518)


def log_softmax(x: Value, axis: int = -1) -> Value:
    return subtract(x, logsumexp(x, axis, True))


def leaky_relu(x: Value, negative_slope: float = 0.01) -> Value:
    return add(maximum(x, 0.0), multiply(minimum(x, 0.0), negative_slope))


def elu(x: Value, alpha: float = 1.0) -> Value:
    return add(maximum(x, 0.0), multiply(expm1(minimum(x, 0.0)), alpha))


def hardsigmoid(x: Value) -> Value:
    return clamp(add(multiply(x, 1 / 6), 0.5), 0.0, 1.0)


def hardswish(x: Value) -> Value:
    return multiply(x, hardsigmoid(x))


def hardtanh(x: Value, min_val: float = -1.0, max_val: float = 1.0) -> Value:
    return clamp(x, min_val, max_val)


def flatten(x: Value, start_dim: int = 0) -> Value:
    """The axes from this one on as one."""
    first = start_dim + x.ndim if start_dim < 0 else start_dim
    return reshape(x, (*x.shape[:first], -1))


def embedding(indices: Any, weight: Value) -> Value:
    """Rows of a table."""
    return take(weight, indices) if indices.ndim == 1 else reshape(take(weight, flatten(indices)), (*indices.shape, weight.shape[-1]))


def gather(x: Value, axis: int, indices: Any) -> Value:
    """As torch.gather."""
    return take_along_axis(x, indices, axis)


def topk(x: Value, k: int, axis: int = -1, largest: bool = True) -> tuple[Value, Value]:
    """The k largest or smallest, in order, and their places."""
    places = slice(argsort(x, axis, largest), axis, 0, k)
    return take_along_axis(x, places, axis), places
