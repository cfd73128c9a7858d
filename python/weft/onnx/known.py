"""What a model's file settles by itself: constants, and sizes. Both are NumPy arrays; those with a size that is a symbol
hold Python objects, on which the ops work that exporters make shapes with."""

from __future__ import annotations

import functools
import itertools
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto
from onnx.reference import ReferenceEvaluator

from .. import _weft
from ..errors import UnsupportedError

Array = np.ndarray[Any, Any]


def sizes(shape: Sequence[Any]) -> Array:
    """A shape as ONNX has it, a tensor of whole numbers."""
    if all(isinstance(size, int) for size in shape):
        return np.array(shape, np.int64)
    array = np.empty(len(shape), object)
    array[:] = shape
    return array


def number_of(size: Any, sizes: Mapping[str, int]) -> int:
    """A size with these of its symbols."""
    return size.value(sizes) if isinstance(size, _weft.Dim) else size


def product(dims: Iterable[Any]) -> Any:
    return functools.reduce(operator.mul, dims, 1)


def attributes(node: onnx.NodeProto) -> dict[str, Any]:
    """By their names, strings as str."""

    def plain(value: Any) -> Any:
        if isinstance(value, bytes):
            return value.decode()
        return [plain(one) for one in value] if isinstance(value, list) else value

    return {one.name: plain(onnx.helper.get_attribute_value(one)) for one in node.attribute}


class NeedsSizes(UnsupportedError):
    """It works with numbers as sizes, not with symbols."""


def _is_equal(a: Any, b: Any) -> bool:
    """A size that steps may change equals itself, and is never negative; other comparisons need numbers."""
    if isinstance(a, _weft.Dim) and isinstance(b, _weft.Dim) and a == b:
        return True
    for size, other in ((a, b), (b, a)):
        if isinstance(size, _weft.Dim) and (isinstance(other, _weft.Dim) or other >= 0):
            raise NeedsSizes(f"whether {a} is {b} must be known: give it in sizes=")
    return bool(a == b)


def _quotient(a: Any, b: Any) -> Any:
    """Towards 0. A size rounds down, so it must not be negative: code that divides sizes checks each step's."""
    if isinstance(b, _weft.Dim):
        raise NeedsSizes(f"what {b} divides must be known: give it in sizes=")
    if isinstance(a, _weft.Dim):
        return a // b
    down = a // b
    return down + 1 if down < 0 and down * b != a else down


def _axes(x: Array, axes: Any) -> tuple[int, ...]:
    given = range(x.ndim) if axes is None else np.atleast_1d(axes)
    return tuple(int(axis) for axis in given)


def _slice(x: Array, starts: Any = None, ends: Any = None, axes: Any = None, steps: Any = None, **old: Any) -> Array:
    starts, ends = old.get("starts", starts), old.get("ends", ends)
    axes = old.get("axes", range(len(starts)) if axes is None else axes)
    parts = [slice(None)] * x.ndim
    for place, axis in enumerate(axes):
        parts[int(axis)] = slice(int(starts[place]), int(ends[place]), None if steps is None else int(steps[place]))
    return x[tuple(parts)]


def _split(x: Array, parts: Any = None, *, axis: int = 0, split: Any = None, num_outputs: int = 0) -> tuple[Array, ...]:
    parts = split if parts is None else parts
    cuts = num_outputs or np.cumsum([int(part) for part in parts])[:-1]
    return tuple(np.split(x, cuts, axis))


def _squeeze(x: Array, axes_input: Any = None, *, axes: Any = None) -> Array:
    given = axes if axes_input is None else axes_input
    return np.squeeze(x, None if given is None else _axes(x, given))


def _unsqueeze(x: Array, axes_input: Any = None, *, axes: Any = None) -> Array:
    return np.expand_dims(x, _axes(x, axes if axes_input is None else axes_input))


def _prod(x: Array, axes_input: Any = None, *, axes: Any = None, keepdims: int = 1, noop_with_empty_axes: int = 0) -> Array:
    given = axes if axes_input is None else axes_input
    return np.multiply.reduce(x, axis=_axes(x, given), keepdims=bool(keepdims))


# With sizes among their inputs; None where that is a matter of values. Python's operators do the rest: a Dim has + - * and //.
OF_SIZES: Mapping[str, Callable[..., Any]] = {
    "Add": np.add,
    "Cast": lambda x, *, to, **_: x if to in (TensorProto.INT32, TensorProto.INT64) else None,
    "Concat": lambda *all, axis: np.concatenate([one.astype(object) for one in all], axis),
    "Div": np.frompyfunc(_quotient, 2, 1),
    "Equal": np.frompyfunc(_is_equal, 2, 1),
    "Gather": lambda x, indices, *, axis=0: np.take(x, indices.astype(np.int64), axis),
    "Identity": lambda x: x,
    "Mul": np.multiply,
    "ReduceProd": _prod,
    "Reshape": lambda x, shape, **_: x.reshape([int(size) for size in shape]),
    "Size": lambda x: np.array(x.size),
    "Shape": lambda x, *, start=0, end=None: np.array(x.shape[start:end], np.int64),
    "Slice": _slice,
    "Split": _split,
    "Squeeze": _squeeze,
    "Sub": np.subtract,
    "Unsqueeze": _unsqueeze,
    "Where": lambda condition, a, b: np.where(condition.astype(bool), a, b),
}


MOST_SIZES = 4096
LARGEST_ELEMENT = 8  # Bytes. An op may make larger ones than it is given.
# Those that only look at an array otherwise need no copy of it.
VIEWS = {"Identity", "Squeeze", "Unsqueeze"}


def are_sizes(x: Any) -> bool:
    """Whether a symbol is among them."""
    return isinstance(x, np.ndarray) and x.dtype == object and any(isinstance(one, _weft.Dim) for one in x.flat)


def _broadcast(*all: Sequence[int]) -> int:
    """The number of elements after broadcasting these shapes."""
    turned = [[*shape][::-1] for shape in all]
    return product(max(sizes) for sizes in itertools.zip_longest(*turned, fillvalue=1))


def _first(x: Array, indices: Array, n_batches: int) -> int:
    """Elements of the axes of x that rows of indices go over."""
    return int(product(x.shape[n_batches : n_batches + indices.shape[-1]]))


def _padded(x: Array, pads: Any = None, value: Any = None, axes: Any = None, **given: Any) -> int:
    amounts = np.reshape(given["pads"] if pads is None else pads, (2, -1)).sum(0).tolist()
    grown = dict(zip(range(x.ndim) if axes is None else _axes(x, axes), amounts, strict=False))
    return product(size + grown.get(axis, grown.get(axis - x.ndim, 0)) for axis, size in enumerate(x.shape))


def _resized(x: Array, *rest: Any, scales: Any = None, axes: Any = None, **_: Any) -> int:
    """The inputs after x are a region, scales and sizes, or scales alone."""
    sizes = rest[2] if len(rest) > 2 else None
    by = rest[1] if len(rest) > 1 else rest[0] if rest else scales
    shape = list(x.shape)
    for place, axis in enumerate(_axes(x, axes)):
        shape[axis] = int(sizes[place]) if sizes is not None else shape[axis] * float(by[place])
    return int(product(shape))


# The number of elements of results that depend on values. Results of other ops have the broadcast shape of the inputs.
ELEMENTS: Mapping[str, Callable[..., int]] = {
    "BlackmanWindow": lambda n, **_: int(np.max(n)),
    "Concat": lambda *all, **_: sum(one.size for one in all),
    "Einsum": lambda *all, **_: product(one.size for one in all),
    "ConstantOfShape": lambda shape, **_: product(shape.tolist()),
    "Expand": lambda x, shape: _broadcast(x.shape, shape.tolist()),
    "Gather": lambda x, indices, *, axis=0: x.size // max(x.shape[axis], 1) * indices.size,
    "GatherND": lambda x, indices, *, batch_dims=0: x.size // max(_first(x, indices, batch_dims), 1) * indices[..., :1].size,
    "Gemm": lambda a, b, *_, **__: a.size * b.size // max(min(a.shape), 1),
    "HammingWindow": lambda n, **_: int(np.max(n)),
    "HannWindow": lambda n, **_: int(np.max(n)),
    "MatMul": lambda a, b: a.size // max(a.shape[-1], 1) * (b.size // max(a.shape[-1], 1)),
    "NonZero": lambda x: x.size * x.ndim,
    "OneHot": lambda indices, depth, values, **_: indices.size * int(np.max(depth)),
    "Pad": _padded,
    "Range": lambda begin, end, by: int(np.max((end - begin) / by)),
    "Resize": _resized,
    "Tile": lambda x, repeats: x.size * product(repeats.tolist()),
    "Upsample": _resized,
}
# The results of these ops depend on numbers in attributes and inputs, each in its own way. _at_most bounds them.
BY_NUMBERS = {
    "AffineGrid", "AveragePool", "CenterCropPad", "Col2Im", "Conv", "ConvInteger", "ConvTranspose", "DFT", "DeformConv", "Einsum", "GridSample",
    "ImageDecoder", "LpPool", "MaxPool", "MaxRoiPool", "MaxUnpool", "MelWeightMatrix", "QLinearConv", "RoiAlign", "STFT",
}  # fmt: skip


def _at_most(inputs: Sequence[Array], given: Mapping[str, Any]) -> int:
    numbers = [one.tolist() for one in inputs if one.dtype.kind in "iu" and one.size <= 16] + list(given.values())
    factors = (abs(n) for one in numbers for n in np.ravel(one).tolist() if isinstance(n, int))
    return sum(one.size for one in inputs) * product(max(n, 1) for n in factors)


def bytes_made(node: onnx.NodeProto, inputs: Sequence[Any], given: Mapping[str, Any]) -> int:
    """How large the results of a node may be whose inputs are known, before they are worked out."""
    there = [one for one in inputs if one is not None]
    if any(are_sizes(one) for one in there):
        # An array that contains a symbol is a shape or a part of one.
        n = sum(one.size for one in there)
        if n > MOST_SIZES:
            raise UnsupportedError(f"weft works with {MOST_SIZES} sizes at once at most, not with {n}")
        return 0
    if node.op_type in ELEMENTS:
        n = ELEMENTS[node.op_type](*inputs, **given)
    else:
        n = _at_most(there, given) if node.op_type in BY_NUMBERS else _broadcast(*(one.shape for one in there))
    return max(n, 0) * LARGEST_ELEMENT


def fold(node: onnx.NodeProto, inputs: Sequence[Any], opsets: Mapping[str, int]) -> tuple[Any, ...] | None:
    """The results of a node whose inputs are known; None where that is not done for sizes."""
    if node.op_type in VIEWS or any(are_sizes(one) for one in inputs):
        if node.op_type not in OF_SIZES:
            return None
        made = OF_SIZES[node.op_type](*inputs, **attributes(node))
        if made is None:
            return None
        results = made if isinstance(made, tuple) else (made,)
        # What has lost its symbols are numbers again.
        return tuple(np.asarray(one) if are_sizes(np.asarray(one)) else as_numbers(np.asarray(one)) for one in results)
    try:
        results = evaluator(node, opsets)(inputs)
    except Exception as error:
        raise UnsupportedError(f"onnx cannot work out what it makes of constants: {error}") from error
    if not all(isinstance(one, np.ndarray) for one in results):
        raise UnsupportedError("weft has no sequences")
    return results


def evaluator(node: onnx.NodeProto, opsets: Mapping[str, int]) -> Callable[[Sequence[Any]], tuple[Any, ...]]:
    """The node as the package onnx computes it, with NumPy: a function of its inputs."""
    one = ReferenceEvaluator(node, opsets=dict(opsets))

    def run(inputs: Sequence[Any]) -> tuple[Any, ...]:
        with np.errstate(all="ignore"):
            return tuple(one.run(None, {name: array for name, array in zip(node.input, inputs, strict=False) if name}))

    return run


def as_numbers(x: Array) -> Array:
    if x.dtype != object:
        return x
    is_truth = x.size > 0 and all(isinstance(one, (bool, np.bool_)) for one in x.flat)
    return x.astype(bool if is_truth else np.int64)
