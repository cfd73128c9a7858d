"""Numbers of 8 and 16 bits, with scales."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from onnx import TensorProto

from ... import ops
from ...errors import UnsupportedError
from ..build import Node, Tensor, type_name
from . import products, windows
from .common import NARROW, Value, axis_of, constant_size
from .norms import by_channel


def along_axis(at: Node, x: Any, rank: int, axis: int) -> Value:
    """One number for all elements or one per index of an axis, shaped for a value of this rank."""
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


# 8-bit integers are multiplied as floats, whose sums are exact below 2^24. That is enough for EXACT products of at most
# 255 * 255.
EXACT = 256


def centred(at: Node, x: Any, zero: Any, axis: int) -> Any:
    """Without its zero point, as floats: known where both are."""
    if isinstance(x, np.ndarray) and (zero is None or isinstance(zero, np.ndarray)):
        shift = np.zeros((), np.int32) if zero is None else zero.astype(np.int32)
        if shift.size > 1 and shift.ndim == 1:
            shift = shift.reshape([-1 if i == axis_of(axis, x.ndim) else 1 for i in range(x.ndim)])
        return at.builder.kept((x.astype(np.int32) - shift).astype(np.float32), x)
    v = at.value(x, "f32")
    return Tensor(v if zero is None else v - along_axis(at, zero, v.ndim, axis), TensorProto.FLOAT)


def part_of(x: Any, axis: int, begin: int, end: int) -> Any:
    if isinstance(x, np.ndarray):
        return np.ascontiguousarray(np.take(x, np.arange(begin, end), axis))
    return Tensor(ops.slice(x.value, axis, begin, end), x.type)


def summed(parts: Sequence[Value]) -> Tensor:
    made = ops.cast(parts[0], "i32")
    for one in parts[1:]:
        made = made + ops.cast(one, "i32")
    return Tensor(made, TensorProto.INT32)


def matmul(at: Node, a: Any, b: Any, a_zero: Any = None, b_zero: Any = None) -> Tensor:
    left, right = centred(at, a, a_zero, -2), centred(at, b, b_zero, -1)
    inner, middle = len(left.shape) - 1, max(len(right.shape) - 2, 0)
    n = right.shape[middle]
    if isinstance(n, int) and n <= EXACT:
        return summed([at.value(products.matmul(at, left, right))])
    n = constant_size(right, middle)
    return summed([
        at.value(products.matmul(at, part_of(left, inner, i, min(i + EXACT, n)), part_of(right, middle, i, min(i + EXACT, n))))
        for i in range(0, n, EXACT)
    ])  # fmt: skip


def convolution(at: Node, x: Any, w: Any, x_zero: Any = None, w_zero: Any = None, *, auto_pad: str = "NOTSET", dilations: Any = None,
                group: int = 1, kernel_shape: Any = None, pads: Any = None, strides: Any = None) -> Tensor:  # fmt: skip
    moves = {"auto_pad": auto_pad, "dilations": dilations, "pads": pads, "strides": strides}
    v, kernel = centred(at, x, x_zero, 1), centred(at, w, w_zero, 0)
    channels = EXACT // int(np.prod(kernel.shape[2:]))
    n = kernel.shape[1]
    if n <= channels:
        return summed([at.value(windows.convolution(at, v, kernel, group=group, **moves))])
    if group != 1 or channels == 0:
        raise UnsupportedError(f"weft adds up {EXACT} products of whole numbers of a group at most")
    return summed([
        at.value(windows.convolution(at, part_of(v, 1, i, min(i + channels, n)), part_of(kernel, 1, i, min(i + channels, n)), **moves))
        for i in range(0, n, channels)
    ])  # fmt: skip


def requantized(at: Node, sums: Tensor, scale: Any, zero: Any, axis: int, *scales: Any) -> Tensor:
    """Sums of products, with scales of their factors, by the scale and the zero point of the result."""
    v = at.value(sums, "f32")
    for one in scales:
        v = v * along_axis(at, one, v.ndim, axis)
    return quantize(at, Tensor(v, TensorProto.FLOAT), scale, zero, axis=axis)


def scaled_matmul(at: Node, a: Any, a_scale: Any, a_zero: Any, b: Any, b_scale: Any, b_zero: Any, scale: Any, zero: Any) -> Tensor:
    sums = matmul(at, a, b, a_zero, b_zero)
    v = at.value(sums, "f32") * along_axis(at, a_scale, len(sums.shape), -2)
    return requantized(at, Tensor(v, TensorProto.FLOAT), scale, zero, -1, b_scale)


def scaled_convolution(at: Node, x: Any, x_scale: Any, x_zero: Any, w: Any, w_scale: Any, w_zero: Any, scale: Any, zero: Any,
                       bias: Any = None, *, auto_pad: str = "NOTSET", dilations: Any = None, group: int = 1,
                       kernel_shape: Any = None, pads: Any = None, strides: Any = None) -> Tensor:  # fmt: skip
    sums = convolution(at, x, w, x_zero, w_zero, auto_pad=auto_pad, dilations=dilations, group=group, pads=pads, strides=strides)
    if bias is not None:
        sums = Tensor(at.value(sums) + by_channel(at, bias, len(sums.shape)), TensorProto.INT32)
    return requantized(at, sums, scale, zero, 1, x_scale, w_scale)
