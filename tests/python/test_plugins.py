"""weft in the frameworks that it has plugins for, each with the real package."""
import asyncio
import json
import shutil

import pytest
import weft


@pytest.fixture
def cache(chat_file, tmp_path, monkeypatch):
    """A model cache with one model in it."""
    (tmp_path / "models").mkdir()
    shutil.copy(chat_file, tmp_path / "models" / "tiny.gguf")
    monkeypatch.setenv("WEFT_CACHE", str(tmp_path))
    monkeypatch.setenv("LLM_USER_PATH", str(tmp_path / "llm"))
    return tmp_path


MANY = {"n_ctx": 4096, "pack_cache": ""}
TOOL = {"type": "function", "function": {"name": "weather", "description": "Tells the weather.", "parameters": {
    "type": "object", "properties": {"sky": {"enum": ["clear", "grey"]}}, "required": ["sky"]}}}


def test_llm(cache, chat_file):
    import llm

    model = llm.get_model("weft/tiny")
    expected = weft.Model(chat_file, pack_cache="").chat("hello", max_tokens=8, temperature=0).content
    response = model.prompt("hello", max_tokens=8, temperature=0)
    assert response.text() == expected
    assert response.usage().output == 8
    assert "".join(model.prompt("hello", stream=True, max_tokens=8, temperature=0)) == expected
    conversation = model.conversation()
    first = conversation.prompt("hello", max_tokens=4, temperature=0)
    first.text()
    second = conversation.prompt("world", max_tokens=4, temperature=0)
    messages = [{"role": "user", "content": "hello"}, {"role": "assistant", "content": first.text()},
                {"role": "user", "content": "world"}]
    assert second.text() == weft.Model(chat_file, pack_cache="").chat(messages, max_tokens=4, temperature=0).content
    assert json.loads(model.prompt("hello", schema={"enum": ["up", "down"]}, seed=1).text()) in ("up", "down")

    async def main():
        return await llm.get_async_model("weft/tiny").prompt("hello", max_tokens=8, temperature=0).text()

    assert asyncio.run(main()) == expected


def test_langchain(chat_file):
    from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage

    from weft.plugins.langchain import ChatWeft

    model = weft.Model(chat_file, **MANY)
    chat = ChatWeft(model=model, options={"max_tokens": 8, "temperature": 0})
    expected = model.chat([{"role": "system", "content": "s"}, {"role": "user", "content": "hello"}], max_tokens=8,
                          temperature=0).content
    messages = [SystemMessage("s"), HumanMessage("hello")]
    answer = chat.invoke(messages)
    assert isinstance(answer, AIMessage) and answer.content == expected and answer.usage_metadata["output_tokens"] == 8
    assert "".join(chunk.content for chunk in chat.stream(messages)) == expected

    async def main():
        pieces = [chunk.content async for chunk in chat.astream(messages)]
        return "".join(pieces), (await chat.ainvoke(messages)).content

    assert asyncio.run(main()) == (expected, expected)
    called = ChatWeft(model=model, options={"seed": 1}).bind_tools([TOOL], tool_choice="any")
    (call,) = called.invoke("hello").tool_calls
    assert call["name"] == "weather" and call["args"]["sky"] in ("clear", "grey")
    whole = None
    for chunk in called.stream("hello"):
        whole = chunk if whole is None else whole + chunk
    assert whole.tool_calls[0]["args"] == call["args"]
    more = [HumanMessage("hello"), AIMessage("", tool_calls=[call]), ToolMessage("grey", tool_call_id=call["id"])]
    assert chat.invoke(more).content
    assert ChatWeft(model=str(chat_file)).model.info["architecture"] == "llama"


def test_llama_index(chat_file):
    from llama_index.core.llms import ChatMessage

    from weft.plugins.llama_index import WeftLLM

    model = weft.Model(chat_file, **MANY)
    index = WeftLLM(model=model, options={"max_tokens": 8, "temperature": 0})
    assert index.metadata.is_chat_model and index.metadata.context_window == 256
    text = model.generate("hello", max_tokens=8, temperature=0).text
    assert index.complete("hello").text == text
    assert [piece.text for piece in index.stream_complete("hello")][-1] == text
    answer = model.chat("hello", max_tokens=8, temperature=0).content
    messages = [ChatMessage(role="user", content="hello")]
    assert index.chat(messages).message.content == answer
    assert "".join(piece.delta for piece in index.stream_chat(messages)) == answer

    async def main():
        return (await index.achat(messages)).message.content, [one.delta async for one in await index.astream_chat(messages)]

    content, pieces = asyncio.run(main())
    assert content == "".join(pieces) == answer
