"""weft in the frameworks that it has plugins for, each with the real package."""
import asyncio
import json
import shutil
import threading

import pytest
import weft
from conftest import ENCODERS


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


@pytest.fixture(scope="module")
def chats(chat_file):
    """Makes LangChain's chat model of one model."""
    from weft.plugins.langchain import ChatWeft

    with weft.Model(chat_file, **MANY) as model:
        yield lambda **fields: ChatWeft(model=model, **{"temperature": 0, "max_tokens": 8, **fields})


LONG = {"type": "function", "function": {"name": "write", "parameters": {
    "type": "object", "properties": {"text": {"type": "string", "minLength": 200}}, "required": ["text"]}}}


def test_langchain_calls_that_are_cut_off_are_invalid(chats):
    from langchain_core.exceptions import OutputParserException

    chat = chats(max_tokens=80, seed=1)
    for answer in (chat.bind_tools([LONG], tool_choice="write").invoke("hi"),
                   asyncio.run(chat.bind_tools([LONG], tool_choice="write").ainvoke("hi"))):
        (call,) = answer.invalid_tool_calls
        assert answer.tool_calls == [] and call["name"] == "write" and call["id"] and call["args"].startswith('{"')
        assert answer.response_metadata["finish_reason"] == "length" and call["error"]
        assert chat.invoke([("human", "hi"), answer, ("human", "go on")]).content is not None
    schema = LONG["function"]["parameters"] | {"title": "write"}
    for method in ("function_calling", "json_schema"):
        with pytest.raises(OutputParserException, match="cut off .*length"):
            chat.with_structured_output(schema, method=method).invoke("hi")
        told = chat.with_structured_output(schema, method=method, include_raw=True).invoke("hi")
        assert told["parsed"] is None and "cut off" in str(told["parsing_error"]) and told["raw"].usage_metadata["output_tokens"] == 80
    # The same in streams.
    whole = None
    for chunk in chat.bind_tools([LONG], tool_choice="write").stream("hi"):
        whole = chunk if whole is None else whole + chunk
    assert whole.response_metadata["finish_reason"] == "length"


def test_langchain_calls_without_arguments(chats):
    tool = {"type": "function", "function": {"name": "ping", "parameters": {"type": "object", "properties": {}}}}
    answer = chats(max_tokens=300, seed=1).bind_tools([tool], tool_choice="ping").invoke("hi")
    assert [call["args"] for call in answer.tool_calls] == [{}] and answer.response_metadata["finish_reason"] == "tool_calls"


def test_langchain_tool_choice(chats):
    from langchain_core.tools import tool

    @tool
    def wind(strong: bool) -> str:
        """Tells the wind."""
        return "none"

    chat = chats(max_tokens=200, seed=1)
    openai, anthropic = {"type": "function", "function": {"name": "wind"}}, {"type": "tool", "name": "wind"}
    for choice in ("wind", openai, anthropic):
        calls = chat.bind_tools([TOOL, wind], tool_choice=choice).invoke("hi").tool_calls
        assert [call["name"] for call in calls] == ["wind"] and isinstance(calls[0]["args"]["strong"], bool)
    for choice in (True, "any", "required"):
        assert chat.bind_tools([TOOL, wind], tool_choice=choice).invoke("hi").tool_calls
    for choice in ("none", "auto", None, False):
        assert chat.bind_tools([TOOL, wind], tool_choice=choice, strict=True).invoke("hi").tool_calls == []
    for wrong in ("rain", {"type": "function", "function": {"name": "rain"}}):
        with pytest.raises(ValueError, match="'rain'; it must be auto, none, any or one of the tools: weather, wind"):
            chat.bind_tools([TOOL, wind], tool_choice=wrong)
    with pytest.raises(TypeError, match="tool_choice cannot be"):
        chat.bind_tools([TOOL], tool_choice={"type": "auto"})


def test_langchain_structured_output(chats):
    from typing import Optional

    from pydantic import BaseModel, Field
    from typing_extensions import TypedDict

    class Sky(BaseModel):
        """The sky."""

        blue: bool
        clouds: int = Field(ge=0, le=9)
        parent: Optional["Sky"] = None

    class Plain(TypedDict):
        """The sky."""

        blue: bool

    chat = chats(max_tokens=2000, seed=1, options={"logit_bias": {"93": -5.0}})
    for method in ("function_calling", "json_schema"):
        assert isinstance(chat.with_structured_output(Plain, method=method).invoke("hi")["blue"], bool)
        assert isinstance(chat.with_structured_output(Plain, method=method, strict=True).invoke("hi")["blue"], bool)
        raw = chat.with_structured_output(Plain, method=method, include_raw=True).invoke("hi")
        assert raw["parsing_error"] is None and raw["parsed"].keys() == {"blue"}
        # A tool call, or content.
        assert bool(raw["raw"].tool_calls) == (method == "function_calling") != bool(raw["raw"].content)

    class Small(BaseModel):
        """The sky."""

        blue: bool
        clouds: int = Field(ge=0, le=9)

    for method in ("function_calling", "json_schema"):
        found = chat.with_structured_output(Small, method=method).invoke("hi")
        assert isinstance(found, Small) and 0 <= found.clouds <= 9
    assert chat.with_structured_output(Sky, method="json_schema") is not None
    mode = chat.bind(regex=None).with_config() and chat.with_structured_output(method="json_mode", include_raw=True)
    assert isinstance(mode.invoke("hi")["parsed"] or {}, dict)
    untitled = {"type": "object", "properties": {"blue": {"type": "boolean"}}, "required": ["blue"]}
    assert chat.with_structured_output(untitled, method="json_schema").invoke("hi").keys() == {"blue"}
    openai = {"name": "sky", "description": "The sky.", "parameters": untitled}
    for method in ("function_calling", "json_schema"):
        assert chat.with_structured_output(openai, method=method).invoke("hi").keys() == {"blue"}
    assert chats(max_tokens=3).with_structured_output(None, method="json_mode", include_raw=True).invoke("hi")["raw"].content[:1] == "{"
    for wrong in ({"method": "json"}, {"schema": None}, {"unknown": 1}):
        with pytest.raises(ValueError):
            chat.with_structured_output(**({"schema": Small} | wrong))


def test_langchain_streams_tell_how_they_ended(chats):
    for options, reason in (({}, "length"), ({"regex": "ab"}, "stop")):
        chat = chats().bind(**options)
        answer = chat.invoke("hello")

        async def stream(chat=chat):
            return [chunk async for chunk in chat.astream("hello")]

        for chunks in (list(chat.stream("hello")), asyncio.run(stream())):
            whole = chunks[0]
            for chunk in chunks[1:]:
                whole += chunk
            assert whole.content == answer.content
            assert whole.response_metadata["finish_reason"] == answer.response_metadata["finish_reason"] == reason
            assert whole.response_metadata["model_name"] == "golden-llama"
            for name in ("input_tokens", "output_tokens", "total_tokens"):
                assert whole.usage_metadata[name] == answer.usage_metadata[name] > 0


def test_langchain_counts_tokens_of_the_model(chats):
    from langchain_core.messages import HumanMessage, SystemMessage, trim_messages

    chat = chats()
    assert chat.get_token_ids("hello") == chat.model.tokenize("hello", add_special=False)
    assert chat.get_num_tokens("hello world") == len(chat.model.tokenize("hello world", add_special=False))
    messages = [SystemMessage("s"), HumanMessage("hello")]
    assert chat.get_num_tokens_from_messages(messages) == chat.invoke(messages).usage_metadata["input_tokens"]
    with_tools = chat.bind_tools([TOOL]).invoke(messages).usage_metadata["input_tokens"]
    assert chat.get_num_tokens_from_messages(messages, tools=[TOOL]) == with_tools
    many = [HumanMessage(f"hello {i}") for i in range(9)]
    kept = trim_messages(many, max_tokens=chat.get_num_tokens_from_messages(many[-2:]), token_counter=chat, strategy="last")
    assert kept == many[-2:]


def test_langchain_tells_logprobs(chats):
    told = chats(logprobs=2, options={"prompt_logprobs": True}).invoke("hello").response_metadata
    assert len(told["logprobs"]["content"]) == 8 and len(told["prompt_logprobs"]["content"]) > 3
    first = told["logprobs"]["content"][0]
    assert first["logprob"] < 0 and len(first["top_logprobs"]) == 2 and first["top_logprobs"][0]["token"] == first["token"]


# A value of each field that changes a response; None: a wrong value is refused.
FIELDS = {
    "temperature": 0, "top_k": 1, "top_p": 0.001, "min_p": 1.0, "seed": 5, "repetition_penalty": 100.0, "frequency_penalty": 100.0,
    "presence_penalty": 100.0, "max_tokens": 2, "stop": ["e", "a"], "timeout": 1e-6, "logprobs": 1, "reasoning_effort": None,
    "options": {"regex": "ab"},
}  # fmt: skip


@pytest.mark.filterwarnings("ignore:the model's chat template does not use reasoning_effort")
def test_fields_of_chat_models_have_an_effect(chat_file):
    from langchain_core.language_models import BaseChatModel
    from langchain_core.runnables import ConfigurableField

    from weft.plugins.fields import RequestFields
    from weft.plugins.langchain import ChatWeft
    from weft.plugins.llama_index import WeftLLM

    assert FIELDS.keys() == RequestFields.model_fields.keys() - {"model", "model_options"}
    with weft.Model(chat_file, **MANY) as model:
        base = {"seed": 3, "max_tokens": 40, "temperature": 1.5, "top_k": 0, "top_p": 1.0, "min_p": 0.0}

        def told(**fields):
            answer = ChatWeft(model=model, **(base | fields)).invoke("hello")
            return answer.content, "logprobs" in answer.response_metadata, answer.response_metadata["finish_reason"]

        for name, value in FIELDS.items():
            if value is None:
                with pytest.raises(weft.InvalidArgumentError, match=name):
                    told(**{name: "huge"})
            else:
                assert told(**{name: value}) != told(), name
        assert WeftLLM(model=model, **(base | {"max_tokens": 2})).complete("hello").text == model.generate(
            "hello", **(base | {"max_tokens": 2})).text
        for chat in (ChatWeft, WeftLLM):
            for wrong, match in {"temprature": "did you mean 'temperature'", "n_ctx": "give model_options={'n_ctx'",
                                 "mirostat": "give options={'mirostat'", "max_new_tokens": "did you mean 'max_tokens'"}.items():
                with pytest.raises(ValueError, match=match):
                    chat(model=model, **{wrong: 1})
            with pytest.raises(ValueError, match="loaded already: n_ctx"):
                chat(model=model, model_options={"n_ctx": 64})
            with pytest.raises(ValueError, match="top_p is 2"):
                chat(model=model, top_p=2.0)
            with pytest.raises(TypeError, match="no option 'frobnicate'"):
                chat(model=model, options={"frobnicate": 1})
        # Different options are different entries of a cache.
        keys = {ChatWeft(model=model, temperature=one)._get_llm_string() for one in (0, 0.5)}
        assert len(keys) == 2
        told = ChatWeft(model=model, temperature=0.5)._get_ls_params()
        assert told["ls_temperature"] == 0.5 and told["ls_model_name"] == "golden-llama" and told["ls_provider"] == "weft"
    own = ChatWeft.model_fields.keys() - BaseChatModel.model_fields.keys() - RequestFields.model_fields.keys()
    assert own == {"streaming", "max_retries"}  # Each has a test of its own.
    loaded = ChatWeft(model=str(chat_file), model_options=MANY, max_tokens=3)
    assert loaded.model.options == MANY and loaded._identifying_params["n_ctx"] == 4096
    assert loaded.model.context().n_ctx == 256 and loaded.invoke("hello").usage_metadata["output_tokens"] == 3
    fewer = loaded.configurable_fields(max_tokens=ConfigurableField(id="n"))
    assert fewer.with_config(configurable={"n": 2}).invoke("hello").usage_metadata["output_tokens"] == 2


def test_langchain_streams_where_it_is_asked_to(chats):
    from langchain_core.callbacks import BaseCallbackHandler

    class Count(BaseCallbackHandler):
        n = 0

        def on_llm_new_token(self, token, **_):
            self.n += 1

    for streaming in (False, True):
        count = Count()
        assert chats(streaming=streaming).invoke("hello", config={"callbacks": [count]}).content == chats().invoke("hello").content
        assert (count.n > 0) == streaming


def test_langchain_tries_again_where_the_queue_is_full(chat_file, monkeypatch):
    from weft.plugins.langchain import ChatWeft

    with weft.Model(chat_file, n_running=1, n_waiting=1, **MANY) as model:
        def until(**counts):
            while {name: model.stats()[name] for name in counts} != counts:
                threading.Event().wait(0.001)

        endless = []
        for n_waiting in (0, 1):
            endless.append(model.stream("hello", ignore_end=True, context_shift=True))
            until(n_running=1, n_waiting=n_waiting)
        waited = []

        def sleep(seconds):
            waited.append(seconds)
            if len(waited) == 3:
                for stream in endless:
                    stream.close()
                until(n_running=0, n_waiting=0)

        monkeypatch.setattr("weft.plugins.langchain.time.sleep", sleep)
        with pytest.raises(weft.OverloadedError):
            ChatWeft(model=model, max_tokens=1, max_retries=1).invoke("hello")
        assert len(waited) == 1 and waited[0] > 0
        answer = asyncio.run(ChatWeft(model=model, max_tokens=1, max_retries=5).ainvoke("hello"))
        assert answer.usage_metadata["output_tokens"] == 1 and len(waited) == 3


def test_langchain_embeddings(tmp_path):
    from weft.plugins.langchain import WeftEmbeddings

    path = ENCODERS / "bert/model.gguf"
    embedder = weft.Embedder(path, pack_cache="")
    texts = ["hello", "hello world"]
    for made in (WeftEmbeddings(model=embedder), WeftEmbeddings(model=str(path), model_options={"pack_cache": ""})):
        assert made.embed_documents(texts) == embedder.embed(texts).tolist() and made.embed_documents([]) == []
        assert made.embed_query("hello") == embedder.embed("hello").tolist()
    cut = WeftEmbeddings(model=embedder, dimensions=4, normalize=False, pooling="cls")
    assert cut.embed_query("hello") == embedder.embed("hello", dimensions=4, normalize=False, pooling="cls").tolist()

    async def main():
        return await asyncio.gather(*(cut.aembed_query("hello") for _ in range(8)))

    assert asyncio.run(main()) == [cut.embed_query("hello")] * 8
    with pytest.raises(ValueError):
        WeftEmbeddings(model=embedder, dimension=4)


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
