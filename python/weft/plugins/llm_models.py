"""The program `llm`: each model of weft's model cache, as weft/NAME.

    llm -m weft/SmolLM2-135M-Instruct.Q4_1 "Why is the sky blue?"
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any, Optional

import llm
import weft
from weft.chats import ChatStream
from weft.model import cache_folder


@lru_cache(maxsize=1)
def _load(path: Path) -> weft.Model:
    """The model that was used last stays loaded."""
    return weft.Model(path)


class Options(llm.Options):
    """The most common options. The others have weft's defaults."""

    temperature: Optional[float] = None
    top_k: Optional[int] = None
    top_p: Optional[float] = None
    min_p: Optional[float] = None
    seed: Optional[int] = None
    max_tokens: Optional[int] = None


class _Shared:
    """Shared by a model and its asynchronous form."""

    can_stream = True
    supports_schema = True
    Options = Options

    def __init__(self, path: Path) -> None:
        self.model_id = f"weft/{path.stem}"
        self._path = path

    def _open(self, prompt: Any, conversation: Any, earlier: list[str]) -> ChatStream:
        messages: list[dict[str, str]] = []
        if prompt.system:
            messages.append({"role": "system", "content": prompt.system})
        for response, text in zip(conversation.responses if conversation else [], earlier):
            messages.append({"role": "user", "content": response.prompt.prompt})
            messages.append({"role": "assistant", "content": text})
        messages.append({"role": "user", "content": prompt.prompt})
        options: dict[str, Any] = {name: value for name, value in prompt.options if value is not None}
        return _load(self._path).chat_stream(messages, json_schema=prompt.schema, **options)

    def _report(self, response: Any, stream: ChatStream) -> None:
        stats = stream.response.stats
        response.set_usage(input=stats.get("n_prompt"), output=stats.get("n_generated"))


class WeftModel(_Shared, llm.Model):
    def execute(self, prompt: Any, stream: bool, response: Any, conversation: Any) -> Iterator[str]:
        earlier = [one.text() for one in conversation.responses] if conversation else []
        with self._open(prompt, conversation, earlier) as events:
            yield from (event.text for event in events if event.kind == "content")
        self._report(response, events)


class AsyncWeftModel(_Shared, llm.AsyncModel):
    async def execute(self, prompt: Any, stream: bool, response: Any, conversation: Any) -> AsyncIterator[str]:
        earlier = [await one.text() for one in conversation.responses] if conversation else []
        async with self._open(prompt, conversation, earlier) as events:
            async for event in events:
                if event.kind == "content":
                    yield event.text
        self._report(response, events)


@llm.hookimpl
def register_models(register: Any) -> None:
    folder = cache_folder("models")
    for path in sorted(folder.glob("*.gguf")) if folder else []:
        register(WeftModel(path), AsyncWeftModel(path))
