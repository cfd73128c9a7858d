"""Convolutions and pools. A signal {n, c, t} is an image of height 1."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ... import ops
from ...errors import UnsupportedError
from ..build import TYPES, Node, Tensor
from ..known import Array
from .common import Value, constant_size_of


class Windows:
    """The parameters of windows over a signal or an image: one number per axis (height, width)."""

    def __init__(self, x: Value, kernel: Sequence[int], strides: Any, dilations: Any, pads: Any, auto_pad: str) -> None:
        n = len(kernel)
        if n not in (1, 2) or x.ndim != n + 2:
            raise UnsupportedError(f"weft has windows over 1 or 2 axes, not {x.ndim - 2}")
        for given, count in ((strides, n), (dilations, n), (pads, 2 * n)):
            if given and len(given) != count:
                raise UnsupportedError(f"windows over {n} axes have {count} numbers, not {list(given)}")
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
        """ceil_mode: windows that begin before the end of the image count, too, if they reach beyond it."""
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
    """A kernel for images."""
    if not is_signal:
        return w
    return np.expand_dims(at.known(w), 2) if isinstance(w, np.ndarray) else Tensor(ops.unsqueeze(at.value(w), 2), at.type(w))


def convolution(at: Node, x: Any, w: Any, bias: Any = None, *, auto_pad: str = "NOTSET", dilations: Any = None, group: int = 1,
                kernel_shape: Any = None, pads: Any = None, strides: Any = None) -> Tensor:  # fmt: skip
    windows = Windows(at.value(x), w.shape[2:], strides, dilations, pads, auto_pad)
    are_known = isinstance(w, np.ndarray) and (bias is None or isinstance(bias, np.ndarray))
    kernel = four_axes(at, w, windows.is_signal)
    v = windows.x if windows.are_even else windows.padded(0.0)
    weight = at.weight(at.builder.kept(kernel, w)) if isinstance(kernel, np.ndarray) else at.value(kernel)
    made = ops.conv2d(v, weight, None if bias is None else at.value(bias), pair(windows.stride),
                      pair(windows.before) if windows.are_even else 0, pair(windows.dilation), group)  # fmt: skip

    def scaled(factor: Array, summand: Array) -> Tensor:
        times = factor.astype(np.float64)
        weights = w * times.reshape(-1, *[1] * (w.ndim - 1))
        biases = summand if bias is None else bias * times + summand
        return convolution(at, x, at.builder.kept(weights.astype(np.float32), w), at.builder.kept(biases.astype(np.float32), bias),
                           auto_pad=auto_pad, dilations=dilations, group=group, pads=pads, strides=strides)  # fmt: skip

    return Tensor(windows.back(made), at.type(x), scaled=scaled if are_known else None)


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
    # If the parts to cut off differ at the two ends, the whole result is computed and then cut.
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
    made: Value | None = None
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
    """The number of elements in each window, {h', w'}."""
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
