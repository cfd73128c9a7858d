"""Ops over axes."""

from __future__ import annotations

from collections.abc import Callable
from inspect import signature
from typing import Any

from ... import ops
from ...errors import UnsupportedError
from ..build import Node, Tensor, type_name
from ..known import product
from ..wide import joined
from .common import BOOL, INT64, Value, axis_of, constant_size, zeros


def axes_given(at: Node, x: Any, axes_input: Any, axes: Any, empty_is_none: int) -> list[int] | None:
    """The axes to reduce; None if no axis is reduced."""
    rank = len(x.shape)
    given = at.ints(axes_input) if axes_input is not None else axes
    if not given:
        return None if empty_is_none else list(range(rank))
    return [axis_of(axis, rank) for axis in given]


def reduction(make: Callable[..., Value], before: Callable[[Value], Value] | None = None,
              after: Callable[[Value], Value] | None = None, whole: bool = False) -> Callable[..., Any]:  # fmt: skip
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


REDUCES = signature(reduction(ops.sum))


def extreme(of_numbers: Callable[..., Value], of_truths: Callable[..., Value]) -> Callable[..., Any]:
    def convert(at: Node, x: Any, *others: Any, **given: Any) -> Any:
        return reduction(of_truths if at.type(x) == BOOL else of_numbers, whole=True)(at, x, *others, **given)

    # It takes the inputs and attributes of reductions.
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


def softmax(at: Node, x: Any, *, axis: int | None = None) -> Any:
    return over_softmax_axis(at, x, axis, ops.softmax)


def log_softmax(at: Node, x: Any, *, axis: int | None = None) -> Any:
    return over_softmax_axis(at, x, axis, lambda v, a: v - ops.logsumexp(v, a, True))


def hardmax(at: Node, x: Any, *, axis: int | None = None) -> Any:
    def make(v: Value, along: int) -> Value:
        places = ops.argmax(v, along, True)
        size = constant_size(v, along)
        shape = [1] * v.ndim
        shape[along] = size
        return ops.cast(ops.equal(places, ops.reshape(ops.arange(v.graph, 0, size), shape)), "f32")

    return over_softmax_axis(at, x, axis, make)


def over_softmax_axis(at: Node, x: Any, axis: int | None, make: Callable[[Value, int], Value]) -> Any:
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
    return joined([zeros(v.graph, [*v.shape[:axis], 1, *v.shape[axis + 1 :]], v.dtype), v], axis)
