"""Columns of prompts to columns of completions."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Optional, Union

import numpy as np
from ray.data import ActorPoolStrategy, Dataset

from ..errors import Error
from ..model import Model
from ..options import FilePath, ModelOptions, RequestOptions

if TYPE_CHECKING:
    from typing_extensions import Unpack


def map_batches(
    dataset: Dataset,
    model: FilePath,
    *,
    column: str = "prompt",
    into: str = "text",
    errors: Optional[str] = None,
    chat: bool = False,
    n_replicas: Union[int, tuple[int, int]] = 1,
    num_cpus: float = 1,
    num_gpus: float = 0,
    batch_size: int = 64,
    load: Optional[ModelOptions] = None,
    **options: Unpack[RequestOptions],
) -> Dataset:
    """Returns the dataset with one more column: the completions of the prompts in `column`. With `chat` the prompts are
    conversations: lists of messages, or strings from the user.

    A pool of `n_replicas` actors (or from the fewest to the most), each with the model and `num_cpus` cores, takes
    batches; a batch's prompts are computed in common steps. If an actor dies, another one computes its rows again; a
    row is in the result once. `load` has options of weft.Model, `options` has options of requests. A refused prompt
    (too long, for example) ends the job, unless `errors` names a column for the message. Its completion is then None.

    Lazy, as Ray's own: it runs when its rows are read or written. A stopped job continues if Ray keeps checkpoints
    (ray.data.checkpoint.CheckpointConfig) and the dataset is read from and written to files."""
    few, most = n_replicas if isinstance(n_replicas, tuple) else (n_replicas, n_replicas)
    given: dict[str, Any] = dict(load or {})
    given.setdefault("n_threads", max(1, int(num_cpus)))
    return dataset.map_batches(
        Writer,
        fn_constructor_args=(os.fspath(model), given),
        fn_kwargs={"column": column, "into": into, "errors": errors, "chat": chat, "options": dict(options)},
        batch_size=batch_size,
        batch_format="numpy",
        num_cpus=num_cpus,
        num_gpus=num_gpus or None,
        compute=ActorPoolStrategy(min_size=few, max_size=most),
    )


class Writer:
    """An actor's model."""

    def __init__(self, path: str, load: dict[str, Any]) -> None:
        self._model = Model(path, **load)

    def __call__(
        self, batch: dict[str, Any], column: str, into: str, errors: Optional[str], chat: bool, options: dict[str, Any]
    ) -> dict[str, Any]:
        submit = self._model.chat_stream if chat else self._model.stream

        def attempt(step: Any, *arguments: Any, **more: Any) -> Any:
            try:
                return step(*arguments, **more)
            except Error as error:
                if errors is None:
                    raise
                return error

        # All are under way before the first is waited for.
        streams = [attempt(submit, _plain(prompt), **options) for prompt in batch[column]]
        answers = [one if isinstance(one, Error) else attempt(one.read) for one in streams]
        failed = [isinstance(answer, Error) for answer in answers]
        batch[into] = np.array([None if bad else str(answer) for answer, bad in zip(answers, failed)], dtype=object)
        if errors is not None:
            batch[errors] = np.array([str(answer) if bad else None for answer, bad in zip(answers, failed)], dtype=object)
        return batch


def _plain(value: Any) -> Any:
    """Python's own types. Fields that other rows of a table have are None in this one: they are left out."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, (np.ndarray, list, tuple)):
        return [_plain(one) for one in value]
    if isinstance(value, dict):
        return {key: _plain(one) for key, one in value.items() if one is not None}
    return value
