"""Graphs on devices, with arrays in and out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Optional

import numpy as np
import numpy.typing as npt

from . import _weft, arguments
from .errors import InvalidArgumentError, NotFoundError
from .options import FilePath

_TYPES = {"f32": np.float32, "f16": np.float16, "f64": np.float64, "i32": np.int32, "i64": np.int64, "i16": np.int16, "i8": np.int8}


class Plan:
    """A graph that is placed on devices and compiled once, and then run step by step. Used by one thread at a time.

    `devices`: names as weft.devices() lists them (none: the CPU and all GPUs). `pins`: pairs (regular expression, device)
    that place the nodes whose names match. `allow`: the changes that steps may make: "shapes" (values of symbols), "tensors"
    (weights that are set again), "topology" (set_graph)."""

    def __init__(
        self,
        graph: _weft.Graph,
        *,
        devices: Sequence[str] = (),
        pins: Sequence[tuple[str, str]] = (),
        n_threads: int = 0,
        allow: Sequence[str] = ("shapes",),
    ) -> None:
        self._plan = _weft.Plan.make(
            graph,
            arguments.items("devices", devices, "a list of names"),
            arguments.items("pins", pins, "a list of pairs"),
            n_threads,
            arguments.items("allow", allow, "a list of changes"),
        )

    def set_weight(self, name: str, array: npt.ArrayLike) -> None:
        """Sets a weight. Numbers are converted to its type; quantized types take the bytes of a GGUF file. An array that
        already has the type is not copied: do not change it afterwards."""
        made = self._as(name, array)
        shape = self._plan.shape_of_weight(name)
        if shape is not None and list(made.shape) != shape:
            raise InvalidArgumentError(f"the weight '{name}' has the shape {tuple(shape)}, not {made.shape}")
        self._plan.set_weight(name, made)

    def set_weights(self, path: FilePath) -> None:
        """Sets all weights that a GGUF or safetensors file has, by their names."""
        self._plan.set_weights(path)

    def set_graph(self, graph: _weft.Graph) -> None:
        """Replaces the graph from the next step on. Weights and states of the same name, type and shape are kept, weights also
        if they move to another device. Other weights must be set."""
        self._plan.set_graph(graph)

    def run(self, inputs: Optional[Mapping[str, npt.ArrayLike]] = None, **sizes: int) -> dict[str, npt.NDArray[Any]]:
        """Runs a step, and returns the outputs by name. Inputs and sizes that are not given keep the values of the step before.
        Sizes that an input's shape determines need not be given."""
        if inputs is not None:
            arguments.need(Mapping, "inputs", inputs, "arrays by their names")
        arrays = {name: self._as(name, array) for name, array in (inputs or {}).items()}
        self._plan.run(arrays, sizes)
        return {name: self._plan.read(name) for name in self._plan.outputs}

    @property
    def outputs(self) -> list[str]:
        return self._plan.outputs

    @property
    def placement(self) -> list[str]:
        """The device of each node."""
        return self._plan.placement

    @property
    def counters(self) -> dict[str, int]:
        """Numbers of steps, by what changed."""
        return self._plan.counters

    def explain(self) -> str:
        """The device of each node, the copies between devices, and the memory that is used."""
        return self._plan.explain()

    def __repr__(self) -> str:
        return self._plan.describe()

    def _as(self, name: str, array: npt.ArrayLike) -> npt.NDArray[Any]:
        kind = self._plan.type_of(name)
        if kind is None:
            raise NotFoundError(f"the graph has no value '{name}'")
        if kind == "bf16":
            return arguments.bf16(f"'{name}'", array)
        return arguments.array(f"'{name}'", array, _TYPES.get(kind, np.uint8))
