"""LangChain's chat model and embeddings.

    from weft.plugins.langchain import ChatWeft, WeftEmbeddings
    ChatWeft(model="model.gguf", temperature=0.2).invoke("Hello")
    WeftEmbeddings(model="embedder.gguf").embed_query("Hello")
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any, Literal, Optional, Union

import weft
from langchain_core.embeddings import Embeddings
from langchain_core.exceptions import OutputParserException
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, convert_to_openai_messages
from langchain_core.messages.tool import invalid_tool_call, tool_call, tool_call_chunk
from langchain_core.output_parsers import JsonOutputParser, PydanticOutputParser
from langchain_core.output_parsers.openai_tools import JsonOutputKeyToolsParser, PydanticToolsParser
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.runnables import Runnable, RunnableLambda, RunnableMap, RunnablePassthrough
from langchain_core.utils.function_calling import convert_to_json_schema, convert_to_openai_tool
from langchain_core.utils.pydantic import is_basemodel_subclass
from pydantic import BaseModel, ConfigDict, Field, model_validator
from weft.chats import ChatEvent, ChatResponse, ChatStream, tool_name
from weft.plugins.fields import RequestFields
from weft.streams import TokenLogprob


class ChatWeft(RequestFields, BaseChatModel):
    """A chat model. RequestFields has its parameters. `streaming`: invoke() streams, too, for callbacks. `max_retries`: how
    often a request is tried again that finds the engine's queue full (n_waiting)."""

    streaming: bool = False
    max_retries: int = Field(default=0, ge=0)

    @property
    def _llm_type(self) -> str:
        return "weft"

    @property
    def _identifying_params(self) -> dict[str, Any]:
        return {"model": str(self.model.path), **self.model.options, **self.request_options}

    def _get_ls_params(self, stop: Optional[list[str]] = None, **kwargs: Any) -> Any:
        return {"ls_model_name": self.model.info["name"], **super()._get_ls_params(stop=stop, **kwargs), "ls_provider": "weft"}

    # Tools and structured output.

    def bind_tools(
        self,
        tools: Sequence[Any],
        *,
        tool_choice: Union[str, bool, Mapping[str, Any], None] = None,
        strict: Optional[bool] = None,
        **kwargs: Any,
    ) -> Runnable[Any, AIMessage]:
        """`tool_choice`: "auto", "none", "any", "required", the name of a tool, or a tool in OpenAI's form. True is "required";
        None and False leave the choice to the model. Arguments always fit a tool's schema, `strict` or not."""
        made = [convert_to_openai_tool(tool, strict=strict) for tool in tools]
        names = [tool["function"]["name"] for tool in made]
        if tool_choice is not None and tool_choice is not False:
            choice = "required" if tool_choice is True else tool_name(tool_choice)
            if choice == "any" and choice not in names:
                choice = "required"
            if choice in names:
                kwargs.setdefault("parallel_tool_calls", False)  # One call of this tool.
            elif choice not in ("auto", "none", "required"):
                raise ValueError(f"tool_choice is {choice!r}; it must be auto, none, any or one of the tools: {', '.join(names)}")
            kwargs["tool_choice"] = choice
        return self.bind(tools=made, **kwargs)

    def with_structured_output(
        self,
        schema: Optional[Any] = None,
        *,
        method: Literal["function_calling", "json_schema", "json_mode"] = "function_calling",
        include_raw: bool = False,
        strict: Optional[bool] = None,
        **kwargs: Any,
    ) -> Runnable[Any, Any]:
        """Responses as objects of a pydantic class, or as dictionaries that fit a schema. Method "function_calling" shows the
        model the schema as a tool. Method "json_schema" constrains the content to the schema, which the prompt must describe.
        Method "json_mode" constrains it to any JSON object. A response that was cut off raises OutputParserException."""
        if kwargs:
            raise ValueError(f"with_structured_output() has no argument {', '.join(kwargs)}")
        is_class = isinstance(schema, type) and is_basemodel_subclass(schema)
        if schema is None and method != "json_mode":
            raise ValueError(f"the method {method} needs a schema")
        told = {"ls_structured_output_format": {"kwargs": {"method": method}, "schema": schema}} if schema is not None else {}
        parser: Any = PydanticOutputParser(pydantic_object=schema) if is_class else JsonOutputParser()
        if method == "function_calling":
            name = convert_to_openai_tool(schema)["function"]["name"]
            bound = self.bind_tools([schema], tool_choice=name, strict=strict, **told)
            parser = (PydanticToolsParser(tools=[schema], first_tool_only=True) if is_class
                      else JsonOutputKeyToolsParser(key_name=name, first_tool_only=True))  # fmt: skip
        elif method == "json_schema":
            is_schema = isinstance(schema, dict) and schema.keys().isdisjoint(("name", "function", "title"))
            bound = self.bind(json_schema=schema if is_schema else convert_to_json_schema(schema), **told)
        elif method == "json_mode":
            bound = self.bind(json_schema=True, **told)
        else:
            raise ValueError(f"method is {method!r}; it must be function_calling, json_schema or json_mode")
        parse = RunnableLambda(_whole) | parser
        if not include_raw:
            return bound | parse
        parsed = RunnablePassthrough.assign(parsed=itemgetter("raw") | parse, parsing_error=lambda _: None)
        failed = RunnablePassthrough.assign(parsed=lambda _: None)
        return RunnableMap(raw=bound) | parsed.with_fallbacks([failed], exception_key="parsing_error")

    # Tokens.

    def get_token_ids(self, text: str) -> list[int]:
        return self.custom_get_token_ids(text) if self.custom_get_token_ids else self.model.tokenize(text, add_special=False)

    def get_num_tokens_from_messages(self, messages: list[BaseMessage], tools: Optional[Sequence[Any]] = None) -> int:
        """The number of tokens of the prompt that the model's template renders from the messages."""
        made = [convert_to_openai_tool(tool) for tool in tools or ()]
        try:
            return len(self.model.apply_chat_template(convert_to_openai_messages(messages), tools=made).tokens)
        except weft.InvalidArgumentError:  # A template may refuse a part of a conversation.
            return super().get_num_tokens_from_messages(messages)

    # Responses.

    def _generate(self, messages: list[BaseMessage], stop: Optional[list[str]] = None, run_manager: Any = None,
                  **kwargs: Any) -> ChatResult:
        return self._result(self._open(messages, stop, kwargs).read())

    async def _agenerate(self, messages: list[BaseMessage], stop: Optional[list[str]] = None, run_manager: Any = None,
                         **kwargs: Any) -> ChatResult:
        return self._result(await (await self._open_async(messages, stop, kwargs)).read_async())

    def _stream(self, messages: list[BaseMessage], stop: Optional[list[str]] = None, run_manager: Any = None,
                **kwargs: Any) -> Iterator[ChatGenerationChunk]:
        with self._open(messages, stop, kwargs) as events:
            for event in events:
                chunk = self._chunk(event)
                if run_manager:
                    run_manager.on_llm_new_token(chunk.text, chunk=chunk)
                yield chunk
        yield self._last_chunk(events.response)

    async def _astream(self, messages: list[BaseMessage], stop: Optional[list[str]] = None, run_manager: Any = None,
                       **kwargs: Any) -> AsyncIterator[ChatGenerationChunk]:
        async with await self._open_async(messages, stop, kwargs) as events:
            async for event in events:
                chunk = self._chunk(event)
                if run_manager:
                    await run_manager.on_llm_new_token(chunk.text, chunk=chunk)
                yield chunk
        yield self._last_chunk(events.response)

    def _open(self, messages: list[BaseMessage], stop: Optional[list[str]], kwargs: dict[str, Any]) -> ChatStream:
        options = {**self.request_options, **kwargs}
        if stop:
            options["stop"] = stop
        for n_left in range(self.max_retries, -1, -1):
            try:
                return self.model.chat_stream(convert_to_openai_messages(messages), **options)
            except weft.OverloadedError as error:
                if n_left == 0:
                    raise
                time.sleep(error.retry_after)
        raise AssertionError

    async def _open_async(self, messages: list[BaseMessage], stop: Optional[list[str]], kwargs: dict[str, Any]) -> ChatStream:
        if self.max_retries == 0:
            return self._open(messages, stop, kwargs)
        return await asyncio.to_thread(self._open, messages, stop, kwargs)  # It may sleep.

    def _told(self, response: ChatResponse) -> dict[str, Any]:
        """Metadata and usage of a message, in the words of OpenAI's API."""
        n_prompt, n_written = response.stats.get("n_prompt", 0), response.stats.get("n_generated", 0)
        metadata: dict[str, Any] = {"finish_reason": _finish_reason(response), "model_provider": "weft"}
        metadata["model_name"] = self.model.info["name"]
        for name in ("logprobs", "prompt_logprobs"):
            if told := getattr(response, name):
                metadata[name] = {"content": [self._logprob(one) for one in told]}
        return {
            "response_metadata": metadata,
            "usage_metadata": {"input_tokens": n_prompt, "output_tokens": n_written, "total_tokens": n_prompt + n_written,
                               "input_token_details": {"cache_read": response.stats.get("n_cached", 0)}},
        }  # fmt: skip

    def _logprob(self, one: TokenLogprob) -> dict[str, Any]:
        text = self.model.token_text
        top = [{"token": text(token), "logprob": logprob} for token, logprob in one.top]
        return {"token": text(one.token), "logprob": one.logprob, "top_logprobs": top}

    def _result(self, response: ChatResponse) -> ChatResult:
        calls, invalid = [], []
        for call in response.tool_calls:
            try:
                arguments = json.loads(call.arguments or "{}")
                if not call.whole or not isinstance(arguments, dict):
                    raise ValueError("the arguments are no whole JSON object")
                calls.append(tool_call(name=call.name, args=arguments, id=call.id))
            except ValueError as error:
                invalid.append(invalid_tool_call(name=call.name, args=call.arguments, id=call.id, error=str(error)))
        message = AIMessage(
            content=response.content,
            tool_calls=calls,
            invalid_tool_calls=invalid,
            additional_kwargs={"reasoning_content": response.reasoning} if response.reasoning else {},
            **self._told(response),
        )
        return ChatResult(generations=[ChatGeneration(message=message)])

    def _chunk(self, event: ChatEvent) -> ChatGenerationChunk:
        message = AIMessageChunk(content="")
        if event.kind == "content":
            message = AIMessageChunk(content=event.text)
        elif event.kind == "reasoning":
            message = AIMessageChunk(content="", additional_kwargs={"reasoning_content": event.text})
        elif event.kind == "tool_call":
            id = event.id or f"call_{event.call}"
            message = AIMessageChunk(
                content="", tool_call_chunks=[tool_call_chunk(name=event.name, args="", id=id, index=event.call)])
        elif event.kind == "tool_arguments":
            message = AIMessageChunk(content="", tool_call_chunks=[tool_call_chunk(args=event.text, index=event.call)])
        return ChatGenerationChunk(message=message)

    def _last_chunk(self, response: ChatResponse) -> ChatGenerationChunk:
        return ChatGenerationChunk(message=AIMessageChunk(content="", **self._told(response)))


def _finish_reason(response: ChatResponse) -> str:
    """In the words of OpenAI's API. "length" where the response was cut off, also within a tool call."""
    if response.stop in ("length", "context"):
        return "length"
    if any(call.whole for call in response.tool_calls):
        return "tool_calls"
    return "stop" if response.stop in ("end", "stop") else response.stop


def _whole(message: AIMessage) -> AIMessage:
    """A message that was not cut off."""
    reason = message.response_metadata.get("finish_reason")
    if message.invalid_tool_calls or reason not in ("stop", "tool_calls"):
        raise OutputParserException(f"the response was cut off (finish_reason {reason!r}); give it more max_tokens",
                                    llm_output=str(message.content or message.invalid_tool_calls))  # fmt: skip
    return message


class WeftEmbeddings(BaseModel, Embeddings):
    """`model`: a weft.Embedder, or the path of a model, which is loaded with `model_options`."""

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid", protected_namespaces=())
    model: weft.Embedder
    model_options: dict[str, Any] = Field(default_factory=dict)
    normalize: bool = True
    pooling: Optional[Literal["mean", "cls", "last"]] = None
    dimensions: Optional[int] = None

    @model_validator(mode="before")
    @classmethod
    def _load(cls, values: Any) -> Any:
        if not isinstance(values, dict) or isinstance(values.get("model"), (weft.Embedder, type(None))):
            return values
        return {**values, "model": weft.Embedder(values["model"], **(values.get("model_options") or {}))}

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        if not texts:
            return []
        rows = self.model.embed(texts, normalize=self.normalize, pooling=self.pooling, dimensions=self.dimensions)
        vectors: list[list[float]] = rows.tolist()
        return vectors

    def embed_query(self, text: str) -> list[float]:
        return self.embed_documents([text])[0]
