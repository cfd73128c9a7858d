"""Shared functions of operators."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from onnx import TensorProto

from ... import _weft, ops
from ...errors import UnsupportedError
from ..build import Node, Tensor, fit, single
from ..known import NeedsSizes

Value = _weft.Value
BOOL, FLOAT, INT64 = TensorProto.BOOL, TensorProto.FLOAT, TensorProto.INT64
FLT_MAX = float(np.finfo(np.float32).max)
# Whole numbers below 32 bits wrap around at their own size: how many there are, and the least.
NARROW: Mapping[int, tuple[int, int]] = {TensorProto.INT8: (1 << 8, -(1 << 7)), TensorProto.UINT8: (1 << 8, 0),
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
        raise NeedsSizes(f"the size of axis {axis} must be a number, not {size}: give it in sizes=")
    return size


def scalar(x: Any, other: Any) -> Any:
    """A known array of one element as a number, if weft accepts a number with the other operand and no digit is
    lost."""
    if not isinstance(x, np.ndarray) or x.size != 1 or x.ndim > len(other.shape) or x.dtype == object:
        return None
    number = float(x.reshape(-1)[0])
    if x.dtype.kind == "f":
        return None if math.isfinite(number) and abs(number) > FLT_MAX else number
    return number if abs(number) <= 1 << 24 else None


def operands(at: Node, a: Any, b: Any) -> tuple[Value, Any]:
    number = scalar(b, a) if isinstance(a, Tensor) else None
    return at.value(a), at.value(b) if number is None else number


def zeros(graph: Any, shape: Sequence[Any], dtype: str = "f32") -> Value:
    return ops.cast(ops.full(graph, shape, 0.0), dtype)


def filled(graph: Any, shape: Sequence[Any], number: Any, dtype: str) -> Value:
    """A value filled with a number. An integer with more digits than floats have is made from two numbers."""
    if dtype == "f32" or abs(number) <= 1 << 24:
        return ops.cast(ops.full(graph, shape, float(single(np.asarray(number), "a constant"))), dtype)
    n = int(fit(np.asarray(number), "a constant"))
    return ops.cast(ops.full(graph, shape, float(n >> 12)), dtype) * (1 << 12) + (n & 4095)


def constant_size_of(size: Any) -> int:
    if not isinstance(size, int):
        raise NeedsSizes(f"a size must be a number, not {size}: give it in sizes=")
    return size
