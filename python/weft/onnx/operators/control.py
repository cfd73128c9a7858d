"""Branches and loops. A graph of weft has none: a branch is chosen, and a loop is unrolled, where the model is loaded."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper

from ... import ops
from ...errors import UnsupportedError
from ..build import Node, Tensor
from ..wide import MOST, joined
from .common import axis_of, constant_size

MOST_TURNS = 10_000


def branch(at: Node, condition: Any, *, then_branch: onnx.GraphProto, else_branch: onnx.GraphProto) -> list[Any]:
    return at.opened(then_branch if at.number(condition) else else_branch)([])


def unmade(result: onnx.ValueInfoProto, axis: int) -> Any:
    """The result of a loop without iterations. Its shape is the one in the body, with 0 for symbolic sizes."""
    tensor = result.type.tensor_type
    if not tensor.HasField("shape"):
        raise UnsupportedError(f"no turn of a loop makes '{result.name}', and the model does not say its shape")
    shape = [max(size.dim_value, 0) for size in tensor.shape.dim]
    return np.expand_dims(np.zeros(shape, helper.tensor_dtype_to_np_dtype(tensor.elem_type)), axis).take([], axis)


def stacked(at: Node, parts: Sequence[Any], result: onnx.ValueInfoProto, axis: int = 0) -> Any:
    """Results of turns, along a new axis."""
    if not parts:
        return unmade(result, axis)
    if all(isinstance(one, np.ndarray) for one in parts):
        at.builder.spend(sum(one.nbytes for one in parts))
        return np.stack(parts, axis)
    rank = len(parts[0].shape) + 1
    if rank > MOST:
        raise UnsupportedError(f"results of turns have {rank} axes; weft's values have {MOST} at most")
    where_to = axis_of(axis, rank)
    return Tensor(joined([ops.unsqueeze(at.value(one), where_to) for one in parts], where_to), at.type(parts[0]),
                  frozenset().union(*(one.sources for one in parts if isinstance(one, Tensor))))  # fmt: skip


def loop(at: Node, most: Any, condition: Any, *carried: Any, body: onnx.GraphProto) -> list[Any]:
    turns = math.inf if most is None else int(at.number(most))
    one_turn = at.opened(body)
    state = list(carried)
    made: list[list[Any]] = [[] for _ in range(len(body.output) - 1 - len(state))]
    turn = 0
    while turn < turns and (condition is None or at.number(condition)):
        if turn == MOST_TURNS:
            raise UnsupportedError(f"weft unrolls loops of {MOST_TURNS} turns at most")
        begin = np.array(True) if condition is None else condition
        condition, *results = one_turn([np.array(turn, np.int64), begin, *state], str(turn))
        state = results[: len(state)]
        for parts, one in zip(made, results[len(state) :], strict=True):
            parts.append(one)
        turn += 1
    return state + [stacked(at, parts, one) for parts, one in zip(made, body.output[1 + len(state) :], strict=True)]


def element(at: Node, x: Any, axis: int, place: int) -> Any:
    if isinstance(x, np.ndarray):
        return np.take(x, place, axis)
    return Tensor(ops.squeeze(ops.slice(at.value(x), axis, place, place + 1), axis), at.type(x), x.sources)


def scan(at: Node, *all: Any, body: onnx.GraphProto, num_scan_inputs: int, scan_input_axes: Sequence[int] = (),
         scan_input_directions: Sequence[int] = (), scan_output_axes: Sequence[int] = (),
         scan_output_directions: Sequence[int] = ()) -> list[Any]:  # fmt: skip
    if at.version < 9:
        raise UnsupportedError("weft has Scan from opset 9 on")
    n_states = len(all) - num_scan_inputs
    state, inputs = list(all[:n_states]), all[n_states:]
    axes = [axis_of(axis, len(x.shape)) for axis, x in zip(scan_input_axes or [0] * len(inputs), inputs, strict=True)]
    turns = constant_size(inputs[0], axes[0])
    if turns > MOST_TURNS:
        raise UnsupportedError(f"weft unrolls loops of {MOST_TURNS} turns at most")
    back = list(scan_input_directions or [0] * len(inputs))
    made: list[list[Any]] = [[] for _ in range(len(body.output) - n_states)]
    one_turn = at.opened(body)
    for turn in range(turns):
        now = [element(at, x, axis, turns - 1 - turn if is_back else turn) for x, axis, is_back in zip(inputs, axes, back, strict=True)]
        results = one_turn([*state, *now], str(turn))
        state = results[:n_states]
        for parts, one in zip(made, results[n_states:], strict=True):
            parts.append(one)
    places = scan_output_axes or [0] * len(made)
    turned = scan_output_directions or [0] * len(made)
    each = zip(made, body.output[n_states:], places, turned, strict=True)
    return state + [stacked(at, parts[::-1] if is_back else parts, one, axis) for parts, one, axis, is_back in each]
