"""Adapters by model name, for one request, and as defaults for requests that select none."""
import concurrent.futures
import json
from pathlib import Path

import pytest

from test_wire import get, post

DATA = Path(__file__).parent.parent / "data"


@pytest.fixture(scope="module")
def address(start_server):
    return start_server("-m", str(DATA / "golden/llama/model.gguf"), "-a", "base", "-c", "512", "--chat-template", "{% for m in messages %}{{ m.content }}{% endfor %}",
                        "--lora", f"first={DATA / 'adapters/one.gguf'}",
                        "--lora-scaled", f"second={DATA / 'adapters/two.gguf'}", "0.5").address


def text_of(address, **fields):
    body = {"prompt": [1, 436, 67, 448, 126, 43, 141, 174], "max_tokens": 16, "temperature": 0, "ignore_eos": True, **fields}
    answer, text = post(address, "/v1/completions", body)
    assert answer.status == 200, text
    return json.loads(text)["choices"][0]["text"]


def error_of(address, path, body):
    answer, text = post(address, path, body)
    assert answer.status == 400, text
    return json.loads(text)["error"]["message"]


def test_they_are_listed(address):
    listed = json.loads(get(address, "/lora-adapters")[1])
    assert [(a["id"], a["name"], a["path"], a["scale"], a["rank"]) for a in listed] == [
        (0, "first", "one.gguf", 0.0, 5), (1, "second", "two.gguf", 0.0, 8)]
    models = json.loads(get(address, "/v1/models")[1])["data"]
    assert [(m["id"], m.get("parent")) for m in models] == [("base", None), ("first", "base"), ("second", "base")]


def test_responses_name_the_model_or_the_adapter(address):
    ask = {"prompt": [1, 2, 3], "max_tokens": 1}
    chat = {"messages": [{"role": "user", "content": "w1"}], "max_tokens": 1}
    for asked, told in (("base", "base"), ("first", "first"), ("SECOND", "second"), ("", "base")):
        for path, body in (("/v1/completions", ask), ("/v1/chat/completions", chat), ("/v1/messages", chat)):
            answer, text = post(address, path, {**body, "model": asked})
            assert answer.status == 200, text
            assert json.loads(text)["model"] == told


def test_a_request_gets_its_adapters(address):
    plain, first, second = (text_of(address, model=name) for name in ("base", "first", "second"))
    assert len({plain, first, second}) == 3
    assert text_of(address, lora=[{"id": 0, "scale": 1.0}]) == first
    assert text_of(address, lora=[{"id": 1}]) == second
    assert text_of(address, lora=[]) == text_of(address, lora=[{"id": 0, "scale": 0.0}]) == plain
    assert text_of(address, model="second", lora=[{"id": 0}]) == first
    assert text_of(address, lora=[{"id": 0, "scale": 0.5}, {"id": 1, "scale": -1.5}]) not in (plain, first, second)


def test_unknown_names_are_refused(address):
    plain, first, second = (text_of(address, model=name) for name in ("base", "first", "second"))
    assert text_of(address) == plain
    assert text_of(address, model="FIRST.gguf") == text_of(address, model="fir") == first
    assert text_of(address, model="sec") == second
    for name in ("gpt-4", "s"):  # No such name, and a part of several.
        answer, text = post(address, "/v1/completions", {"model": name, "prompt": "x"})
        message = json.loads(text)["error"]["message"]
        assert answer.status == 404 and all(part in message for part in (f"'{name}'", "base", "first", "second"))
    assert json.loads(get(address, "/v1/models/first")[1])["parent"] == "base"


def test_slots_keep_what_adapters_wrote(start_server, tmp_path):
    server = start_server("-m", DATA / "golden/llama/model.gguf", "-c", "512", "--slot-save-path", tmp_path,
                          "--lora", f"first={DATA / 'adapters/one.gguf'}")
    prompt = list(range(1, 41))
    for model, slot in (("first", 3), ("model", 4)):
        text_of(server.address, model=model, prompt=prompt, id_slot=slot)
        answer, text = post(server.address, f"/slots/{slot}?action=save", {"filename": f"of-{slot}"})
        assert answer.status == 200 and json.loads(text)["n_saved"] >= len(prompt), text
    for slot in (3, 4):
        assert post(server.address, f"/slots/{slot}?action=erase", {})[0].status == 200
    answer, text = post(server.address, "/slots/7?action=restore", {"filename": "of-3"})
    assert answer.status == 200, text
    answer, text = post(server.address, "/slots/7?action=save", {"filename": "again"})
    assert answer.status == 200 and json.loads(text)["n_saved"] >= len(prompt), text
    # For a file that is not a session of this model, the client gets an error that names the file.
    saved = (tmp_path / "of-3").read_bytes()
    for name, written in (("cut", saved[:-1]), ("other", b"text"), ("none", b"")):
        (tmp_path / name).write_bytes(written)
        answer, text = post(server.address, "/slots/7?action=restore", {"filename": name})
        error = json.loads(text)["error"]
        assert answer.status == 400 and error["param"] == "filename" and f"'{name}'" in error["message"], text


def test_two_files_of_one_name_get_different_names(start_server):
    server = start_server("-m", DATA / "golden/llama/model.gguf", "-m", DATA / "golden/gemma3/model.gguf")
    listed = [model["id"] for model in json.loads(get(server.address, "/v1/models")[1])["data"]]
    assert listed == ["model", "model-2"]
    assert post(server.address, "/v1/completions", {"model": "model-2", "prompt": "x", "max_tokens": 1})[0].status == 200
    assert post(server.address, "/v1/completions", {"model": "other", "prompt": "x"})[0].status == 404


def test_a_folder_is_served_by_its_name(start_server, tmp_path, monkeypatch):
    monkeypatch.setenv("WEFT_CACHE", str(tmp_path))
    server = start_server("-m", DATA / "convert/mixtral")
    assert [model["id"] for model in json.loads(get(server.address, "/v1/models")[1])["data"]] == ["mixtral"]


def test_default_scales_can_be_changed(address):
    plain, first = text_of(address, model="base"), text_of(address, model="first")
    try:
        answer, text = post(address, "/lora-adapters", [{"id": 0, "scale": 1.0}])
        assert answer.status == 200 and json.loads(text) == {"success": True}
        assert json.loads(get(address, "/lora-adapters")[1])[0]["scale"] == 1.0
        assert text_of(address) == text_of(address, model="base") == first
        assert text_of(address, lora=[]) == plain
        assert text_of(address, model="second") != first
    finally:
        post(address, "/lora-adapters", [])
    assert text_of(address) == plain


def test_wrong_wishes_are_refused_by_name(address):
    for lora, part in (([{"id": 2}], "lora[0].id"), ([{"scale": 1}], "lora[0].id"), ({"id": 0}, "'lora'"), ([0], "lora[0]"),
                       ([{"id": 0}, {"id": 0}], "twice"), ([{"id": 0, "scale": "x"}], "lora[0].scale"),
                       ([{"id": 0, "weight": 1}], "weight")):
        assert part in error_of(address, "/v1/completions", {"prompt": "x", "lora": lora})
    assert "list" in error_of(address, "/lora-adapters", {"id": 0})
    # The limit includes the adapter's own factor: alpha / rank is 2.
    assert "adapters[0].scale" in error_of(address, "/lora-adapters", [{"id": 0, "scale": 600000}])
    assert "lora[0].scale" in error_of(address, "/v1/completions", {"prompt": "x", "lora": [{"id": 0, "scale": -1e6}]})
    assert text_of(address, model="base")
    assert "adapters[0].id" in error_of(address, "/lora-adapters", [{"id": 9}])


def test_requests_in_progress_keep_their_scales(address):
    """A request keeps the scales of its start, even if the defaults change, and next to requests with other scales."""
    plain, first = text_of(address, model="base"), text_of(address, lora=[{"id": 0}])
    second = text_of(address, model="second")
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        try:
            asked = []
            for i in range(24):
                asked.append((pool.submit(text_of, address), {plain, first}))
                asked.append((pool.submit(text_of, address, model="second"), {second}))
                post(address, "/lora-adapters", [{"id": 0, "scale": i % 2}])
            for answer, expected in asked:
                assert answer.result() in expected
        finally:
            post(address, "/lora-adapters", [])
    assert text_of(address) == plain
