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
    """A graph placed on devices and compiled once, to be run step by step. Used by one thread at a time.

    `devices`: as weft.devices() names them (none: the CPU and all GPUs). `pins`: (regular expression, device) for nodes
    whose name contains a match. `allow`: what steps may change: "shapes" (sizes), "tensors" (weights that are set
    again), "topology" (set_graph)."""

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
        """A weight's numbers, in its type; of quantised types the bytes as GGUF files have them. An array that is already so
        is not copied: it must not be changed afterwards."""
        made = self._as(name, array)
        shape = self._plan.shape_of_weight(name)
        if shape is not None and list(made.shape) != shape:
            raise InvalidArgumentError(f"the weight '{name}' has the shape {tuple(shape)}, not {made.shape}")
        self._plan.set_weight(name, made)

    def set_weights(self, path: FilePath) -> None:
        """All weights that a file (GGUF, safetensors) has under the graph's names."""
        self._plan.set_weights(path)

    def set_graph(self, graph: _weft.Graph) -> None:
        """Replaces the graph from the next step on. Weights of the same name, type and shape stay set, also if they move to
        another device. Others must be set. States stay likewise."""
        self._plan.set_graph(graph)

    def run(self, inputs: Optional[Mapping[str, npt.ArrayLike]] = None, **sizes: int) -> dict[str, npt.NDArray[Any]]:
        """One step: its outputs by their names. Inputs and sizes that are not given keep the values of the step before. Sizes
        that follow from an input's shape need not be given."""
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
        """Steps, by what changed."""
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
