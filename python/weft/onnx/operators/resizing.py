"""Pictures in other sizes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ... import ops
from ...errors import UnsupportedError
from ..build import Node
from .common import Value, axis_of, constant_size
from .products import rows_times


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
        # A scale gives a length that need not be an integer.
        length = size * factor_of if scales is not None or keep_aspect_ratio_policy != "stretch" else float(goals[place])
        goal = math.floor(length) if scales is not None else goals[place]
        from_places = source_places(size, goal, length, factor_of, coordinate_transformation_mode)
        v = along_places(at, v, axis, from_places, factor_of, mode, nearest_mode, cubic_coeff_a, bool(exclude_outside), bool(antialias))
    return v


def source_places(size: int, goal: int, length: float, scale: float, mode: str) -> Any:
    """The positions in an axis of `size` elements from which the elements of the result are computed."""
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
