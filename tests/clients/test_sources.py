"""Models that write about a source (T5) as clients see them: the prompt, or the last question, is the source."""
import concurrent.futures
import json
from pathlib import Path

import pytest

from test_wire import get, post

MODEL = Path(__file__).resolve().parents[1] / "data" / "golden_sources" / "flan-t5" / "model.gguf"


@pytest.fixture(scope="module")
def writer(start_server):
    return start_server("-m", MODEL, "-c", "256", "--parallel", "4", "--source-size", "64")


def complete(server, prompt, **fields):
    fields = {"prompt": prompt, "max_tokens": 8, "temperature": 0, "ignore_eos": True} | fields
    answer, body = post(server.address, "/v1/completions", fields)
    assert answer.status == 200, body
    return json.loads(body)


def chat(server, *messages):
    answer, body = post(server.address, "/v1/chat/completions",
                        {"messages": list(messages), "max_tokens": 8, "temperature": 0, "ignore_eos": True})
    return answer.status, json.loads(body)


def test_each_prompt_is_a_source(writer):
    texts = ["hello", "hello world", "another one", "a"]
    alone = [complete(writer, text)["choices"][0]["text"] for text in texts]
    assert len(set(alone)) > 1
    together = complete(writer, texts, n=2)
    assert [choice["text"] for choice in together["choices"]] == [text for text in alone for _ in range(2)]
    with concurrent.futures.ThreadPoolExecutor(12) as pool:
        answers = list(pool.map(lambda i: complete(writer, texts[i % 4]), range(48)))
    assert [answer["choices"][0]["text"] for answer in answers] == alone * 12
    assert answers[-1]["usage"]["prompt_tokens"] >= 1


def test_a_chat_is_about_the_last_question(writer):
    question = {"role": "user", "content": "hello"}
    status, first = chat(writer, question)
    assert status == 200
    _, body = post(writer.address, "/tokenize", {"content": "hello"})
    _, rendered = post(writer.address, "/apply-template", {"messages": [question]})
    tokens = json.loads(rendered)["tokens"]
    assert tokens[:-1] == json.loads(body)["tokens"]  # The last one ends the source.
    text = first["choices"][0]["message"]["content"]
    assert complete(writer, tokens)["choices"][0]["text"] == text
    status, later = chat(writer, {"role": "user", "content": "other"}, {"role": "assistant", "content": "yes"}, question)
    assert later["choices"][0]["message"]["content"] == text
    _, told = chat(writer, {"role": "system", "content": "hello"}, {"role": "user", "content": "world"})
    _, whole = chat(writer, {"role": "user", "content": "hello world"})
    assert told["choices"][0]["message"] == whole["choices"][0]["message"]
    status, body = chat(writer, {"role": "system", "content": "hello"})
    assert status == 400 and "user" in body["error"]["message"]


def test_unsupported_requests_are_refused(writer):
    for path, fields, word in (
        ("/v1/completions", {"prompt": "hello " * 100}, "--source-size"),
        ("/v1/completions", {"prompt": "hello", "echo": True, "logprobs": 1}, "encodes the prompt"),
        ("/v1/embeddings", {"input": "hello"}, "embedding"),
    ):
        answer, body = post(writer.address, path, fields)
        assert answer.status in (400, 501), body
        assert word in json.loads(body)["error"]["message"]


def test_responses_keep_to_their_form(writer):
    answer = complete(writer, "hello", max_tokens=40, grammar='root ::= "yes" | "no"', ignore_eos=False)
    assert answer["choices"][0]["text"] in ("yes", "no")
    assert get(writer.address, "/health")[0].status == 200
