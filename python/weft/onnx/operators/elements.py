"""Ops of each element, of one value or of several that broadcast."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ... import ops
from ...errors import UnsupportedError
from ..build import TYPES, Node, Tensor, type_name
from ..known import Array, product
from ..wide import MOST, aligned, is_one
from .common import BOOL, NARROW, Value, axis_of, operands, scalar, wrapped, zeros
from .norms import by_channel


def unary(make: Callable[[Value], Value], to: int | None = None) -> Callable[..., Any]:
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


def hard_sigmoid(at: Node, x: Any, *, alpha: float = 0.2, beta: float = 0.5) -> Any:
    return ops.clamp(at.value(x) * alpha + beta, 0.0, 1.0)


def hard_swish(at: Node, x: Any) -> Any:
    return at.value(x) * hard_sigmoid(at, x, alpha=1 / 6)


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


def clip(at: Node, x: Any, least: Any = None, most: Any = None, *, min: float | None = None, max: float | None = None) -> Any:
    v = at.value(x)
    if v.dtype == "i32":  # No value is beyond 32 bits: nor does a bound have to be.
        limits = np.iinfo(np.int32)
        least, most = (np.asarray(np.clip(one, limits.min, limits.max)) if isinstance(one, np.ndarray) else one for one in (least, most))
    low, high = (scalar(bound, v) if isinstance(bound, np.ndarray) else number for bound, number in ((least, min), (most, max)))
    if v.dtype == "f32" and low is not None and high is not None:
        return ops.clamp(v, low, high)
    for bound, number, make in ((least, low, ops.maximum), (most, high, ops.minimum)):
        if number is not None:
            v = make(v, number)
        elif bound is not None:
            v = make(v, at.value(bound))
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


def binary(make: Callable[[Value, Any], Value], to: int | None = None) -> Callable[..., Any]:
    def convert(at: Node, a: Any, b: Any, *, axis: int | None = None, broadcast: int = 0) -> Any:
        kind = at.type(a)
        if broadcast and axis is not None:  # Before opset 7: b stands beside a's axes from this one on.
            shape = [*b.shape, *[1] * (len(a.shape) - axis_of(axis, len(a.shape)) - len(b.shape))]
            b = Tensor(ops.reshape(at.value(b), shape), at.type(b))
        made, wide = over_both(at, a, b, make)
        return Tensor(made, to, wide=wide) if to is not None else Tensor(wrapped(made, kind), kind, wide=wide)

    return convert


def over_both(at: Node, a: Any, b: Any, make: Callable[[Value, Any], Value]) -> tuple[Value, tuple[Any, ...] | None]:
    if max(len(a.shape), len(b.shape)) <= MOST:
        return make(*operands(at, a, b)), None
    left, right = aligned(a.shape, b.shape)
    rank = max(len(a.shape), len(b.shape))
    both = zip([1] * (rank - len(a.shape)) + list(a.shape), [1] * (rank - len(b.shape)) + list(b.shape), strict=True)
    shape = tuple(y if is_one(x) else x for x, y in both)
    made = make(ops.reshape(at.elements(a), left), ops.reshape(at.elements(b), right))
    return ops.reshape(made, (product(shape),)), shape


def of_channels(x: Any, rank: int) -> Array | None:
    """A known number of each channel, or of all, of values {n, c, ...}."""
    if not isinstance(x, np.ndarray) or x.dtype.kind != "f":
        return None
    shape = [1] * (rank - x.ndim) + list(x.shape)
    is_one = [size == 1 for size in shape]
    return x.reshape(-1) if x.ndim <= rank and all(is_one[:1] + is_one[2:]) else None


def affine(make: Callable[[Value, Any], Value], parts: Callable[[Array], tuple[Any, Any]]) -> Callable[..., Any]:
    """A sum or a product; with known numbers of channels it joins the convolution that makes the other operand. `parts` are the
    factor and the summand that the numbers are."""
    apart = binary(make)

    def convert(at: Node, a: Any, b: Any, *, axis: int | None = None, broadcast: int = 0) -> Any:
        for place, (x, other) in enumerate(((a, b), (b, a))):
            numbers = of_channels(other, len(x.shape))
            folded = None if broadcast or numbers is None else at.fold(place, x, *map(np.atleast_1d, parts(numbers)))
            if folded is not None:
                return folded
        return apart(at, a, b, axis=axis, broadcast=broadcast)

    return convert


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
    # Rounds towards 0; floor_divide rounds down.
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


def prelu(at: Node, x: Any, slope: Any) -> Any:
    v = at.value(x)
    steep = by_channel(at, slope, v.ndim) if at.version < 7 and slope.shape != (1,) else at.value(slope)
    return ops.maximum(v, 0.0) + ops.minimum(v, 0.0) * steep
