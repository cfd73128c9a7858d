"""Encoders as clients see them: vectors, orders of documents, and what a model that writes nothing refuses."""
import base64
import concurrent.futures
import json
import socket
import struct
from pathlib import Path

import openai
import pytest

from test_wire import get, post

ENCODERS = Path(__file__).resolve().parents[1] / "data" / "golden_encoders"


@pytest.fixture(scope="module")
def encoder(start_server):
    return start_server("-m", ENCODERS / "bert" / "model.gguf")


@pytest.fixture(scope="module")
def reranker(start_server):
    return start_server("-m", ENCODERS / "bert-rank" / "model.gguf")


def embed(server, **fields):
    answer, body = post(server.address, "/v1/embeddings", fields)
    return answer.status, openai.types.CreateEmbeddingResponse.model_validate_json(body) if answer.status == 200 else body


def test_vectors_do_not_depend_on_their_neighbours(encoder):
    texts = ["a cat", "a kitten sits on the mat and looks at the other one", "x"] * 30
    status, together = embed(encoder, input=texts)
    assert status == 200 and len(together.data) == 90
    vectors = [entry.embedding for entry in together.data]
    assert all(abs(sum(x * x for x in vector) - 1) < 1e-5 for vector in vectors)
    for i in range(3):
        status, alone = embed(encoder, input=texts[i])
        assert alone.data[0].embedding == vectors[i] == vectors[87 + i]
    assert together.usage.prompt_tokens > 90


def test_forms(encoder):
    _, whole = embed(encoder, input="a cat")
    _, body = post(encoder.address, "/v1/embeddings", {"input": "a cat", "encoding_format": "base64"})
    numbers = struct.unpack("<64f", base64.b64decode(json.loads(body)["data"][0]["embedding"]))
    assert list(numbers) == pytest.approx(whole.data[0].embedding, abs=1e-7)
    _, cut = embed(encoder, input="a cat", dimensions=16)
    first = whole.data[0].embedding[:16]
    length = sum(x * x for x in first) ** 0.5
    assert cut.data[0].embedding == pytest.approx([x / length for x in first], abs=1e-6)
    _, mean = embed(encoder, input="a cat", pooling="mean")
    _, cls = embed(encoder, input="a cat", pooling="cls")
    assert mean.data[0].embedding == whole.data[0].embedding != cls.data[0].embedding
    _, ids = embed(encoder, input=[[5, 6, 7], [8]])
    assert len(ids.data) == 2


def test_errors_name_the_field(encoder):
    for fields, word in (({"input": "word " * 500}, b"context_length_exceeded"), ({"input": [[]]}, b"input"), ({"input": []}, b"input"),
                         ({"input": "x", "dimensions": 65}, b"dimensions"), ({"input": "x", "pooling": "max"}, b"pooling"),
                         ({"input": "x", "poling": "cls"}, b"poling")):
        status, body = embed(encoder, **fields)
        assert status == 400 and word in body, (fields, body)
    for path, fields in (("/v1/completions", {"prompt": "x"}), ("/v1/chat/completions", {"messages": [{"role": "user", "content": "x"}]}),
                         ("/v1/rerank", {"query": "x", "documents": ["y"]})):
        answer, body = post(encoder.address, path, fields)
        assert answer.status == 400 and (b"encoder" in body or b"reranker" in body), body
    status, body = embed(encoder, input=["x", "y", "word " * 500])
    assert status == 400 and b"input 2 (counting from 0)" in body
    status, body = embed(encoder, input=[[5], []])
    assert status == 400 and b"input 1 (counting from 0) is empty" in body


def test_rerank(reranker):
    documents = ["Bamboo, mostly.", {"text": "It rains today."}, "Pandas eat what they find in the woods."]
    fields = {"model": "any", "query": "What do pandas eat?", "documents": documents}
    answer, body = post(reranker.address, "/v1/rerank", fields)
    assert answer.status == 200
    results = json.loads(body)["results"]
    scores = [one["relevance_score"] for one in results]
    assert sorted(one["index"] for one in results) == [0, 1, 2] and scores == sorted(scores, reverse=True)
    assert all("document" not in one for one in results)
    for path in ("/rerank", "/v1/reranking"):
        best = json.loads(post(reranker.address, path, fields | {"top_n": 1, "return_documents": True})[1])["results"]
        assert len(best) == 1 and best[0]["index"] == results[0]["index"] and best[0]["document"]["text"]
    for bad, word in (({"documents": []}, "'documents' is empty"), ({"documents": None}, "'documents' is missing"),
                      ({"documents": [1]}, "must be a string"), ({"query": ""}, "'query' is empty"), ({"query": None}, "'query' is missing"),
                      ({"top_n": 0}, "top_n")):
        answer, body = post(reranker.address, "/v1/rerank", fields | bad)
        assert answer.status == 400 and word in json.loads(body)["error"]["message"], body


def test_requests_share_steps_and_get_their_own(encoder):
    texts = [f"text number {i} " + "and more " * (i % 7) for i in range(120)]
    _, expected = embed(encoder, input=texts)

    def ask(i):
        n = 1 if i % 3 else 120  # Short requests beside long ones.
        some = [(i + j) % 120 for j in range(n)]
        _, answer = embed(encoder, input=[texts[j] for j in some])
        return [entry.embedding for entry in answer.data] == [expected.data[j].embedding for j in some]

    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        assert all(pool.map(ask, range(48)))
    # A client that leaves does not harm others.
    with socket.create_connection(encoder.address) as leaver:
        body = json.dumps({"input": texts * 10}).encode()
        leaver.sendall(b"POST /v1/embeddings HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                       + f"Content-Length: {len(body)}\r\n\r\n".encode() + body)
    assert ask(1)


def test_a_server_of_an_encoder_tells_of_itself_and_ends(start_server):
    server = start_server("-m", ENCODERS / "modern-bert" / "model.gguf")
    for path in ("/health", "/v1/models", "/props", "/slots", "/metrics"):
        assert get(server.address, path)[0].status == 200
    assert embed(server, input="x")[0] == 200
    assert server.stop() == 0


def test_norms_are_not_reported_as_ignored(encoder):
    for norm in (-1, 0, 1, 3):
        answer, body = post(encoder.address, "/v1/embeddings", {"input": "a cat", "embd_normalize": norm})
        assert answer.status == 200 and answer.headers["X-Weft-Ignored"] is None, body


def test_normalize_is_a_boolean_as_in_vllm(encoder):
    def norm(**fields):
        return sum(x * x for x in embed(encoder, input="a cat", **fields)[1].data[0].embedding)

    raw = norm(embd_normalize=-1)
    assert abs(raw - 1) > 1e-2 and norm(normalize=False) == raw == norm(normalize=True, embd_normalize=-1)
    assert norm(normalize=True) == norm(normalize=None) == norm() == pytest.approx(1, abs=1e-5)
    status, body = embed(encoder, input="a cat", normalize=2)
    assert status == 400 and "'normalize'" in json.loads(body)["error"]["message"]


def test_errors_name_the_way_out(encoder):
    status, body = embed(encoder, input="cat " * 1000)
    assert status == 400 and "set truncate_prompt_tokens" in json.loads(body)["error"]["message"]
    answer, body = post(encoder.address, "/v1/rerank", {"query": "x", "documents": ["y"]})
    assert answer.status == 400 and "use /v1/embeddings" in json.loads(body)["error"]["message"]


def test_cut_texts_keep_their_special_tokens(encoder):
    _, whole = embed(encoder, input="x", pooling="cls")
    n = whole.usage.prompt_tokens
    _, cut = embed(encoder, input="a kitten sits on the mat and x", pooling="cls", truncate_prompt_tokens=n)
    assert cut.usage.prompt_tokens == n
    assert cut.data[0].embedding == pytest.approx(whole.data[0].embedding, abs=1e-5)
