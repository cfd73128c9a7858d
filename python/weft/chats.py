"""Conversations: responses with tool calls, whole and as streams."""

from __future__ import annotations

import warnings
from collections import deque
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Union

from . import _weft, arguments
from .streams import Stream, TokenLogprob

# The stops of whole responses.
_WHOLE = ("end", "stop")


def tool_name(choice: Union[str, Mapping[str, Any]]) -> str:
    """A tool_choice: "auto", "none", "required" or the name of a tool, which may be given in OpenAI's form."""
    if isinstance(choice, Mapping):
        function = choice.get("function", choice)
        name = function.get("name") if isinstance(function, Mapping) else None
        if not isinstance(name, str):
            raise arguments.wrong("tool_choice", choice, 'a tool: {"type": "function", "function": {"name": ...}}')
        return name
    arguments.need(str, "tool_choice", choice, "a str or a dictionary")
    return choice


@dataclass
class ChatPrompt:
    """The prompt that the chat template makes of a conversation."""

    text: str
    tokens: list[int]
    stop: list[str]  # Strings that end the response, besides end tokens.

    def __str__(self) -> str:
        return self.text


class ChatEvent(NamedTuple):
    """New output of a response. `kind` is "content" or "reasoning" (with `text`), "tool_call" (call number `call` begins, with
    `name` and `id`), "tool_arguments" (`text` has more of its JSON) or "tool_call_end"."""

    kind: str
    text: str
    call: int
    name: str
    id: str


@dataclass
class ToolCall:
    name: str
    arguments: str = ""  # JSON; truncated if `whole` is False.
    id: str = ""
    whole: bool = False  # False while it is generated, and if the response ended within it.


@dataclass
class ChatResponse:
    """The response of a model."""

    content: str = ""
    reasoning: str = ""
    tool_calls: list[ToolCall] = field(default_factory=list)
    stop: str = ""  # As weft.Completion's.
    stats: dict[str, Any] = field(default_factory=dict)
    tokens: list[int] = field(default_factory=list)  # All generated tokens, those of reasoning and calls too.
    logprobs: list[TokenLogprob] = field(default_factory=list)  # Of `tokens`, if requested.
    prompt_logprobs: list[TokenLogprob] = field(default_factory=list)  # If requested.

    def __str__(self) -> str:
        return self.content

    def message(self) -> dict[str, Any]:
        """The response as the next message of the conversation, without a truncated tool call."""
        message: dict[str, Any] = {"role": "assistant", "content": self.content}
        if self.reasoning:
            message["reasoning_content"] = self.reasoning
        if calls := [call for call in self.tool_calls if call.whole]:
            message["tool_calls"] = [
                {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}} for call in calls
            ]
        return message

    def add(self, event: ChatEvent) -> None:
        if event.kind == "content":
            self.content += event.text
        elif event.kind == "reasoning":
            self.reasoning += event.text
        elif event.kind == "tool_call":
            self.tool_calls.append(ToolCall(name=event.name, id=event.id or f"call_{event.call}"))
        elif event.kind == "tool_arguments":
            self.tool_calls[event.call].arguments += event.text
        elif event.kind == "tool_call_end":
            self.tool_calls[event.call].whole = True


class ChatStream(Iterator[ChatEvent], AsyncIterator[ChatEvent]):
    """A response as a stream of events, for `for` and `async for`. `response` has the response so far. Ends as Stream does."""

    def __init__(self, stream: Stream, opening: _weft.Opening) -> None:
        done = stream.completion
        self.response = ChatResponse(tokens=done.tokens, logprobs=done.logprobs, prompt_logprobs=done.prompt_logprobs)
        self._stream = stream
        self._opening = opening
        self._events: deque[ChatEvent] = deque()
        self._ended = False

    @property
    def answer(self) -> ChatResponse:
        """Deprecated: response."""
        warnings.warn("ChatStream.answer is deprecated: use response", DeprecationWarning, stacklevel=2)
        return self.response

    def close(self) -> None:
        self._stream.close()

    def read(self) -> ChatResponse:
        """Waits for the rest, and returns the whole response."""
        for _ in self:
            pass
        return self.response

    async def read_async(self) -> ChatResponse:
        async for _ in self:
            pass
        return self.response

    def __next__(self) -> ChatEvent:
        while not self._events:
            if self._ended:
                raise StopIteration
            self._push(next(self._stream, None))
        return self._pop()

    async def __anext__(self) -> ChatEvent:
        while not self._events:
            if self._ended:
                raise StopAsyncIteration
            self._push(await anext(self._stream, None))
        return self._pop()

    def __iter__(self) -> ChatStream:
        return self

    def __aiter__(self) -> ChatStream:
        return self

    def __enter__(self) -> ChatStream:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> ChatStream:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()

    def _push(self, text: str | None) -> None:
        self._ended = text is None
        stop = self._stream.completion.stop
        events = self._opening.finish(stop not in _WHOLE) if text is None else self._opening.push(text)
        self._events.extend(ChatEvent(*event) for event in events)
        if self._ended:
            self.response.stop = stop
            self.response.stats = self._stream.completion.stats

    def _pop(self) -> ChatEvent:
        event = self._events.popleft()
        self.response.add(event)
        return event

    def __repr__(self) -> str:
        return f"<weft.ChatStream {self.response.stop or 'open'}, {len(self.response.tokens)} tokens>"
