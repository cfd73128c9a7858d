"""Embeddings and scores of documents."""

from __future__ import annotations

import asyncio
import inspect
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
    """`document`: index in the list of documents. `score`: relevance from 0 to 1."""

    document: int
    score: float


class Embedder:
    """Computes embeddings, and with a reranker scores of documents.

    ```python
    embedder = weft.Embedder("embedder.gguf")
    vectors = embedder.embed(["A cat sits on the mat.", "A kitten rests on a rug."])
    similarity = vectors[0] @ vectors[1]
    n_tokens = len(embedder.model.tokenize("A cat sits on the mat."))
    ```

    `model` is its weft.Model."""

    @arguments.takes(EmbedderOptions)
    def __init__(self, model: Union[Model, FilePath], **options: Unpack[EmbedderOptions]) -> None:
        """`model`: a weft.Model, or what weft.Model() takes: a GGUF file, a Hugging Face folder, or a name in the model cache.
        Encoders and decoders work. Any thread may use an embedder; each waits for its turn."""
        for name in inspect.signature(self.embed).parameters.keys() & options.keys():
            raise TypeError(f"there is no option {name!r}; it is a parameter of embed()")
        given = arguments.options(options, EmbedderOptions)
        own = {name: value for name, value in given.items() if name in _weft.embedder_options()}
        if not isinstance(model, Model):
            load = {name: value for name, value in given.items() if name == "n_threads" or name not in own}
            model = Model(model, **load)  # type: ignore[arg-type]
        elif more := given.keys() - own.keys():
            raise TypeError(f"the model is already loaded: give {', '.join(sorted(more))} to weft.Model()")
        check_adapters(own.setdefault("use_adapters", model.default_adapters), model.n_adapters)
        self.model = model
        self._embedder = _weft.Embedder.make(model._model, own)

    @property
    def dimensions(self) -> int:
        """Length of the vectors."""
        return self._embedder.dimensions

    @property
    def max_tokens(self) -> int:
        """Maximum tokens of an input; longer inputs are truncated."""
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
        """Returns an array of shape (len(texts), dimensions), or (dimensions,) for a single str. The list may have any length;
        it is computed in batches. Inputs longer than `max_tokens` are truncated.

        `normalize`: scales each vector to norm 1, so that dot products are cosine similarities. `pooling`: "mean", "last", or
        for encoders "cls"; by default the model file's, else "mean". `dimensions`: keeps the first N dimensions, for models
        trained for it."""
        documents = [texts] if isinstance(texts, str) else arguments.items("texts", texts, "a str or a list of strs")
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
        """embed() for event loops; it runs in another thread."""
        return await asyncio.to_thread(self.embed, texts, normalize=normalize, pooling=pooling, dimensions=dimensions)

    def rank(self, query: str, documents: Sequence[str]) -> list[Ranked]:
        """Scores documents with a reranker, and returns them by relevance, the best first. Other embedding models have no scores:
        compare the vectors of embed() instead."""
        return [Ranked(*one) for one in self._embedder.rank(query, arguments.items("documents", documents, "a list of strs"))]
