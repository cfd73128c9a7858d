"""Embeddings and scores of documents."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple, Optional, Union

import numpy as np
import numpy.typing as npt

from . import _weft, arguments
from .model import Model, check_adapters
from .options import EmbedderOptions, FilePath

if TYPE_CHECKING:
    from typing_extensions import Unpack


class Ranked(NamedTuple):
    """A document, by its index in the given ones, and its relevance from 0 to 1."""

    document: int
    score: float


class Embedder:
    @arguments.takes(EmbedderOptions)
    def __init__(self, model: Union[Model, FilePath], **options: Unpack[EmbedderOptions]) -> None:
        """Computes vectors of documents, with an encoder or a decoder. Any thread may use it; each waits for its turn.

        `model`: a weft.Model, or a path, whose model is loaded with the options of LoadOptions."""
        given = arguments.options(options, EmbedderOptions)
        own = {name: value for name, value in given.items() if name in _weft.embedder_options()}
        if not isinstance(model, Model):
            load = {name: value for name, value in given.items() if name == "n_threads" or name not in own}
            model = Model(model, **load)  # type: ignore[arg-type]
        elif more := given.keys() - own.keys():
            raise TypeError(f"the model is loaded already: {', '.join(sorted(more))} cannot be said here")
        check_adapters(own.setdefault("use_adapters", model.default_adapters), model.n_adapters)
        self.model = model
        self._embedder = _weft.Embedder.make(model._model, own)

    @property
    def dimensions(self) -> int:
        return self._embedder.dimensions

    @property
    def max_tokens(self) -> int:
        """Of a document."""
        return self._embedder.max_tokens

    def __repr__(self) -> str:
        return f"<weft.Embedder of {self.model!r}, {self.dimensions} dimensions>"

    def embed(
        self,
        texts: Union[str, Sequence[str]],
        *,
        normalize: bool = True,
        pooling: Optional[Literal["mean", "cls", "last"]] = None,
        dimensions: Optional[int] = None,
    ) -> npt.NDArray[np.float32]:
        """A row for each string; for a single str the row alone. `pooling`: by default as in the model's file. `dimensions`: the
        first numbers of each row only, for models trained for it."""
        documents = [texts] if isinstance(texts, str) else arguments.items("texts", texts, "a text or a list of texts")
        rows: npt.NDArray[np.float32] = self._embedder.embed(documents, normalize, pooling, dimensions)
        return rows[0] if isinstance(texts, str) else rows

    async def embed_async(
        self,
        texts: Union[str, Sequence[str]],
        *,
        normalize: bool = True,
        pooling: Optional[Literal["mean", "cls", "last"]] = None,
        dimensions: Optional[int] = None,
    ) -> npt.NDArray[np.float32]:
        """The same for event loops, in another thread."""
        return await asyncio.to_thread(self.embed, texts, normalize=normalize, pooling=pooling, dimensions=dimensions)

    def rank(self, query: str, documents: Sequence[str]) -> list[Ranked]:
        """Documents by relevance to the query, the best first, for rerankers."""
        return [Ranked(*one) for one in self._embedder.rank(query, arguments.items("documents", documents, "a list of texts"))]
