"""What the host computes before a step: nodes of 64 bits that follow from the inputs alone.

A device computes whole numbers of 32 bits and f32. A node of int64 runs on a device if its result provably fits 32 bits.
Otherwise the host runs it with NumPy in 64 bits, if it depends on inputs and constants alone. Devices get the results that they
read. A node of doubles runs on the host whenever it can."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper

from .. import _weft, ops
from ..errors import UnsupportedError
from .known import BY_NUMBERS, Array, are_sizes, evaluator, number_of

Limits = tuple[int, int]
WHOLE: Limits = (-(1 << 63), (1 << 63) - 1)
DEVICE: Limits = (-(1 << 31), (1 << 31) - 1)
# Integers whose float is at least this may exceed 32 bits: sums of a device are off by their rounding.
MOST_OF_DEVICE = 2.0**31 * (1 - 2.0**-10)
OF_TYPE: Mapping[int, Limits] = {
    TensorProto.BOOL: (0, 1), TensorProto.INT8: (-128, 127), TensorProto.UINT8: (0, 255), TensorProto.INT16: (-(1 << 15), (1 << 15) - 1),
    TensorProto.UINT16: (0, (1 << 16) - 1), TensorProto.INT32: DEVICE, TensorProto.INT64: WHOLE,
}  # fmt: skip


@dataclass(eq=False)
class Hosted:
    """An input of the model, or a result that the host computes. `fed` makes the graph's input of it, once a node reads it."""

    name: str
    type: int
    shape: tuple[Any, ...]
    fed: Callable[[Hosted], _weft.Value]
    work: Work | None = None
    place: int = 0

    @functools.cached_property
    def value(self) -> _weft.Value:
        return self.fed(self)

    def zeros(self, sizes: Mapping[str, int]) -> Array:
        """For what no output depends on."""
        return np.zeros([number_of(size, sizes) for size in self.shape], helper.tensor_dtype_to_np_dtype(self.type))


class Work:
    """A node that the host runs in each step. Its inputs are Hosted, known arrays (sizes among them), or None."""

    def __init__(self, node: onnx.NodeProto, inputs: Sequence[Hosted | Array | None], opsets: Mapping[str, int], what: str) -> None:
        self.inputs, self.what = list(inputs), what
        self.types: list[int] = []  # Of its results.
        self._node, self._opsets = node, opsets

    @functools.cached_property
    def _run(self) -> Callable[[Sequence[Any]], tuple[Any, ...]]:
        return evaluator(self._node, self._opsets)

    def run(self, values: Sequence[Array | None]) -> list[Array]:
        try:
            results = self._run(values)
        except Exception as error:
            raise UnsupportedError(f"onnx cannot compute {self.what}: {error}") from error
        # The package's ops may give another type than ONNX says.
        with np.errstate(all="ignore"):
            return [np.asarray(one).astype(helper.tensor_dtype_to_np_dtype(kind), copy=False) for one, kind in zip(results, self.types, strict=False)]


@dataclass
class Host:
    """The works of a graph in an order in which they can run."""

    works: list[Work] = field(default_factory=list)

    def run(self, wanted: Iterable[Hosted], given: Mapping[str, Array], sizes: Mapping[str, int]) -> Callable[[Hosted], Array]:
        """Runs what these values need. The result gives the elements of each."""
        wanted = list(wanted)
        needed: set[Work] = set()
        stack = [one.work for one in wanted if one.work is not None]
        while stack:
            work = stack.pop()
            if work not in needed:
                needed.add(work)
                stack += [one.work for one in work.inputs if isinstance(one, Hosted) and one.work is not None]
        made: dict[Work, list[Array]] = {}

        def elements(one: Hosted) -> Array:
            return given[one.name] if one.work is None else made[one.work][one.place]

        for work in self.works:
            if work in needed:
                made[work] = work.run([
                    elements(one) if isinstance(one, Hosted) else one if one is None else with_numbers(one, sizes) for one in work.inputs
                ])  # fmt: skip
        return elements


def with_numbers(x: Array, sizes: Mapping[str, int]) -> Array:
    """A known array with these of its symbols."""
    if not are_sizes(x):
        return x
    return np.array([number_of(one, sizes) for one in x.flat], np.int64).reshape(x.shape)


class Sketch:
    """Stands for a Builder where only the shapes of a node's results are wanted. Nothing runs its graph, which has the symbols of
    the real one."""

    def __init__(self, assumed: list[Any]) -> None:
        self.graph = _weft.Graph()
        self.assumed = assumed
        self._n = 0

    def _name(self) -> str:
        self._n += 1
        return f"sketch.{self._n}"

    def placeholder(self, shape: Sequence[Any], dtype: str) -> _weft.Value:
        return ops.cast(ops.full(self.graph, shape, 0.0), dtype)

    def constant(self, array: Array) -> _weft.Value:
        return self.placeholder(array.shape, "i32" if array.dtype.kind in "biuO" else "f32")

    def fixed_input(self, array: Array) -> _weft.Value:
        return self.constant(array)

    def weight(self, array: Array, packed: bool) -> _weft.Value:
        return self.graph.weight(self._name(), array.shape, "f32") if packed else self.constant(array)

    def kept(self, array: Array, origin: Any) -> Array:
        return array

    def transposed(self, matrix: Array) -> Array:
        return matrix.T

    def spend(self, n_bytes: int) -> None:
        pass


# Ops that only move elements, by the inputs that the elements come from (None: all).
MOVES: Mapping[str, Sequence[int] | None] = {
    **dict.fromkeys(
        ("DepthToSpace", "Dropout", "Expand", "Flatten", "Gather", "GatherElements", "GatherND", "GlobalMaxPool", "Identity", "MaxPool",
         "Pad", "ReduceMax", "ReduceMin", "Reshape", "Slice", "SpaceToDepth", "Split", "Squeeze", "Tile", "TopK", "Transpose", "Trilu",
         "Unsqueeze"), (0,)),
    "Clip": None, "Concat": None, "Max": None, "Min": None, "OneHot": (2,), "Range": (0, 1), "Scatter": (0, 2),
    "ScatterElements": (0, 2), "ScatterND": (0, 2), "Where": (1, 2),
}  # fmt: skip
# What computes with each of its inputs' elements, or compares them: no index and no move.
COMPARES = {"And", "Equal", "Greater", "GreaterOrEqual", "IsInf", "IsNaN", "Less", "LessOrEqual", "Not", "Or", "Xor"}
COMPUTES = COMPARES | {"Abs", "Add", "ArgMax", "ArgMin", "Cast", "CastLike", "Clip", "CumSum", "Div", "Max", "Min", "Mod", "Mul", "Neg",
                       "Pow", "ReduceMax", "ReduceMin", "ReduceSum", "Sign", "Sub", "Sum", "TopK"}  # fmt: skip
# Of doubles that f32 holds they make such again.
EXACT = COMPARES | set(MOVES) | {"Abs", "ArgMax", "ArgMin", "Cast", "CastLike", "Ceil", "Floor", "Neg", "Relu", "Round", "Shape", "Sign", "Size"}
# Of these the package onnx has nothing that is fast enough.
SLOW = (BY_NUMBERS - {"Einsum"}) | {"GRU", "LSTM"}


def join(*all: Limits) -> Limits:
    return min(one[0] for one in all), max(one[1] for one in all)


def fits(limits: Limits) -> bool:
    return DEVICE[0] <= limits[0] and limits[1] <= DEVICE[1]


def _times(a: Limits, b: Limits) -> Limits:
    corners = [x * y for x in a for y in b]
    return min(corners), max(corners)


def _mod(a: Limits, b: Limits, fmod: int) -> Limits:
    most = max(abs(b[0]), abs(b[1])) - 1
    if fmod:
        return (0 if a[0] >= 0 else -most), most
    return (0 if b[0] > 0 else -most), (0 if b[1] < 0 else most)


def _quotient(a: Limits, b: Limits) -> Limits:
    """By 1 or more nothing grows; by -1 the sign changes."""
    return join(a, (0, 0)) if b[0] > 0 else join(a, (-a[1], -a[0]), (0, 0))


def _power(a: Limits, b: Limits) -> Limits:
    most = max(abs(a[0]), abs(a[1]))
    if b[0] < 0 or b[1] > 64 or most > 1 << 32:
        return WHOLE
    return (0 if a[0] >= 0 else -(most ** b[1])), max(most ** b[1], 1)


class Ranges:
    """The least and most that integers may be. `bounds` has the symbols' bounds."""

    def __init__(self, bounds: Mapping[str, int | tuple[int, int]], symbols: Mapping[str, Any]) -> None:
        self.bounds, self.symbols = bounds, symbols

    def of(self, x: Any) -> Limits:
        """The range of a known array or a Tensor."""
        if isinstance(x, np.ndarray):
            if are_sizes(x):
                return join(*((-self.size(one), self.size(one)) if isinstance(one, _weft.Dim) else (int(one), int(one)) for one in x.flat))
            return (int(x.min()), int(x.max())) if x.size and x.dtype.kind in "biu" else (0, 0)
        return x.limits or OF_TYPE.get(x.type, WHOLE)

    def size(self, size: Any) -> int:
        """The most that a size may be: its value at the symbols' bounds, plus a margin for rounding."""
        if isinstance(size, int):
            return size
        changing = {name: self.bounds.get(name, (0, 1)) for name, one in self.symbols.items() if isinstance(one, _weft.Dim)}
        if len(changing) > 6:
            return DEVICE[1]
        corners = itertools.product(*((one, one) if isinstance(one, int) else one for one in changing.values()))
        return max(abs(size.value(dict(zip(changing, corner, strict=True)))) for corner in corners) + 16

    def elements(self, x: Any) -> int:
        return int(np.prod([self.size(one) for one in x.shape], dtype=object)) if len(x.shape) else 1

    def made(self, node: onnx.NodeProto, inputs: Sequence[Any], given: Mapping[str, Any]) -> Limits:
        """The range of the integers that a node makes, if it makes any."""
        op, there = node.op_type, [one for one in inputs if one is not None]
        if op in COMPARES:
            return 0, 1
        if op in ("Shape", "Size"):
            return 0, DEVICE[1]
        if op in ("ArgMax", "ArgMin"):
            return 0, max(self.size(inputs[0].shape[given.get("axis", 0)]), 1) if len(inputs[0].shape) else 1
        if op in MOVES and given.get("reduction", "none") == "none":
            places = MOVES[op]
            of = there if places is None else [inputs[place] for place in places if place < len(inputs) and inputs[place] is not None]
            limits = join(*map(self.of, of))
            if op == "Pad":
                limits = join(limits, self.of(inputs[2]) if len(inputs) > 2 and inputs[2] is not None else (0, 0))
            elif op == "TopK":  # Its second result are places.
                limits = join(limits, (0, self.elements(inputs[0])))
            return join(limits, (0, 0)) if op == "Trilu" else limits
        all_limits = [self.of(one) for one in there]
        if op in ("Add", "Sum"):
            return sum(one[0] for one in all_limits), sum(one[1] for one in all_limits)
        if op in ("ReduceSum", "CumSum"):
            n = self.elements(inputs[0])
            return min(0, n * all_limits[0][0]), max(0, n * all_limits[0][1])
        if op in ("Cast", "CastLike"):
            whole = _is_whole(inputs[0])
            return all_limits[0] if whole else WHOLE
        if op in UNARY:
            return UNARY[op](all_limits[0])
        if op in BINARY:
            return BINARY[op](*all_limits)
        if op == "Mod":
            return _mod(*all_limits, given.get("fmod", 0))
        return WHOLE


def _is_whole(x: Any) -> bool:
    return are_sizes(x) or x.dtype.kind in "biu" if isinstance(x, np.ndarray) else x.type in OF_TYPE


UNARY: Mapping[str, Callable[[Limits], Limits]] = {
    "Abs": lambda a: (0, max(abs(a[0]), abs(a[1]))),
    "Neg": lambda a: (-a[1], -a[0]),
    "Sign": lambda a: (-1, 1),
}
BINARY: Mapping[str, Callable[[Limits, Limits], Limits]] = {
    "Div": _quotient,
    "Mul": _times,
    "Pow": _power,
    "Sub": lambda a, b: (a[0] - b[1], a[1] - b[0]),
}


def is_single(x: Array) -> bool:
    """Whether f32 holds these doubles."""
    with np.errstate(over="ignore"):
        return bool(np.array_equal(x.astype(np.float32).astype(np.float64), x, equal_nan=True))
