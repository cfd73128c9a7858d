"""Models: loaded once, used by any number of threads and tasks."""

from __future__ import annotations

import ctypes
import os
import re
import threading
import warnings
import weakref
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Optional, TypedDict, Union, overload

import numpy as np

from . import _weft, arguments
from .chats import ChatPrompt, ChatResponse, ChatStream, tool_name
from .errors import InvalidArgumentError, NotFoundError
from .options import (
    ResponseOptions,
    ConstraintOptions,
    ContextOptions,
    FilePath,
    LoadOptions,
    ModelOptions,
    RequestOptions,
    SamplingOptions,
    ServiceOptions,
)
from .streams import Completion, LoopQueues, Stream, in_turn

if TYPE_CHECKING:
    from typing_extensions import Unpack

Prompt = Union[str, Sequence[int]]
Messages = Union[str, Sequence[Mapping[str, Any]]]


class ConversationOptions(TypedDict, total=False):
    """The parameters of Model.apply_chat_template(), except the messages."""

    tools: Optional[Sequence[Mapping[str, Any]]]
    tool_choice: Union[str, Mapping[str, Any]]
    parallel_tool_calls: Optional[bool]
    reasoning_effort: str
    reasoning_budget: int
    reasoning_budget_message: str
    chat_template: Optional[str]
    template_variables: Optional[Mapping[str, Any]]
    continue_final_message: bool


class ChatOptions(ConversationOptions, ResponseOptions, total=False):
    """The options of Model.chat() and Model.chat_stream()."""


# Requests that an engine computes at once, unless options change it.
_N_SEQUENCES = 32
_MOST_GRAMMARS = 64


_models: weakref.WeakSet[Model] = weakref.WeakSet()


def _leave_engines_behind() -> None:
    """In the child of a fork, which has none of their threads: engines are neither used nor ended, as ending would wait
    indefinitely."""
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


def _engine_options(options: dict[str, Any], n_adapters: int, has_draft: bool) -> tuple[dict[str, Any], dict[str, Any]]:
    """The options of contexts and of services, with the defaults of a model's engine. Refuses contradictions."""
    context = {name: value for name, value in options.items() if name in arguments.known(ContextOptions)}
    service = {name: value for name, value in options.items() if name in arguments.known(ServiceOptions)}
    n_running = service.get("n_running", 0)
    if n_running > context.setdefault("n_sequences", max(_N_SEQUENCES, n_running)):
        raise InvalidArgumentError(f"n_running is {n_running} and n_sequences {context['n_sequences']}; n_sequences must be at least as large")
    speculation = service.setdefault("speculation", "model" if has_draft else "none")
    if has_draft != (speculation == "model"):
        given = "a draft model is given" if has_draft else "there is no draft model"
        raise InvalidArgumentError(f"speculation is {speculation!r} and {given}; 'model' needs draft=weft.Model(...)")
    check_adapters(context.setdefault("use_adapters", [(i, 1.0) for i in range(n_adapters)]), n_adapters)
    return context, service


def check_adapters(uses: Sequence[tuple[int, float]], n_adapters: int) -> None:
    """Refuses a use of adapters that a model does not have."""
    for number, _ in uses:
        if not 0 <= number < n_adapters:
            there = "the model was loaded without adapters=[...]" if n_adapters == 0 else f"known are 0 to {n_adapters - 1}"
            raise InvalidArgumentError(f"use_adapters: unknown adapter {number}; {there}")


def _cached_models(models: Path) -> dict[str, Path]:
    """The models of the cache by name. Files of a hub are in folders HOST/USER/REPO; their names begin with USER/REPO."""
    later_part = re.compile(r"-(?!00001)\d{5}-of-\d{5}$")
    found = {
        "/".join((*file.relative_to(models).parts[1:-1], file.stem)): file
        for file in models.rglob("*.gguf")
        if file.is_file() and not file.name.startswith("mmproj") and not later_part.search(file.stem)
    }
    return dict(sorted(found.items()))


def _find_cached(path: Path) -> Path:
    """The file of a model of the cache, by its name or by a part of it that only one model has."""
    models = cache_folder("models")
    if models is None:
        return path
    name = path.as_posix()
    found = _cached_models(models)
    exact = [file for one, file in found.items() if name in (one, file.name)]
    parts = [one for one in found if name.lower() in one.lower()]
    if exact:
        return exact[0]
    if len(parts) == 1:
        return found[parts[0]]
    if parts:
        raise NotFoundError(f"{name!r} could be any of: {', '.join(parts)}")
    has = f"it has: {', '.join(found)}" if found else "which is empty"
    raise NotFoundError(f"there is no file {name!r}, and no model of that name in {models} ({has})")


def _file_of(path: Path, progress: Optional[Callable[[float], Any]]) -> Path:
    """The GGUF file of a model. A Hugging Face folder is converted when it is first loaded. A relative path without a file
    may be the name of a model in the cache of the program `weft`."""
    if not _weft.is_model_folder(path):
        if path.is_dir():
            raise NotFoundError(f"{path} is a folder without a config.json; give a GGUF file, or a Hugging Face folder")
        return path if path.is_absolute() or os.path.exists(path) else _find_cached(path)
    cache = cache_folder("converted")
    if cache is None:
        raise NotFoundError(f"{path} is a folder, and there is no cache for its converted model: set WEFT_CACHE, or use weft.convert()")
    file, notes = _weft.converted(path, cache, progress)
    for note in notes:
        warnings.warn(note, stacklevel=4)
    return Path(file)


def _warn_of_unused(chat: _weft.Chat, reasoning_effort: str, has_budget: bool, variables: Mapping[str, Any]) -> None:
    """Warns of variables that the template's source does not name, and of a budget without reasoning."""
    unused = [f"the variable {name!r}" for name in variables if str(name) not in chat.source]
    if reasoning_effort and not chat.has_reasoning and "reasoning_effort" not in chat.source:
        unused.append("reasoning_effort")
    if has_budget and not chat.has_reasoning:
        unused.append("reasoning_budget")
    for what in unused:
        warnings.warn(f"the model's chat template does not use {what}: it has no effect", stacklevel=5)


def convert(
    folder: FilePath,
    to: FilePath,
    *,
    type: Literal["auto", "f32", "f16", "bf16", "q8_0"] = "auto",
    pre_tokenizer: str = "",
    mmproj: bool = False,
    base: Optional[FilePath] = None,
    progress: Optional[Callable[[float], Any]] = None,
) -> dict[str, Any]:
    """Converts a Hugging Face folder with a model or a PEFT adapter to a GGUF file. `type` is the type of matrices ("auto": the
    type of most of the folder's weights). `mmproj`: writes the image encoder instead of the language model. `base`: the
    folder of the adapter's base model. `progress` is called with 0 to 1; returning False cancels. Returns the architecture,
    the type, the number of tensors, their bytes, and notes on the result."""
    paths = arguments.path("folder", folder), arguments.path("to", to)
    base_path = "" if base is None else arguments.path("base", base)
    if progress is not None and not callable(progress):
        raise arguments.wrong("progress", progress, "a callable")
    return dict(_weft.convert(*paths, type, pre_tokenizer, mmproj, base_path, progress))


def _is_batch(prompts: object) -> bool:
    """Whether it is a list of prompts or conversations, and not one."""
    return isinstance(prompts, (list, tuple)) and len(prompts) > 0 and isinstance(prompts[0], (str, list, tuple, np.ndarray))


def _constraint(options: dict[str, Any]) -> Optional[tuple[str, str]]:
    """Takes the constraint out of the options: a kind of grammar, and its source."""
    given = [(name, options.pop(name, None)) for name in arguments.known(ConstraintOptions)]
    found = [(name, value) for name, value in given if value is not None and value is not False]
    if len(found) > 1:
        raise InvalidArgumentError(f"{' and '.join(name for name, _ in found)} are given; a completion is held to one of them")
    if not found:
        return None
    name, value = found[0]
    if value is True and name == "json_schema":
        return "json_object", ""
    if name in ("json_schema", "structural_tag") and not isinstance(value, str):
        return name, arguments.written_as_json(name, value)
    return {"grammar": "gbnf"}.get(name, name), value


class Model:
    """A language model. Any thread may use it. The first request starts its engine, which batches all requests."""

    @arguments.takes(ModelOptions)
    def __init__(
        self,
        path: FilePath,
        *,
        progress: Optional[Callable[[float], Any]] = None,
        draft: Optional[Model] = None,
        **options: Unpack[ModelOptions],
    ) -> None:
        """`path`: a GGUF file, a Hugging Face folder with config.json and safetensors, or a name in the model cache, as
        `weft models` lists them. A folder is converted once. `progress` is called with 0 to 1 while a folder is converted
        and while weights load; returning False cancels. `draft`: a smaller model with the same vocabulary, which drafts tokens."""
        file = arguments.path("path", path)
        if draft is not None:
            arguments.need(Model, "draft", draft, "a weft.Model")
        if progress is not None and not callable(progress):
            raise arguments.wrong("progress", progress, "a callable")
        given = arguments.options(options, ModelOptions)
        self.n_adapters = len(given.get("adapters", ()))
        self._context_options, self._service_options = _engine_options(given, self.n_adapters, draft is not None)
        sizes = {name: value for name, value in self._context_options.items() if name in _weft.model_options()}
        load = {name: value for name, value in given.items() if name in arguments.known(LoadOptions)} | sizes
        if cache := load.setdefault("pack_cache", cache_folder("packed") or ""):
            load["pack_cache"] = os.fspath(cache)
        self.path = file
        self.options = given
        self._model = _weft.Model.load(_file_of(file, progress), load, progress)
        self._draft = draft
        self._lock = threading.Lock()
        self._engine: Optional[_weft.Engine] = None
        self._engine_notes = _weft.Notes()
        self._closed = False
        self._was_forked = False  # While its engine ran.
        self._loops = LoopQueues()
        self._grammars: dict[tuple[str, str], _weft.Grammar] = {}
        self._own_chat: Optional[_weft.Chat] = None
        _models.add(self)

    # Properties.

    @property
    def info(self) -> dict[str, Any]:
        """Name, architecture, sizes and weight types of the model."""
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
        """The source of the model's chat template, in Jinja."""
        return self._model.chat_template

    @property
    def default_adapters(self) -> list[tuple[int, float]]:
        """(number, scale) of the LoRA adapters that apply by default to requests."""
        return list(self._context_options["use_adapters"])

    @property
    def notes(self) -> list[str]:
        """Oddities of the file, and how they are read. Also problems with files of `cache_disk`."""
        return self._model.notes + self._engine_notes.all()

    @property
    def placement(self) -> dict[str, Any]:
        """The bytes of weights and of the expected context on each device, and what `fit` has chosen."""
        return self._model.placement()

    def __repr__(self) -> str:
        info = self.info
        return f"<weft.Model {info['name']!r} {info['architecture']} {info['quantisation']}>"

    # Tokens.

    def tokenize(self, text: str, *, add_special: bool = True, parse_special: bool = False) -> list[int]:
        """Returns the token ids of a string. `add_special` adds the tokens that the model expects around it (BOS, EOS).
        `parse_special` recognises control tokens in it; never use it for untrusted strings."""
        return self._model.tokenize(text, add_special, parse_special)

    def detokenize(self, tokens: Sequence[int], *, special: bool = False) -> str:
        """Returns the string of a list of tokens, without control tokens unless `special`. Incomplete characters become U+FFFD."""
        return self._model.detokenize(tokens, special).decode(errors="replace")

    def token_text(self, token: int) -> str:
        """The token's string in the vocabulary."""
        return self._model.token_text(token)

    def find_token(self, text: str) -> Optional[int]:
        return self._model.find_token(text)

    def is_end(self, token: int) -> bool:
        """Whether the token ends a generation."""
        return self._model.is_end(token)

    # Completions.

    @overload
    def generate(self, prompt: Prompt, **options: Unpack[RequestOptions]) -> Completion: ...
    @overload
    def generate(self, prompt: Sequence[Prompt], **options: Unpack[RequestOptions]) -> list[Completion]: ...
    @arguments.takes(RequestOptions)
    def generate(self, prompt: Union[Prompt, Sequence[Prompt]], **options: Unpack[RequestOptions]) -> Any:
        """Completes a prompt, which is a str or a list of tokens. For a list of prompts, returns a list of completions
        in its order; they share the engine's steps."""
        if _is_batch(prompt):
            return self._in_turn(prompt, lambda one: self.stream(one, **options))
        return self.stream(prompt, **options).read()

    @arguments.takes(RequestOptions)
    async def generate_async(self, prompt: Prompt, **options: Unpack[RequestOptions]) -> Completion:
        """generate() for event loops, for one prompt."""
        return await self.stream(prompt, **options).read_async()

    @arguments.takes(RequestOptions)
    def stream(self, prompt: Prompt, **options: Unpack[RequestOptions]) -> Stream:
        """Streams a completion as it is generated. The request starts at once, not with the first read."""
        if isinstance(prompt, (bytes, bytearray, memoryview)):  # Its numbers would be taken for tokens.
            raise TypeError("a prompt is text or tokens; bytes are neither: decode them")
        given = arguments.options(options, RequestOptions)
        tokens = self.tokenize(prompt) if isinstance(prompt, str) else arguments.items("prompt", prompt, "text or tokens")
        constraint = _constraint(given)
        return self._submit(tokens, given, self._grammar(*constraint) if constraint else None, None)

    # Conversations.

    @overload
    def chat(self, messages: Messages, **options: Unpack[ChatOptions]) -> ChatResponse: ...
    @overload
    def chat(self, messages: Sequence[Messages], **options: Unpack[ChatOptions]) -> list[ChatResponse]: ...
    @arguments.takes(ResponseOptions)
    def chat(self, messages: Union[Messages, Sequence[Messages]], **options: Unpack[ChatOptions]) -> Any:
        """Responds to a conversation. For a list of conversations, returns a list of responses in its order; they share
        the engine's steps. The parameters are explained at chat_stream()."""
        if _is_batch(messages):
            return self._in_turn(messages, lambda one: self.chat_stream(one, **options))
        return self.chat_stream(messages, **options).read()

    @arguments.takes(ResponseOptions)
    async def chat_async(self, messages: Messages, **options: Unpack[ChatOptions]) -> ChatResponse:
        """chat() for event loops, for one conversation."""
        return await self.chat_stream(messages, **options).read_async()

    @arguments.renamed(continue_answer="continue_final_message")
    @arguments.takes(ResponseOptions)
    def chat_stream(
        self,
        messages: Messages,
        *,
        tools: Optional[Sequence[Mapping[str, Any]]] = None,
        tool_choice: Union[str, Mapping[str, Any]] = "auto",
        parallel_tool_calls: Optional[bool] = None,
        reasoning_effort: str = "",
        reasoning_budget: int = -1,
        reasoning_budget_message: str = "",
        chat_template: Optional[str] = None,
        template_variables: Optional[Mapping[str, Any]] = None,
        continue_final_message: bool = False,
        **options: Unpack[ResponseOptions],
    ) -> ChatStream:
        """Streams the response to a conversation. Messages and tools have the form of OpenAI's chat API; a str is a user's
        message. `tool_choice` is "auto", "none", "required", the name of a tool, or a tool in OpenAI's form. A named tool is
        called once. `parallel_tool_calls` allows several calls, at most 32 if calls are enforced (default: with "auto"
        only). `reasoning_budget` is the maximum number of tokens of reasoning (-1: no limit). Then
        `reasoning_budget_message` and the closing tag follow; 0 also turns reasoning off. With `continue_final_message` the response
        continues the last message. A grammar or schema constrains the content, not the reasoning before it."""
        given = arguments.options(options, ResponseOptions)
        opening = self._open(
            messages, tools, tool_choice, parallel_tool_calls, reasoning_effort, reasoning_budget, reasoning_budget_message,
            chat_template, template_variables, continue_final_message, _constraint(given),
        )  # fmt: skip
        return ChatStream(self._submit(opening.tokens, given, None, opening), opening)

    @arguments.renamed(continue_answer="continue_final_message")
    def apply_chat_template(
        self,
        messages: Messages,
        *,
        tools: Optional[Sequence[Mapping[str, Any]]] = None,
        tool_choice: Union[str, Mapping[str, Any]] = "auto",
        parallel_tool_calls: Optional[bool] = None,
        reasoning_effort: str = "",
        reasoning_budget: int = -1,
        reasoning_budget_message: str = "",
        chat_template: Optional[str] = None,
        template_variables: Optional[Mapping[str, Any]] = None,
        continue_final_message: bool = False,
    ) -> ChatPrompt:
        """Returns the prompt of a conversation, as a string and as tokens, up to the beginning of the response. The parameters are
        explained at chat_stream()."""
        opening = self._open(
            messages, tools, tool_choice, parallel_tool_calls, reasoning_effort, reasoning_budget, reasoning_budget_message,
            chat_template, template_variables, continue_final_message, None,
        )  # fmt: skip
        return ChatPrompt(opening.prompt, opening.tokens, opening.stop)

    # One's own loop.

    @arguments.takes(ContextOptions)
    def context(self, **options: Unpack[ContextOptions]) -> _weft.Context:
        """Returns a context: sequences with a cache of their own, computed batch by batch."""
        given = arguments.options(options, ContextOptions)
        check_adapters(given.setdefault("use_adapters", self.default_adapters), self.n_adapters)
        return _weft.Context.make(self._model, given)

    @arguments.takes(SamplingOptions)
    def sampler(self, **options: Unpack[SamplingOptions]) -> _weft.Sampler:
        """Returns a sampler: it draws tokens from logits, with a random number generator and a history of its own."""
        return _weft.Sampler.make(self._model, arguments.options(options, SamplingOptions))

    def grammar(self, **constraint: Unpack[ConstraintOptions]) -> _weft.Grammar:
        """A grammar, regex or json_schema, compiled for the model's vocabulary, for a decoding loop of your own."""
        found = _constraint(arguments.options(constraint, ConstraintOptions))
        if found is None:
            raise TypeError("grammar() needs one of grammar, regex and json_schema")
        return self._grammar(*found)

    # The engine.

    def stats(self) -> dict[str, Any]:
        """The engine's counters and its current state."""
        return self._the_engine().stats()

    def save_prefix(self, tokens: Sequence[int]) -> tuple[int, bytes]:
        """Returns the longest cached prefix of `tokens`: its number of tokens, and its saved state."""
        return self._the_engine().save_prefix(tokens)

    def restore_prefix(self, state: bytes) -> list[int]:
        """Puts a saved prefix into the cache, for prompts that begin with it. Returns its tokens. Restore only states that
        you saved yourself."""
        return self._the_engine().restore_prefix(state)

    def save_text(self, tokens: Sequence[int]) -> tuple[int, bytes]:
        """Deprecated: save_prefix()."""
        warnings.warn("save_text() is deprecated: use save_prefix()", DeprecationWarning, stacklevel=2)
        return self.save_prefix(tokens)

    def restore_text(self, state: bytes) -> list[int]:
        """Deprecated: restore_prefix()."""
        warnings.warn("restore_text() is deprecated: use restore_prefix()", DeprecationWarning, stacklevel=2)
        return self.restore_prefix(state)

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
                self._engine = _weft.Engine.make(self._model, self._context_options, self._service_options, draft, self._engine_notes)
            return self._engine

    def _submit(
        self, tokens: list[int], options: dict[str, Any], grammar: Optional[_weft.Grammar], opening: Optional[_weft.Opening]
    ) -> Stream:
        least, most = options.get("min_tokens", 0), options.get("max_tokens", -1)
        if 0 <= most < least:
            raise InvalidArgumentError(f"min_tokens is {least} and max_tokens {most}; make min_tokens the smaller one")
        check_adapters(options.get("use_adapters", ()), self.n_adapters)
        engine = self._the_engine()
        response = engine.submit(tokens, options, grammar, opening)
        return Stream(engine, response, self._loops, "logprobs" in options)

    def _in_turn(self, requests: Sequence[Any], start: Callable[[Any], Any]) -> list[Any]:
        """Enough of them at the same time for the engine to fill its steps."""
        return list(in_turn(requests, 2 * self._context_options["n_sequences"], start, lambda stream: stream.read()))

    def _open(
        self,
        messages: Messages,
        tools: Optional[Sequence[Mapping[str, Any]]],
        tool_choice: Union[str, Mapping[str, Any]],
        parallel_tool_calls: Optional[bool],
        reasoning_effort: str,
        reasoning_budget: int,
        reasoning_budget_message: str,
        chat_template: Optional[str],
        template_variables: Optional[Mapping[str, Any]],
        continue_final_message: bool,
        grammar: Optional[tuple[str, str]],
    ) -> _weft.Opening:
        if isinstance(messages, str):
            messages = [{"role": "user", "content": messages}]
        messages = arguments.items("messages", messages, "a str or a list of messages")
        for message in messages:
            arguments.need(Mapping, "a message", message, "a dictionary")
        known = [] if tools is None else arguments.items("tools", tools, "a list of tools")
        if continue_final_message and grammar is not None:
            raise InvalidArgumentError("a response that is continued cannot be held to a grammar, regex or json_schema")
        arguments.need(str, "reasoning_effort", reasoning_effort, "a str")
        arguments.need(int, "reasoning_budget", reasoning_budget, "an int >= -1")
        arguments.need(str, "reasoning_budget_message", reasoning_budget_message, "a str")
        arguments.need(bool, "continue_final_message", continue_final_message, "True or False")
        if parallel_tool_calls is not None:
            arguments.need(bool, "parallel_tool_calls", parallel_tool_calls, "True or False")
        if template_variables is not None:
            arguments.need(Mapping, "template_variables", template_variables, "names and values")
        chat = self._chat(chat_template)
        _warn_of_unused(chat, reasoning_effort, reasoning_budget >= 0, template_variables or {})
        return chat.open(
            messages=arguments.written_as_json("messages", messages),
            tools=arguments.written_as_json("tools", known) if known else "",
            tool_choice=tool_name(tool_choice),
            parallel_tool_calls=parallel_tool_calls,
            reasoning_effort=reasoning_effort,
            reasoning_budget=reasoning_budget,
            reasoning_budget_message=reasoning_budget_message,
            variables=arguments.written_as_json("template_variables", dict(template_variables)) if template_variables else "",
            add_generation_prompt=not continue_final_message,
            grammar=grammar,
        )

    def _chat(self, template: Optional[str]) -> _weft.Chat:
        if template is not None:
            arguments.need(str, "chat_template", template, "a str")
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
