"""Ollama's own client against the server, and requests as they are on the wire."""
import json

import ollama
import pytest

from test_encoders import ENCODERS
from test_wire import get, post, wait_until

QUESTION = [{"role": "user", "content": "Name three colours."}]
GREEDY = {"temperature": 0, "num_predict": 24}
WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "The weather of a city",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}


@pytest.fixture(scope="module")
def alone(start_server):
    """A server of its own: tests unload its model."""
    return start_server()


@pytest.fixture(scope="module")
def client(alone):
    return ollama.Client(alone.url)


@pytest.fixture(scope="module")
def model(alone):
    return alone.model


def lines(address, path, body):
    answer, text = post(address, path, body)
    assert answer.status == 200, text
    return answer, [json.loads(line) for line in text.decode().splitlines()]


def test_models(client, model):
    names = [one.model for one in client.list().models]
    assert f"{model}:latest" in names
    shown = client.show(names[0])
    assert {"completion", "tools"} <= set(shown.capabilities)
    architecture = shown.modelinfo["general.architecture"]
    assert shown.modelinfo[f"{architecture}.context_length"] > 0
    assert shown.details.family == architecture and shown.details.parameter_size
    assert len(client.list().models[0].digest) == 64


def test_version_has_three_numbers(alone):
    version = json.loads(get(alone.address, "/api/version")[1])["version"]
    assert tuple(map(int, version.split("."))) >= (0, 6, 4)


def test_the_root_says_that_ollama_is_running_unless_a_browser_asks(alone):
    assert get(alone.address, "/", {"Accept": "*/*"})[1] == b"Ollama is running"
    assert b"<html" in get(alone.address, "/", {"Accept": "text/html,application/xhtml+xml"})[1].lower()


def test_chat_streams_the_same_text(client, model):
    whole = client.chat(model=model, messages=QUESTION, options=GREEDY)
    assert whole.message.role == "assistant" and whole.message.content and whole.done
    assert whole.done_reason in ("stop", "length") and 0 < whole.eval_count <= 24
    assert whole.prompt_eval_count > 0 and whole.total_duration >= whole.eval_duration > 0
    pieces = list(client.chat(model=model, messages=QUESTION, options=GREEDY, stream=True))
    assert "".join(piece.message.content for piece in pieces) == whole.message.content
    assert pieces[-1].done and pieces[-1].eval_count == whole.eval_count
    assert not any(piece.done for piece in pieces[:-1])


def test_streams_are_lines_of_json_and_the_default(alone):
    answer, all_lines = lines(alone.address, "/api/chat", {"messages": QUESTION, "options": {"num_predict": 3}})
    assert answer.headers["Content-Type"] == "application/x-ndjson"
    assert [line["done"] for line in all_lines] == [False] * (len(all_lines) - 1) + [True]
    assert all_lines[-1]["done_reason"] == "length"


def test_the_same_options_give_the_text_of_openais_api(alone, client, model):
    options = {"temperature": 0.9, "seed": 7, "top_k": 20, "top_p": 0.9, "min_p": 0.05, "repeat_penalty": 1.1}
    mine = client.chat(model=model, messages=QUESTION, options={**options, "num_predict": 16}).message.content
    _, body = post(alone.address, "/v1/chat/completions", {"messages": QUESTION, "max_tokens": 16, **options})
    assert json.loads(body)["choices"][0]["message"]["content"] == mine


def test_content_may_be_in_parts(alone):
    def said(content):
        body = {"messages": [{"role": "user", "content": content}], "options": GREEDY, "stream": False}
        return json.loads(post(alone.address, "/api/chat", body)[1])["message"]["content"]

    assert said([{"type": "text", "text": "Name three "}, {"type": "text", "text": "colours."}]) == said("Name three colours.")


def test_stop_strings_end_a_response(client, model):
    text = client.chat(model=model, messages=QUESTION, options=GREEDY).message.content
    word = text.split()[2]
    cut = client.chat(model=model, messages=QUESTION, options={**GREEDY, "stop": [word]})
    assert word not in cut.message.content and cut.done_reason == "stop"


def test_formats(alone, client, model):
    schema = {"type": "object", "properties": {"age": {"type": "integer", "minimum": 0, "maximum": 130}},
              "required": ["age"], "additionalProperties": False}
    answer = client.chat(model=model, messages=QUESTION, format=schema, options={"num_predict": 60, "seed": 1})
    assert set(json.loads(answer.message.content)) == {"age"}
    answer = client.generate(model=model, prompt="A person, as JSON:", format="json", options={"num_predict": 200, "seed": 2})
    if answer.done_reason == "stop":
        assert isinstance(json.loads(answer.response), dict)
    answer, body = post(alone.address, "/api/chat", {"messages": QUESTION, "format": "xml"})
    assert answer.status == 400 and "'format'" in json.loads(body)["error"]


def test_tools(alone, client, model):
    options = {"num_predict": 200, "temperature": 0}
    body = {"messages": [{"role": "user", "content": "The weather in Paris?"}], "tools": [WEATHER], "options": options,
            "tool_choice": "required", "parallel_tool_calls": False}
    answers = lines(alone.address, "/api/chat", body)[1], lines(alone.address, "/api/chat", {**body, "stream": False})[1]
    for messages in ([line["message"] for line in answer] for answer in answers):
        calls = [call for message in messages for call in message.get("tool_calls", [])]
        assert len(calls) == 1 and calls[0]["function"]["name"] == "get_weather"
        assert isinstance(calls[0]["function"]["arguments"]["city"], str)
        assert not "".join(message["content"] for message in messages)
    # Calls and results without ids, as the client sends them.
    more = client.chat(model=model, tools=[WEATHER], options={"num_predict": 4}, messages=[
        {"role": "user", "content": "The weather in Paris?"},
        {"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "get_weather", "arguments": {"city": "Paris"}}}]},
        {"role": "tool", "tool_name": "get_weather", "content": "Sunny."}])
    assert more.message.role == "assistant"


def test_results_belong_to_the_first_open_call_of_their_name(start_server, tmp_path):
    (tmp_path / "ids.jinja").write_text(
        "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% for c in m.tool_calls %} {{ c.id }} {{ c.function.name }}{% endfor %}"
        "{% if m.tool_call_id %} for {{ m.tool_call_id }}{% endif %}\n{% endfor %}<assistant>")
    server = start_server("--chat-template-file", str(tmp_path / "ids.jinja"))
    names, results = ["a", "b", "a", "c"], [("b", "call_1"), ("a", "call_0"), ("unknown", "call_2"), ("", "call_3"), ("a", "call_4")]
    calls = [{"id": f"call_{i}", "type": "function", "function": {"name": name, "arguments": {}}} for i, name in enumerate(names)]

    def messages(calls, results):
        return [*QUESTION, {"role": "assistant", "content": "", "tool_calls": calls}, *results]

    mine = messages([{"function": call["function"]} for call in calls],
                    [{"role": "tool", "tool_name": name, "content": "x"} for name, _ in results])
    same = messages(calls, [{"role": "tool", "name": name, "tool_call_id": call, "content": "x"} for name, call in results])
    _, body = post(server.address, "/api/chat", {"messages": mine, "options": GREEDY, "stream": False})
    _, other = post(server.address, "/api/chat", {"messages": same, "options": GREEDY, "stream": False})
    assert json.loads(body)["message"] == json.loads(other)["message"]
    assert json.loads(body)["prompt_eval_count"] == json.loads(other)["prompt_eval_count"]


def test_generate(alone, client, model):
    whole = client.generate(model=model, prompt="Name three colours.", system="Be brief.", options=GREEDY)
    assert whole.response and whole.eval_count > 0
    chat = client.chat(model=model, options=GREEDY, messages=[{"role": "system", "content": "Be brief."}, *QUESTION])
    assert chat.message.content == whole.response
    pieces = list(client.generate(model=model, prompt="Name three colours.", system="Be brief.", options=GREEDY, stream=True))
    assert "".join(piece.response for piece in pieces) == whole.response
    assert pieces[-1].context == whole.context
    raw = client.generate(model=model, prompt="Once upon a", raw=True, options=GREEDY)
    _, body = post(alone.address, "/v1/completions", {"prompt": "Once upon a", "temperature": 0, "max_tokens": 24})
    assert raw.response == json.loads(body)["choices"][0]["text"] and raw.context is None


def test_context_continues_a_conversation(client, model):
    first = client.generate(model=model, prompt="My name is Ada.", options=GREEDY)
    more = client.generate(model=model, prompt="What is my name?", context=first.context, options=GREEDY)
    assert more.prompt_eval_count > first.prompt_eval_count + first.eval_count
    assert list(more.context[:len(first.context)]) == list(first.context)
    with pytest.raises(ollama.ResponseError, match="context"):
        client.generate(model=model, prompt="x", context=[10 ** 7])


def test_a_model_without_infill_tokens_refuses_a_suffix(client, model):
    with pytest.raises(ollama.ResponseError, match="infill"):
        client.generate(model=model, prompt="def f(", suffix=")")


def test_images_need_an_encoder(client, model):
    with pytest.raises(ollama.ResponseError, match="--mmproj"):
        client.chat(model=model, messages=[{"role": "user", "content": "What is this?", "images": ["aGVsbG8="]}])


THINKING = """{% for m in messages %}<|im_start|>{{ m.role }}
{{ m.content }}<|im_end|>
{% endfor %}<|im_start|>assistant
{% if enable_thinking is defined and not enable_thinking %}<think>

</think>

{% else %}<think>
{% endif %}"""


def test_thoughts_are_apart(start_server, tmp_path):
    (tmp_path / "template.jinja").write_text(THINKING)
    client = ollama.Client(start_server("--chat-template-file", str(tmp_path / "template.jinja")).url)
    ask = {"model": "any", "messages": QUESTION, "options": GREEDY}
    thoughts = client.chat(**ask, think=True).message
    assert thoughts.thinking and not thoughts.content
    assert "".join(piece.message.thinking or "" for piece in client.chat(**ask, stream=True)) == thoughts.thinking
    content = client.chat(**ask, think=False).message
    assert content.content and content.thinking is None
    assert client.generate(model="any", prompt="Name three colours.", options=GREEDY, think=True).thinking == thoughts.thinking
    assert "thinking" in client.show("any").capabilities


def test_logprobs(client, model):
    answer = client.generate(model=model, prompt="Hi", logprobs=True, top_logprobs=2, options={"num_predict": 4, "temperature": 0})
    assert 0 < len(answer.logprobs) <= 4 and all(len(entry.top_logprobs) == 2 for entry in answer.logprobs)


def test_ignored_options_are_named(alone):
    options = {"num_thread": 4, "use_mmap": True, "num_ctx": 1 << 30, "num_predict": 1}
    answer, _ = lines(alone.address, "/api/chat", {"messages": QUESTION, "options": options, "template": "x", "keep_alive": "5m"})
    assert answer.headers["X-Weft-Ignored"] == "options.num_ctx, options.num_thread, template"


def test_errors_are_strings(alone, client, model):
    answer, body = post(alone.address, "/api/chat", {"messages": "x"})
    assert answer.status == 400 and isinstance(json.loads(body)["error"], str)
    answer, body = post(alone.address, "/api/nothing", {})
    assert answer.status == 404 and isinstance(json.loads(body)["error"], str)
    with pytest.raises(ollama.ResponseError, match="maximum context length"):
        client.generate(model=model, prompt="word " * 200_000)
    with pytest.raises(ollama.ResponseError, match="keep_alive"):
        client.generate(model=model, prompt="x", keep_alive="soon")


def test_changes_of_models_name_the_way_out(client, model):
    assert [line.status for line in client.pull(model, stream=True)][-1] == "success"
    assert client.pull(f"{model}:latest").status == "success"
    for act, word in ((lambda: client.pull("nosuchmodel:7b"), "weft pull"), (lambda: client.copy(model, "b"), "--alias"),
                      (lambda: client.delete(model), "keep_alive"), (lambda: client.create("b", from_=model), "weft convert")):
        with pytest.raises(ollama.ResponseError, match=word):
            act()


def test_names_with_tags_mean_the_served_model(alone, model):
    mixed = model.lower().replace("-", ":", 1)
    for name in (model, f"{model}:latest", f"hf.co/someone/{model}-GGUF:latest", mixed):
        answer, body = post(alone.address, "/api/chat", {"model": name, "messages": []})
        assert answer.status == 200 and json.loads(body)["model"] == model, name


def test_requests_without_a_prompt_load_and_unload(alone, client, model):
    for ask in (lambda **how: client.chat(model=model, **how), lambda **how: client.generate(model=model, **how)):
        loaded = ask()
        assert loaded.done and loaded.done_reason == "load"
        assert model in [one.name.removesuffix(":latest") for one in client.ps().models]
        assert ask(keep_alive=0).done_reason == "unload"
        wait_until("the model is unloaded", lambda: not client.ps().models)
        # Models are listed, and /api/show reads the file.
        assert client.list().models and client.show(model).modelinfo


@pytest.mark.parametrize("keep_alive", [0, "0", "0s"])
def test_a_model_that_is_not_kept_is_unloaded_after_its_response(client, model, keep_alive):
    assert client.generate(model=model, prompt="Hi", options={"num_predict": 2}, keep_alive=keep_alive).response
    wait_until("the model is unloaded", lambda: not client.ps().models)
    assert client.generate(model=model, prompt="Hi", options={"num_predict": 2}, keep_alive="1h30m").response
    left = client.ps().models[0].expires_at
    assert client.generate(model=model, prompt="Hi", options={"num_predict": 2}, keep_alive="-1").response
    assert client.ps().models[0].expires_at > left


def test_embeddings_of_an_encoder(start_server):
    server = start_server("-m", ENCODERS / "bert" / "model.gguf")
    client = ollama.Client(server.url)
    assert client.show(client.list().models[0].model).capabilities == ["embedding"]
    both = client.embed(model="bert", input=["a cat", "a kitten"])
    one = client.embed(model="bert", input="a cat")
    assert both.embeddings[0] == one.embeddings[0] and len(both.embeddings) == 2
    assert abs(sum(x * x for x in one.embeddings[0]) - 1) < 1e-4 and one.prompt_eval_count > 0
    assert client.embed(model="bert", input=[]).embeddings == []
    assert len(client.embed(model="bert", input="a cat", dimensions=16).embeddings[0]) == 16
    raw = client.embeddings(model="bert", prompt="a cat").embedding
    assert abs(sum(x * x for x in raw) - 1) > 1e-2
    assert client.embed(model="bert", input="cat " * 1000).prompt_eval_count > one.prompt_eval_count
    with pytest.raises(ollama.ResponseError, match="limit of the model"):
        client.embed(model="bert", input="cat " * 1000, truncate=False)
