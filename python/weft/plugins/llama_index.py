"""LlamaIndex's LLM.

    from weft.plugins.llama_index import WeftLLM
    WeftLLM(model="model.gguf", temperature=0.2).complete("Hello")
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

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
from weft.chats import ChatStream
from weft.plugins.fields import RequestFields


class WeftLLM(RequestFields, CustomLLM):
    """A model for completions and chats: see RequestFields for its parameters."""

    @property
    def metadata(self) -> LLMMetadata:
        info = self.model.info
        return LLMMetadata(context_window=info["n_ctx_train"], model_name=info["name"],
                           is_chat_model=self.model.chat_template is not None)

    @llm_completion_callback()
    def complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponse:
        return CompletionResponse(text=self.model.generate(prompt, **{**self.request_options, **kwargs}).text)

    @llm_completion_callback()
    def stream_complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponseGen:
        def pieces() -> CompletionResponseGen:
            text = ""
            with self.model.stream(prompt, **{**self.request_options, **kwargs}) as stream:
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
                        yield self._response(events.response.content, event.text)

        return pieces()

    @llm_chat_callback()
    async def astream_chat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> ChatResponseAsyncGen:
        async def pieces() -> ChatResponseAsyncGen:
            async with self._open(messages, kwargs) as events:
                async for event in events:
                    if event.kind == "content":
                        yield self._response(events.response.content, event.text)

        return pieces()

    def _open(self, messages: Sequence[ChatMessage], kwargs: dict[str, Any]) -> ChatStream:
        plain = [{"role": message.role.value, "content": message.content or ""} for message in messages]
        return self.model.chat_stream(plain, **{**self.request_options, **kwargs})

    def _response(self, content: str, delta: Any) -> ChatResponse:
        return ChatResponse(message=ChatMessage(role=MessageRole.ASSISTANT, content=content), delta=delta)
