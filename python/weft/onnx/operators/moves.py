"""Elements in other places."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from onnx import numpy_helper

from ... import ops
from ...errors import UnsupportedError
from ..build import TYPES, Node, Tensor
from ..known import NeedsSizes, number_of, product, sizes
from ..wide import MOST, along, expanded, is_one, joined, permuted
from .common import BOOL, FLOAT, INT64, Value, axis_of, constant_size, constant_size_of, filled


def reshape(at: Node, x: Any, shape: Any = None, *, allowzero: int = 0) -> Any:
    v = at.elements(x)
    wanted = [x.shape[i] if isinstance(size, int) and size == 0 and not allowzero else size for i, size in enumerate(at.ints(shape))]
    if wanted.count(-1) > 1:
        raise UnsupportedError(f"one size is what is left of the others, not several: {wanted}")
    if -1 in wanted:
        wanted[wanted.index(-1)] = rest_of(x.shape, [size for size in wanted if not (isinstance(size, int) and size == -1)])
    return at.shaped(v, wanted, x)


def rest_of(shape: Sequence[Any], others: Sequence[Any]) -> Any:
    """The size that is left. Sizes on both sides cancel."""
    above, below = list(shape), []
    for one in others:
        if one in above:
            above.remove(one)
        else:
            below.append(one)
    total, divisor = product(above), product(below)
    if not isinstance(divisor, int) or divisor < 1 or (total // divisor) * divisor != total:
        raise NeedsSizes(f"the size that -1 stands for must be plain: {list(shape)} without {list(others)}; give it in sizes=")
    return total // divisor


def flatten(at: Node, x: Any, *, axis: int = 1) -> Any:
    rank = len(x.shape)
    if not -rank <= axis <= rank:
        raise UnsupportedError(f"there is no axis {axis} of {rank}")
    first = axis + rank if axis < 0 else axis
    return ops.reshape(at.elements(x), (product(x.shape[:first]), product(x.shape[first:])))


def squeeze(at: Node, x: Any, axes_input: Any = None, *, axes: Any = None) -> Any:
    given = at.ints(axes_input) if axes_input is not None else axes
    shape = list(x.shape)
    gone = [axis for axis, size in enumerate(shape) if is_one(size)] if given is None else [axis_of(one, len(shape)) for one in given]
    changing = [size for size in shape if not isinstance(size, int)]
    if given is None and changing:
        at.builder.assumed.append(lambda now: all(one.value(now) != 1 for one in changing))
    if not all(is_one(shape[axis]) for axis in gone):
        raise NeedsSizes(f"an axis that goes must have the size 1: {shape} without {gone}")
    return at.shaped(at.elements(x), [size for axis, size in enumerate(shape) if axis not in gone], x)


def unsqueeze(at: Node, x: Any, axes_input: Any = None, *, axes: Any = None) -> Any:
    given = at.ints(axes_input) if axes_input is not None else axes
    shape = list(x.shape)
    for axis in sorted(axis_of(one, len(shape) + len(given)) for one in given):
        shape.insert(axis, 1)
    return at.shaped(at.elements(x), shape, x)


def transpose(at: Node, x: Any, *, perm: Sequence[int] | None = None) -> Any:
    rank = len(x.shape)
    order = list(range(rank))[::-1] if perm is None else [axis_of(one, rank) for one in perm]
    if order == list(range(rank)):
        return x
    if rank <= MOST:
        return ops.permute(at.value(x), order)
    return at.shaped(permuted(at.elements(x), x.shape, order), [x.shape[axis] for axis in order], x)


def concat(at: Node, *all: Any, axis: int) -> Any:
    first = all[0]
    parts = [one for one in all if not (isinstance(one, np.ndarray) and one.size == 0)]
    rank = len(first.shape)
    where_to = axis_of(axis, rank)
    if rank <= MOST:
        return Tensor(joined([at.value(one) for one in parts], where_to), at.type(first))
    size: Any = 0
    for one in parts:
        size = size + one.shape[where_to]
    rows = [along(at.elements(one), one.shape, where_to, lambda v, _: v) for one in parts]
    return at.shaped(joined(rows, 1), [*first.shape[:where_to], size, *first.shape[where_to + 1 :]], first)


def of_axis(at: Node, x: Any, axis: int, make: Callable[[Value, int], Value]) -> Any:
    """Applies `make` to one axis. It keeps the others."""
    if len(x.shape) <= MOST:
        return Tensor(make(at.value(x), axis), at.type(x))
    made = along(at.elements(x), x.shape, axis, make)
    return at.shaped(made, [*x.shape[:axis], made.shape[1], *x.shape[axis + 1 :]], x)


def split(at: Node, x: Any, parts: Any = None, *, axis: int = 0, split: Any = None, num_outputs: int = 0) -> Any:
    where_to = axis_of(axis, len(x.shape))
    given = at.ints(parts) if parts is not None else split
    if given is None:
        size, n = constant_size(x, where_to), num_outputs or at.n_outputs
        each = -(-size // n)
        given = [each] * (n - 1) + [size - each * (n - 1)]
    made, begin = [], 0
    for part in given:
        bounds = begin, begin + part
        made.append(of_axis(at, x, where_to, lambda v, a, bounds=bounds: ops.slice(v, a, *bounds)))
        begin = begin + part
    size = x.shape[where_to]
    if begin != size:
        if isinstance(begin, int) and isinstance(size, int):
            raise UnsupportedError(f"parts of {given} are not the {size} that there are")
        at.builder.assumed.append(lambda now: number_of(begin, now) == number_of(size, now))
    return made


def slice_of(at: Node, x: Any, starts_input: Any = None, ends_input: Any = None, axes_input: Any = None, steps_input: Any = None, *,
             starts: Any = None, ends: Any = None, axes: Any = None) -> Any:  # fmt: skip
    begins = at.ints(starts_input) if starts_input is not None else starts
    stops = at.ints(ends_input) if ends_input is not None else ends
    of_axes = at.ints(axes_input) if axes_input is not None else axes or range(len(begins))
    steps = at.ints(steps_input) if steps_input is not None else [1] * len(begins)
    for axis, *bounds in zip(of_axes, begins, stops, steps, strict=True):
        x = of_axis(at, x, axis_of(axis, len(x.shape)), lambda v, a, bounds=bounds: cut(v, a, *bounds))
    return x


def cut(v: Value, axis: int, begin: Any, end: Any, step: int) -> Value:
    """A slice of one axis, as in Python."""
    size = v.shape[axis]
    if step < 0:
        if not all(isinstance(one, int) for one in (size, begin, end)):
            if begin in (-1, (1 << 63) - 1, (1 << 31) - 1) and end < -(1 << 30):
                return ops.slice(ops.flip(v, axis), axis, 0, size, -step)
            raise NeedsSizes(f"a slice with the step {step} needs sizes that are numbers")
        low, high, back = slice(begin, end, step).indices(size)
        v = ops.flip(v, axis)
        return ops.slice(v, axis, size - 1 - low, max(size - 1 - high, size - 1 - low), -back)
    if all(isinstance(one, int) for one in (size, begin, end)):
        low, high, _ = slice(begin, end, step).indices(size)
        return v if (low, high, step) == (0, size, 1) else ops.slice(v, axis, low, max(low, high), step)

    def bound(one: Any) -> Any:
        if not isinstance(one, int):
            return one
        if one >= (1 << 31) - 1:
            return size
        if one < -(1 << 30):
            return 0
        return one

    first, last = bound(begin), bound(end)
    whole = isinstance(first, int) and first == 0 and last == size and step == 1
    return v if whole else ops.slice(v, axis, first, last, step)


def places(at: Node, indices: Any, size: Any) -> Value:
    """Indices along an axis; negative ones count from its end."""
    if isinstance(indices, np.ndarray) and isinstance(size, int):
        if indices.size and (indices.min() < -size or indices.max() >= size):
            raise UnsupportedError(f"an index is out of range of {size} elements")
        return at.value(np.where(indices < 0, indices + size, indices).astype(np.int32))
    v = at.value(indices)
    behind = v + size if isinstance(size, int) else v + at.value(sizes([size]))
    return ops.where(ops.less(v, 0.0), behind, v)


def gather(at: Node, x: Any, indices: Any, *, axis: int = 0) -> Any:
    rank = len(x.shape)
    where_from = axis_of(axis, rank)
    size = x.shape[where_from]
    others = list(x.shape[:where_from]), list(x.shape[where_from + 1 :])
    if isinstance(indices, np.ndarray) and indices.ndim == 0 and indices.dtype != object:
        place = int(indices)
        begin = place if place >= 0 else size + place
        one = along(at.elements(x), x.shape, where_from, lambda v, a: ops.slice(v, a, begin, begin + 1))
        return at.shaped(one, [*others[0], *others[1]], x)
    at_places = places(at, indices, size)
    shape = [*others[0], *at_places.shape, *others[1]]
    flat_places = ops.reshape(at_places, (product(at_places.shape),))
    if rank == 2 and where_from == 0 and isinstance(x, np.ndarray) and x.dtype.kind == "f":
        return at.shaped(ops.take(at.weight(x), flat_places), shape, x)
    if rank <= MOST:
        return at.shaped(ops.take(at.value(x), flat_places, where_from), shape, x)
    return at.shaped(along(at.elements(x), x.shape, where_from, lambda v, a: ops.take(v, flat_places, a)), shape, x)


def gather_elements(at: Node, x: Any, indices: Any, *, axis: int = 0) -> Any:
    v = at.value(x)
    along = axis_of(axis, v.ndim)
    at_places = places(at, indices, v.shape[along])
    for other, size in enumerate(at_places.shape):
        if other != along and v.shape[other] != size:
            v = ops.slice(v, other, 0, size)
    return Tensor(ops.take_along_axis(v, at_places, along), at.type(x))


def scatter_elements(at: Node, x: Any, indices: Any, updates: Any, *, axis: int = 0, reduction: str = "none") -> Any:
    v, source = at.value(x), at.value(updates)
    along = axis_of(axis, v.ndim)
    store = {"none": ops.scatter, "add": ops.scatter_add}.get(reduction)
    if store is None:
        raise UnsupportedError(f"weft does not have reduction={reduction!r}")
    return Tensor(store(v, places(at, indices, v.shape[along]), source, along), at.type(x))


def flat_places(at: Node, indices: Any, shape: Sequence[Any]) -> Value:
    """Places in a value whose first axes, of these sizes, are one."""
    n = indices.shape[-1]
    stride, made = product(shape[1:n]), None
    for place in range(n):
        if isinstance(indices, np.ndarray):
            one: Any = indices[..., place]
        else:
            one = Tensor(ops.squeeze(ops.slice(at.value(indices), -1, place, place + 1), -1), INT64)
        stride = product(constant_size_of(size) for size in shape[place + 1 : n])
        part = places(at, one, shape[place]) * stride
        made = part if made is None else made + part
    assert made is not None
    return ops.reshape(made, (product(indices.shape[:-1]),))


def gather_nd(at: Node, x: Any, indices: Any, *, batch_dims: int = 0) -> Any:
    if batch_dims:
        raise UnsupportedError(f"weft does not have batch_dims={batch_dims}")
    v, n = at.value(x), indices.shape[-1]
    rest = v.shape[n:]
    flat = ops.reshape(v, (product(v.shape[:n]), product(rest)))
    made = ops.take(flat, flat_places(at, indices, v.shape), 0)
    return at.shaped(made, (*indices.shape[:-1], *rest), x)


def scatter_nd(at: Node, x: Any, indices: Any, updates: Any, *, reduction: str = "none") -> Any:
    store = {"none": ops.set_rows, "add": ops.index_add}.get(reduction)
    if store is None:
        raise UnsupportedError(f"weft does not have reduction={reduction!r}")
    v, n = at.value(x), indices.shape[-1]
    width = product(v.shape[n:])
    flat = ops.reshape(v, (product(v.shape[:n]), width))
    rows = ops.reshape(at.value(updates), (product(indices.shape[:-1]), width))
    made = store(flat, flat_places(at, indices, v.shape), rows, 0)
    return Tensor(ops.reshape(made, v.shape), at.type(x))


def expand(at: Node, x: Any, shape: Any) -> Any:
    wanted = at.ints(shape)
    rank = max(len(x.shape), len(wanted))
    own, given = [1] * (rank - len(x.shape)) + list(x.shape), [1] * (rank - len(wanted)) + wanted
    pairs = [(a, b) for a, b in zip(own, given, strict=True) if not is_one(a) and not is_one(b) and a != b]
    if any(isinstance(a, int) and isinstance(b, int) for a, b in pairs):
        raise UnsupportedError(f"{own} does not become {given}")
    if pairs:
        at.builder.assumed.append(lambda now: all(number_of(b, now) in (1, number_of(a, now)) for a, b in pairs))
    target = [b if is_one(a) else a for a, b in zip(own, given, strict=True)]
    if rank <= MOST:
        return ops.broadcast_to(at.value(x), target)
    return at.shaped(expanded(at.elements(x), own, target), target, x)


def tile(at: Node, x: Any, repeats: Any) -> Any:
    v = at.value(x)
    for axis, times in enumerate(at.ints(repeats)):
        if times != 1:
            v = ops.tile(v, times, axis)
    return v


def pad(at: Node, x: Any, pads_input: Any = None, value_input: Any = None, axes: Any = None, *, mode: str = "constant",
        pads: Any = None, value: float = 0.0) -> Any:  # fmt: skip
    v = at.value(x)
    given = at.ints(pads_input) if pads_input is not None else pads
    along = [axis_of(axis, v.ndim) for axis in at.ints(axes)] if axes is not None else list(range(v.ndim))
    if value_input is not None and mode == "constant":
        value = at.number(value_input)
    for place, axis in enumerate(along):
        before, after = given[place], given[place + len(along)]
        if before < 0 or after < 0:
            size = v.shape[axis]
            v = ops.slice(v, axis, max(-before, 0), size - max(-after, 0))
            before, after = max(before, 0), max(after, 0)
        if before == after == 0:
            continue
        if mode == "constant":
            v = padded(v, axis, before, after, value)
        else:
            kind = {"reflect": "reflect", "edge": "edge", "wrap": "wrap"}[mode]
            order = np.pad(np.arange(constant_size(v, axis)), (before, after), mode=kind)  # type: ignore[call-overload]
            v = ops.take(v, at.value(order.astype(np.int32)), axis)
    return v


def padded(v: Value, axis: int, before: int, after: int, value: float) -> Value:
    if v.dtype == "f32":
        return ops.pad(v, axis, before, after, value)

    def block(size: int) -> list[Value]:
        shape = [*v.shape[:axis], size, *v.shape[axis + 1 :]]
        return [filled(v.graph, shape, value, "i32")] if size else []

    return joined([*block(before), v, *block(after)], axis)


def trilu(at: Node, x: Any, k: Any = None, *, upper: int = 1) -> Any:
    v = at.value(x)
    diagonal = 0 if k is None else int(at.number(k))
    make = ops.triu if upper else ops.tril
    if v.dtype == "f32":
        return make(v, diagonal)
    seen = make(ops.full(v.graph, v.shape[-2:], 1.0), diagonal)
    return v * ops.cast(seen, "i32")


def top_k(at: Node, x: Any, k_input: Any = None, *, k: int = 0, axis: int = -1, largest: int = 1, sorted: int = 1) -> Any:
    v = at.value(x)
    along = axis_of(axis, v.ndim)
    n = int(at.number(k_input)) if k_input is not None else k
    order = ops.slice(ops.argsort(v, along, bool(largest)), along, 0, n)
    return ops.take_along_axis(v, order, along), Tensor(order, INT64)


def one_hot(at: Node, indices: Any, depth: Any, values: Any, *, axis: int = -1) -> Any:
    n = int(at.number(depth))
    v = at.value(indices, "i32")
    hot = ops.one_hot(ops.where(ops.less(v, 0.0), v + n, v), n)
    kind = at.type(values)
    off_on = at.value(values)
    off, on = ops.slice(off_on, 0, 0, 1), ops.slice(off_on, 0, 1, 2)
    made = ops.where(ops.cast(hot, "i32"), on, off)
    along = axis_of(axis, made.ndim)
    order = list(range(made.ndim - 1))
    order.insert(along, made.ndim - 1)
    return Tensor(ops.permute(made, order) if along != made.ndim - 1 else made, kind)


def constant_of_shape(at: Node, shape: Any, *, value: Any = None) -> Any:
    number = 0.0 if value is None else numpy_helper.to_array(value).reshape(-1).tolist()[0]
    kind = FLOAT if value is None else value.data_type
    return Tensor(filled(at.graph, at.ints(shape), number, TYPES[kind]), kind)


def numbers_from(at: Node, start: Any, limit: Any, delta: Any) -> Any:
    (begin,), (end,), (step,) = at.ints(start), at.ints(limit), at.ints(delta)
    kind = at.type(start)
    return Tensor(ops.arange(at.graph, begin, end, step, TYPES[kind]), kind)


def shape_of(at: Node, x: Any, *, start: int = 0, end: int | None = None) -> Any:
    return sizes(x.shape[start:end])


def size_of(at: Node, x: Any) -> Any:
    return sizes([product(x.shape)]).reshape(())


def identity(at: Node, x: Any) -> Any:
    return x


def dropout(at: Node, x: Any, ratio_input: Any = None, training: Any = None, *, ratio: float = 0.5, seed: int = 0) -> Any:
    if training is not None and at.number(training) and (ratio_input is None or at.number(ratio_input) != 0):
        raise UnsupportedError("weft does not train: training_mode is true")
    mask = None
    if at.n_outputs > 1:
        mask = Tensor(ops.cast(ops.full(at.graph, x.shape, 1.0), "i32"), BOOL)
    return (x, mask) if mask is not None else x


def depth_to_space(at: Node, x: Any, *, blocksize: int, mode: str = "DCR") -> Any:
    """In two steps, because values have at most four axes. Each step moves one part of the channel after its axis."""
    v, b = at.value(x), blocksize
    n, c, h, w = v.shape
    deep = constant_size(v, 1) // (b * b)
    if mode == "DCR":
        v = ops.permute(ops.reshape(v, (n * b, b, deep * h * w)), [0, 2, 1])
        v = ops.permute(ops.reshape(v, (n, b, deep * h, w * b)), [0, 2, 1, 3])
    else:
        v = ops.permute(ops.reshape(v, (n * (deep * b), b, h * w)), [0, 2, 1])
        v = ops.permute(ops.reshape(v, (n * deep, b, h, w * b)), [0, 2, 1, 3])
    return ops.reshape(v, (n, deep, h * b, w * b))


def space_to_depth(at: Node, x: Any, *, blocksize: int, mode: str = "DCR") -> Any:
    v, b = at.value(x), blocksize
    n, c, h, w = v.shape[0], constant_size(v, 1), constant_size(v, 2) // blocksize, constant_size(v, 3) // blocksize
    if mode == "DCR":
        v = ops.permute(ops.reshape(v, (n, c * h, b, w * b)), [0, 2, 1, 3])
        v = ops.permute(ops.reshape(v, (n * b, c * h * w, b)), [0, 2, 1])
    else:
        v = ops.permute(ops.reshape(v, (n * c, h, b, w * b)), [0, 2, 1, 3])
        v = ops.permute(ops.reshape(v, (n * (c * b), h * w, b)), [0, 2, 1])
    return ops.reshape(v, (n, c * b * b, h, w))
