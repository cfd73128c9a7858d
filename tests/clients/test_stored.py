"""Stored responses, with OpenAI's own client."""
import json

import openai
import pytest

from test_openai import WEATHER
from test_wire import post

GREEDY = {"model": "any", "temperature": 0, "max_output_tokens": 12}


@pytest.fixture(scope="module")
def client(server):
    return openai.OpenAI(base_url=server.url + "/v1", api_key="none", max_retries=0)


def test_a_response_continues_another_as_with_the_whole_conversation(client):
    first = client.responses.create(input="My name is Ada.", instructions="Be brief.", **GREEDY)
    more = client.responses.create(input="What is my name?", previous_response_id=first.id, **GREEDY)
    assert more.previous_response_id == first.id and more.store is True
    whole = client.responses.create(store=False, input=[
        {"role": "user", "content": "My name is Ada."}, *[item.model_dump(exclude_none=True) for item in first.output],
        {"role": "user", "content": "What is my name?"}], **GREEDY)
    assert whole.output_text == more.output_text and whole.usage.input_tokens == more.usage.input_tokens
    third = client.responses.create(input="And yours?", previous_response_id=more.id, **GREEDY)
    assert third.usage.input_tokens > more.usage.input_tokens


def test_streams_are_stored_too(client):
    events = list(client.responses.create(input="Hello", stream=True, **GREEDY))
    stored = client.responses.retrieve(events[-1].response.id)
    assert stored.output_text == events[-1].response.output_text and stored.usage == events[-1].response.usage


def test_stored_responses_are_fetched_listed_and_deleted(client):
    first = client.responses.create(input="One", **GREEDY)
    second = client.responses.create(input=[{"role": "user", "content": "Two"}], previous_response_id=first.id, **GREEDY)
    assert client.responses.retrieve(second.id) == second
    items = client.responses.input_items.list(second.id, order="asc")
    texts = [item.content[0].text for item in items if item.type == "message"]
    assert texts == ["One", first.output_text, "Two"] and all(item.id for item in items)
    newest = client.responses.input_items.list(second.id, limit=1)
    assert newest.data[0].content[0].text == "Two" and newest.has_more
    assert [item.content[0].text for item in newest] == texts[::-1]  # All pages.
    client.responses.delete(second.id)
    with pytest.raises(openai.NotFoundError):
        client.responses.retrieve(second.id)
    assert client.responses.retrieve(first.id).id == first.id


def test_calls_and_results_of_tools_stay_in_the_conversation(client):
    tool = {"type": "function", **WEATHER["function"], "strict": True}
    first = client.responses.create(input="Weather in Oslo?", tools=[tool], tool_choice="required", parallel_tool_calls=False,
                                    **{**GREEDY, "max_output_tokens": 120})
    call = [item for item in first.output if item.type == "function_call"][0]
    result = {"type": "function_call_output", "call_id": call.call_id, "output": "Rain."}
    more = client.responses.create(input=[result], previous_response_id=first.id, tools=[tool], tool_choice="none", **GREEDY)
    whole = client.responses.create(tools=[tool], tool_choice="none", store=False, **GREEDY, input=[
        {"role": "user", "content": "Weather in Oslo?"}, *[item.model_dump(exclude_none=True) for item in first.output], result])
    assert more.usage.input_tokens == whole.usage.input_tokens and more.output_text == whole.output_text


def test_references_to_stored_items_mean_the_items(client):
    first = client.responses.create(input="My name is Ada.", **GREEDY)
    question = {"role": "user", "content": "What is my name?"}
    beginning = [{"role": "user", "content": "My name is Ada."}]
    answers = [client.responses.create(input=[*beginning, *items, question], **GREEDY) for items in (
        [item.model_dump(exclude_none=True) for item in first.output],
        [{"type": "item_reference", "id": item.id} for item in first.output])]
    assert answers[0].output_text == answers[1].output_text
    assert answers[0].usage.input_tokens == answers[1].usage.input_tokens


def test_what_is_not_stored_cannot_be_continued(client):
    unstored = client.responses.create(input="Hello", store=False, **GREEDY)
    assert unstored.store is False
    for old in (unstored.id, "resp_nothing"):
        with pytest.raises(openai.NotFoundError) as error:
            client.responses.create(input="More", previous_response_id=old, **GREEDY)
        assert error.value.code == "previous_response_not_found" and "whole conversation" in error.value.message


def test_input_tokens_count_the_stored_conversation(server, client):
    first = client.responses.create(input="My name is Ada.", **GREEDY)
    fields = {"input": "What is my name?", "previous_response_id": first.id}
    _, body = post(server.address, "/v1/responses/input_tokens", fields)
    more = client.responses.create(**fields, **GREEDY)
    assert json.loads(body)["input_tokens"] == more.usage.input_tokens


def test_the_oldest_responses_are_dropped(start_server):
    mine = openai.OpenAI(base_url=start_server("--stored-responses", "2").url + "/v1", api_key="none", max_retries=0)
    ids = [mine.responses.create(input=f"Number {i}", **GREEDY).id for i in range(3)]
    with pytest.raises(openai.NotFoundError, match="the last 2 responses"):
        mine.responses.retrieve(ids[0])
    assert [mine.responses.retrieve(one).id for one in ids[1:]] == ids[1:]


def test_a_server_that_stores_nothing_says_so(start_server):
    mine = openai.OpenAI(base_url=start_server("--stored-responses", "0").url + "/v1", api_key="none", max_retries=0)
    answer = mine.responses.create(input="Hello", **GREEDY)
    assert answer.store is False
    with pytest.raises(openai.NotFoundError, match="--stored-responses 0"):
        mine.responses.create(input="More", previous_response_id=answer.id, **GREEDY)


def test_keys_do_not_see_each_others_responses(start_server):
    url = start_server("--api-key", "a", "--api-key", "b").url + "/v1"
    a, b = (openai.OpenAI(base_url=url, api_key=key, max_retries=0) for key in "ab")
    mine = a.responses.create(input="Hello", **GREEDY)
    with pytest.raises(openai.NotFoundError):
        b.responses.create(input="More", previous_response_id=mine.id, **GREEDY)
    with pytest.raises(openai.NotFoundError):
        b.responses.delete(mine.id)
    assert a.responses.create(input="More", previous_response_id=mine.id, **GREEDY).output


def test_common_fields_take_effect_or_are_named(server):
    fields = {"model": "any", "seed": 3, "min_p": 0.2, "temperature": 1.0, "timings_per_token": True, "return_token_ids": True}
    for path, more in (("/v1/responses", {"input": "Hello", "max_output_tokens": 8, "min_tokens": 8}),
                       ("/v1/messages", {"messages": [{"role": "user", "content": "Hello"}], "max_tokens": 8, "min_tokens": 8})):
        answers = [post(server.address, path, {**fields, **more, **seed}) for seed in ({}, {}, {"seed": 4})]
        assert all(answer.status == 200 for answer, _ in answers), answers
        assert answers[0][0].headers["X-Weft-Ignored"] == "timings_per_token, return_token_ids"
        texts = [json.dumps(json.loads(body).get("content") or json.loads(body)["output"][0]["content"]) for _, body in answers]
        assert texts[0] == texts[1] != texts[2]
        assert json.loads(answers[0][1])["usage"]["output_tokens"] == 8
