"""Fourier transforms, as products with matrices of cosines and sines, which are computed when a model is loaded."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ... import ops
from ...errors import UnsupportedError
from ..build import Node, Tensor
from ..known import Array, product
from ..wide import permuted
from .common import axis_of, constant_size
from .products import rows_times

LARGEST = 8192  # The matrix of so many points takes half a gigabyte.


def waves(n: int, n_bins: int) -> tuple[Array, Array]:
    """Real and imaginary part of the transform of n real points, {n_bins, n}. Angles are exact before they are rounded."""
    if not 1 <= n <= LARGEST:
        raise UnsupportedError(f"weft transforms 1 to {LARGEST} points, not {n}")
    angles = (np.outer(np.arange(n_bins), np.arange(n)) % n) * (2 * math.pi / n)
    return np.cos(angles), -np.sin(angles)


def short_time_fourier(at: Node, signal: Any, frame_step: Any, window: Any = None, frame_length: Any = None, *, onesided: int = 1) -> Any:
    """{n, samples} or {n, samples, 1} to {n, frames, bins, 2}: a convolution with windowed waves."""
    if len(signal.shape) == 3 and signal.shape[-1] != 1:
        raise UnsupportedError("weft has it for real signals")
    if frame_length is None and window is None:
        raise UnsupportedError("neither frame_length nor a window says how long frames are")
    n = int(at.number(frame_length)) if frame_length is not None else window.shape[0]
    factors = np.ones(n) if window is None else at.known(window).astype(np.float64)
    n_bins = n // 2 + 1 if onesided else n
    kernel = np.concatenate([part * factors for part in waves(n, n_bins)]).astype(np.float32)
    v = at.value(signal)
    rows = ops.reshape(v, (v.shape[0], 1, 1, v.shape[1]))
    weight = at.weight(at.builder.kept(kernel.reshape(2 * n_bins, 1, 1, n), window))
    made = ops.conv2d(rows, weight, None, (1, int(at.number(frame_step))))
    frames = made.shape[3]
    parts = ops.reshape(made, (v.shape[0], 2, n_bins, frames))
    return ops.permute(parts, [0, 3, 2, 1])


def fourier(at: Node, x: Any, length: Any = None, axis_input: Any = None, *, axis: int = 1, inverse: int = 0, onesided: int = 0) -> Any:
    """Along one axis of {..., 1} or of complex {..., 2}: rows times a matrix."""
    if inverse and onesided:
        raise UnsupportedError("weft has no inverse of one side")
    rank = len(x.shape)
    where_to = axis_of(int(at.number(axis_input)) if axis_input is not None else axis if at.version < 20 else -2, rank)
    v, shape = at.value(x), list(x.shape)
    n = constant_size(x, where_to)
    points = int(at.number(length)) if length is not None else n
    n_bins = points // 2 + 1 if onesided else points
    real, imaginary = waves(points, n_bins)
    if points < n:
        v = ops.slice(v, where_to, 0, points)
    shape[where_to] = min(points, n)
    real, imaginary = real[:, : shape[where_to]], imaginary[:, : shape[where_to]]
    if inverse:
        real, imaginary = real / points, -imaginary / points
    # Real points have no imaginary part. Rows are points, each with its parts.
    parts = [np.stack([real, imaginary], 1), np.stack([-imaginary, real], 1)][: shape[-1]]
    matrix = np.stack(parts, 3).reshape(2 * n_bins, -1).astype(np.float32)
    order = [i for i in range(rank - 1) if i != where_to] + [where_to, rank - 1]
    rows = ops.reshape(permuted(v, shape, order), (product(shape[i] for i in order[:-2]), matrix.shape[1]))
    made = rows_times(rows, at.weight(at.builder.kept(matrix, None)))
    there = [*(shape[i] for i in order[:-2]), n_bins, 2]
    back = [order.index(i) for i in range(rank)]
    return Tensor(ops.reshape(permuted(made, there, back), [there[i] for i in back]), at.type(x))
