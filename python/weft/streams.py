"""Completions as streams: iterators for threads and for event loops."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar
from weakref import WeakKeyDictionary

from . import _weft
from .errors import DeviceError, InvalidArgumentError

_Request = TypeVar("_Request")
_Opened = TypeVar("_Opened")
_Read = TypeVar("_Read")


class TokenLogprob(NamedTuple):
    """A token, its log-probability, and the most probable tokens at its place: pairs (token, log-probability)."""

    token: int
    logprob: float
    top: list[tuple[int, float]]


@dataclass
class Completion:
    """A completion and its metadata."""

    text: str = ""
    tokens: list[int] = field(default_factory=list)
    stop: str = ""  # "end", "length", "context", "stop", "cancelled", "timeout"; "" while it is generated.
    logprobs: list[TokenLogprob] = field(default_factory=list)  # If requested.
    prompt_logprobs: list[TokenLogprob] = field(default_factory=list)  # If requested; of all tokens of the prompt but the first.
    stats: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.text

    def add(self, chunk: _weft.Chunk, with_logprobs: bool) -> str:
        """Appends a chunk and returns its string. Raises DeviceError if the request failed."""
        text = chunk.text
        self.text += text
        self.tokens += chunk.tokens
        self.prompt_logprobs += [TokenLogprob(*one) for one in chunk.prompt_logprobs]  # Empty unless requested.
        if with_logprobs:
            self.logprobs += [TokenLogprob(*one) for one in chunk.logprobs]
        if chunk.done:
            self.stop = chunk.stop
            self.stats = chunk.stats
            if self.stop == "error":
                raise DeviceError(chunk.error)
        return text


class _LoopQueue:
    """Wakes the tasks of one event loop. The engine's thread never takes the interpreter's lock for that. It writes to a file
    descriptor that the loop watches, once for all tasks with new output."""

    def __init__(self) -> None:
        self._queue = _weft.ReadyQueue()
        self._waiting: dict[int, asyncio.Future[None]] = {}
        self._keys = itertools.count()
        asyncio.get_running_loop().add_reader(self._queue.fileno(), self._wake)

    def join(self, response: _weft.Response) -> int:
        key = next(self._keys)
        response.on_ready(self._queue, key)
        return key

    async def wait(self, key: int) -> None:
        future = asyncio.get_running_loop().create_future()
        self._waiting[key] = future
        try:
            await future
        finally:
            self._waiting.pop(key, None)

    def is_awaited(self, key: int) -> bool:
        return key in self._waiting

    def wake(self, key: int) -> None:
        """Wakes the waiting task. Any thread."""
        if (future := self._waiting.get(key)) is not None:
            with contextlib.suppress(RuntimeError):  # Its loop has ended.
                future.get_loop().call_soon_threadsafe(self._end, future)

    def _wake(self) -> None:
        for key in self._queue.take():
            if (future := self._waiting.get(key)) is not None:
                self._end(future)

    @staticmethod
    def _end(future: asyncio.Future[None]) -> None:
        if not future.done():
            future.set_result(None)


class LoopQueues:
    """A queue for each event loop that reads from an engine. It lives as long as the loop."""

    def __init__(self) -> None:
        self._of: WeakKeyDictionary[asyncio.AbstractEventLoop, _LoopQueue] = WeakKeyDictionary()

    def here(self) -> _LoopQueue:
        loop = asyncio.get_running_loop()
        queue = self._of.get(loop)
        if queue is None:
            queue = self._of[loop] = _LoopQueue()
        return queue


class Stream(Iterator[str], AsyncIterator[str]):
    """The pieces of a completion as they are generated: `for piece in stream`, or `async for piece in stream`.

    A stream that is closed, dropped or left by its `with` ends its request; so do Ctrl-C and the cancellation of the
    task that waits for it. `completion` has the output so far, and at the end the reason for stopping. Used by one
    thread or task at a time, and by the event loop that read it first, to its end."""

    def __init__(self, engine: _weft.Engine, response: _weft.Response, loops: LoopQueues, with_logprobs: bool) -> None:
        self.completion = Completion()
        self._engine = engine  # Which ends with its model and its last stream.
        self._response: _weft.Response | None = response
        self._loops = loops
        self._with_logprobs = with_logprobs
        self._queue: _LoopQueue | None = None
        self._key = -1  # Until it waits for the first time.

    def close(self) -> None:
        """Ends the request, if it still runs."""
        if self._response is not None:
            self._response.cancel()
            self._response = None
            self.completion.stop = self.completion.stop or "cancelled"
            if self._queue is not None:
                self._queue.wake(self._key)

    def read(self) -> Completion:
        """Waits for the rest, and returns the whole completion."""
        if self._response is not None:
            try:
                self._take(self._response.rest())
            except InvalidArgumentError:  # Another thread reads it and continues.
                raise
            except BaseException:
                self.close()
                raise
        return self.completion

    async def read_async(self) -> Completion:
        """read() for event loops."""
        async for _ in self:
            pass
        return self.completion

    def __next__(self) -> str:
        while self._response is not None:
            try:
                chunk = self._response.next()
                text = self._take(chunk) if chunk is not None else ""
            except InvalidArgumentError:  # Another thread reads it and continues.
                raise
            except BaseException:
                self.close()
                raise
            if text:
                return text
        raise StopIteration

    async def __anext__(self) -> str:
        queue = self._loops.here()
        if self._queue is None:
            self._queue = queue
        if self._queue is not queue:
            raise InvalidArgumentError("the stream belongs to another event loop, which began to read it")
        if queue.is_awaited(self._key):
            raise InvalidArgumentError("another task reads the stream; read it from one at a time")
        while self._response is not None:
            try:
                chunk = self._response.poll()
                if chunk is None and not self._response.ended:
                    if self._key < 0:
                        self._key = queue.join(self._response)
                    await queue.wait(self._key)
                    continue
                text = self._take(chunk) if chunk is not None else ""
            except InvalidArgumentError:  # A thread reads it and continues.
                raise
            except BaseException:
                self.close()
                raise
            if text:
                return text
        raise StopAsyncIteration

    def __iter__(self) -> Stream:
        return self

    def __aiter__(self) -> Stream:
        return self

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> Stream:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()

    def _take(self, chunk: _weft.Chunk) -> str:
        if chunk.done:
            self._response = None
        return self.completion.add(chunk, self._with_logprobs)

    def __repr__(self) -> str:
        state = self.completion.stop or ("open" if self._response is not None else "closed")
        return f"<weft.Stream {state}, {len(self.completion.tokens)} tokens>"


def in_turn(
    requests: Iterable[_Request], n_at_once: int, start: Callable[[_Request], _Opened], read: Callable[[_Opened], _Read]
) -> Iterator[_Read]:
    """The results of many requests in their order; at most n_at_once run at the same time."""
    opened: deque[_Opened] = deque()
    for request in requests:
        opened.append(start(request))
        if len(opened) == n_at_once:
            yield read(opened.popleft())
    while opened:
        yield read(opened.popleft())
