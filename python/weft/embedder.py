"""Texts to vectors, and to scores."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple, Optional, Union

import numpy as np
import numpy.typing as npt

from . import _weft, arguments
from .model import Model
from .options import FilePath


class Ranked(NamedTuple):
    """A document, by its place among those that were given, and how well it answers, from 0 to 1."""

    document: int
    score: float


class Embedder:
    """Vectors of texts, by an encoder or a decoder. Used by one thread at a time.

    `n_tokens`: of a text at most, the rest is cut off (0: what the model was trained for, at most 8192)."""

    def __init__(self, model: Union[Model, FilePath], *, n_tokens: int = 0, n_threads: int = 0, **options: Any) -> None:
        if isinstance(model, Model) and options:
            raise TypeError(f"the model is loaded already: {', '.join(options)} cannot be said here")
        self.model = model if isinstance(model, Model) else Model(model, n_threads=n_threads, **options)
        self._embedder = _weft.Embedder.make(self.model._model, n_tokens, n_threads)

    @property
    def dimensions(self) -> int:
        return self._embedder.dimensions

    @property
    def max_tokens(self) -> int:
        """Of a text."""
        return self._embedder.max_tokens

    def embed(
        self,
        texts: Union[str, Sequence[str]],
        *,
        normalize: bool = True,
        pooling: Optional[Literal["mean", "cls", "last"]] = None,
        dimensions: Optional[int] = None,
    ) -> npt.NDArray[np.float32]:
        """A row for each text; of one text, given as such, the row alone. `pooling`: as the model's file says. `dimensions`:
        only so many, for models that were trained for it."""
        rows: npt.NDArray[np.float32] = self._embedder.embed(
            [texts] if isinstance(texts, str) else arguments.items("texts", texts, "a text or a list of texts"), normalize, pooling, dimensions
        )
        return rows[0] if isinstance(texts, str) else rows

    def rank(self, query: str, documents: Sequence[str]) -> list[Ranked]:
        """Documents by how well they answer, the best first: with models that rank."""
        return [Ranked(*one) for one in self._embedder.rank(query, arguments.items("documents", documents, "a list of texts"))]
