"""llama.cpp's own endpoints, in the form that its server's tests check."""
import json

import pytest

from test_encoders import ENCODERS
from test_wire import get, post, wait_until

PROMPT = "I believe the meaning of life is"
GREEDY = {"temperature": 0, "n_predict": 8}


@pytest.fixture(scope="module")
def address(server):
    return server.address


def complete(address, path="/completion", **fields):
    answer, body = post(address, path, {"prompt": PROMPT, **GREEDY, **fields})
    assert answer.status == 200, body
    return json.loads(body)


def stream(address, path="/completion", **fields):
    answer, body = post(address, path, {"prompt": PROMPT, **GREEDY, "stream": True, **fields})
    assert answer.status == 200, body
    events = body.decode().split("\n\n")
    assert events.pop() == "" and all(event.startswith("data: ") for event in events)
    return [event.removeprefix("data: ") for event in events]


def test_a_completion_has_llama_cpps_fields_alone(address):
    answer = complete(address)
    assert answer["content"] and answer["stop"] is True and answer["stop_type"] == "limit"
    assert answer["tokens_predicted"] == answer["timings"]["predicted_n"] == 8
    assert answer["tokens_evaluated"] > 0 and answer["tokens"] == [] and answer["truncated"] is False
    assert answer["generation_settings"]["n_predict"] == 8 and answer["index"] == 0
    assert answer["prompt"].endswith(PROMPT) and answer["model"] and isinstance(answer["has_new_line"], bool)
    assert "choices" not in answer and "usage" not in answer
    assert len(complete(address, return_tokens=True)["tokens"]) == 8


def test_a_stream_has_the_same_text_and_no_other_lines(address):
    pieces = [json.loads(event) for event in stream(address)]
    assert "".join(piece["content"] for piece in pieces) == complete(address)["content"]
    assert all(piece["tokens"] and piece["stop"] is False for piece in pieces[:-1])
    assert pieces[-1]["stop"] is True and pieces[-1]["timings"] and pieces[-1]["generation_settings"]


def test_prompts_are_strings_tokens_and_lists(address):
    _, body = post(address, "/tokenize", {"content": PROMPT, "add_special": True})
    tokens = json.loads(body)["tokens"]
    content = complete(address)["content"]
    assert complete(address, prompt=tokens)["content"] == content
    both = complete(address, prompt=[tokens, PROMPT])
    assert [one["content"] for one in both] == [content, content] and [one["index"] for one in both] == [0, 1]
    assert isinstance(complete(address, prompt=[1, 2, 3, PROMPT, 7])["content"], str)
    twice = complete(address, n_cmpl=2, temperature=1, seed=3)
    assert len(twice) == 2 and twice[0]["content"] != twice[1]["content"]


def test_stop_words(address):
    word = complete(address)["content"].split()[1]
    answer = complete(address, stop=[word])
    assert answer["stop_type"] == "word" and answer["stopping_word"] == word and word not in answer["content"]


def test_probabilities_have_ids(address):
    entries = complete(address, n_probs=10)["completion_probabilities"]
    assert len(entries) == 8
    for entry in entries:
        assert entry["id"] >= 0 and entry["logprob"] <= 0 and len(entry["top_logprobs"]) == 10
        assert bytes(entry["bytes"]).decode(errors="replace") == entry["token"]
        assert {"id", "token", "logprob", "bytes"} <= set(entry["top_logprobs"][0])
    pieces = [json.loads(event) for event in stream(address, n_probs=10)]
    assert sum(len(piece["completion_probabilities"]) for piece in pieces[:-1]) == 8


def test_response_fields_are_picked(address):
    answer = complete(address, response_fields=["content", "generation_settings/n_predict", "prompt"])
    assert set(answer) == {"content", "generation_settings/n_predict", "prompt"} and answer["generation_settings/n_predict"] == 8


def test_the_prompt_alone_is_computed_into_the_cache(address):
    answer = complete(address, prompt=PROMPT + " cached", n_predict=0)
    assert answer["content"] == "" and answer["tokens_predicted"] == 0
    assert complete(address, prompt=PROMPT + " cached")["timings"]["cache_n"] > 0


def test_the_path_without_v1_has_both_forms(address):
    answer = complete(address, "/completions")
    assert answer["content"] == answer["choices"][0]["text"] == complete(address)["content"]
    assert answer["usage"]["completion_tokens"] == 8 and answer["stop_type"] == "limit"
    events = stream(address, "/completions")
    assert events.pop() == "[DONE]"
    assert all(json.loads(event)["content"] == json.loads(event)["choices"][0]["text"] for event in events)


def test_errors_and_notes(address):
    answer, body = post(address, "/completion", {})
    assert answer.status == 400 and "prompt" in json.loads(body)["error"]["message"]
    answer, body = post(address, "/completion", {"prompt": "x", "image_data": [{"id": 1, "data": "x"}]})
    assert answer.status == 400 and "multimodal_data" in json.loads(body)["error"]["message"]
    answer, _ = post(address, "/completion", {"prompt": "x", "n_predict": 1, "post_sampling_probs": True, "min_keep": 2})
    assert answer.headers["X-Weft-Ignored"] == "min_keep, post_sampling_probs"


def test_embedding_is_a_list_of_lists(start_server):
    mine = start_server("-m", ENCODERS / "bert" / "model.gguf")
    _, body = post(mine.address, "/embedding", {"content": "a cat"})
    one = json.loads(body)
    assert [entry["index"] for entry in one] == [0] and len(one[0]["embedding"]) == 1
    _, body = post(mine.address, "/embedding", {"content": ["a cat", "a kitten"], "embd_normalize": -1})
    two = json.loads(body)
    assert len(two) == 2 and two[0]["embedding"][0] != one[0]["embedding"][0]
    _, body = post(mine.address, "/v1/embeddings", {"input": "a cat"})
    assert json.loads(body)["data"][0]["embedding"] == one[0]["embedding"][0]


def status_of(address, model):
    return {one["id"]: one["status"]["value"] for one in json.loads(get(address, "/models")[1])["data"]}[model]


def test_models_are_loaded_and_unloaded_by_name(start_server):
    first, second = ENCODERS / "bert" / "model.gguf", ENCODERS / "bert-rank" / "model.gguf"
    mine = start_server("-m", first, "-m", second)
    names = [one["id"] for one in json.loads(get(mine.address, "/models")[1])["data"]]
    assert status_of(mine.address, names[1]) == "unloaded"
    answer, body = post(mine.address, "/models/load", {"model": names[1]})
    assert answer.status == 200 and json.loads(body)["success"] is True and status_of(mine.address, names[1]) == "loaded"
    for name in names:
        answer, body = post(mine.address, "/models/unload", {"model": name})
        assert answer.status == 200 and json.loads(body) == {"success": True}
        wait_until("it is unloaded", lambda: status_of(mine.address, name) == "unloaded")
    assert get(mine.address, "/health")[0].status == 200
    assert json.loads(get(mine.address, "/props")[1])["is_sleeping"] is True
    assert post(mine.address, "/v1/embeddings", {"model": names[0], "input": "x"})[0].status == 200
    assert json.loads(get(mine.address, "/props")[1])["is_sleeping"] is False
    for path in ("/models/load", "/models/unload"):
        answer, body = post(mine.address, path, {"model": "nosuchmodel"})
        assert answer.status == 404 and "nosuchmodel" in json.loads(body)["error"]["message"]
    assert mine.stop() == 0


def test_an_idle_server_sleeps_and_wakes(start_server):
    mine = start_server("-m", ENCODERS / "bert" / "model.gguf", "--sleep-idle-seconds", "0")
    wait_until("it sleeps", lambda: json.loads(get(mine.address, "/props")[1])["is_sleeping"])
    for path in ("/health", "/ready", "/models", "/metrics"):
        assert get(mine.address, path)[0].status == 200
    assert post(mine.address, "/v1/embeddings", {"input": "x"})[0].status == 200
    wait_until("it sleeps again", lambda: json.loads(get(mine.address, "/props")[1])["is_sleeping"])
    assert mine.stop() == 0


def test_a_restored_slot_has_the_snapshot_of_its_prompt(start_server, tmp_path):
    """A recurrent model continues from a snapshot, so a slot's file has it too."""
    options = ("-m", ENCODERS.parent / "golden/mamba/model.gguf", "-c", "2048", "--slot-save-path", tmp_path, "-np", "2")
    prompt = "A text begins here, and goes on for a good while. " * 6

    def longer(server):
        answer = complete(server.address, prompt=prompt + "More", return_tokens=True)
        return answer["tokens"], answer["timings"]["cache_n"], answer["timings"]["prompt_n"]

    first = start_server(*options)
    complete(first.address, prompt=prompt, id_slot=1)
    answer, _ = post(first.address, "/slots/1?action=save", {"filename": "slot"})
    assert answer.status == 200
    expected = longer(first)
    assert expected[1] > 64
    second = start_server(*options)
    assert post(second.address, "/slots/1?action=restore", {"filename": "slot"})[0].status == 200
    assert longer(second) == expected
    saved = (tmp_path / "slot").read_bytes()
    for damaged in (saved[:-1], saved[:20], saved[:12] + b"\xff" + saved[13:], saved[:-9] + b"\0\1\2" + saved[-6:]):
        (tmp_path / "damaged").write_bytes(damaged)
        assert post(second.address, "/slots/1?action=restore", {"filename": "damaged"})[0].status == 400
