"""Ops of the domain ai.onnx.ml for classifiers and tables. The host computes them; this file has the types and shapes
of their results."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from onnx import TensorProto

from ...errors import UnsupportedError

Results = list[tuple[int, Sequence[Any]]]
FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64


def rows(x: Any) -> Any:
    return x.shape[0] if len(x.shape) > 1 else 1


def like_input(x: Any, **_: Any) -> Results:
    return [(x.type, x.shape)]


def floats_like_input(x: Any, **_: Any) -> Results:
    return [(FLOAT, x.shape)]


def regressor(x: Any, *, targets: int = 1, n_targets: int = 1, **_: Any) -> Results:
    return [(FLOAT, [rows(x), max(targets, n_targets)])]


def classifier(x: Any, *, classlabels_ints: Sequence[int] = (), classlabels_int64s: Sequence[int] = (), **_: Any) -> Results:
    labels = classlabels_ints or classlabels_int64s
    if not labels:
        raise UnsupportedError("its labels are texts, which weft does not have; give the classes numbers")
    return [(INT64, [rows(x)]), (FLOAT, [rows(x), max(len(labels), 2)])]


def label_encoder(x: Any, **given: Any) -> Results:
    if "values_int64s" in given:
        return [(INT64, x.shape)]
    if "values_floats" in given:
        return [(FLOAT, x.shape)]
    raise UnsupportedError("weft does not have the texts and tensors that it gives")


def one_hot_encoder(x: Any, *, cats_int64s: Sequence[int] = (), **_: Any) -> Results:
    if not cats_int64s:
        raise UnsupportedError("its categories are texts, which weft does not have")
    return [(FLOAT, [*x.shape, len(cats_int64s)])]


def zip_map(*_: Any, **__: Any) -> Results:
    raise UnsupportedError('it gives dictionaries; leave it out, as options={"zipmap": False} of skl2onnx does')


LEARNING: Mapping[str, Callable[..., Results]] = {
    "Binarizer": like_input,
    "Imputer": like_input,
    "LabelEncoder": label_encoder,
    "LinearClassifier": classifier,
    "LinearRegressor": regressor,
    "Normalizer": floats_like_input,
    "OneHotEncoder": one_hot_encoder,
    "SVMClassifier": classifier,
    "SVMRegressor": regressor,
    "Scaler": floats_like_input,
    "TreeEnsembleClassifier": classifier,
    "TreeEnsembleRegressor": regressor,
    "ZipMap": zip_map,
}
