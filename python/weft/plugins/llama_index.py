"""LlamaIndex's LLM.

    from weft.plugins.llama_index import WeftLLM
    WeftLLM(model="model.gguf", options={"temperature": 0.2}).complete("Hello")
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Union

import weft
from llama_index.core.base.llms.types import (
    ChatMessage,
    ChatResponse,
    ChatResponseAsyncGen,
    ChatResponseGen,
    CompletionResponse,
    CompletionResponseGen,
    LLMMetadata,
    MessageRole,
)
from llama_index.core.llms import CustomLLM
from llama_index.core.llms.callbacks import llm_chat_callback, llm_completion_callback
from pydantic import ConfigDict, Field, field_validator
from weft.chats import ChatStream


class WeftLLM(CustomLLM):
    """`model`: a weft.Model, or the path of one. `options`: of each request, as weft.Model.chat has them."""

    model_config = ConfigDict(arbitrary_types_allowed=True)
    model: Any
    options: dict[str, Any] = Field(default_factory=dict)

    @field_validator("model", mode="before")
    @classmethod
    def _load(cls, model: Union[weft.Model, str]) -> weft.Model:
        return model if isinstance(model, weft.Model) else weft.Model(model)

    @property
    def metadata(self) -> LLMMetadata:
        info = self.model.info
        return LLMMetadata(context_window=info["n_ctx_train"], model_name=info["name"],
                           is_chat_model=self.model.chat_template is not None)

    @llm_completion_callback()
    def complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponse:
        return CompletionResponse(text=self.model.generate(prompt, **{**self.options, **kwargs}).text)

    @llm_completion_callback()
    def stream_complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponseGen:
        def pieces() -> CompletionResponseGen:
            text = ""
            with self.model.stream(prompt, **{**self.options, **kwargs}) as stream:
                for piece in stream:
                    text += piece
                    yield CompletionResponse(text=text, delta=piece)

        return pieces()

    @llm_chat_callback()
    def chat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> ChatResponse:
        return self._response(self._open(messages, kwargs).read().content, None)

    @llm_chat_callback()
    async def achat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> ChatResponse:
        return self._response((await self._open(messages, kwargs).read_async()).content, None)

    @llm_chat_callback()
    def stream_chat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> ChatResponseGen:
        def pieces() -> ChatResponseGen:
            with self._open(messages, kwargs) as events:
                for event in events:
                    if event.kind == "content":
                        yield self._response(events.answer.content, event.text)

        return pieces()

    @llm_chat_callback()
    async def astream_chat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> ChatResponseAsyncGen:
        async def pieces() -> ChatResponseAsyncGen:
            async with self._open(messages, kwargs) as events:
                async for event in events:
                    if event.kind == "content":
                        yield self._response(events.answer.content, event.text)

        return pieces()

    def _open(self, messages: Sequence[ChatMessage], kwargs: dict[str, Any]) -> ChatStream:
        plain = [{"role": message.role.value, "content": message.content or ""} for message in messages]
        return self.model.chat_stream(plain, **{**self.options, **kwargs})

    def _response(self, content: str, delta: Any) -> ChatResponse:
        return ChatResponse(message=ChatMessage(role=MessageRole.ASSISTANT, content=content), delta=delta)
