"""A model becomes a graph, node by node."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from inspect import Parameter, signature
from typing import Any, Union

import numpy as np
import onnx
from onnx import TensorProto, defs, helper

from .. import _weft, ops
from ..errors import Error, UnsupportedError
from . import host
from .host import Hosted
from .known import BY_NUMBERS, VIEWS, Array, NeedsSizes, are_sizes, attributes, bytes_made, fold, product
from .wide import MOST, joined, reshaped

# The types of ONNX that weft computes, and what a device computes them as. Values of 16 bits are stored so and computed in f32.
# What 64 bits hold and 32 do not is the host's (host.py).
TYPES: Mapping[int, str] = {
    TensorProto.FLOAT: "f32", TensorProto.FLOAT16: "f32", TensorProto.BFLOAT16: "f32", TensorProto.DOUBLE: "f32",
    TensorProto.INT32: "i32", TensorProto.INT64: "i32", TensorProto.BOOL: "i32",
    TensorProto.INT8: "i32", TensorProto.UINT8: "i32", TensorProto.INT16: "i32", TensorProto.UINT16: "i32",
}  # fmt: skip


# The most nodes of a model with unrolled functions and loops. Each takes some tenths of a millisecond, and a few kB of nested
# functions may unroll to 2^40. An unrolled part is read and copied each time, so each BYTES_OF_NODE of its bytes count as a node,
# too. A turn of a loop also counts as one.
MOST_NODES = 250_000
BYTES_OF_NODE = 8192
# The most bytes of folded constants: a GiB, and MADE_OF_BYTE for each byte of weights. Unpacking 4-bit weights takes eight in
# each of its steps.
MOST_MADE, MADE_OF_BYTE = 1 << 30, 64
MOST_OF_PREFIX = 256  # Of the prefix of names within a function or loop: the names around it.


def type_name(onnx_type: int) -> str:
    return TensorProto.DataType.Name(onnx_type).lower()


class UnsupportedModelError(UnsupportedError):
    """All that weft lacks for a model, a line each in `problems`. `inputs` are the inputs whose values must be known when the
    model is loaded: give them as `constants`."""

    def __init__(self, problems: Sequence[str], inputs: Sequence[str]) -> None:
        self.problems, self.inputs = list(problems), list(inputs)
        super().__init__("weft cannot run this model:\n  " + "\n  ".join(self.problems))


class TooLarge(Exception):
    """Nothing more is made of a model."""


class Unknown(Exception):
    """A step computes what must be known."""

    def __init__(self, sources: frozenset[str]) -> None:
        self.sources = sources


@dataclass(frozen=True)
class Tensor:
    """What a step computes, with ONNX's type of its elements and the inputs that it depends on."""

    made: _weft.Value | Hosted
    type: int
    sources: frozenset[str] = frozenset()
    wide: tuple[Any, ...] | None = None  # The shape, where it has more axes than a value can have: see wide.py.
    # For a product with known weights: makes it again, times a factor and plus a summand for each channel {c}.
    scaled: Callable[[Array, Array], Tensor] | None = None
    limits: host.Limits | None = None  # The least and most of integers; None: by the type.
    otherwise: Hosted | None = None  # How the host would make whole numbers that a device makes.

    @property
    def hosted(self) -> Hosted | None:
        return self.made if isinstance(self.made, Hosted) else self.otherwise

    @property
    def value(self) -> _weft.Value:
        return self.made.value if isinstance(self.made, Hosted) else self.made

    @property
    def shape(self) -> tuple[Any, ...]:
        return self.made.shape if self.wide is None else self.wide


class Broken:
    """The result of a node that is among the problems."""


Results = Union[_weft.Value, Tensor, Array, Sequence[_weft.Value | Tensor | Array]]


@dataclass
class Scope:
    """Names of a graph, of a function's body or of a branch."""

    opsets: Mapping[str, int]
    names: dict[str, Any] = field(default_factory=dict)
    outer: Scope | None = None
    prefix: str = ""
    readers: Counter[str] = field(default_factory=Counter)  # How often each name is read.

    def find(self, name: str) -> Any:
        if not name:
            return None
        if name in self.names:
            return self.names[name]
        if self.outer is None:
            raise UnsupportedError(f"nothing makes '{name}'")
        return self.outer.find(name)


class Node:
    """A node as the functions of the table see it."""

    def __init__(self, builder: Builder | host.Sketch, proto: onnx.NodeProto, scope: Scope) -> None:
        self.builder: Any = builder
        self.graph = builder.graph
        self.version = scope.opsets.get(proto.domain, 1)
        self.n_outputs = len(proto.output)
        self.readers = [scope.readers[name] for name in proto.input]
        self._scope, self._place = scope, _place(proto)
        self.wanted = [bool(name) for name in proto.output]

    def value(self, x: Any, dtype: str | None = None) -> _weft.Value:
        """As a value of the graph, of this type of weft if one is named."""
        if isinstance(x, (Tensor, np.ndarray)) and len(x.shape) > MOST:
            raise UnsupportedError(f"an input has {len(x.shape)} axes; weft's values have {MOST} at most")
        made = x.value if isinstance(x, Tensor) else self.builder.constant(x) if isinstance(x, np.ndarray) else x
        return made if dtype is None else ops.cast(made, dtype)

    def opened(self, graph: onnx.GraphProto) -> Callable[..., list[Any]]:
        """A graph of an attribute: a function of its inputs and of what its results are called after. Its weights are read once,
        however often it is used."""
        weights = {one.name: self.builder.read(one) for one in graph.initializer}

        def inside(given: Sequence[Any], place: str = "") -> list[Any]:
            names = {**weights, **{one.name: value for one, value in zip(graph.input, given, strict=False)}}
            made = self.builder.inside(graph, names, f"{self._place}/{place}" if place else self._place, self._scope)
            if any(isinstance(one, Broken) for one in made):
                raise NeedsSizes("what it consists of is missing")
            return made

        return inside

    def fold(self, place: int, x: Any, factor: Array, summand: Array) -> Tensor | None:
        """Folds a factor and a summand, for each channel or for all, into the node that makes input x at this place. None where
        that is impossible, or x has other readers."""
        if not isinstance(x, Tensor) or x.scaled is None or self.readers[place] != 1:
            return None
        n = x.shape[1]
        if any(one.size not in (1, n) for one in (np.atleast_1d(factor), np.atleast_1d(summand))):
            return None  # One channel becomes several.
        return x.scaled(np.broadcast_to(factor, n), np.broadcast_to(summand, n))

    def elements(self, x: Any) -> _weft.Value:
        """As a value, of any shape where there are too many axes."""
        if isinstance(x, np.ndarray) and x.ndim > MOST:
            return self.builder.constant(self.builder.kept(x.reshape(-1), x))
        return x.value if isinstance(x, Tensor) else self.value(x)

    def shaped(self, value: _weft.Value, shape: Sequence[Any], x: Any) -> Any:
        """A result of this shape and the type of x, of any number of axes."""
        made = reshaped(value, shape)
        return Tensor(made, self.type(x), wide=tuple(shape) if len(shape) > MOST else None)

    def weight(self, x: Any) -> _weft.Value:
        """What is multiplied with, or of which rows are taken: as it is stored."""
        return self.builder.weight(self.known(x), packed=True)

    def known(self, x: Any) -> Array:
        if isinstance(x, np.ndarray):
            return x
        if x is None:
            raise UnsupportedError("an input is missing that it needs")
        raise Unknown(x.sources)

    def ints(self, x: Any) -> list[Any]:
        """Whole numbers and sizes that must be known."""
        array = np.atleast_1d(self.known(x))
        return [one if isinstance(one, _weft.Dim) else int(one) for one in array.tolist()]

    def number(self, x: Any) -> Any:
        """The element of something known."""
        return self.known(x).reshape(-1).tolist()[0]

    def type(self, x: Any) -> int:
        """ONNX's."""
        return x.type if isinstance(x, Tensor) else TensorProto.INT64 if are_sizes(x) else helper.np_dtype_to_tensor_dtype(x.dtype)

    def is_whole(self, x: Any) -> bool:
        return TYPES.get(self.type(x)) == "i32"


class Builder:
    """Makes a graph of a model. `bounds` are a number or the least and most of each symbol; `read` gives the elements of weights
    that are not among `initializers`."""

    def __init__(self, model: onnx.ModelProto, initializers: Mapping[str, Array], read: Callable[[TensorProto], Array],
                 constants: Mapping[str, Array],
                 bounds: Mapping[str, int | tuple[int, int]], operators: Mapping[str, Callable[..., Any]],
                 controls: Mapping[str, Callable[..., list[Any]]], learning: Mapping[str, Callable[..., Any]],
                 transposed: dict[int, tuple[Array, Array]], doubles: str) -> None:  # fmt: skip
        self.graph = _weft.Graph()
        self.learning = learning
        self._has_learning = any(one.domain == "ai.onnx.ml" for one in model.opset_import)
        self.doubles = doubles
        self.operators, self.controls, self.read = operators, controls, read
        self.bounds = bounds
        self.functions = {(one.domain, one.name, one.overload): one for one in model.functions}
        self.symbols: dict[str, Any] = {}
        self.inputs: dict[str, Tensor] = {}
        self.weights: dict[str, Array] = {}
        self.fixed: dict[str, Array] = {}  # Whole numbers, which are inputs that never change.
        self.host = host.Host()
        self.fed: dict[str, Hosted] = {}  # Inputs of the graph: what the host has before a step.
        self.checks: dict[str, str] = {}  # Outputs of the graph that tell whether nodes' whole numbers fit 32 bits.
        self.narrowed: list[str] = []  # Nodes of doubles that a device computes, in 32 bits.
        self.outputs: dict[str, Any] = {}  # Known arrays, sizes among them, or Tensors.
        self.assumed: list[Callable[[Mapping[str, int]], bool]] = []  # Of the symbols' sizes; else the graph is another.
        self._n_nodes = 0
        self._bytes_left = MOST_MADE + MADE_OF_BYTE * sum(array.nbytes for array in initializers.values())
        self._made: dict[tuple[int, str], tuple[Array, Any]] = {}
        self._names = {id(array): name for name, array in initializers.items()}
        self._arrays: list[Array] = []  # That are known by their address.
        self._transposed = transposed  # Of the model's own, from one graph to the next: by the address of the first.
        self._taken: set[str] = set()
        self._problems: dict[tuple[str, str], list[str]] = {}
        self.wanted: dict[str, None] = {}  # Inputs of which the values must be known.
        self.is_hopeless = False  # Whether there are problems that no sizes and no values of inputs mend.

        self.ranges = host.Ranges(bounds, self.symbols)
        self._sketch = host.Sketch(self.assumed)
        opsets = {("" if one.domain == "ai.onnx" else one.domain): one.version for one in model.opset_import}
        if opsets.get("", 0) > defs.onnx_opset_version():
            self._problem(f"opset {opsets['']}", f"the package onnx {onnx.__version__} knows {defs.onnx_opset_version()} at most", "")
        scope = Scope(opsets, dict(initializers), readers=Counter(one.name for one in model.graph.output))
        for one in model.graph.input:
            if one.name not in initializers:
                scope.names[one.name] = constants[one.name] if one.name in constants else self._input(one)
        try:
            self._count(_written_out(model.graph.node, self.functions))  # Before any of it is made.
            self._n_nodes = 0
            self._nodes(model.graph.node, scope)
            self._outputs(model.graph.output, scope)
        except TooLarge as error:
            self._problem("the model", str(error), "")
        self.error = UnsupportedModelError(self._lines(), list(self.wanted)) if self._problems else None

    @property
    def on_devices(self) -> bool:
        """Whether devices compute an output."""
        return any(isinstance(one, Tensor) and not isinstance(one.made, Hosted) for one in self.outputs.values())

    @cached_property
    def live_inputs(self) -> list[str]:
        """Inputs of the graph that an output depends on."""
        return self.graph.live_inputs()

    # What is given.

    def _input(self, info: onnx.ValueInfoProto) -> Any:
        tensor = info.type.tensor_type
        if not info.type.HasField("tensor_type") or tensor.elem_type not in TYPES:
            kind = type_name(tensor.elem_type) if info.type.HasField("tensor_type") else f"a {info.type.WhichOneof('value')}"
            return self._problem(f"input '{info.name}'", f"weft has no {kind}", "")
        if not tensor.HasField("shape"):
            return self._problem(f"input '{info.name}'", "the model does not say how many axes it has", "")
        shape = [self._size(size, f"{info.name}.{axis}") for axis, size in enumerate(tensor.shape.dim)]
        self._taken.add(info.name)
        self.inputs[info.name] = self._of_host(Hosted(info.name, tensor.elem_type, tuple(shape), self._feed), frozenset([info.name]))
        return self.inputs[info.name]

    def _of_host(self, hosted: Hosted, sources: frozenset[str], limits: host.Limits | None = None) -> Tensor:
        return Tensor(hosted, hosted.type, sources, hosted.shape if len(hosted.shape) > MOST else None, None, limits)

    def _feed(self, hosted: Hosted) -> _weft.Value:
        """An input of the graph for what the host has."""
        name = hosted.name if hosted.work is None else self._free(hosted.name)
        self.fed[name] = hosted
        shape = (product(hosted.shape),) if len(hosted.shape) > MOST else hosted.shape
        return self.graph.input(name, shape, TYPES[hosted.type])

    def _size(self, size: Any, otherwise: str) -> Any:
        if size.HasField("dim_value") and size.dim_value >= 0:
            return size.dim_value
        # Some exporters write -1 or ? for each size that they do not know.
        name = size.dim_param if size.dim_param not in ("", "?") else otherwise
        if name not in self.symbols:
            bounds = self.bounds.get(name, (0, 1))
            if isinstance(bounds, int):
                self.symbols[name] = bounds
            else:
                self.symbols[name] = self.graph.symbol(name, *bounds)
                self._sketch.graph.symbol(name, *bounds)
        return self.symbols[name]

    def weight(self, array: Array, packed: bool) -> _weft.Value:
        """A known array as a weight; its elements lie where they are, if their type is one of weft's."""
        key = (id(array), "packed" if packed else "elements")
        if key not in self._made:
            stored = {"float64": "f32", "float32": "f32", "float16": "f16", "bfloat16": "bf16"}.get(array.dtype.name)
            if stored is None:
                raise UnsupportedError(f"weft has no weights of {array.dtype.name}")
            data = array
            if array.dtype == np.float64:
                data = single(array, "a constant")
            elif stored != "f32" and not packed:
                data, stored = array.astype(np.float32), "f32"
            name = self._free(self._names.get(id(array), "constant"))
            self.weights[name] = data.view(np.uint16) if stored == "bf16" else data
            self._made[key] = array, self.graph.weight(name, data.shape, stored)
        return self._made[key][1]

    def kept(self, array: Array, origin: Any) -> Array:
        """An array that was made of another one, under its name."""
        self._names[id(array)] = self._names.get(id(origin), "constant")
        self._arrays.append(array)
        return array

    def transposed(self, matrix: Array) -> Array:
        """A matrix as `linear` has it: a copy, once."""
        if id(matrix) not in self._transposed:
            self._transposed[id(matrix)] = matrix, np.ascontiguousarray(matrix.T)
        return self.kept(self._transposed[id(matrix)][1], matrix)

    def constant(self, array: Array) -> _weft.Value:
        """A known array as an operand."""
        if are_sizes(array):
            if not host.fits(self.ranges.of(array)):
                raise NeedsSizes("a size may not fit 32 bits: give it in sizes=")
            parts = [ops.arange(self.graph, one, one + 1) for one in array.reshape(-1).tolist()]
            return ops.reshape(joined(parts, 0), array.shape)
        if array.size == 0:
            return ops.cast(ops.full(self.graph, array.shape, 0.0), "i32" if array.dtype.kind in "biu" else "f32")
        if array.dtype.kind in "biu":
            return self.fixed_input(array)
        return self.weight(array, packed=False) if array.ndim else ops.full(self.graph, (), float(single(array, "a constant")))

    def fixed_input(self, array: Array) -> _weft.Value:
        """A known array where weft takes no weights: whole numbers, and factors of products of values."""
        key = (id(array), "input")
        if key not in self._made:
            name = self._free(self._names.get(id(array), "constant"))
            whole = array.dtype.kind in "biu"
            self.fixed[name] = fit(array, "a constant") if whole else single(array, "a constant")
            self._made[key] = array, self.graph.input(name, array.shape, "i32" if whole else "f32")
        return self._made[key][1]

    def _free(self, name: str) -> str:
        found, number = name, 1
        while found in self._taken:
            found, number = f"{name}.{number}", number + 1
        self._taken.add(found)
        return found

    # Nodes.

    def _nodes(self, nodes: Sequence[onnx.NodeProto], scope: Scope) -> None:
        _count_readers(nodes, scope.readers)
        for node in nodes:
            what = f"{node.domain + '.' if node.domain else ''}{node.op_type} (opset {scope.opsets.get(node.domain, '?')})"
            place = scope.prefix + _place(node)
            results: Any = Broken()
            self._count(1 + (node.ByteSize() // BYTES_OF_NODE if scope.prefix else 0))
            try:
                results = self._node(node, scope)
            except Unknown as unknown:
                self.wanted.update(dict.fromkeys(sorted(unknown.sources)))
                self._problem(what, "what it makes depends on values that must be known when the model is loaded: "
                              + (", ".join(sorted(unknown.sources)) or "a result"), place, is_hopeless=False)  # fmt: skip
            except (Error, ValueError, TypeError, NotImplementedError, LookupError, ArithmeticError, MemoryError, RecursionError) as error:
                is_hopeless = isinstance(error, UnsupportedError) and not isinstance(error, NeedsSizes)
                self._problem(what, (str(error).splitlines() or [type(error).__name__])[0], place, is_hopeless)
            for place_of, name in enumerate(node.output):
                if name:
                    scope.names[name] = results if isinstance(results, Broken) else results[place_of]

    def _count(self, n: int) -> None:
        self._n_nodes += n
        if self._n_nodes > MOST_NODES:
            raise TooLarge(f"weft takes {MOST_NODES} nodes at most, with functions and loops written out")

    def spend(self, n_bytes: int) -> None:
        """Called before constants of `n_bytes` bytes are made."""
        self._bytes_left -= n_bytes
        if self._bytes_left < 0:
            raise TooLarge("its constants would be worked out to more memory than weft takes for a model of its size")

    def _node(self, node: onnx.NodeProto, scope: Scope) -> Any:
        if node.domain == "ai.onnx":
            node.domain = ""
        inputs = [scope.find(name) for name in node.input]
        given = attributes(node)
        is_control = node.op_type in self.controls and not node.domain
        if not is_control and (function := self.functions.get(_called(node))) is not None:
            return self._call(function, inputs, node, scope)
        if node.domain == "ai.onnx.ml":
            return self._learned(node, inputs, given, scope)
        if node.domain:
            raise UnsupportedError(f"weft has no ops of the domain {node.domain}")
        if not defs.has(node.op_type, scope.opsets.get("", 1), ""):
            raise UnsupportedError("ONNX has no such op in this opset")
        schema = defs.get_schema(node.op_type, scope.opsets.get("", 1), "")
        _check_inputs(schema, inputs)
        if is_control:
            if any(isinstance(one, Broken) for one in inputs):
                return Broken()
            made = self.controls[node.op_type](Node(self, node, scope), *inputs, **given)
            return made + [None] * (len(node.output) - len(made))
        make = self.operators.get(node.op_type)
        if make is None and not (schema.has_function or schema.has_context_dependent_function) and not self._folds(schema, inputs):
            raise UnsupportedError("weft has no such op")
        if make is not None:
            self._check_attributes(make, given)
        if any(isinstance(one, Broken) for one in inputs):
            return Broken()
        n_bytes = bytes_made(node, inputs, given) if self._folds(schema, inputs) and node.op_type not in VIEWS else 0
        if self._folds(schema, inputs) and (n_bytes <= self._bytes_left or node.op_type not in BY_NUMBERS):
            self.spend(n_bytes)
            known = fold(node, inputs, scope.opsets)
            if known is not None:
                if not inputs and not scope.prefix:  # A weight like those of the graph.
                    self.spend(-MADE_OF_BYTE * sum(one.nbytes for one in known))
                if node.op_type == "Div":  # It rounds up what is negative, where sizes are rounded down.
                    divided = [one for one in inputs[0].flat if isinstance(one, _weft.Dim)]
                    self.assumed.append(lambda now: all(one.value(now) >= 0 for one in divided))
                return known
        sources = frozenset().union(*(one.sources for one in inputs if isinstance(one, Tensor)))
        if make is not None:
            limits = self.ranges.made(node, inputs, given) if self._has_whole_type(node, inputs, given) else host.DEVICE
            made = self._on_host(make, node, inputs, given, limits, sources, scope)
            if made is None:
                made = make(Node(self, node, scope), *inputs, **given)
                if made is not NotImplemented:
                    made = self._results(made, node, inputs, sources, scope, limits)
                    self._check_doubles(node, inputs, made, scope)
                    made = self._checked_wholes(make, node, inputs, given, made, limits, scope)
                    made = self._with_host(node, inputs, made, scope)
            if made is not NotImplemented:
                return made
        return self._call(self._definition(schema, node, inputs, scope), inputs, node, scope)

    @staticmethod
    def _folds(schema: Any, inputs: Sequence[Any]) -> bool:
        return schema.node_determinism != defs.OpSchema.NodeDeterminism.NonDeterministic and all(
            one is None or isinstance(one, np.ndarray) for one in inputs
        )

    @staticmethod
    def _check_attributes(make: Callable[..., Any], given: Mapping[str, Any]) -> None:
        unknown = sorted(set(given) - _attributes_of(make))
        if unknown:
            raise UnsupportedError(f"weft does not have {', '.join(f'{name}={given[name]!r}' for name in unknown)}")

    # What the host computes, and what a device computes in fewer bits.

    def _on_host(self, make: Callable[..., Any], node: onnx.NodeProto, inputs: Sequence[Any], given: Mapping[str, Any],
                 limits: host.Limits, sources: frozenset[str], scope: Scope) -> Any:  # fmt: skip
        """The results of a node that the host runs; None where a device does."""
        tensors = [one for one in inputs if isinstance(one, Tensor)]
        if not _is_hosted(node, tensors) or not (self._has_doubles(node, inputs, given) or self._has_wholes(node, inputs, tensors, given, limits)):
            return None
        made = self._sketched(make, node, inputs, given, scope)
        if made is NotImplemented:
            return made
        all_made = list(made) if isinstance(made, (list, tuple)) else [made]
        if all(isinstance(one, np.ndarray) for one in all_made):
            return all_made
        first = self._element_type(inputs[0])
        results = []
        for place, name in enumerate(node.output):
            one = all_made[place] if place < len(all_made) else None
            if name and not isinstance(one, (Tensor, _weft.Value)):
                raise UnsupportedError(f"weft does not make its output {place}")
            if isinstance(one, (Tensor, _weft.Value)):
                one = replace(one, sources=sources) if isinstance(one, Tensor) else Tensor(one, first, sources)
            results.append(one)
        work = self._work(node, inputs, results, scope)
        for place, one in enumerate(results):
            if one is not None:
                results[place] = self._of_host(self._result_of(work, place, one, node, scope), sources, limits if one.type == TensorProto.INT64 else None)
        return results

    def _learned(self, node: onnx.NodeProto, inputs: Sequence[Any], given: Mapping[str, Any], scope: Scope) -> Any:
        """An op of ai.onnx.ml."""
        if node.op_type not in self.learning:
            raise UnsupportedError("weft has no such op of ai.onnx.ml; it has " + ", ".join(sorted(set(self.learning) - {"ZipMap"})))
        if any(isinstance(one, Broken) for one in inputs):
            return Broken()
        made = self.learning[node.op_type](*inputs, **given)
        tensors = [one for one in inputs if isinstance(one, Tensor)]
        if not _is_hosted(node, tensors):
            raise UnsupportedError("the host computes it, which does not have its input: a device makes that")
        sources = frozenset().union(*(one.sources for one in tensors))
        stand_ins = [Tensor(self._sketch.placeholder(shape, TYPES[kind]), kind) for kind, shape in made]
        work = self._work(node, inputs, stand_ins, scope)
        return [self._of_host(self._result_of(work, place, one, node, scope), sources) for place, one in enumerate(stand_ins[: len(node.output)])]

    def _work(self, node: onnx.NodeProto, inputs: Sequence[Any], results: Sequence[Tensor | None], scope: Scope) -> host.Work:
        parts = [one.hosted if isinstance(one, Tensor) else one for one in inputs]
        work = host.Work(node, parts, scope.opsets, f"{scope.prefix}{_place(node)} ({node.op_type})")
        work.types = [TensorProto.INT64 if one is None else one.type for one in results]
        self.host.works.append(work)
        return work

    def _result_of(self, work: host.Work, place: int, one: Tensor, node: onnx.NodeProto, scope: Scope) -> Hosted:
        return Hosted(scope.prefix + node.output[place], one.type, tuple(one.shape), self._feed, work, place)

    def _with_host(self, node: onnx.NodeProto, inputs: Sequence[Any], made: Sequence[Any], scope: Scope) -> Sequence[Any]:
        """Results of a device, with the work by which the host can compute them from its own values. A later node may need more
        bits of whole numbers, and ops of ai.onnx.ml read the host's."""
        tensors = [one for one in inputs if isinstance(one, Tensor)]
        is_kept = self._has_learning or all(TYPES[one.type] == "i32" for one in [*tensors, *made] if isinstance(one, Tensor))
        if not is_kept or not _is_hosted(node, tensors) or not all(one is None or (isinstance(one, Tensor) and one.hosted is None) for one in made):
            return made
        work = self._work(node, inputs, made, scope)
        return [
            one if one is None else replace(one, otherwise=self._result_of(work, place, one, node, scope)) for place, one in enumerate(made)
        ]

    def _has_doubles(self, node: onnx.NodeProto, inputs: Sequence[Any], given: Mapping[str, Any]) -> bool:
        if self.doubles == "float32":
            return False
        return self._cast_to(node, inputs, given) == TensorProto.DOUBLE or TensorProto.DOUBLE in map(self._element_type, inputs)

    def _has_whole_type(self, node: onnx.NodeProto, inputs: Sequence[Any], given: Mapping[str, Any]) -> bool:
        """Whether int64 comes or goes."""
        types = [self._cast_to(node, inputs, given), *map(self._element_type, inputs)]
        return TensorProto.INT64 in types or node.op_type in ("ArgMax", "ArgMin")

    def _has_wholes(self, node: onnx.NodeProto, inputs: Sequence[Any], tensors: Sequence[Tensor], given: Mapping[str, Any],
                    limits: host.Limits) -> bool:  # fmt: skip
        """Whether whole numbers come or go that 32 bits may not hold. An input of the model that is an index, or is only moved, must
        fit them in each step."""
        whole = [one for one in tensors if one.type == TensorProto.INT64]
        to = self._cast_to(node, inputs, given)
        if to == TensorProto.INT64 and not whole:
            return True
        if not whole:
            return False
        are_of_model = [isinstance(one.made, Hosted) and one.made.work is None for one in whole]
        if any(not host.fits(self.ranges.of(one)) and (not is_input or node.op_type in host.COMPUTES) for one, is_input in zip(whole, are_of_model, strict=True)):
            return True
        makes_wholes = to is None and self._element_type(inputs[0]) == TensorProto.INT64
        return makes_wholes and node.op_type not in host.MOVES and not host.fits(limits)

    @staticmethod
    def _element_type(x: Any) -> int | None:
        return None if x is None else x.type if isinstance(x, Tensor) else TensorProto.INT64 if are_sizes(x) else helper.np_dtype_to_tensor_dtype(x.dtype)

    def _cast_to(self, node: onnx.NodeProto, inputs: Sequence[Any], given: Mapping[str, Any]) -> int | None:
        return given["to"] if node.op_type == "Cast" else self._element_type(inputs[1]) if node.op_type == "CastLike" else None

    def _sketched(self, make: Callable[..., Any], node: onnx.NodeProto, inputs: Sequence[Any], given: Mapping[str, Any], scope: Scope) -> Any:
        """The results of a node by shape and type. What a device has for floats alone the host has for whole numbers, too."""

        def attempt(as_floats: bool) -> Any:
            def stand_in(x: Any) -> Any:
                if isinstance(x, np.ndarray):
                    return x.astype(np.float32) if as_floats and x.dtype.kind in "iu" else x
                if not isinstance(x, Tensor):
                    return x
                kind = TensorProto.FLOAT if as_floats else x.type
                shape = (product(x.shape),) if x.wide is not None else x.shape
                return Tensor(self._sketch.placeholder(shape, TYPES[kind]), kind, x.sources, x.wide)

            return make(Node(self._sketch, node, scope), *map(stand_in, inputs), **given)

        try:
            return attempt(False)
        except UnsupportedError:
            if self._element_type(inputs[0]) != TensorProto.INT64:
                raise
            try:
                made = attempt(True)
            except (Error, ValueError, TypeError):
                made = None
            if made is None:
                raise
        first = made[0] if isinstance(made, (list, tuple)) else made
        return first if first is NotImplemented else Tensor(getattr(first, "made", first), TensorProto.INT64, wide=getattr(first, "wide", None))

    def _check_doubles(self, node: onnx.NodeProto, inputs: Sequence[Any], made: Sequence[Any], scope: Scope) -> None:
        """Takes down, or refuses, what a device computes in fewer digits than doubles have."""
        types = [self._element_type(one) for one in (*inputs, *made)]
        if self.doubles == "float32" or TensorProto.DOUBLE not in types:
            return
        doubles = [one for one, kind in zip(inputs, types, strict=False) if kind == TensorProto.DOUBLE]
        are_exact = all(host.is_single(one) if isinstance(one, np.ndarray) else not isinstance(one.made, Hosted) for one in doubles)
        if node.op_type in host.EXACT and are_exact:
            return
        if self.doubles == "refuse":
            raise UnsupportedError("weft computes its doubles in 32 bits; doubles=\"float32\" allows that")
        self.narrowed.append(scope.prefix + _place(node))

    def _checked_wholes(self, make: Callable[..., Any], node: onnx.NodeProto, inputs: Sequence[Any], given: Mapping[str, Any],
                        made: Sequence[Any], limits: host.Limits, scope: Scope) -> Sequence[Any]:  # fmt: skip
        """The results. Where the limits do not prove that int64 fits 32 bits, an output of the graph shows it in each step."""
        if host.fits(limits) or node.op_type in host.MOVES or not any(isinstance(one, Tensor) and one.type == TensorProto.INT64 for one in made):
            return made
        place = scope.prefix + _place(node)
        if node.op_type in ("Cast", "CastLike"):  # What does not fit is the largest or the least that does.
            size = ops.cast(made[0].value, "f32")
        else:
            floats = [_as_floats(one) for one in inputs]
            result = make(Node(self, node, scope), *floats, **given)
            size = ops.cast(result.value if isinstance(result, Tensor) else result, "f32")
        name = self._free(f"{place}.most")
        self.graph.output(name, ops.max(ops.abs(size)))
        self.checks[name] = f"{place} ({node.op_type})"
        return [replace(one, limits=host.DEVICE) if isinstance(one, Tensor) else one for one in made]

    def _results(self, made: Results, node: onnx.NodeProto, inputs: Sequence[Any], sources: frozenset[str], scope: Scope,
                 limits: host.Limits) -> list[Any]:  # fmt: skip
        all_made = list(made) if isinstance(made, (list, tuple)) else [made]
        first = Node(self, node, scope).type(inputs[0]) if inputs and inputs[0] is not None else TensorProto.INT64
        results: list[Any] = []
        for place, name in enumerate(node.output):
            if name and (place >= len(all_made) or all_made[place] is None):
                raise UnsupportedError(f"weft does not make its output {place}")
            one: Any = all_made[place] if name else None
            if isinstance(one, (Tensor, _weft.Value)):
                tensor = replace(one, sources=sources) if isinstance(one, Tensor) else Tensor(one, first, sources)
                if tensor.type not in TYPES:
                    raise UnsupportedError(f"weft has no {type_name(tensor.type)}")
                if not isinstance(tensor.made, Hosted):
                    self._name(tensor.value, scope.prefix + name)
                    if tensor.type == TensorProto.INT64:
                        tensor = replace(tensor, limits=_within(limits))
                one = tensor
            results.append(one)
        return results

    def _name(self, value: _weft.Value, name: str) -> None:
        """Results have ONNX's names; what had one keeps it."""
        if value.name not in self._taken and name not in self._taken:
            self._taken.add(name)
            value.named(name)

    # What is made of other nodes.

    def _definition(self, schema: Any, node: onnx.NodeProto, inputs: Sequence[Any], scope: Scope) -> onnx.FunctionProto:
        """An op that ONNX itself says by others."""
        version = scope.opsets.get("", 1)

        def nearest(versions: Sequence[int]) -> int:
            return max((one for one in versions if one <= version), default=min(versions))

        if schema.has_function:
            made = schema.get_function_with_opset_version(nearest(schema.function_opset_versions))
        else:
            types = [self._type(one).SerializeToString() for one in inputs]
            made = schema.get_context_dependent_function_with_opset_version(
                nearest(schema.context_dependent_function_opset_versions), node.SerializeToString(), types
            )
        if isinstance(made, bytes):
            made = onnx.FunctionProto.FromString(made)
        if made is None or not made.node:
            raise UnsupportedError("weft has no such op")
        result = onnx.FunctionProto()
        result.CopyFrom(made)
        defaults = {name: one.default_value for name, one in schema.attributes.items() if one.default_value.name}
        for name, value in defaults.items():
            if name in result.attribute:
                result.attribute.remove(name)
                result.attribute_proto.append(value)
        return result

    @staticmethod
    def _type(x: Any) -> onnx.TypeProto:
        if x is None:
            return onnx.TypeProto()
        elements = x.type if isinstance(x, Tensor) else TensorProto.INT64 if are_sizes(x) else helper.np_dtype_to_tensor_dtype(x.dtype)
        return helper.make_tensor_type_proto(elements, [one if isinstance(one, int) else None for one in x.shape])

    def _call(self, function: onnx.FunctionProto, inputs: Sequence[Any], node: onnx.NodeProto, scope: Scope) -> Any:
        opsets = {one.domain: one.version for one in function.opset_import}
        inside = Scope({**scope.opsets, **opsets}, dict(zip(function.input, inputs, strict=False)), None,
                       _prefix(scope, _place(node)))  # fmt: skip
        for name in function.input[len(inputs) :]:
            inside.names[name] = None
        given = {one.name: one for one in node.attribute}
        for one in function.attribute_proto:
            given.setdefault(one.name, one)
        self._nodes([_with_attributes(one, given) for one in function.node], inside)
        for name, wanted in zip(function.output, node.output, strict=False):
            if wanted and name not in inside.names:
                raise UnsupportedError(f"the function {function.name} does not make its output '{name}'")
        return [inside.names.get(name) for name in function.output] + [None] * (len(node.output) - len(function.output))

    def inside(self, graph: onnx.GraphProto, names: dict[str, Any], place: str, scope: Scope) -> list[Any]:
        """The results of a graph within a node, from its weights and inputs."""
        self._count(1)
        within = Scope(scope.opsets, names, scope, _prefix(scope, place), Counter(one.name for one in graph.output))
        self._nodes(graph.node, within)
        return [within.find(one.name) for one in graph.output]

    # What is read.

    def _outputs(self, outputs: Sequence[onnx.ValueInfoProto], scope: Scope) -> None:
        for one in outputs:
            made = scope.find(one.name)
            if made is None or isinstance(made, Broken):
                continue
            if isinstance(made, Tensor) and not isinstance(made.made, Hosted):
                name = one.name if made.value.name == one.name else self._free(one.name)
                made = replace(made, made=self.graph.output(name, made.value))
            self.outputs[one.name] = made

    def _problem(self, what: str, why: str, place: str, is_hopeless: bool = True) -> Broken:
        self.is_hopeless |= is_hopeless
        self._problems.setdefault((what, why), []).append(place)
        return Broken()

    def _lines(self) -> list[str]:
        lines = []
        for (what, why), places in self._problems.items():
            named = [place for place in places if place]
            more = f" and {len(named) - 3} more" if len(named) > 3 else ""
            lines.append(f"{what}: {why}" + (f" ({', '.join(named[:3])}{more})" if named else ""))
        return lines


Called = tuple[str, str, str]


def _called(node: onnx.NodeProto) -> Called:
    """The function of a model that a node may be a call of."""
    return node.domain, node.op_type, node.overload


def _written_out(nodes: Iterable[onnx.NodeProto], functions: Mapping[Called, onnx.FunctionProto]) -> int:
    """A lower bound of the number of nodes, with called functions; more than MOST_NODES where functions call themselves."""
    counts: dict[Called, int] = {}

    def total(nodes: Iterable[onnx.NodeProto]) -> int:
        return min(sum(1 + counts.get(_called(one), 0) for one in nodes), MOST_NODES + 1)

    begun: set[Called] = set()
    stack = list(functions)
    while stack:
        key = stack[-1]
        body = functions[key].node
        missing = {called for called in map(_called, body) if called in functions and called not in counts}
        if key not in counts and key not in begun and missing:
            begun.add(key)
            stack += missing
            continue
        counts.setdefault(key, MOST_NODES + 1 if missing else total(body))
        stack.pop()
    return total(nodes)


def _count_readers(nodes: Iterable[onnx.NodeProto], readers: Counter[str]) -> None:
    for node in nodes:
        readers.update(node.input)
        for one in node.attribute:
            if one.type == onnx.AttributeProto.GRAPH:
                readers.update(output.name for output in one.g.output)
                _count_readers(one.g.node, readers)


def _check_inputs(schema: Any, inputs: Sequence[Any]) -> None:
    for place in range(max(len(inputs), schema.min_input)):
        formal = schema.inputs[min(place, len(schema.inputs) - 1)]
        if formal.option != defs.OpSchema.FormalParameterOption.Optional and (place >= len(inputs) or inputs[place] is None):
            raise UnsupportedError(f"its input {formal.name} is missing")


def _place(node: onnx.NodeProto) -> str:
    """A node's name, or the name of its result."""
    return node.name or next((name for name in node.output if name), "")


def _prefix(scope: Scope, place: str) -> str:
    return f"{scope.prefix}{place}"[:MOST_OF_PREFIX] + "/"


def _is_hosted(node: onnx.NodeProto, tensors: Sequence[Tensor]) -> bool:
    """Whether the host has all that a node needs, and can compute it."""
    return bool(tensors) and node.op_type not in host.SLOW and all(one.hosted is not None for one in tensors)


def _within(limits: host.Limits) -> host.Limits:
    """Limited to what a device holds: a step in which integers do not fit is an error."""
    return max(limits[0], host.DEVICE[0]), min(limits[1], host.DEVICE[1])


def _as_floats(x: Any) -> Any:
    if isinstance(x, np.ndarray):
        return x.astype(np.float32)
    return replace(x, made=ops.cast(x.value, "f32"), type=TensorProto.FLOAT, limits=None) if isinstance(x, Tensor) else x


@cache
def _attributes_of(make: Callable[..., Any]) -> frozenset[str]:
    """The attributes that a function takes."""
    return frozenset(name for name, one in signature(make).parameters.items() if one.kind is Parameter.KEYWORD_ONLY)


def _with_attributes(node: onnx.NodeProto, given: Mapping[str, onnx.AttributeProto]) -> onnx.NodeProto:
    """A node of a function's body, with the attributes that refer to the call's."""
    if not any(one.ref_attr_name or one.type in (onnx.AttributeProto.GRAPH, onnx.AttributeProto.GRAPHS) for one in node.attribute):
        return node
    result = onnx.NodeProto()
    result.CopyFrom(node)
    del result.attribute[:]
    for one in node.attribute:
        if one.ref_attr_name:
            if one.ref_attr_name in given:
                kept = result.attribute.add()
                kept.CopyFrom(given[one.ref_attr_name])
                kept.name = one.name
            continue
        kept = result.attribute.add()
        kept.CopyFrom(one)
        if one.type == onnx.AttributeProto.GRAPH:
            nodes = [_with_attributes(inner, given) for inner in one.g.node]
            del kept.g.node[:]
            kept.g.node.extend(nodes)
    return result


def single(array: Array, what: str) -> Array:
    """Numbers in 32 bits."""
    with np.errstate(over="ignore"):
        made = np.asarray(array, np.float32, order="C")
    if array.dtype == np.float64 and np.any(np.isinf(made) & np.isfinite(array)):
        raise UnsupportedError(f"{what} has doubles beyond 3.4e38, which do not fit 32 bits")
    return made


def fit(array: Array, what: str) -> Array:
    """Whole numbers in 32 bits."""
    if array.dtype.itemsize > 4 or array.dtype == np.uint32:
        limits = np.iinfo(np.int32)
        if array.size and (array.min() < limits.min or array.max() > limits.max):
            raise UnsupportedError(f"{what} has whole numbers that do not fit 32 bits")
    return np.asarray(array, np.int32, order="C")
