"""Models, completions, chats, vectors."""
import asyncio
import importlib
import json
import shutil
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import weft
from conftest import CHATML, ENCODERS, GOLDEN
from weft import _weft, options


def test_tokens_are_those_of_the_reference(model):
    reference = json.loads((GOLDEN / "llama/tokenize.json").read_text())
    assert len(reference) > 3
    for case in reference:
        assert model.tokenize(case["text"], add_special=False) == case["ids"]
    assert model.tokenize("hello")[0] == model.bos
    assert model.detokenize(model.tokenize("hello world é")) == "hello world é"
    assert model.detokenize(np.array(model.tokenize("hello")).tolist()) == "hello"
    assert model.find_token(model.token_text(300)) == 300
    assert model.find_token("no such token") is None


def test_a_completion_is_the_same_whole_and_in_pieces(model):
    whole = model.generate("hello", max_tokens=24, temperature=0)
    assert whole.stop == "length" and len(whole.tokens) == 24 and str(whole) == whole.text
    assert whole.stats["n_generated"] == 24
    with model.stream("hello", max_tokens=24, temperature=0) as stream:
        pieces = list(stream)
    assert "".join(pieces) == whole.text
    assert stream.completion.tokens == whole.tokens
    assert model.generate(model.tokenize("hello"), max_tokens=24, temperature=0).text == whole.text


def test_a_prompt_is_the_source_of_models_that_read_one():
    with weft.Model(GOLDEN.parent / "golden_sources/flan-t5/model.gguf", pack_cache="") as model:
        asked = {"max_tokens": 8, "temperature": 0, "ignore_end": True}
        prompts = ["hello", "hello world", "a word", "hello"]
        streams = [model.stream(prompt, **asked) for prompt in prompts]
        together = [stream.read() for stream in streams]
        assert [one.tokens for one in together] == [model.generate(prompt, **asked).tokens for prompt in prompts]
        assert together[0].tokens == together[3].tokens != together[1].tokens
        assert together[0].stats["n_prompt"] == len(model.tokenize("hello"))
        with pytest.raises(weft.UnsupportedError, match="encodes the prompt"):
            model.generate("hello", max_tokens=1, logprobs=0, prompt_logprobs=True)
        n, state = model.save_prefix(model.tokenize("hello"))
        assert n == len(model.tokenize("hello")) and model.restore_prefix(state) == model.tokenize("hello")


def test_the_same_seed_gives_the_same_text(model):
    texts = [model.generate("hello", max_tokens=24, seed=seed).text for seed in (7, 7, 8)]
    assert texts[0] == texts[1] != texts[2]


def test_greedy_tokens_follow_the_reference_logits():
    logits = np.fromfile(GOLDEN / "llama/logits.f32", dtype=np.float32)
    tokens = json.loads((GOLDEN / "llama/tokens.json").read_text())
    with weft.Model(GOLDEN / "llama/model.gguf", pack_cache="", k_type="f32", v_type="f32") as model:
        rows = logits.reshape(len(tokens), model.n_vocab)
        best = model.generate(tokens, max_tokens=1, temperature=0, ignore_end=True, logprobs=2)
        assert best.tokens == [int(rows[-1].argmax())]
        expected = rows[-1].max() - np.log(np.exp(rows[-1].astype(np.float64)).sum())
        assert best.logprobs[0].logprob == pytest.approx(expected, abs=1e-3)
        assert best.logprobs[0].top[0][0] == best.tokens[0]


def test_logprobs_of_the_prompt(model):
    tokens = model.tokenize("hello world")
    result = model.generate(tokens, max_tokens=1, logprobs=0, prompt_logprobs=True)
    assert [one.token for one in result.prompt_logprobs] == tokens[1:]
    assert all(one.logprob < 0 for one in result.prompt_logprobs)


def test_bytes_and_negative_logprobs_are_refused(model):
    for prompt in (b"hello", bytearray(b"hello")):
        with pytest.raises(TypeError, match="decode"):
            model.generate(prompt, max_tokens=1)
    with pytest.raises(weft.InvalidArgumentError, match="logprobs is -1"):
        model.generate("hello", max_tokens=1, logprobs=-1)


def test_stops(model):
    text = model.generate("hello", max_tokens=24, temperature=0).text
    stop = text[5:7]
    for given in (stop, [stop]):
        cut = model.generate("hello", max_tokens=24, temperature=0, stop=given)
        assert cut.stop == "stop" and cut.text == text[: text.index(stop)]


def test_completions_follow_their_constraints(model):
    schema = {"type": "object", "properties": {"n": {"type": "integer", "minimum": 0, "maximum": 9}}, "required": ["n"]}
    for given in (schema, json.dumps(schema)):
        assert 0 <= json.loads(model.generate("hello", json_schema=given, seed=1).text)["n"] <= 9
    assert model.generate("hello", grammar='root ::= "yes" | "no"', seed=1).text in ("yes", "no")
    assert model.generate("hello", regex="[ab]{3}", seed=1).text.strip("ab") == ""
    with pytest.raises(weft.InvalidArgumentError, match="grammar and regex are given"):
        model.generate("hello", regex="a", grammar='root ::= "a"')
    with pytest.raises(ValueError, match="line 1, column 7"):
        model.generate("hello", grammar="broken")


def test_chat(model, chat_file):
    messages = [{"role": "user", "content": "hello"}]
    answer = model.chat(messages, max_tokens=8, temperature=0)
    assert answer.stop == "length" and answer.content and not answer.tool_calls
    assert answer.message() == {"role": "assistant", "content": answer.content}
    events = list(model.chat_stream("hello", max_tokens=8, temperature=0))
    assert "".join(event.text for event in events) == answer.content
    assert {event.kind for event in events} == {"content"}
    # The prompt is the template's.
    prompt = "<|im_start|>user\nhello<|im_end|>\n<|im_start|>assistant\n"
    assert CHATML and model.chat_template.startswith(CHATML[:40])
    opening = model.apply_chat_template(messages)
    assert opening.text.endswith(prompt) and opening.tokens == model.apply_chat_template("hello").tokens
    held = model.chat("hello", json_schema={"enum": ["up", "down"]}, seed=1)
    assert json.loads(held.content) in ("up", "down")


def test_calls_of_tools(model):
    tool = {"type": "function", "function": {"name": "weather", "description": "Tells the weather.", "parameters": {
        "type": "object", "properties": {"sky": {"enum": ["clear", "grey"]}}, "required": ["sky"]}}}
    for choice in ("required", "weather"):
        answer = model.chat("hello", tools=[tool], tool_choice=choice, seed=1)
        (call,) = answer.tool_calls
        assert call.name == "weather" and json.loads(call.arguments)["sky"] in ("clear", "grey")
        assert answer.message()["tool_calls"][0]["function"]["arguments"] == call.arguments
    kinds = [event.kind for event in model.chat_stream("hello", tools=[tool], tool_choice="required", seed=1)]
    assert kinds[0] == "tool_call" and kinds[-1] == "tool_call_end" and "tool_arguments" in kinds


LONG = {"type": "function", "function": {"name": "write", "parameters": {
    "type": "object", "properties": {"text": {"type": "string", "minLength": 200}}, "required": ["text"]}}}


def test_a_call_that_is_cut_off_is_not_whole(model):
    answer = model.chat("hello", tools=[LONG], tool_choice="write", seed=1, max_tokens=80)
    assert answer.stop == "length" and [call.whole for call in answer.tool_calls] == [False]
    # The conversation continues without it.
    assert "tool_calls" not in answer.message()
    assert model.chat([{"role": "user", "content": "hello"}, answer.message(), {"role": "user", "content": "go on"}], max_tokens=1)


def test_lists_of_prompts_and_conversations(model):
    ask = {"max_tokens": 6, "temperature": 0}
    prompts = ["hello", "hello world", [5, 6, 7], "hello", np.array([5, 6])]
    assert [one.tokens for one in model.generate(prompts, **ask)] == [model.generate(one, **ask).tokens for one in prompts]
    chats = ["hello", [{"role": "system", "content": "s"}, {"role": "user", "content": "hello"}]]
    assert [one.content for one in model.chat(chats, **ask)] == [model.chat(one, **ask).content for one in chats]
    assert len(model.generate(["hello"] * 200, max_tokens=1)) == 200  # More than run at the same time.
    with pytest.raises(weft.InvalidArgumentError, match="top_p"):
        model.generate(prompts, top_p=2.0)
    with pytest.raises(TypeError, match="a message cannot be 'hello'"):
        model.chat([[{"role": "user", "content": "hi"}, "hello"]])


def test_a_conversation_as_a_prompt(model):
    messages = [{"role": "user", "content": "hello"}]
    prompt = model.apply_chat_template(messages)
    assert str(prompt) == prompt.text and prompt.text.endswith("<|im_start|>user\nhello<|im_end|>\n<|im_start|>assistant\n")
    assert model.chat(messages, max_tokens=1).stats["n_prompt"] == len(prompt.tokens)
    answer = model.chat(messages, max_tokens=6, temperature=0)
    assert model.generate(prompt.tokens, max_tokens=6, temperature=0, stop=prompt.stop).tokens == answer.tokens
    assert "weather" in model.apply_chat_template(messages, tools=[{"type": "function", "function": {"name": "weather"}}]).text


def test_folders_are_models(tmp_path, monkeypatch):
    folder = tmp_path / "hf"
    shutil.copytree(GOLDEN.parent / "convert/qwen2moe", folder)
    told = []
    result = weft.convert(folder, tmp_path / "model.gguf", type="f32", progress=told.append)
    assert result["architecture"] == "qwen2moe" and result["type"] == "f32" and told[-1] == 1.0
    monkeypatch.setenv("WEFT_CACHE", str(tmp_path / "cache"))
    ask = {"max_tokens": 8, "temperature": 0, "ignore_end": True}
    with weft.Model(folder, pack_cache="") as model, weft.Model(tmp_path / "model.gguf", pack_cache="") as same:
        assert model.generate([5, 6, 7], **ask).tokens == same.generate([5, 6, 7], **ask).tokens
    (made,) = (tmp_path / "cache/converted").iterdir()
    written = made.stat().st_mtime_ns
    weft.Model(folder, pack_cache="")  # Converted once.
    assert made.stat().st_mtime_ns == written and len(list(made.parent.iterdir())) == 1
    with pytest.raises(weft.CancelledError):
        weft.convert(folder, tmp_path / "other.gguf", progress=lambda done: False)
    with pytest.raises(ZeroDivisionError):
        weft.convert(folder, tmp_path / "other.gguf", progress=lambda done: 1 / 0)
    assert not (tmp_path / "other.gguf").exists()
    with pytest.raises(weft.InvalidArgumentError, match="q2_9"):
        weft.convert(folder, tmp_path / "other.gguf", type="q2_9")
    with pytest.raises(weft.Error):
        weft.convert(tmp_path / "cache", tmp_path / "other.gguf")


def test_a_model_of_the_cache_has_a_name(tmp_path, monkeypatch):
    monkeypatch.setenv("WEFT_CACHE", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "models").mkdir()
    shutil.copy(GOLDEN / "llama/model.gguf", tmp_path / "models/tiny.gguf")
    for name in ("tiny", "tiny.gguf"):
        assert weft.Model(name, pack_cache="").info["name"] == "golden-llama"
    for wrong in ("none", "models/tiny"):
        with pytest.raises(FileNotFoundError, match=wrong):
            weft.Model(wrong)
    with pytest.raises(ValueError, match="path is empty"):
        weft.Model("")
    with pytest.raises(FileNotFoundError, match="models is a folder without a config.json"):
        weft.Model("models")


def test_errors_are_exceptions(model, tmp_path):
    with pytest.raises(FileNotFoundError) as caught:
        weft.Model(tmp_path / "none.gguf")
    assert isinstance(caught.value, weft.NotFoundError) and caught.value.code == "not_found"
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(b"GGUF" + b"\xff" * 100)
    with pytest.raises(weft.InvalidFileError):
        weft.Model(broken)
    with pytest.raises(ValueError, match="top_p"):
        model.generate("hello", top_p=2.0)
    with pytest.raises(TypeError, match="temperatur'; did you mean 'temperature'"):
        model.generate("hello", temperatur=1)
    with pytest.raises(TypeError, match="max_tokens cannot be 'ten'"):
        model.generate("hello", max_tokens="ten")
    with pytest.raises(TypeError, match="no option 'n_contexts'"):
        weft.Model(GOLDEN / "llama/model.gguf", n_contexts=3)
    with pytest.raises(TypeError, match="k_type cannot be 'f8'; it must be one of 'auto', 'f32'"):
        model.context(k_type="f8")
    with pytest.raises(weft.Error):
        model.generate([10**6], max_tokens=1)
    with weft.Model(GOLDEN / "llama/model.gguf", pack_cache="") as plain:
        with pytest.raises(weft.UnsupportedError, match="chat template"):
            plain.chat("hello")
    with pytest.raises(weft.InvalidArgumentError, match="closed"):
        plain.generate("hello")


def test_every_option_has_a_type():
    sizes = {"n_ctx", "n_sequences", "n_ubatch", "n_source", "k_type", "v_type"}
    assert set(_weft.model_options()) == set(options.LoadOptions.__annotations__) | sizes
    assert set(_weft.embedder_options()) == {"n_tokens", "n_threads", "use_adapters"}
    assert set(_weft.context_options()) == set(options.ContextOptions.__annotations__)
    assert set(_weft.service_options()) == set(options.ServiceOptions.__annotations__)
    assert set(_weft.sampler_options()) == set(options.SamplingOptions.__annotations__)
    assert set(_weft.request_options()) | set(options.ConstraintOptions.__annotations__) == set(
        options.RequestOptions.__annotations__)


def test_loading_tells_its_progress_and_can_be_cancelled():
    told = []
    weft.Model(GOLDEN / "llama/model.gguf", pack_cache="", progress=told.append)
    assert told and told == sorted(told) and told[-1] == 1.0
    with pytest.raises(weft.CancelledError):
        weft.Model(GOLDEN / "llama/model.gguf", pack_cache="", progress=lambda done: False)
    with pytest.raises(ZeroDivisionError):
        weft.Model(GOLDEN / "llama/model.gguf", pack_cache="", progress=lambda done: 1 / 0)


def test_threads_share_an_engine(model):
    alone = [model.generate(f"hello {i}", max_tokens=16, temperature=0).text for i in range(8)]
    together = [None] * 8

    def write(i):
        together[i] = model.generate(f"hello {i}", max_tokens=16, temperature=0).text

    threads = [threading.Thread(target=write, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert together == alone


def test_other_threads_run_during_calls(model):
    """A loop in Python makes progress during a generation: the interpreter's lock is free."""
    count, done = [0], threading.Event()

    def work():
        while not done.is_set():
            count[0] += 1
            time.sleep(0)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1000)  # A thread gets the lock only when another one gives it up.
    thread = threading.Thread(target=work)
    thread.start()
    try:
        before, end = count[0], time.monotonic() + 60
        while count[0] == before and time.monotonic() < end:
            model.generate("hello", max_tokens=400, temperature=0, ignore_end=True)
        assert count[0] > before
    finally:
        done.set()
        sys.setswitchinterval(interval)
        thread.join()


def test_ctrl_c_ends_a_generation(chat_file):
    program = f"""
import os, signal, threading, time, weft
model = weft.Model({str(chat_file)!r}, pack_cache="")

def interrupt():
    while not model.stats()["n_running"]:
        time.sleep(0.01)
    os.kill(os.getpid(), signal.SIGINT)

threading.Thread(target=interrupt).start()
try:
    model.generate("hello", ignore_end=True, context_shift=True)
except KeyboardInterrupt:
    while model.stats()["n_running"]:
        time.sleep(0.01)
    print("interrupted", model.stats()["n_cancelled"])
"""
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert result.stdout == "interrupted 1\n", result.stderr


def test_a_closed_stream_ends_its_request(model):
    with model.stream("hello", ignore_end=True, context_shift=True) as stream:
        assert next(stream)
    assert stream.completion.stop == "cancelled"
    assert list(stream) == []
    dropped = model.stream("hello", ignore_end=True, context_shift=True)
    next(dropped)
    del dropped
    deadline = time.time() + 60
    while model.stats()["n_running"] and time.time() < deadline:
        time.sleep(0.01)
    assert model.stats()["n_running"] == 0


def test_saved_texts(model):
    written = model.generate("hello world", max_tokens=16, temperature=0)
    tokens = model.tokenize("hello world") + written.tokens
    n, state = model.save_prefix(tokens)
    assert n >= len(tokens) - 1 and isinstance(state, bytes)
    with weft.Model(GOLDEN / "llama/model.gguf", pack_cache="") as other:
        assert other.restore_prefix(state) == tokens[:n]
        again = other.generate(tokens[:n], max_tokens=4, temperature=0)
        assert again.stats["n_cached"] == n - 1
        with pytest.raises(weft.InvalidFileError):
            other.restore_prefix(state[:-8] + b"damaged!")


def test_a_draft_model_changes_no_token(model):
    alone = model.generate("hello", max_tokens=24, temperature=0)
    draft = weft.Model(GOLDEN / "llama/model.gguf", pack_cache="")
    with weft.Model(GOLDEN / "llama/model.gguf", pack_cache="", n_ctx=4096, draft=draft) as both:
        text = both.generate("hello", max_tokens=24, temperature=0)
    assert text.tokens == alone.tokens and text.stats["n_accepted"] > 0


def test_vectors_are_those_of_the_reference():
    folder = ENCODERS / "bert"
    lengths = json.loads((folder / "lengths.json").read_text())
    embedder = weft.Embedder(folder / "model.gguf", pack_cache="")
    vectors = embedder.embed(["hello", "hello world", "hello"])
    assert vectors.shape == (3, embedder.dimensions) and vectors.dtype == np.float32
    assert np.array_equal(vectors[0], vectors[2]) and not np.array_equal(vectors[0], vectors[1])
    assert np.linalg.norm(vectors, axis=1) == pytest.approx([1, 1, 1], abs=1e-5)
    assert np.array_equal(embedder.embed("hello"), vectors[0])
    raw = embedder.embed(["hello"], normalize=False)[0]
    assert raw / np.linalg.norm(raw) == pytest.approx(vectors[0], abs=1e-6)
    cut = embedder.embed("hello", dimensions=8)
    assert cut == pytest.approx(raw[:8] / np.linalg.norm(raw[:8]), abs=1e-6)
    assert not np.array_equal(embedder.embed("hello", pooling="cls"), vectors[0]) or len(lengths) == 0
    with pytest.raises(ValueError, match="pooling"):
        embedder.embed("hello", pooling="middle")
    with pytest.raises(ValueError, match="dimensions"):
        embedder.embed("hello", dimensions=0)
    decoder = weft.Embedder(GOLDEN / "llama/model.gguf", pack_cache="")
    with pytest.raises(ValueError, match='pooling "cls" needs an encoder.*use "mean" or "last"'):
        decoder.embed("hello", pooling="cls")


def test_long_inputs_are_truncated_and_any_number_is_embedded():
    embedder = weft.Embedder(ENCODERS / "bert/model.gguf", pack_cache="", n_tokens=8)
    assert embedder.max_tokens == 8 < len(embedder.model.tokenize("hello " * 50))
    long, longer = embedder.embed(["hello " * 50, "hello " * 90])
    assert np.array_equal(long, longer)
    many = [f"hello {i % 3}" for i in range(300)]
    assert np.array_equal(embedder.embed(many), np.stack([embedder.embed(one) for one in many[:3]] * 100))
    assert embedder.embed([]).shape == (0, embedder.dimensions)


def test_models_of_the_cache_are_found_by_name(tmp_path, monkeypatch):
    monkeypatch.setenv("WEFT_CACHE", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    with pytest.raises(weft.NotFoundError, match=r"no model of that name in .*models \(which is empty\)"):
        weft.Model("tiny")
    pulled = tmp_path / "models/hf.co/user/repo"
    pulled.mkdir(parents=True)
    for name in ("models/one.gguf", "models/hf.co/user/repo/tiny-q8_0.gguf"):
        shutil.copy(ENCODERS / "bert/model.gguf", tmp_path / name)
    for name in ("mmproj-tiny.gguf", "tiny-00002-of-00003.gguf"):
        (pulled / name).touch()
    for name in ("one", "one.gguf", "tiny-q8_0", "user/repo/tiny-q8_0", "tiny-q8_0.gguf", "repo/TINY", Path("one")):
        assert weft.Embedder(name, pack_cache="").embed("hello").shape == (64,)
    with pytest.raises(weft.NotFoundError, match="'o' could be any of: one, user/repo/tiny-q8_0"):
        weft.Model("o")
    with pytest.raises(FileNotFoundError, match="no file 'none', and .*it has: one, user/repo/tiny-q8_0"):
        weft.Model("none")
    with pytest.raises(FileNotFoundError, match="cannot open"):
        weft.Model(tmp_path / "none.gguf")
    monkeypatch.delenv("WEFT_CACHE")
    monkeypatch.delenv("HOME", raising=False)
    with pytest.raises(FileNotFoundError, match="cannot open"):
        weft.Model("none")


def test_any_thread_may_embed():
    embedder = weft.Embedder(ENCODERS / "bert/model.gguf", pack_cache="")
    ranker = weft.Embedder(ENCODERS / "bert-rank/model.gguf", pack_cache="")
    expected, ranked = embedder.embed("hello world"), ranker.rank("hello", ["a", "b"])
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(embedder.embed, ["hello world"] * 64))
        ranks = list(pool.map(lambda _: ranker.rank("hello", ["a", "b"]), range(32)))
    assert all(np.array_equal(one, expected) for one in found) and ranks == [ranked] * 32

    async def main():
        return await asyncio.gather(*(embedder.embed_async(["hello world"]) for _ in range(16)))

    assert all(np.array_equal(one[0], expected) for one in asyncio.run(main()))


def test_ranks():
    ranker = weft.Embedder(ENCODERS / "bert-rank/model.gguf", pack_cache="")
    documents = ["hello", "world", "hello world"]
    ranked = ranker.rank("hello", documents)
    assert sorted(one.document for one in ranked) == [0, 1, 2]
    assert [one.score for one in ranked] == sorted((one.score for one in ranked), reverse=True)
    with pytest.raises(weft.UnsupportedError):
        weft.Embedder(ENCODERS / "bert/model.gguf", pack_cache="").rank("hello", documents)


def test_devices():
    assert weft.devices()[0]["name"] == "cpu"


def test_missing_dependencies_of_weft_ray_are_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    monkeypatch.delitem(sys.modules, "weft.ray", raising=False)
    with pytest.raises(ImportError, match=r"pip install weft\[ray\]"):
        importlib.import_module("weft.ray")
