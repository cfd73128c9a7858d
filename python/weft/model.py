"""Models: loaded once, and asked by any number of threads and tasks."""

from __future__ import annotations

import ctypes
import os
import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Optional, Union

from . import _weft, arguments
from .chats import ChatAnswer, ChatStream
from .errors import InvalidArgumentError
from .options import ContextOptions, FilePath, ModelOptions, RequestOptions, SamplingOptions
from .streams import Completion, LoopQueues, Stream

if TYPE_CHECKING:
    from typing_extensions import Unpack

Prompt = Union[str, Sequence[int]]
Messages = Union[str, Sequence[Mapping[str, Any]]]

# Of an engine, unless the options say otherwise: so many requests are computed at once.
_N_SEQUENCES = 32
_MOST_GRAMMARS = 64


_models: weakref.WeakSet[Model] = weakref.WeakSet()


def _leave_engines_behind() -> None:
    """In the child of a fork, which has none of their threads: they are neither used nor ended, which would wait for ever."""
    for model in _models:
        model._lock = threading.Lock()  # Another thread may have held it.
        if model._engine is not None:
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(model._engine))
            model._engine, model._was_forked = None, True


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_engines_behind)


def cache_folder(name: str) -> Optional[Path]:
    """A folder of the cache that the program `weft` has: "models", "packed"."""
    if folder := os.environ.get("WEFT_CACHE"):
        return Path(folder) / name
    if home := os.environ.get("HOME"):
        return Path(home) / ".cache" / "weft" / name
    return None


def _split_options(options: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Those of loading, of contexts and of services; some belong to several."""
    tables = [_weft.model_options(), _weft.context_options(), _weft.service_options()]
    known = {name for table in tables for name in table}
    for name in options:
        if name not in known:
            raise TypeError(f"there is no option '{name}'; there are {', '.join(sorted(known))}")
    return [{name: value for name, value in options.items() if name in table} for table in tables]


def _constraint(options: dict[str, Any]) -> Optional[tuple[str, str]]:
    """Takes what a text is held to out of the options: a kind of grammar, and its source."""
    found = [(name, value) for name in ("grammar", "regex", "json_schema") if (value := options.pop(name, None)) not in (None, False)]
    if len(found) > 1:
        raise InvalidArgumentError("a text is held to one of grammar, regex and json_schema")
    if not found:
        return None
    name, value = found[0]
    if value is True and name == "json_schema":
        return "json_object", ""
    if name == "json_schema" and not isinstance(value, str):
        return name, arguments.written_as_json(name, value)
    arguments.need(str, name, value, "a text")
    return {"grammar": "gbnf"}.get(name, name), value


class Model:
    """A model of a GGUF file. What it writes is computed by one engine, made when it is first asked for, that serves all
    threads and tasks in common steps.

    `progress` is called with 0 to 1 while weights load; returning False cancels. `draft`: a smaller model with the same
    vocabulary, which writes ahead. Weights that were packed are kept where the program `weft` keeps them, unless
    `pack_cache` says otherwise ("": nowhere)."""

    def __init__(
        self,
        path: FilePath,
        *,
        progress: Optional[Callable[[float], Any]] = None,
        draft: Optional[Model] = None,
        **options: Unpack[ModelOptions],
    ) -> None:
        file = arguments.path("path", path)
        if draft is not None:
            arguments.need(Model, "draft", draft, "a weft.Model")
        if progress is not None and not callable(progress):
            raise arguments.wrong("progress", progress, "what can be called")
        load, self._context_options, self._service_options = _split_options(options)
        self._context_options.setdefault("n_sequences", _N_SEQUENCES)
        load.setdefault("n_sequences", self._context_options["n_sequences"])
        load.setdefault("pack_cache", cache_folder("packed"))
        if load.get("pack_cache") is not None:
            arguments.need((str, os.PathLike), "pack_cache", load["pack_cache"], "a path")
            load["pack_cache"] = os.fspath(load["pack_cache"])
        self._model = _weft.Model.load(file, load, progress)
        self._draft = draft
        self._lock = threading.Lock()
        self._engine: Optional[_weft.Engine] = None
        self._closed = False
        self._was_forked = False  # While its engine ran.
        self._loops = LoopQueues()
        self._grammars: dict[tuple[str, str], _weft.Grammar] = {}
        self._own_chat: Optional[_weft.Chat] = None
        _models.add(self)

    # What it is.

    @property
    def info(self) -> dict[str, Any]:
        """Its name, architecture, sizes."""
        return self._model.info()

    @property
    def n_vocab(self) -> int:
        return int(self._model.info()["n_vocab"])

    @property
    def bos(self) -> Optional[int]:
        return self._model.bos

    @property
    def eos(self) -> Optional[int]:
        return self._model.eos

    @property
    def chat_template(self) -> Optional[str]:
        """Its source, in Jinja."""
        return self._model.chat_template

    @property
    def notes(self) -> list[str]:
        """What of the file was not as it should be, and how it is read."""
        return self._model.notes

    def __repr__(self) -> str:
        info = self.info
        return f"<weft.Model {info['name']!r} {info['architecture']} {info['quantisation']}>"

    # Text and tokens.

    def tokenize(self, text: str, *, add_special: bool = True, parse_special: bool = False) -> list[int]:
        """The tokens of a text, with what the model wants around it. `parse_special`: control tokens that are written in the
        text are recognised; never for text from others."""
        return self._model.tokenize(text, add_special, parse_special)

    def detokenize(self, tokens: Sequence[int], *, special: bool = False) -> str:
        """The text of tokens, without control tokens unless `special`. Halves of characters become U+FFFD."""
        return self._model.detokenize(tokens, special).decode(errors="replace")

    def token_text(self, token: int) -> str:
        """As the vocabulary writes it."""
        return self._model.token_text(token)

    def find_token(self, text: str) -> Optional[int]:
        return self._model.find_token(text)

    def is_end(self, token: int) -> bool:
        """Whether the token ends texts."""
        return self._model.is_end(token)

    # Writing.

    def generate(self, prompt: Prompt, **options: Unpack[RequestOptions]) -> Completion:
        """Goes on with a text, or with tokens, to the end."""
        return self.stream(prompt, **options).read()

    def stream(self, prompt: Prompt, **options: Unpack[RequestOptions]) -> Stream:
        """The same as it is written. The request runs from here on."""
        if isinstance(prompt, (bytes, bytearray, memoryview)):  # Its numbers would be taken for tokens.
            raise TypeError("a prompt is text or tokens; bytes are neither: decode them")
        tokens = self.tokenize(prompt) if isinstance(prompt, str) else arguments.items("prompt", prompt, "text or tokens")
        given: dict[str, Any] = dict(options)
        constraint = _constraint(given)
        return self._submit(tokens, given, self._grammar(*constraint) if constraint else None)

    def chat(self, messages: Messages, **options: Any) -> ChatAnswer:
        """Answers a conversation. Parameters as chat_stream() has them."""
        return self.chat_stream(messages, **options).read()

    def chat_stream(
        self,
        messages: Messages,
        *,
        tools: Optional[Sequence[Mapping[str, Any]]] = None,
        tool_choice: str = "auto",
        reasoning_effort: str = "",
        chat_template: Optional[str] = None,
        template_variables: Optional[Mapping[str, Any]] = None,
        continue_answer: bool = False,
        **options: Unpack[RequestOptions],
    ) -> ChatStream:
        """An answer as it is written. Messages and tools are as OpenAI's chat API has them; one text is a user's message.
        `tool_choice` is "auto", "none", "required" or the name of a tool. With `continue_answer` the last message is the
        beginning of the answer. A grammar or schema holds the content, not the reasoning before it."""
        if isinstance(messages, str):
            messages = [{"role": "user", "content": messages}]
        messages = arguments.items("messages", messages, "a text or a list of messages")
        for message in messages:
            arguments.need(Mapping, "a message", message, "a dictionary")
        for name, text in (("tool_choice", tool_choice), ("reasoning_effort", reasoning_effort)):
            arguments.need(str, name, text, "a text")
        if template_variables is not None:
            arguments.need(Mapping, "template_variables", template_variables, "names and values")
        known = [] if tools is None else arguments.items("tools", tools, "a list of tools")
        given: dict[str, Any] = dict(options)
        opening = self._chat(chat_template).open(
            messages=arguments.written_as_json("messages", messages),
            tools=arguments.written_as_json("tools", known) if known else "",
            tool_choice=tool_choice,
            reasoning_effort=reasoning_effort,
            variables=arguments.written_as_json("template_variables", dict(template_variables)) if template_variables else "",
            add_generation_prompt=not continue_answer,
            grammar=_constraint(given),
        )
        stop = given.pop("stop", None)
        own = [stop] if isinstance(stop, str) else arguments.items("stop", stop, "a text or a list of texts") if stop is not None else []
        given["stop"] = [*own, *opening.stop]
        given["special"] = True  # Marks of calls and reasoning may be control tokens.
        return ChatStream(self._submit(opening.tokens, given, opening.grammar), opening)

    # One's own loop.

    def context(self, **options: Unpack[ContextOptions]) -> _weft.Context:
        """Sequences over a cache of their own, to be computed batch by batch."""
        return _weft.Context.make(self._model, dict(options))

    def sampler(self, **options: Unpack[SamplingOptions]) -> _weft.Sampler:
        return _weft.Sampler.make(self._model, dict(options))

    # The engine.

    def stats(self) -> dict[str, Any]:
        """What the engine counts, and how things stand."""
        return self._the_engine().stats()

    def save_text(self, tokens: Sequence[int]) -> tuple[int, bytes]:
        """What the engine's cache holds of the beginning of a text: how many tokens, and their state."""
        return self._the_engine().save_text(tokens)

    def restore_text(self, state: bytes) -> list[int]:
        """A saved text is in the cache again, for requests that begin like it; its tokens. Only for states that you saved
        yourself."""
        return self._the_engine().restore_text(state)

    def close(self) -> None:
        """Ends all requests, and the engine. Everything else of the model can still be used."""
        with self._lock:
            engine, self._engine, self._closed = self._engine, None, True
        if engine is not None:
            engine.shutdown()

    def __enter__(self) -> Model:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _the_engine(self) -> _weft.Engine:
        with self._lock:
            if self._closed:
                raise InvalidArgumentError("the model was closed")
            if self._was_forked:
                raise InvalidArgumentError(
                    "the model's engine runs in the process that this one was forked from: load the model after the fork, "
                    "or start processes by multiprocessing's 'spawn'"
                )
            if self._engine is None:
                draft = self._draft._model if self._draft is not None else None
                self._engine = _weft.Engine.make(self._model, self._context_options, self._service_options, draft)
            return self._engine

    def _submit(self, tokens: list[int], options: dict[str, Any], grammar: Optional[_weft.Grammar]) -> Stream:
        logprobs = options.get("logprobs")
        if isinstance(logprobs, int) and logprobs < 0:
            raise InvalidArgumentError(f"logprobs is {logprobs}; it is how many are told beside each token's own, or None")
        engine = self._the_engine()
        answer = engine.submit(tokens, options, grammar)
        return Stream(engine, answer, self._loops, logprobs is not None)

    def _chat(self, template: Optional[str]) -> _weft.Chat:
        if template is not None:
            arguments.need(str, "chat_template", template, "a text")
            return _weft.Chat.make(self._model, template)
        if self._own_chat is None:
            self._own_chat = _weft.Chat.make(self._model, None)
        return self._own_chat

    def _grammar(self, kind: str, source: str) -> _weft.Grammar:
        grammar = self._grammars.get((kind, source))
        if grammar is None:
            grammar = _weft.Grammar.compile(self._model, kind, source)
            if len(self._grammars) >= _MOST_GRAMMARS:
                self._grammars.clear()
            self._grammars[kind, source] = grammar
        return grammar
