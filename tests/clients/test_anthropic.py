"""Anthropic's own client against the server."""
import anthropic
import pytest

TOOL = {
    "name": "get_weather",
    "description": "The weather of a city",
    "input_schema": {"type": "object", "properties": {"city": {"type": "string", "maxLength": 20}}, "required": ["city"],
                     "additionalProperties": False},
}
QUESTION = [{"role": "user", "content": "Name three colours."}]


@pytest.fixture(scope="module")
def client(server):
    return anthropic.Anthropic(base_url=server.url, api_key="none", max_retries=0)


def ask(client, **options):
    # Sampling as the server's defaults have it, unless a test says otherwise; fields that the client does not type go by the body.
    return client.messages.create(**{"model": "any", "max_tokens": 24, "messages": QUESTION,
                                     "extra_body": {"temperature": 0}, **options})


def test_message(client):
    answer = ask(client, system="Be brief.")
    assert answer.content[0].type == "text" and answer.content[0].text
    assert answer.stop_reason in ("end_turn", "max_tokens")
    assert answer.usage.input_tokens + answer.usage.cache_read_input_tokens > 0


def test_stream_is_the_same_text(client):
    whole = ask(client).content[0].text
    with client.messages.stream(model="any", max_tokens=24, messages=QUESTION, extra_body={"temperature": 0}) as stream:
        assert "".join(stream.text_stream) == whole
        final = stream.get_final_message()
    assert final.content[0].text == whole and final.usage.output_tokens > 0


def test_models(client):
    page = client.models.list(limit=20)
    assert not page.has_more and page.first_id == page.data[0].id and page.last_id == page.data[-1].id
    for model in page.data:
        assert model.type == "model" and model.display_name == model.id and model.created_at.year >= 1970
        assert client.models.retrieve(model.id).display_name == model.display_name
    assert [model.id for model in client.models.list()] == [model.id for model in page.data]


def test_stop_sequence(client):
    word = ask(client).content[0].text.split()[2]
    answer = ask(client, stop_sequences=[word])
    assert answer.stop_reason == "stop_sequence" and answer.stop_sequence == word


def test_tool_use(client):
    answer = ask(client, tools=[TOOL], tool_choice={"type": "any", "disable_parallel_tool_use": True}, max_tokens=100)
    call = [block for block in answer.content if block.type == "tool_use"][0]
    assert answer.stop_reason == "tool_use" and call.name == "get_weather" and set(call.input) == {"city"}
    more = ask(client, tools=[TOOL], messages=[
        *QUESTION, {"role": "assistant", "content": [call.model_dump(include={"type", "id", "name", "input"})]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": call.id, "content": "Rain."}]}])
    assert more.content


def test_streamed_tool_use(client):
    with client.messages.stream(model="any", max_tokens=100, messages=QUESTION, tools=[TOOL],
                                tool_choice={"type": "tool", "name": "get_weather", "disable_parallel_tool_use": True}) as stream:
        final = stream.get_final_message()
    assert [block.name for block in final.content if block.type == "tool_use"] == ["get_weather"]


def test_empty_text_blocks_add_nothing(client):
    def count(*texts):
        content = [{"type": "text", "text": text} for text in texts]
        return client.messages.count_tokens(model="any", messages=[{"role": "user", "content": content}]).input_tokens
    assert count("", "Hello", "", "you", "") == count("Hello", "you")


def test_count_tokens(client):
    count = client.messages.count_tokens(model="any", messages=QUESTION).input_tokens
    usage = ask(client).usage
    assert count == usage.input_tokens + usage.cache_read_input_tokens


def test_errors(client):
    with pytest.raises(anthropic.BadRequestError) as caught:
        ask(client, messages=[{"role": "user", "content": [{"type": "image", "source": {
            "type": "base64", "media_type": "image/png", "data": ""}}]}])
    assert "--mmproj" in str(caught.value)
    with pytest.raises(anthropic.BadRequestError):
        ask(client, max_tokens=-2)
