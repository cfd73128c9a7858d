"""Numbers of 8 and 16 bits, with scales."""

from __future__ import annotations

from typing import Any

from onnx import TensorProto

from ... import ops
from ...errors import UnsupportedError
from ..build import Node, Tensor, type_name
from .common import NARROW, Value, axis_of


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
