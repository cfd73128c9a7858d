"""OpenAI's own client against the server."""
import json
import threading
import time

import openai
import pytest

QUESTION = [{"role": "user", "content": "Name three colours."}]
WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "The weather of a city",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string", "maxLength": 20}, "unit": {"type": "string", "enum": ["celsius", "fahrenheit"]}},
            "required": ["city", "unit"],
            "additionalProperties": False,
        },
    },
}
PERSON = {
    "type": "object",
    "properties": {"name": {"type": "string", "maxLength": 20}, "age": {"type": "integer", "minimum": 0, "maximum": 130}},
    "required": ["name", "age"],
    "additionalProperties": False,
}


@pytest.fixture(scope="module")
def client(server):
    return openai.OpenAI(base_url=server.url + "/v1", api_key="none", max_retries=0)


def ask(client, **options):
    options = {"model": "any", "messages": QUESTION, "max_tokens": 24, "temperature": 0, **options}
    return client.chat.completions.create(**options)


def test_models(client):
    models = client.models.list().data
    assert models and models[0].object == "model"
    assert client.models.retrieve(models[0].id).id == models[0].id


def test_chat(client):
    answer = ask(client)
    choice = answer.choices[0]
    assert choice.message.role == "assistant" and choice.message.content
    assert choice.finish_reason in ("stop", "length")
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens
    assert answer.usage.completion_tokens <= 24


def test_stream_is_the_same_text(client):
    whole = ask(client).choices[0].message.content
    pieces, usage, reasons = [], None, []
    for chunk in ask(client, stream=True, stream_options={"include_usage": True}):
        if chunk.choices:
            pieces.append(chunk.choices[0].delta.content or "")
            reasons.append(chunk.choices[0].finish_reason)
        usage = chunk.usage or usage
    assert "".join(pieces) == whole
    assert usage.completion_tokens > 0
    assert reasons[-1] in ("stop", "length") and all(reason is None for reason in reasons[:-1])


def test_several_choices(client):
    answer = ask(client, n=3, temperature=1.0, seed=7)
    assert [choice.index for choice in answer.choices] == [0, 1, 2]
    again = ask(client, n=3, temperature=1.0, seed=7)
    assert [c.message.content for c in answer.choices] == [c.message.content for c in again.choices]


def test_stop_and_length(client):
    text = ask(client).choices[0].message.content
    word = text.split()[2]
    cut = ask(client, stop=[word])
    assert cut.choices[0].finish_reason == "stop"
    assert word not in cut.choices[0].message.content
    assert text.startswith(cut.choices[0].message.content)
    assert ask(client, max_tokens=2).choices[0].finish_reason == "length"
    assert ask(client, max_completion_tokens=2, max_tokens=openai.NOT_GIVEN).usage.completion_tokens == 2


def test_logprobs(client):
    answer = ask(client, logprobs=True, top_logprobs=3, max_tokens=6)
    entries = answer.choices[0].logprobs.content
    assert 0 < len(entries) <= 6
    for entry in entries:
        assert entry.logprob <= 0.0 and len(entry.top_logprobs) == 3
        assert entry.top_logprobs[0].logprob == max(top.logprob for top in entry.top_logprobs)
        assert entry.token == entry.top_logprobs[0].token  # greedy
    assert b"".join(bytes(e.bytes) for e in entries).decode() == answer.choices[0].message.content


def test_logit_bias(client):
    first = ask(client, logprobs=True, max_tokens=1, extra_body={"return_token_ids": True})
    token = first.choices[0].token_ids[0]
    other = ask(client, max_tokens=1, logit_bias={str(token): -100}, extra_body={"return_token_ids": True})
    assert other.choices[0].token_ids[0] != token


def test_json_schema(client):
    for seed in range(3):
        answer = ask(client, max_tokens=80, temperature=1.0, seed=seed, response_format={
            "type": "json_schema", "json_schema": {"name": "person", "strict": True, "schema": PERSON}})
        person = json.loads(answer.choices[0].message.content)
        assert set(person) == {"name", "age"} and 0 <= person["age"] <= 130


def test_json_object(client):
    answer = ask(client, max_tokens=200, temperature=1.0, seed=3, response_format={"type": "json_object"})
    if answer.choices[0].finish_reason == "stop":
        assert isinstance(json.loads(answer.choices[0].message.content), dict)


def test_grammar(client):
    answer = ask(client, extra_body={"grammar": 'root ::= "yes" | "no"'})
    assert answer.choices[0].message.content in ("yes", "no")


@pytest.mark.parametrize("choice", ["required", {"type": "function", "function": {"name": "get_weather"}}])
def test_tool_call(client, choice):
    answer = ask(client, tools=[WEATHER], tool_choice=choice, max_tokens=120, parallel_tool_calls=False,
                 messages=[{"role": "user", "content": "What is the weather in Paris?"}])
    message = answer.choices[0].message
    assert answer.choices[0].finish_reason == "tool_calls"
    call = message.tool_calls[0]
    assert call.id and call.function.name == "get_weather"
    arguments = json.loads(call.function.arguments)
    assert arguments["unit"] in ("celsius", "fahrenheit") and isinstance(arguments["city"], str)
    # The conversation continues with the tool's result.
    more = ask(client, tools=[WEATHER], messages=[
        {"role": "user", "content": "What is the weather in Paris?"},
        message.model_dump(exclude_none=True),
        {"role": "tool", "tool_call_id": call.id, "content": "Sunny, 21 degrees."}])
    assert more.choices[0].message is not None


@pytest.mark.parametrize("n", [1, 2, 4, 7, 10, 13, 16])
def test_a_call_that_is_cut_leaves_no_half_tag(client, n):
    answer = ask(client, tools=[WEATHER], tool_choice="required", max_tokens=n).choices[0]
    assert answer.finish_reason == "length" and not answer.message.content
    text = "".join(chunk.choices[0].delta.content or "" for chunk in
                   ask(client, tools=[WEATHER], tool_choice="required", max_tokens=n, stream=True))
    assert text == ""


def test_a_call_that_a_stop_string_cuts_is_no_call(client):
    answer = ask(client, tools=[WEATHER], tool_choice="required", max_tokens=60, stop=["unit"]).choices[0]
    assert answer.finish_reason == "stop"


def test_latencies_stay_sane_with_forced_tokens(client, server):
    ask(client, extra_body={"grammar": 'root ::= "hello my dear friend, how are you today"'})
    lines = server.get("/metrics").splitlines()
    total = sum(float(line.split()[-1]) for line in lines if line.startswith("weft:inter_token_latency_seconds_sum"))
    assert total < 3600


def test_streamed_tool_call(client):
    name, arguments, ids = "", "", set()
    for chunk in ask(client, tools=[WEATHER], tool_choice="required", max_tokens=120, stream=True, parallel_tool_calls=False):
        for call in chunk.choices[0].delta.tool_calls or []:
            name += call.function.name or ""
            arguments += call.function.arguments or ""
            ids.add(call.id)
    assert name == "get_weather" and len(ids - {None}) == 1
    assert set(json.loads(arguments)) == {"city", "unit"}


def test_completions(client):
    answer = client.completions.create(model="any", prompt=["Once upon", "The sky is"], max_tokens=5, temperature=0)
    assert [choice.index for choice in answer.choices] == [0, 1]
    alone = client.completions.create(model="any", prompt="The sky is", max_tokens=5, temperature=0)
    assert alone.choices[0].text == answer.choices[1].text
    echo = client.completions.create(model="any", prompt="The sky is", max_tokens=3, temperature=0, echo=True, logprobs=2)
    assert echo.choices[0].text.startswith("The sky is")
    logprobs = echo.choices[0].logprobs
    assert logprobs.token_logprobs[0] is None and all(p <= 0 for p in logprobs.token_logprobs[1:])
    assert "".join(logprobs.tokens) == echo.choices[0].text
    pieces = [chunk.choices[0].text for chunk in client.completions.create(
        model="any", prompt="The sky is", max_tokens=5, temperature=0, stream=True)]
    assert "".join(pieces) == alone.choices[0].text


def test_responses(client):
    answer = client.responses.create(model="any", input="Name three colours.", instructions="Be brief.",
                                     max_output_tokens=16, temperature=0)
    assert answer.output_text and answer.status in ("completed", "incomplete")
    events = list(client.responses.create(model="any", input="Name three colours.", instructions="Be brief.",
                                          max_output_tokens=16, temperature=0, stream=True))
    assert [event.sequence_number for event in events] == list(range(len(events)))
    text = "".join(event.delta for event in events if event.type == "response.output_text.delta")
    assert text == answer.output_text == events[-1].response.output_text
    assert events[0].type == "response.created" and events[-1].type == "response." + answer.status
    # The client's own helper, which requires a complete response.
    with client.responses.stream(model="any", input="Say yes.", max_output_tokens=64,
                                 extra_body={"grammar": 'root ::= "yes"'}) as stream:
        assert stream.get_final_response().output_text == "yes"


def test_responses_tools_and_schema(client):
    tool = {"type": "function", **WEATHER["function"], "strict": True}
    answer = client.responses.create(model="any", input="Weather in Oslo?", tools=[tool], tool_choice="required",
                                     parallel_tool_calls=False, max_output_tokens=120)
    call = [item for item in answer.output if item.type == "function_call"][0]
    assert set(json.loads(call.arguments)) == {"city", "unit"}
    more = client.responses.create(model="any", tools=[tool], tool_choice="none", max_output_tokens=8, input=[
        {"role": "user", "content": "Weather in Oslo?"}, call.model_dump(exclude_none=True),
        {"type": "function_call_output", "call_id": call.call_id, "output": "Rain."}])
    assert more.output
    shaped = client.responses.create(model="any", input="Invent a person.", max_output_tokens=80, text={
        "format": {"type": "json_schema", "name": "person", "schema": PERSON, "strict": True}})
    assert set(json.loads(shaped.output_text)) == {"name", "age"}


def test_embeddings(client):
    answer = client.embeddings.create(model="any", input=["a cat", "a kitten", "the stock market fell"])
    vectors = [entry.embedding for entry in answer.data]
    def dot(a, b):
        return sum(x * y for x, y in zip(a, b))
    assert all(abs(dot(v, v) - 1.0) < 1e-3 for v in vectors)
    assert dot(vectors[0], vectors[1]) > dot(vectors[0], vectors[2])
    plain = client.embeddings.create(model="any", input="a cat", encoding_format="float")
    assert max(abs(x - y) for x, y in zip(plain.data[0].embedding, vectors[0])) < 1e-6


@pytest.mark.parametrize("options, param", [
    ({"messages": []}, "messages"),
    ({"temperature": -1}, "temperature"),
    ({"n": 0}, "n"),
    ({"n": 10 ** 6}, "n"),
    ({"top_logprobs": 3}, "top_logprobs"),
    ({"logit_bias": {"99999999": 1}}, "logit_bias"),
    ({"extra_body": {"logit_bias": [["", 1]]}}, None),
    ({"extra_body": {"temprature": 1}}, "temprature"),
    ({"tool_choice": "required"}, "tool_choice"),
    ({"response_format": {"type": "json_schema", "json_schema": {"name": "x", "strict": True, "schema": {"type": "what"}}}},
     "response_format.json_schema.schema"),
    ({"extra_body": {"grammar": "root ::= ("}}, None),
    ({"messages": [{"role": "user", "content": "word " * 100000}]}, "messages"),
])
def test_bad_requests(client, options, param):
    with pytest.raises(openai.BadRequestError) as caught:
        ask(client, **options)
    assert caught.value.message
    if param is not None:
        assert caught.value.param == param


def test_cancelled_stream_frees_the_cache(client, server):
    stream = ask(client, stream=True, max_tokens=1500, extra_body={"ignore_eos": True})
    next(iter(stream))
    stream.close()
    deadline = time.time() + 10
    while time.time() < deadline:
        if "weft:num_requests_running" in server.get("/metrics") and all(
                line.endswith(" 0") for line in server.get("/metrics").splitlines()
                if line.startswith(("weft:num_requests_running", "weft:num_requests_waiting"))):
            return
        time.sleep(0.05)
    raise AssertionError("the request is still there")


def test_many_at_once_give_the_same_as_one(client):
    alone = [ask(client, messages=[{"role": "user", "content": f"Count from {i}."}]).choices[0].message.content
             for i in range(8)]
    together = [None] * 8

    def one(i):
        together[i] = ask(client, messages=[{"role": "user", "content": f"Count from {i}."}]).choices[0].message.content

    threads = [threading.Thread(target=one, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert together == alone


def test_key(start_server):
    mine = start_server("--api-key", "right")
    with pytest.raises(openai.AuthenticationError):
        openai.OpenAI(base_url=mine.url + "/v1", api_key="wrong", max_retries=0).models.list()
    assert openai.OpenAI(base_url=mine.url + "/v1", api_key="right", max_retries=0).models.list().data
