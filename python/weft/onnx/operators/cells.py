"""Recurrent cells."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ... import ops
from ...errors import UnsupportedError
from ..build import Node
from .common import Value
from .products import rows_times


def directions(direction: str) -> list[bool]:
    """For each direction whether it is reversed."""
    return {"forward": [False], "reverse": [True], "bidirectional": [False, True]}[direction]


def gates(array: Any, order: Sequence[int]) -> Any:
    """Rows of gates in another order."""
    parts = np.split(array, len(order))
    return np.concatenate([parts[place] for place in order])


def recurrent(at: Node, x: Any, w: Any, r: Any, starts: Sequence[Any], direction: str, layout: int,
              cell: Callable[..., tuple[Value, ...]]) -> Any:  # fmt: skip
    """Y {t, directions, b, h} and the final states {directions, b, h}."""
    at.known(w), at.known(r)
    v = at.value(x)
    if layout:
        v = ops.permute(v, [1, 0, 2])
    outputs, lefts = [], []
    for place, back in enumerate(directions(direction)):
        own = []
        for one in starts:
            own.append(None if one is None else at.value(one))
            if own[-1] is not None:
                start = ops.permute(own[-1], [1, 0, 2]) if layout else own[-1]
                own[-1] = ops.squeeze(ops.slice(start, 0, place, place + 1), 0)
        y, *left = cell(place, ops.flip(v, 0) if back else v, own)
        outputs.append(ops.unsqueeze(ops.flip(y, 0) if back else y, 1))
        lefts.append([ops.unsqueeze(one, 0) for one in left])
    y = outputs[0] if len(outputs) == 1 else ops.concat(outputs, 1)
    left = [one[0] if len(one) == 1 else ops.concat(list(one), 0) for one in zip(*lefts, strict=True)]
    if layout:
        y, left = ops.permute(y, [2, 0, 1, 3]), [ops.permute(one, [1, 0, 2]) for one in left]
    return [y, *left]


def check_cell(lengths: Any, activations: Any, usual: Sequence[str], direction: str, clip: float) -> None:
    if lengths is not None:
        raise UnsupportedError("weft does not have sequence_lens")
    if activations is not None and list(activations) != list(usual) * len(directions(direction)):
        raise UnsupportedError(f"weft does not have activations={activations}")
    if clip:
        raise UnsupportedError(f"weft does not have clip={clip}")


def lstm(at: Node, x: Any, w: Any, r: Any, bias: Any = None, lengths: Any = None, h0: Any = None, c0: Any = None, peephole: Any = None, *,
         hidden_size: int, direction: str = "forward", layout: int = 0, activations: Any = None, activation_alpha: Any = None,
         activation_beta: Any = None, clip: float = 0.0, input_forget: int = 0) -> Any:  # fmt: skip
    check_cell(lengths, activations, ["Sigmoid", "Tanh", "Tanh"], direction, clip)
    if input_forget or peephole is not None:
        raise UnsupportedError("weft does not have input_forget, and no peepholes")
    order = [0, 2, 3, 1]  # ONNX has i o f g.

    def cell(place: int, v: Value, starts: Sequence[Any]) -> tuple[Value, ...]:
        b = None
        if bias is not None:
            both = np.split(at.known(bias)[place], 2)
            b = at.value(gates(both[0] + both[1], order))
        h, c = starts
        return ops.lstm(rows_times(v, at.weight(gates(w[place], order)), b), at.weight(gates(r[place], order)), h, c)

    return recurrent(at, x, w, r, [h0, c0], direction, layout, cell)


def gru(at: Node, x: Any, w: Any, r: Any, bias: Any = None, lengths: Any = None, h0: Any = None, *, hidden_size: int,
        direction: str = "forward", layout: int = 0, activations: Any = None, activation_alpha: Any = None, activation_beta: Any = None,
        clip: float = 0.0, linear_before_reset: int = 0) -> Any:  # fmt: skip
    check_cell(lengths, activations, ["Sigmoid", "Tanh"], direction, clip)
    if not linear_before_reset:
        raise UnsupportedError("weft does not have linear_before_reset=0")
    order = [1, 0, 2]  # ONNX has z r n.

    def cell(place: int, v: Value, starts: Sequence[Any]) -> tuple[Value, ...]:
        b = own = None
        if bias is not None:
            outer, inner = (gates(one, order) for one in np.split(at.known(bias)[place], 2))
            own = at.value(inner[2 * hidden_size :].copy())
            b = at.value(outer + np.concatenate([inner[: 2 * hidden_size], np.zeros(hidden_size, outer.dtype)]))
        return ops.gru(rows_times(v, at.weight(gates(w[place], order)), b), at.weight(gates(r[place], order)), starts[0], own)

    return recurrent(at, x, w, r, [h0], direction, layout, cell)
