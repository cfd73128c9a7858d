"""Models in ONNX's format, as graphs of weft.

    import weft.onnx
    model = weft.onnx.load("model.onnx")
    y = model.run({"x": x})["y"]

Needs the package onnx: pip install weft[onnx]."""

from __future__ import annotations

import functools
import operator
import os
import sys
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Union

import numpy as np
import numpy.typing as npt

try:
    import onnx
    from google.protobuf.message import DecodeError
    from onnx import helper
except ImportError as error:
    raise ImportError("weft.onnx needs the package onnx: pip install weft[onnx]") from error

from .. import arguments
from ..errors import Error, InvalidArgumentError, InvalidFileError, IoError, NotFoundError, UnsupportedError
from ..options import FilePath
from ..plan import Plan
from .build import TYPES, Builder, UnsupportedModelError, fit, single
from .host import MOST_OF_DEVICE, Hosted, with_numbers
from .known import NeedsSizes, are_sizes, number_of
from .operators import CONTROLS, OPERATORS
from .operators.learning import LEARNING
from .stored import check, embed, read
from .wide import MOST

__all__ = ["Model", "Tensor", "UnsupportedModelError", "load", "operators"]

Array = npt.NDArray[Any]
Size = Union[int, tuple[int, int]]
DOUBLES = ("warn", "refuse", "float32")


def operators() -> list[str]:
    """The ops that weft computes as a whole. What ONNX itself defines by these works, too."""
    return sorted(OPERATORS)


@dataclass(frozen=True)
class Tensor:
    """An input or an output. Sizes are numbers, names of symbols, or what follows of those."""

    dtype: np.dtype[Any]
    shape: tuple[int | str, ...]


def load(
    source: FilePath | bytes | onnx.ModelProto,
    *,
    sizes: Mapping[str, Size] | None = None,
    constants: Mapping[str, npt.ArrayLike] | None = None,
    devices: Sequence[str] = (),
    pins: Sequence[tuple[str, str]] = (),
    n_threads: int = 0,
    doubles: str = "warn",
) -> Model:
    """A model of a file, of its bytes, or one that was made with the package onnx.

    `sizes`: a number for a symbol of the model (a dimension without a name is INPUT.AXIS), or its least and most. Memory is
    reserved for these bounds once. Bounds of other symbols grow with the inputs. `constants`: values of inputs that are always
    the same, such as shapes and axes. `devices`, `pins` and `n_threads` are as in weft.Plan.

    `doubles`: how to treat nodes of doubles that read results of devices. The host cannot compute these before a step. With
    "warn", devices compute them in 32 bits, and a warning names them. With "refuse", the model is refused. With "float32",
    devices compute all doubles in 32 bits, without a warning.

    UnsupportedModelError names all that weft lacks for the model, before anything is computed."""
    if doubles not in DOUBLES:
        raise arguments.wrong("doubles", doubles, " or ".join(map(repr, DOUBLES)))
    for name, given in (("sizes", sizes), ("constants", constants)):
        if given is not None:
            arguments.need(Mapping, name, given, "a dictionary")
    folders = [Path()]
    if isinstance(source, onnx.ModelProto):
        what, model = "the model", onnx.ModelProto()
        model.CopyFrom(source)
    else:
        what = "the bytes" if isinstance(source, bytes) else str(source)
        if not isinstance(source, bytes):
            arguments.need((str, os.PathLike), "source", source, "a path, bytes or a model of the package onnx")
            # In a hub's cache both the model and its external files are links into one folder.
            path = Path(os.fspath(source))
            folders = [path.parent, path.resolve().parent]
        try:
            data = source if isinstance(source, bytes) else Path(os.fspath(source)).read_bytes()
            model = onnx.ModelProto.FromString(data)
        except FileNotFoundError as error:
            raise NotFoundError(f"{source}: there is no such file") from error
        except OSError as error:
            raise IoError(f"{source}: {error.strerror}") from error
        except DecodeError as error:
            raise InvalidFileError(f"{what}: no ONNX model") from error
        del data
    check(what, model)
    return Model(model, folders, _read_sizes(sizes or {}), constants or {}, devices, pins, n_threads, doubles)


def _read_sizes(given: Mapping[str, Size]) -> dict[str, Size]:
    sizes: dict[str, Size] = {}
    for name, size in given.items():
        try:
            numbers = [operator.index(one) for one in (size if isinstance(size, (tuple, list)) else (size,))]
        except TypeError:
            numbers = []
        if len(numbers) not in (1, 2) or isinstance(size, (tuple, list)) != (len(numbers) == 2):
            raise arguments.wrong(f"the size '{name}'", size, "a number, or the least and the most")
        if not 0 < numbers[0] <= numbers[-1] < 1 << 31:
            raise InvalidArgumentError(f"the size '{name}' is {size}; it is 1 or more, its least not above its most")
        sizes[name] = numbers[0] if len(numbers) == 1 else (numbers[0], numbers[1])
    return sizes


class Model:
    """A loaded model. Used by one thread at a time."""

    def __init__(self, model: onnx.ModelProto, folders: Sequence[Path], sizes: Mapping[str, Size],
                 constants: Mapping[str, npt.ArrayLike], devices: Sequence[str], pins: Sequence[tuple[str, str]],
                 n_threads: int, doubles: str) -> None:  # fmt: skip
        self._model, self._doubles, self._has_warned = model, doubles, False
        self._read = functools.partial(read, folders=folders)
        self._initializers = {one.name: self._read(one) for one in model.graph.initializer}
        del model.graph.initializer[:]  # Their bytes are in the arrays.
        embed(model, folders)
        declared = {one.name: one for one in model.graph.input}
        self._constants: dict[str, Array] = {}
        for name, value in constants.items():
            if name not in declared:
                raise NotFoundError(f"the model has no input '{name}' to be a constant")
            self._constants[name] = _constant(declared[name], value)
        self._bounds: dict[str, Size] = dict(sizes)
        self._given = set(sizes)
        self._settings: dict[str, Any] = {"devices": devices, "pins": pins, "n_threads": n_threads}
        self._built: Builder
        self._first: dict[str, Array] = {}
        self._plan: Plan | None = None
        self._prepared: dict[int, tuple[Array, Array]] = {}
        self._build()
        self._inputs, self._symbols = self._built.inputs, tuple(self._built.symbols)
        self._free = [name for name in self._symbols if name not in self._given]
        # A graph that needs sizes as numbers, or values of inputs, is made for the sizes and values of a step.
        self._fixed: _Fixed | None = None
        if self._built.error is not None:
            if self._built.is_hopeless or not (self._built.wanted or self._free):
                raise self._built.error
            self._fixed = _Fixed({}, {})
        unknown = sorted(self._given - set(self._symbols))
        if unknown:
            has = ", ".join(self._symbols) or "none"
            raise NotFoundError(f"the model has no symbol '{unknown[0]}'; it has {has}")

    @property
    def inputs(self) -> dict[str, Tensor]:
        return {name: _describe(one) for name, one in self._inputs.items()}

    @property
    def outputs(self) -> dict[str, Tensor]:
        if self._fixed is None:
            return {name: _describe(one) for name, one in self._built.outputs.items()}
        return {one.name: _declared(one) for one in self._model.graph.output}

    @property
    def symbols(self) -> dict[str, Size]:
        """Sizes that steps may change, with their present least and most, or a fixed number."""
        return {name: self._bounds.get(name, (0, 1)) for name in self._symbols}

    def run(self, inputs: Mapping[str, npt.ArrayLike]) -> dict[str, Array]:
        """The outputs by their names. Other sizes within the bounds cost no planning. But if a model needs sizes as numbers, its
        graph is built again."""
        known = self._inputs
        arguments.need(Mapping, "inputs", inputs, "arrays by their names")
        for name in inputs:
            if name not in known:
                raise NotFoundError(f"the model has no input '{name}'; it has {', '.join(known) or 'none'}")
        missing = [name for name in known if name not in inputs]
        if missing:
            raise InvalidArgumentError(f"the input '{missing[0]}' is missing")
        given = {name: _checked(name, arguments.array(f"the input '{name}'", array), known[name].type) for name, array in inputs.items()}
        sizes = self._sizes(given)
        if self._fixed is None:
            self._grow(sizes)
        if self._fixed is not None or not self._free:
            return self._step(sizes, given)
        kept = self._plan, self._built, self._first
        try:
            if not all(holds(sizes) for holds in self._built.assumed):
                raise NeedsSizes("the graph is one of other sizes")
            return self._step(sizes, given)
        except (InvalidArgumentError, NeedsSizes):
            # For example, a slice ends after the last element, which it did not before.
            self._fixed, self._plan = _Fixed({}, {}), None
            try:
                return self._step(sizes, given)
            except Error as error:
                failed = error
            self._fixed = None
            self._plan, self._built, self._first = kept
            raise failed

    def _step(self, sizes: Mapping[str, int], given: Mapping[str, Array]) -> dict[str, Array]:
        known, all_sizes = self._inputs, sizes
        if self._fixed is not None:
            self._fix(sizes, given)
            sizes = {name: size for name, size in sizes.items() if name in self._given}
        built = self._built
        hosted = {name: one.made for name, one in built.outputs.items() if not isinstance(one, np.ndarray) and isinstance(one.made, Hosted)}
        typed = {name: array.astype(_describe(known[name]).dtype, copy=False) for name, array in given.items()}
        read = {name: built.fed[name] for name in built.live_inputs if name in built.fed}
        on_host = built.host.run([*read.values(), *hosted.values()], typed, all_sizes)
        made: dict[str, Array] = {}
        if built.on_devices:
            fed = {name: _as_input(one, on_host(one) if name in read else one.zeros(all_sizes)) for name, one in built.fed.items()}
            made = self._ready().run({**fed, **self._first}, **sizes)
            self._first = {}
            _check_wholes(built.checks, made)
        results: dict[str, Array] = {}
        for name, one in built.outputs.items():
            if isinstance(one, np.ndarray):
                results[name] = np.array(with_numbers(one, all_sizes))
                continue
            if name in hosted:
                results[name] = np.array(on_host(hosted[name]))
                continue
            array = made[one.value.name].astype(helper.tensor_dtype_to_np_dtype(one.type), copy=False)
            if one.wide is not None:
                array = array.reshape([number_of(size, sizes) for size in one.wide])
            results[name] = array
        return results

    def explain(self) -> str:
        """The device of each node, the copies, and the memory of each device."""
        self._must_be_made()
        return self._ready().explain() if self._built.on_devices else "the host computes all of it\n"

    def __str__(self) -> str:
        """The graph, a line for each node."""
        self._must_be_made()
        return str(self._built.graph)

    def _build(self, fixed: _Fixed | None = None) -> None:
        """Builds the graph and replaces the previous one if nothing is missing."""
        numbers, values = (fixed.numbers, fixed.values) if fixed else ({}, {})
        built = Builder(self._model, self._initializers, self._read, {**self._constants, **values}, {**self._bounds, **numbers}, OPERATORS,
                        CONTROLS, LEARNING, self._prepared, self._doubles)  # fmt: skip
        if fixed and built.error is not None:
            raise built.error
        if built.error is None and built.narrowed and not self._has_warned:
            self._has_warned = True
            warnings.warn(_narrowed(built.narrowed), stacklevel=_depth())
        if not built.on_devices:
            self._plan = None
        if self._plan is not None:
            self._plan.set_graph(built.graph)
            self._set_weights(built.weights, self._built.weights)
        self._built = built
        # Whole numbers that the model has are given with the first step.
        self._first = dict(built.fixed)

    def _must_be_made(self) -> None:
        if self._built.error is not None:
            raise InvalidArgumentError("the graph is made by the first step: run it, or say its sizes and constants when it is loaded")

    def _ready(self) -> Plan:
        self._must_be_made()
        if self._plan is None:
            allow = ["shapes", "topology"] if self._free or self._fixed else ["shapes"]
            self._plan = Plan(self._built.graph, allow=allow, **self._settings)
            self._set_weights(self._built.weights, {})
        return self._plan

    def _set_weights(self, weights: Mapping[str, Array], before: Mapping[str, Array]) -> None:
        """Sets the weights that the previous graph did not have."""
        assert self._plan is not None
        for name, array in weights.items():
            if name not in before or not _is_same(before[name], array):
                self._plan.set_weight(name, array)

    def _sizes(self, given: Mapping[str, Array]) -> dict[str, int]:
        """The sizes of symbols from the inputs' shapes. The plan reports contradictions."""
        sizes: dict[str, int] = {}
        for name, array in given.items():
            shape = _describe(self._inputs[name]).shape
            fits = len(shape) == array.ndim and all(size == now for size, now in zip(shape, array.shape, strict=False) if isinstance(size, int))
            if not fits:
                raise InvalidArgumentError(f"the input '{name}' has the shape {array.shape}, not ({', '.join(map(str, shape))})")
            for size, now in zip(shape, array.shape, strict=True):
                if isinstance(size, str) and sizes.setdefault(size, now) != now:
                    raise InvalidArgumentError(f"the size {size} is {sizes[size]} of one input, and {now} of '{name}'")
        return sizes

    def _grow(self, sizes: Mapping[str, int]) -> None:
        """Grows bounds that were not given with the inputs: to the sizes of the first step exactly, later by doubling."""
        grown = {}
        for name, now in sizes.items():
            bounds = self._bounds.get(name, (0, 0))
            if name not in self._given and isinstance(bounds, tuple) and now > bounds[1]:
                grown[name] = (0, max(now, 2 * bounds[1]))
        if grown:
            self._bounds.update(grown)
            try:
                self._build()
                if self._built.on_devices:
                    self._ready()
            except UnsupportedModelError:
                raise
            except Error:
                # For example, a slice may exceed the smallest sizes.
                self._fixed, self._plan = _Fixed({}, {}), None

    def _fix(self, sizes: Mapping[str, int], given: Mapping[str, Array]) -> None:
        """Makes the graph for these sizes and values, unless it is the present one."""
        assert self._fixed is not None
        numbers, wanted = {name: sizes[name] for name in self._free}, set(self._fixed.values)
        while True:
            values = {name: given[name].astype(_describe(self._inputs[name]).dtype) for name in wanted}
            fixed = _Fixed(numbers, values)
            if fixed == self._fixed and self._built.error is None:
                return
            try:
                self._build(fixed)
            except UnsupportedModelError as error:
                more = set(error.inputs) - wanted
                if not more or any(not _may_be_fixed(given[name]) for name in more):
                    raise
                wanted |= more
            else:
                self._fixed = fixed
                return


@dataclass(eq=False)
class _Fixed:
    """The sizes and the values of inputs that a graph is built for."""

    numbers: dict[str, int]
    values: dict[str, Array]

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, _Fixed)
            and self.numbers == other.numbers
            and self.values.keys() == other.values.keys()
            and all(_is_same(array, other.values[name]) for name, array in self.values.items())
        )


def _is_same(a: Array, b: Array) -> bool:
    return a is b or (a.dtype == b.dtype and np.array_equal(a, b, equal_nan=a.dtype.kind == "f"))


def _may_be_fixed(array: Array) -> bool:
    """True for sizes, axes, scales and switches. Larger inputs are data, and each step would build a new graph for
    them."""
    return array.size <= 64


def _declared(one: onnx.ValueInfoProto) -> Tensor:
    """As the model's file says it."""
    tensor = one.type.tensor_type
    sizes = (size.dim_value if size.dim_value > 0 else size.dim_param or "?" for size in tensor.shape.dim)
    return Tensor(helper.tensor_dtype_to_np_dtype(tensor.elem_type), tuple(sizes))


def _constant(declared: onnx.ValueInfoProto, value: npt.ArrayLike) -> Array:
    name, tensor = declared.name, declared.type.tensor_type
    if not declared.type.HasField("tensor_type"):
        raise InvalidArgumentError(f"the input '{name}' is no tensor, which a constant has to be")
    array = arguments.array(f"the constant '{name}'", value, helper.tensor_dtype_to_np_dtype(tensor.elem_type))
    shape = _declared(declared).shape
    is_size = [not isinstance(size, int) or size == now for size, now in zip(shape, array.shape, strict=False)]
    if tensor.HasField("shape") and not (len(shape) == array.ndim and all(is_size)):
        raise InvalidArgumentError(f"the constant '{name}' has the shape {array.shape}, not ({', '.join(map(str, shape))})")
    return array


def _checked(name: str, array: Array, kind: int) -> Array:
    dtype = helper.tensor_dtype_to_np_dtype(kind)
    if array.dtype != dtype and not np.can_cast(array.dtype, dtype, "same_kind"):
        raise InvalidArgumentError(f"the input '{name}' is of {dtype}, not {array.dtype}")
    if array.dtype != dtype and dtype.kind in "iu" and array.size:
        limits = np.iinfo(dtype)
        if array.min() < limits.min or array.max() > limits.max:
            raise InvalidArgumentError(f"the input '{name}' has numbers that {dtype} does not hold")
    return array


def _as_input(hosted: Hosted, array: Array) -> Array:
    """As the graph has it."""
    what = f"the input '{hosted.name}'" if hosted.work is None else f"the result of {hosted.work.what}"
    if len(hosted.shape) > MOST:
        array = array.reshape(-1)
    if TYPES[hosted.type] == "i32":
        return fit(array, what)
    if hosted.type == onnx.TensorProto.DOUBLE:
        return single(array, what)
    return np.asarray(array, np.float32, order="C")


def _check_wholes(checks: Mapping[str, str], made: dict[str, Array]) -> None:
    for name, what in checks.items():
        if made.pop(name) >= MOST_OF_DEVICE:
            raise UnsupportedError(f"{what} makes whole numbers that do not fit 32 bits, of what devices compute; cast them to floats before")


def _narrowed(places: Sequence[str]) -> str:
    more = f" and {len(places) - 5} more" if len(places) > 5 else ""
    return (f"weft computes doubles of these nodes in 32 bits: {', '.join(places[:5])}{more}. doubles=\"refuse\" makes that an error, "
            "doubles=\"float32\" is silent")  # fmt: skip


def _depth() -> int:
    """Frames up to the caller of this package, for a warning that its own caller gives."""
    frame, depth = sys._getframe(1), 1
    while frame is not None and frame.f_globals.get("__name__", "").startswith("weft."):
        frame, depth = frame.f_back, depth + 1
    return depth


def _describe(one: Any) -> Tensor:
    dtype = np.dtype(np.int64) if isinstance(one, np.ndarray) and are_sizes(one) else one.dtype if isinstance(one, np.ndarray) else helper.tensor_dtype_to_np_dtype(one.type)
    return Tensor(dtype, tuple(size if isinstance(size, int) else str(size) for size in one.shape))
