"""Norms and operations over whole images."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ... import ops
from ...errors import UnsupportedError
from ..build import Node
from ..known import product
from .common import Value, axis_of


def over_images(make: Callable[..., Value]) -> Callable[..., Any]:
    def convert(at: Node, x: Any) -> Any:
        v = at.value(x)
        return make(v, list(range(2, v.ndim)), True)

    return convert


def by_channel(at: Node, x: Any, rank: int) -> Value:
    """One number per channel {c}, shaped for values {n, c, ...}."""
    if isinstance(x, np.ndarray):
        return at.value(at.builder.kept(x.reshape(-1, *[1] * (rank - 2)), x))
    v = at.value(x)
    return ops.reshape(v, (*v.shape, *[1] * (rank - 2)))


def batch_norm(at: Node, x: Any, scale: Any, bias: Any, mean: Any, variance: Any, *, epsilon: float = 1e-5, momentum: float = 0.9,
               training_mode: int = 0, spatial: int = 1, is_test: int = 0) -> Any:  # fmt: skip
    if training_mode or not spatial or (at.version < 7 and not is_test):
        raise UnsupportedError(f"weft does not have training_mode={training_mode}, spatial={spatial}, is_test={is_test}")
    v = at.value(x)
    if all(isinstance(one, np.ndarray) for one in (scale, bias, mean, variance)):
        factor = scale.astype(np.float64) / np.sqrt(variance.astype(np.float64) + epsilon)
        summand = bias - mean * factor
        folded = at.fold(0, x, factor, summand)
        if folded is not None:
            return folded
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
