"""vLLM's /score and /classify, for rerankers and encoders."""
import json
import math

import pytest

from test_encoders import ENCODERS, embed, encoder, reranker  # noqa: F401
from test_wire import post

QUERY, DOCUMENTS = "What do pandas eat?", ["Bamboo, mostly.", "It rains today."]


def sigmoid(x):
    return 1 / (1 + math.exp(-x))


def score(server, path="/v1/score", **fields):
    answer, body = post(server.address, path, fields)
    assert answer.status == 200, body
    answer = json.loads(body)
    assert [one["object"] for one in answer["data"]] == ["score"] * len(answer["data"]) and answer["usage"]["total_tokens"] > 0
    return [one["score"] for one in answer["data"]]


def test_a_rerankers_scores_are_probabilities(reranker):  # noqa: F811
    _, body = post(reranker.address, "/v1/rerank", {"query": QUERY, "documents": DOCUMENTS})
    logits = {one["index"]: one["relevance_score"] for one in json.loads(body)["results"]}
    expected = [logits[0], logits[1]]
    assert score(reranker, text_1=QUERY, text_2=DOCUMENTS, use_activation=False) == pytest.approx(expected)
    probabilities = score(reranker, text_1=QUERY, text_2=DOCUMENTS)
    assert probabilities == pytest.approx([sigmoid(x) for x in expected])
    assert score(reranker, "/score", queries=[QUERY] * 2, documents=DOCUMENTS) == probabilities
    assert score(reranker, text_1=QUERY, text_2=DOCUMENTS[0]) == probabilities[:1]
    # The other form of /rerank has the same numbers.
    _, body = post(reranker.address, "/rerank", {"query": QUERY, "texts": DOCUMENTS})
    assert {one["index"]: one["score"] for one in json.loads(body)} == pytest.approx(dict(enumerate(probabilities)))
    _, body = post(reranker.address, "/rerank", {"query": QUERY, "texts": DOCUMENTS, "raw_scores": True})
    assert {one["index"]: one["score"] for one in json.loads(body)} == pytest.approx(logits)


def test_an_encoders_scores_are_cosines(encoder):  # noqa: F811
    vectors = [entry.embedding for entry in embed(encoder, input=[QUERY, *DOCUMENTS])[1].data]
    cosines = [sum(x * y for x, y in zip(vectors[0], vector)) for vector in vectors[1:]]
    assert score(encoder, text_1=QUERY, text_2=DOCUMENTS) == pytest.approx(cosines, abs=1e-5)
    assert score(encoder, text_1=[QUERY, QUERY], text_2=DOCUMENTS) == pytest.approx(cosines, abs=1e-5)


def test_equal_strings_have_a_score_of_at_most_one(encoder):  # noqa: F811
    words = [QUERY, *DOCUMENTS, "a", "b c", "d e f"]
    scores = score(encoder, text_1=words, text_2=words)
    assert scores == pytest.approx([1] * len(words), abs=1e-5) and max(scores) <= 1


def test_long_strings_are_truncated_on_request(encoder, reranker):  # noqa: F811
    text = "It rains today. " * 2000
    answer, body = post(encoder.address, "/v1/score", {"text_1": QUERY, "text_2": text})
    assert answer.status == 400 and "truncate_prompt_tokens" in json.loads(body)["error"]["message"]
    assert score(encoder, text_1=text, text_2=text, truncate_prompt_tokens=8) == pytest.approx([1], abs=1e-5)
    # Rerankers always truncate pairs.
    for path, fields in (("/v1/score", {"text_1": QUERY, "text_2": text}), ("/v1/rerank", {"query": QUERY, "documents": [text]})):
        answer, body = post(reranker.address, path, {**fields, "truncate_prompt_tokens": 8})
        assert answer.status == 200 and answer.headers["X-Weft-Ignored"] == "truncate_prompt_tokens", body


def test_a_classifier_has_a_probability_for_each_class(reranker):  # noqa: F811
    answer, body = post(reranker.address, "/classify", {"input": ["good", "bad"]})
    data = json.loads(body)["data"]
    assert answer.status == 200 and [one["index"] for one in data] == [0, 1]
    assert all(one["num_classes"] == len(one["probs"]) == 1 and one["label"] == "LABEL_0" and 0 <= one["probs"][0] <= 1 for one in data)


def test_errors_name_the_way_out(encoder, reranker, server):  # noqa: F811
    for mine, path, fields, word in (
            (reranker, "/v1/score", {"text_1": "x"}, "'text_1' and 'text_2'"),
            (reranker, "/v1/score", {"text_1": ["x", "y"], "text_2": ["z"]}, "2 strings"),
            (reranker, "/v1/score", {"text_1": "x", "text_2": []}, "'text_2' is empty"),
            (encoder, "/classify", {"input": "x"}, "/v1/embeddings"),
            (server, "/v1/score", {"text_1": "x", "text_2": "y"}, "/v1/embeddings")):
        answer, body = post(mine.address, path, fields)
        assert answer.status == 400 and word in json.loads(body)["error"]["message"], body
