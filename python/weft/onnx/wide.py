"""Values of more than four axes, which weft does not have. Their elements are in a value of one axis, and ops that move them work
on groups of neighbouring axes. Such values occur between ops that move elements."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .. import _weft, ops
from ..errors import UnsupportedError
from .known import product

Value = _weft.Value
MOST = 4


def joined(parts: Sequence[Value], axis: int) -> Value:
    """Along an axis. Whole numbers are stored one part after another, for `concat` has none."""
    if len(parts) == 1:
        return parts[0]
    if parts[0].dtype == "f32":
        return ops.concat(list(parts), axis)
    graph = parts[0].graph
    ends: list[Any] = [0]
    for one in parts:
        ends.append(ends[-1] + one.shape[axis])
    made = ops.cast(ops.full(graph, [*parts[0].shape[:axis], ends[-1], *parts[0].shape[axis + 1 :]], 0.0), "i32")
    for one, begin, end in zip(parts, ends, ends[1:], strict=False):
        made = ops.set_rows(made, ops.arange(graph, begin, end), one, axis)
    return made


def reshaped(value: Value, shape: Sequence[Any]) -> Value:
    """Reshapes a value to these axes, or to one axis if they are too many."""
    return ops.reshape(value, shape if len(shape) <= MOST else (product(shape),))


def permuted(value: Value, shape: Sequence[Any], order: Sequence[int]) -> Value:
    """Permutes the axes by swapping two adjacent groups until all are in order."""
    now = list(range(len(shape)))
    for place, axis in enumerate(order):
        at = now.index(axis)
        if at == place:
            continue
        # Axes that follow it in both orders move together with it.
        n = 1
        while at + n < len(now) and place + n < len(order) and now[at + n] == order[place + n]:
            n += 1
        groups = [now[:place], now[place:at], now[at : at + n], now[at + n :]]
        sizes = [product(shape[one] for one in group) for group in groups]
        value = ops.permute(ops.reshape(value, sizes), [0, 2, 1, 3])
        now = [*groups[0], *groups[2], *groups[1], *groups[3]]
    return value


def along(value: Value, shape: Sequence[Any], axis: int, make: Callable[[Value, int], Value]) -> Value:
    """Applies `make` to an axis, with the axes before it merged to one, and the axes after it, too."""
    return make(ops.reshape(value, (product(shape[:axis]), shape[axis], product(shape[axis + 1 :]))), 1)


def expanded(value: Value, shape: Sequence[Any], target: Sequence[Any]) -> Value:
    """Axes of size 1 repeated, one after the other."""
    now = list(shape)
    for axis, size in enumerate(target):
        if now[axis] != size:
            before, after = product(now[:axis]), product(now[axis + 1 :])
            value = ops.broadcast_to(ops.reshape(value, (before, 1, after)), (before, size, after))
            now[axis] = size
    return value


def aligned(a: Sequence[Any], b: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """Two shapes that broadcast, with adjacent axes merged where that is equivalent."""
    rank = max(len(a), len(b))
    pairs = list(zip([1] * (rank - len(a)) + list(a), [1] * (rank - len(b)) + list(b), strict=True))
    groups: list[list[Any]] = []
    for x, y in pairs:
        kind = (is_one(x), is_one(y))
        if kind == (True, True):
            continue
        if groups and groups[-1][2] == kind:
            groups[-1] = [groups[-1][0] * x, groups[-1][1] * y, kind]
        else:
            groups.append([x, y, kind])
    if len(groups) > MOST:
        raise UnsupportedError(f"its inputs broadcast along too many axes: {list(a)} and {list(b)}")
    return [one[0] for one in groups], [one[1] for one in groups]


def is_one(size: Any) -> bool:
    return isinstance(size, int) and size == 1
