"""LangChain's chat model.

    from weft.plugins.langchain import ChatWeft
    ChatWeft(model="model.gguf", options={"temperature": 0.2}).invoke("Hello")
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any, Optional, Union

import weft
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, convert_to_openai_messages
from langchain_core.messages.tool import tool_call_chunk
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.runnables import Runnable
from langchain_core.utils.function_calling import convert_to_openai_tool
from pydantic import ConfigDict, Field, field_validator
from weft.chats import ChatAnswer, ChatEvent, ChatStream


class ChatWeft(BaseChatModel):
    """`model`: a weft.Model, or the path of one. `options`: of each request, as weft.Model.chat has them."""

    model_config = ConfigDict(arbitrary_types_allowed=True)
    model: weft.Model
    options: dict[str, Any] = Field(default_factory=dict)

    @field_validator("model", mode="before")
    @classmethod
    def _load(cls, model: Union[weft.Model, str]) -> weft.Model:
        return model if isinstance(model, weft.Model) else weft.Model(model)

    @property
    def _llm_type(self) -> str:
        return "weft"

    def bind_tools(self, tools: Sequence[Any], *, tool_choice: Optional[str] = None, **kwargs: Any) -> Runnable[Any, AIMessage]:
        choice = {"any": "required", None: "auto"}.get(tool_choice, tool_choice)
        return self.bind(tools=[convert_to_openai_tool(tool) for tool in tools], tool_choice=choice, **kwargs)

    def _generate(self, messages: list[BaseMessage], stop: Optional[list[str]] = None, run_manager: Any = None,
                  **kwargs: Any) -> ChatResult:
        return self._result(self._open(messages, stop, kwargs).read())

    async def _agenerate(self, messages: list[BaseMessage], stop: Optional[list[str]] = None, run_manager: Any = None,
                         **kwargs: Any) -> ChatResult:
        return self._result(await self._open(messages, stop, kwargs).read_async())

    def _stream(self, messages: list[BaseMessage], stop: Optional[list[str]] = None, run_manager: Any = None,
                **kwargs: Any) -> Iterator[ChatGenerationChunk]:
        with self._open(messages, stop, kwargs) as events:
            for event in events:
                chunk = self._chunk(event)
                if run_manager:
                    run_manager.on_llm_new_token(chunk.text, chunk=chunk)
                yield chunk

    async def _astream(self, messages: list[BaseMessage], stop: Optional[list[str]] = None, run_manager: Any = None,
                       **kwargs: Any) -> AsyncIterator[ChatGenerationChunk]:
        async with self._open(messages, stop, kwargs) as events:
            async for event in events:
                chunk = self._chunk(event)
                if run_manager:
                    await run_manager.on_llm_new_token(chunk.text, chunk=chunk)
                yield chunk

    def _open(self, messages: list[BaseMessage], stop: Optional[list[str]], kwargs: dict[str, Any]) -> ChatStream:
        options = {**self.options, **kwargs}
        return self.model.chat_stream(convert_to_openai_messages(messages), **({"stop": stop} if stop else {}), **options)

    def _result(self, answer: ChatAnswer) -> ChatResult:
        calls = [{"name": call.name, "args": json.loads(call.arguments or "{}"), "id": call.id} for call in answer.tool_calls]
        n_prompt, n_written = answer.stats["n_prompt"], answer.stats["n_generated"]
        message = AIMessage(
            content=answer.content,
            tool_calls=calls,
            additional_kwargs={"reasoning_content": answer.reasoning} if answer.reasoning else {},
            response_metadata={"finish_reason": answer.stop},
            usage_metadata={"input_tokens": n_prompt, "output_tokens": n_written, "total_tokens": n_prompt + n_written},
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
