"""Reads a model's elements from its own file or from external files."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import external_data_helper, helper, numpy_helper

from ..errors import InvalidFileError
from .known import Array


def check(what: str, model: onnx.ModelProto) -> None:
    """Checks that it is valid ONNX. `read` checks elements in other files."""
    if any(is_outside(one) for one in tensors(model)):
        whole, model = model, onnx.ModelProto()
        model.CopyFrom(whole)
        for one in tensors(model):
            if is_outside(one):
                one.ClearField("external_data")
                one.ClearField("data_location")
                one.dims[:] = [0]
    with _completed(model):
        try:
            onnx.checker.check_model(model)
        except onnx.checker.ValidationError as error:
            raise InvalidFileError(f"{what}: {error}") from error


@contextlib.contextmanager
def _completed(model: onnx.ModelProto) -> Iterator[None]:
    """Adds what only the checker needs: types and shapes of results, names of graphs. Old models need not have weights among
    their inputs. The model is as before in the end."""
    version, unnamed, untyped, unshaped = model.ir_version, [], [], []
    if 0 < version < 4:
        model.ir_version = 4
    for body in (model.graph, *model.functions):
        for graph in graphs(body):
            if not isinstance(graph, onnx.GraphProto):
                continue
            if not graph.name:
                graph.name = "graph"
                unnamed.append(graph)
            for one in (*graph.input, *graph.output):
                if one.type.WhichOneof("value") is None:
                    one.type.tensor_type.elem_type = onnx.TensorProto.FLOAT
                    one.type.tensor_type.shape.SetInParent()
                    untyped.append(one)
                elif one.type.HasField("tensor_type") and not one.type.tensor_type.HasField("shape"):
                    one.type.tensor_type.shape.SetInParent()
                    unshaped.append(one)
    try:
        yield
    finally:
        model.ir_version = version
        for graph in unnamed:
            graph.name = ""
        for one in untyped:
            one.ClearField("type")
        for one in unshaped:
            one.type.tensor_type.ClearField("shape")


def is_outside(tensor: onnx.TensorProto) -> bool:
    """Whether its elements are in another file."""
    return bool(tensor.data_location == onnx.TensorProto.EXTERNAL)


def tensors(model: onnx.ModelProto) -> Iterator[onnx.TensorProto]:
    """All weights, also in attributes, in graphs within nodes and in functions."""
    yield from model.graph.initializer
    for body in (model.graph, *model.functions):
        for graph in graphs(body):
            yield from of_nodes(graph)
            if graph is not body:
                yield from graph.initializer


def graphs(graph: Any) -> Iterator[Any]:
    """A graph or a function's body, and the graphs within its nodes."""
    yield graph
    for node in graph.node:
        for one in node.attribute:
            for inner in [*([one.g] if one.HasField("g") else []), *one.graphs]:
                yield from graphs(inner)


def of_nodes(graph: Any) -> Iterator[onnx.TensorProto]:
    for node in graph.node:
        for one in node.attribute:
            yield from [*([one.t] if one.HasField("t") else []), *one.tensors]


def embed(model: onnx.ModelProto, folders: Sequence[Path]) -> None:
    """Copies the external elements of attributes into the model."""
    for body in (model.graph, *model.functions):
        for graph in graphs(body):
            for tensor in filter(is_outside, of_nodes(graph)):
                tensor.CopyFrom(numpy_helper.from_array(read(tensor, folders), tensor.name))


# Types with several elements per byte, with the bits of one element.
PACKED = {getattr(onnx.TensorProto, name): bits for name, bits in
          (("INT4", 4), ("UINT4", 4), ("FLOAT4E2M1", 4), ("INT2", 2), ("UINT2", 2)) if hasattr(onnx.TensorProto, name)}  # fmt: skip


def read(tensor: onnx.TensorProto, folders: Sequence[Path]) -> Array:
    """Elements of external files are mapped; others are the model's own bytes. The model is untrusted: its files must
    be in one of the folders. Their paths are relative to the first."""
    if not is_outside(tensor):
        try:
            return numpy_helper.to_array(tensor)
        except (ValueError, TypeError, LookupError) as error:
            raise InvalidFileError(f"the weight '{tensor.name}' is damaged: {error}") from error
    try:
        said = external_data_helper.ExternalDataInfo(tensor)
    except ValueError as error:
        raise InvalidFileError(f"the weight '{tensor.name}' does not say where it lies: {error}") from error
    path = (folders[0] / said.location).resolve()
    if not any(path.is_relative_to(one.resolve()) for one in folders):
        raise InvalidFileError(f"the weight '{tensor.name}' lies outside of the model's folder: {said.location}")
    try:
        dtype = helper.tensor_dtype_to_np_dtype(tensor.data_type)
    except KeyError:
        dtype = np.dtype(object)
    if dtype.hasobject or min(tensor.dims, default=0) < 0:
        raise InvalidFileError(f"the weight '{tensor.name}' cannot lie in a file: it is of type {tensor.data_type}, {list(tensor.dims)}")
    shape, n = tuple(tensor.dims), math.prod(tensor.dims)
    n_bytes = -(-n * PACKED[tensor.data_type] // 8) if tensor.data_type in PACKED else n * dtype.itemsize
    if said.length is not None and said.length != n_bytes:
        raise InvalidFileError(f"the weight '{tensor.name}' has {said.length} bytes, and its shape {list(shape)} needs {n_bytes}")
    if n == 0:
        return np.zeros(shape, dtype)
    if not path.is_file():
        raise InvalidFileError(f"the weight '{tensor.name}' cannot be read from {path}: there is no such file")
    try:
        if tensor.data_type in PACKED:
            whole = onnx.TensorProto(data_type=tensor.data_type, dims=shape)
            whole.raw_data = np.memmap(path, np.uint8, "r", said.offset or 0, (n_bytes,)).tobytes()
            return numpy_helper.to_array(whole)
        array = np.memmap(path, dtype, "r", said.offset or 0, shape)
    except (OSError, ValueError, OverflowError) as error:
        raise InvalidFileError(f"the weight '{tensor.name}' cannot be read from {path}: {error}") from error
    return np.require(array.view(np.ndarray), requirements=["A", "C"])
