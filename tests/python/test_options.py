"""Every option has an effect: a walk over all of them. An option without a row here fails the walk."""
import inspect
import time
import typing

import numpy as np
import pytest
import weft
from conftest import ENCODERS, GOLDEN
from weft import arguments, options

NONE = {"temperature": 1.5, "top_k": 0, "top_p": 1.0, "min_p": 0.0}  # Nothing is cut.
GREEDY = {"temperature": 0}


@pytest.fixture(scope="module")
def load(chat_file, adapter_file):
    made = []

    def make(path=chat_file, **given):
        made.append(weft.Model(path, **({"pack_cache": "", "n_threads": 1} | given)))
        return made[-1]

    yield make
    for model in made:
        model.close()


def tokens(model, prompt="hello world", **given):
    return model.generate(prompt, **({"max_tokens": 16, "seed": 1, "ignore_end": True} | given)).tokens


# Sampling: the option's name, what else is asked, and two values that give other tokens.
SAMPLING = {
    "temperature": ({}, 0.0, 5.0),
    "top_k": (NONE, 0, 1),
    "top_p": (NONE, 1.0, 0.01),
    "min_p": (NONE, 0.0, 1.0),
    "seed": (NONE, 1, 2),
    "repetition_penalty": (GREEDY, 1.0, 100.0),
    "frequency_penalty": (GREEDY, 0.0, 100.0),
    "presence_penalty": (GREEDY, 0.0, 100.0),
    "penalty_last_n": (GREEDY | {"presence_penalty": 100.0}, 0, -1),
    "typical_p": (NONE, 1.0, 0.01),
    "top_n_sigma": (NONE, 0.0, 0.01),
    "xtc_probability": (NONE | {"xtc_threshold": 0.0}, 0.0, 1.0),
    "xtc_threshold": (NONE | {"xtc_probability": 1.0}, 0.0, 0.9),
    "dynamic_temperature_range": (NONE, 0.0, 1.4),
    "dynamic_temperature_exponent": (NONE | {"dynamic_temperature_range": 1.4}, 1.0, 9.0),
    "mirostat": (NONE, 0, 2),
    "mirostat_tau": (NONE | {"mirostat": 2}, 0.5, 9.0),
    "mirostat_eta": (NONE | {"mirostat": 2, "mirostat_tau": 1.0}, 0.0, 5.0),
    "dry_multiplier": (GREEDY | {"dry_allowed_length": 0}, 0.0, 100.0),
    "dry_base": (GREEDY | {"dry_allowed_length": 1, "dry_multiplier": 1.0, "logit_bias": {7: 9.0, 8: 9.0, 9: 9.0, 10: 9.0}}, 1.0, 100.0),
    "dry_allowed_length": (GREEDY | {"dry_multiplier": 100.0}, 0, 50),
    "dry_penalty_last_n": (GREEDY | {"dry_allowed_length": 0, "dry_multiplier": 100.0}, 0, -1),
    "dry_breakers": (GREEDY | {"dry_allowed_length": 0, "dry_multiplier": 100.0}, [], [*"abcdefghijklmnopqrstuvwxyz "]),
    "logit_bias": ({}, {5: 100.0}, {"6": 100.0}),
    "samplers": ({"top_k": 1}, "temperature", ["top_k", "temperature"]),
}


def test_sampling_options_have_an_effect(load):
    assert SAMPLING.keys() == options.SamplingOptions.__annotations__.keys()
    model = load()
    repeating = [*model.tokenize("hello"), *[7, 8, 9, 10] * 6, 7, 8]
    for name, (others, one, other) in SAMPLING.items():
        ask = {"prompt": repeating if name.startswith("dry") else "hello world", "max_tokens": 32} | others
        first, second = tokens(model, **ask | {name: one}), tokens(model, **ask | {name: other})
        assert first != second, name
        assert first == tokens(model, **ask | {name: one}), name


def bias_to_end(model):
    return {"logit_bias": {model.eos: 1000.0}, "max_tokens": 8, "ignore_end": False}


def ends_first(load):
    """The waiting request with the higher priority runs first."""
    model = load(n_running=1)
    endless = model.stream("hello", ignore_end=True, context_shift=True)
    next(endless)
    low, high = (model.stream("hello", max_tokens=1, priority=priority) for priority in (0, 5))
    while model.stats()["n_waiting"] < 2:
        next(endless)
    endless.close()
    return high.read().stats["total_ms"] < low.read().stats["total_ms"]


def drafted(load, **given):
    model = load(speculation="ngram", n_draft=4)
    return model.generate([7, 8, 9, 10] * 10, max_tokens=24, ignore_end=True, logit_bias={7: 9.0}, **GREEDY, **given).stats["n_drafted"]


def shifted(load, n_keep):
    model = load(n_ctx=64)
    return tokens(model, max_tokens=100, context_shift=True, n_keep=n_keep, **GREEDY)


def stops_while_waiting(load, name):
    """A request that another one keeps from running reaches its deadline."""
    model = load(n_running=1)
    with model.stream("hello", ignore_end=True, context_shift=True) as endless:
        next(endless)
        late = model.stream("hello", max_tokens=1, **{name: 1e-6})
        while late.completion.stop == "":
            next(endless)
            for _ in late:
                pass
        return late.completion.stop == "timeout"


def second_cached(load, on):
    model = load()
    return [model.generate([5] * 40, max_tokens=1, reuse_prefix=on).stats["n_cached"] for _ in range(2)][1]


def bans_strings(load):
    plain, ask = load(), {"max_tokens": 24, "ignore_end": True, **GREEDY}
    text = plain.generate("hello", **ask).text
    part = next(text[i : i + 3] for i in range(4, len(text)) if text[i : i + 3].isprintable() and "\ufffd" not in text[i : i + 3])
    other = plain.generate("hello", banned_strings=[part], **ask)
    return part in text and part not in other.text and other.stats["n_discarded"] > 0


def bans_words(load):
    model = load()
    letter, token = next((a, ids[0]) for a in "abcdefghijklmnopqrstuvwxyz" if len(ids := model.tokenize(a, add_special=False)) == 1)
    found = [set(tokens(model, allowed_token_ids=[token, 9], bad_words=words, **NONE)) for words in ([], [letter])]
    return found == [{token, 9}, {9}] and raises(weft.InvalidArgumentError, r"bad_words\[1\]: ", tokens, model, bad_words=[letter, ""])


def keeps_snapshots(load, at, **given):
    """Whether a prompt of a recurrent model continues another one that was snapshotted at `at`."""
    model = load(GOLDEN / "mamba/model.gguf", n_ctx=1024, **given)
    first = [5 + i for i in range(100)]
    model.generate(first, max_tokens=1, snapshot_at=at)
    return model.generate([*first[:64], *[9] * 36], max_tokens=1).stats["n_cached"] == 64


ANSWERS = {
    "max_tokens": lambda load: len(tokens(load(), max_tokens=3)) == 3,
    "min_tokens": lambda load: [
        load().generate("hello", **bias_to_end(load()), min_tokens=n).stats["n_generated"] for n in (0, 5)] == [1, 6],
    "ignore_end": lambda load: [
        load().generate("hello", **bias_to_end(load()) | {"ignore_end": on}).stop for on in (False, True)] == ["end", "length"],
    "stop": lambda load: load().generate("hello", stop="e", seed=1, max_tokens=200, logit_bias={"104": 20.0}).stop == "stop",
    "include_stop_str_in_output": lambda load: [
        load().generate("hello", regex="a{5}b", stop="b", include_stop_str_in_output=on).text for on in (False, True)] == ["aaaaa", "aaaaab"],
    "stop_token_ids": lambda load: len(tokens(load(), stop_token_ids=[tokens(load(), **GREEDY)[2]], **GREEDY)) <= 3,
    "banned_strings": bans_strings,
    "bad_words": bans_words,
    "allowed_token_ids": lambda load: set(tokens(load(), allowed_token_ids=[7, 9], **NONE)) == {7, 9} and raises(
        weft.InvalidArgumentError, "allowed_token_ids is empty", tokens, load(), allowed_token_ids=[]),
    "reuse_prefix": lambda load: [second_cached(load, on) > 0 for on in (True, False)] == [True, False],
    "queue_timeout": lambda load: stops_while_waiting(load, "queue_timeout"),
    "first_token_timeout": lambda load: stops_while_waiting(load, "first_token_timeout"),
    "logprobs": lambda load: [
        [len(one.top) for one in load().generate("hello", max_tokens=1, logprobs=n).logprobs] for n in (None, 0, True, 3)
    ] == [[], [0], [0], [3]],
    "prompt_logprobs": lambda load: [len(load().generate([5, 6, 7], max_tokens=1, prompt_logprobs=on).prompt_logprobs) for on in (False, True)
                                     ] == [0, 2],
    "priority": ends_first,
    "timeout": lambda load: load().generate("hello", ignore_end=True, context_shift=True, timeout=1e-6).stop == "timeout",
    "context_shift": lambda load: [
        load(n_ctx=64).generate("hello", ignore_end=True, max_tokens=99, context_shift=on).stop for on in (False, True)
    ] == ["context", "length"],
    "n_keep": lambda load: shifted(load, 0) != shifted(load, 24),
    "speculate": lambda load: drafted(load) > drafted(load, speculate=False) == 0,
    "use_adapters": lambda load, adapter: len({
        tuple(tokens(load(adapters=[adapter]), use_adapters=uses, **GREEDY)) for uses in ([], [(0, 0.5)], [(0, 2.0)])}) == 3,
    "grammar": lambda load: load().generate("hello", grammar='root ::= "yes"').text == "yes",
    "regex": lambda load: load().generate("hello", regex="a{5}").text == "aaaaa",
    "json_schema": lambda load: load().generate("hello", json_schema={"const": 12}).text == "12",
    "structural_tag": lambda load: load().generate(
        "hello", structural_tag={"format": {"type": "const_string", "value": "yes"}}).text == "yes",
    "snapshot_at": lambda load: [keeps_snapshots(load, at) for at in ([], [64])] == [False, True],
    "special": lambda load: [
        len(load().generate("hello", max_tokens=1, logit_bias={load().bos: 1000.0}, special=on).text) > 0 for on in (False, True)
    ] == [False, True],
}  # fmt: skip


def has_effect(row, load, adapter_file):
    return row(load, adapter_file) if "adapter" in inspect.signature(row).parameters else row(load)


@pytest.mark.parametrize("name", ANSWERS)
def test_request_options_have_an_effect(load, adapter_file, name):
    assert has_effect(ANSWERS[name], load, adapter_file)


def test_every_request_option_has_a_row():
    assert ANSWERS.keys() | SAMPLING.keys() == typing.get_type_hints(options.RequestOptions).keys()
    assert ANSWERS.keys() - {"special", "snapshot_at"} | SAMPLING.keys() == typing.get_type_hints(options.ResponseOptions).keys()


def raises(kind, match, function, *given, **named):
    with pytest.raises(kind, match=match):
        function(*given, **named)
    return True


def cached(load, on):
    model = load(reuse_prefixes=on)
    return [model.generate([5] * 40, max_tokens=1).stats["n_cached"] for _ in range(2)][1]


def evicted(load, **given):
    """The cached tokens of a prompt whose cells others have taken."""
    model = load(n_ctx=1024, **given)
    prompts = {name: [3 + (i * step + step) % 500 for i in range(n)] for name, n, step in (("A", 400, 7), ("B", 500, 11), ("C", 500, 13))}
    found = [model.generate(prompts[name], max_tokens=2, ignore_end=True).stats["n_cached"] for name in "AABCA"]
    assert found[:4] == [0, 399, 0, 0]
    return found[4]


def overloads(load, n):
    model = load(n_running=1, n_waiting=n)
    streams = [model.stream("hello", ignore_end=True, context_shift=True)]
    next(streams[0])
    try:
        for _ in range(3):
            streams.append(model.stream("hello", max_tokens=1))
    except weft.OverloadedError:
        return True
    return False


def stats(model, n_completed):
    """After n_completed requests; statistics follow results."""
    while (found := model.stats())["n_completed"] < n_completed:
        time.sleep(0.001)
    return found


def runs_ahead(load, n_unread):
    """Tokens that a stream generates while it is not read."""
    model = load(n_unread=n_unread)
    with model.stream("hello", ignore_end=True, max_tokens=100):
        model.generate("world", ignore_end=True, max_tokens=100)
        return stats(model, 1)["n_generated_tokens"] - 100


def steps(load, n_step_tokens):
    model = load(n_step_tokens=n_step_tokens)
    model.generate([5] * 64, max_tokens=1)
    return stats(model, 1)["n_steps"]


def logits(load, adapters=(), **given):
    context = load(adapters=adapters).context(n_ctx=64, **given)
    batch = weft.Batch()
    for token in range(20):
        item = batch.add(token + 3, logits=True)
    context.decode(batch)
    return context.logits(item).copy()


def best(load, n_best):
    context = load().context(n_ctx=64, n_best=n_best)
    batch = weft.Batch()
    batch.add(5, logits=True, n_best=2)
    context.decode(batch)
    return len(context.best(0))


def can_cut(load, window_rewind):
    context = load(GOLDEN / "gemma3/model.gguf").context(n_ctx=256, window_rewind=window_rewind)
    batch = weft.Batch()
    for n in (200, 1):
        batch.clear()
        batch.add([5] * n)
        context.decode(batch)
    return context.can_cut(0, 20)


def goes_back(load, state_rewind):
    context = load(GOLDEN / "mamba2/model.gguf").context(n_ctx=64, state_rewind=state_rewind)
    batch = weft.Batch()
    for _ in range(2):
        batch.add(5, logits=True)
    context.decode(batch)
    return context.can_cut(0, 1)


def source(load, **given):
    return load(GOLDEN.parent / "golden_sources/flan-t5/model.gguf", **given).generate("hello world hello", max_tokens=1)


CONTEXT = {
    "n_ctx": lambda load: load().context(n_ctx=64).n_ctx == 64,
    "n_sequences": lambda load: load().context(n_sequences=3).n_sequences == 3,
    "n_ubatch": None,
    "n_source": lambda load: source(load) and raises(weft.InvalidArgumentError, "source", source, load, n_source=2),
    "n_outputs": None,
    "n_threads": None,
    "n_best": lambda load: best(load, 2) == 2 and raises(weft.InvalidArgumentError, "best", best, load, 0),
    "k_type": lambda load: not np.array_equal(logits(load, k_type="f32"), logits(load, k_type="q8_0")),
    "v_type": lambda load: not np.array_equal(logits(load, v_type="f32"), logits(load, v_type="q8_0")),
    "rotate_cache": lambda load: not np.array_equal(*(logits(load, k_type="q4_0", rotate_cache=on) for on in (True, False))),
    "window_rewind": lambda load: [can_cut(load, n) for n in (-1, 0)] == [True, False],
    "state_rewind": lambda load: [goes_back(load, n) for n in (0, 1)] == [False, True],
    "use_adapters": lambda load, adapter: not np.array_equal(*(logits(load, [adapter], use_adapters=uses) for uses in ([], [(0, 2.0)]))),
}  # fmt: skip
SERVICE = {
    "n_running": lambda load: ends_first(load),
    "n_step_tokens": lambda load: [steps(load, n) for n in (0, 8)] == [1, 8],
    "max_step_ms": None,
    "reuse_prefixes": lambda load: [cached(load, on) > 0 for on in (True, False)] == [True, False],
    "max_pause_ms": None,
    "n_snapshots": lambda load: [keeps_snapshots(load, [64], n_snapshots=n) for n in (0, 32)] == [False, True],
    "snapshot_bytes": lambda load: [keeps_snapshots(load, [64], snapshot_bytes=n) for n in (0, 1 << 30)] == [False, True],
    "cache_ram_bytes": lambda load: [evicted(load, cache_ram_bytes=n) for n in (0, 1 << 30)] == [0, 399],
    "cache_disk": lambda load, adapter: [evicted(load, cache_disk=where) for where in (None, adapter.parent / "prefixes")] == [0, 399],
    "cache_disk_bytes": None,
    "speculation": lambda load: drafted(load) > 0,
    "n_draft": lambda load: raises(weft.InvalidArgumentError, "n_draft is 65", load, n_draft=65) and [
        load(speculation="ngram", n_draft=n).generate([7, 8] * 20, max_tokens=24, ignore_end=True, logit_bias={7: 9.0}, **GREEDY
                                                      ).stats["n_drafted"] > 0 for n in (0, 4)] == [False, True],
    "n_draft_branches": None,
    "adapt_drafts": None,
    "n_waiting": lambda load: [overloads(load, n) for n in (0, 1)] == [False, True],
    "n_unread": lambda load: runs_ahead(load, 1) < 10 < runs_ahead(load, 200),
}  # fmt: skip
LOAD = {
    "n_threads": None,
    "n_gpu_layers": None,
    "devices": lambda load: raises(weft.NotFoundError, "nowhere", load, devices=["nowhere"]),
    "tensor_split": lambda load: raises(weft.InvalidArgumentError, "2 shares", load, devices=["cpu"], tensor_split=[1, 1]),
    "split_rows": None,
    "cpu_moe": None,
    "n_cpu_moe": None,
    "pins": lambda load: raises(weft.Error, "nowhere", load, pins=[("blk", "nowhere")]),
    "fit": None,
    "fit_margin": lambda load: [
        raises(weft.Error, "margin", load, devices=["second=cpu"], n_gpu_layers=1, fit_margin=margin) for margin in (1 << 60, {"second": 1 << 60})
    ] and load(fit_margin={"other": 1 << 60}),
    "n_ctx_min": None,
    "repack": None,
    "pack_cache_bytes": None,
    "pack_cache": lambda load, adapter: load(pack_cache=adapter.parent / "packed") and any((adapter.parent / "packed").iterdir()),
    "pre_tokenizer": lambda load: raises(weft.Error, "none-such", load, GOLDEN / "qwen2/model.gguf", pre_tokenizer="none-such"),
    "chat_template": lambda load: load(chat_template="{{ messages[0]['content'] }}!").apply_chat_template("hi").text == "hi!",
    "adapters": lambda load, adapter: tokens(load(), **GREEDY) != tokens(load(adapters=[adapter]), **GREEDY),
    "control_vectors": lambda load: raises(weft.NotFoundError, "none.gguf", load, control_vectors=[("none.gguf", 1.0)]),
    "first_control_layer": lambda load: raises(weft.InvalidArgumentError, "control", load, first_control_layer=1),
    "last_control_layer": lambda load: raises(weft.InvalidArgumentError, "control", load, last_control_layer=1),
}
TABLES = {"LoadOptions": LOAD, "ContextOptions": CONTEXT, "ServiceOptions": SERVICE}
# Rows without a function: results of a CPU do not differ. Their types and ranges are checked all the same.
WRONG = {"n_threads": 1025, "n_ubatch": 0, "n_outputs": -1, "max_step_ms": 0, "n_gpu_layers": -2, "split_rows": 1, "cpu_moe": "yes",
         "n_cpu_moe": -1, "fit": 0, "repack": "no", "pack_cache_bytes": -1, "n_ctx_min": -1,
         "max_pause_ms": -1, "cache_disk_bytes": -1, "n_draft_branches": 0, "adapt_drafts": 1}  # fmt: skip


def test_every_option_of_models_has_a_row():
    for name, rows in TABLES.items():
        assert rows.keys() == typing.get_type_hints(getattr(options, name)).keys()
    assert {name for rows in TABLES.values() for name, row in rows.items() if row is None} == WRONG.keys()


@pytest.mark.parametrize("table, name", [(table, name) for table, rows in TABLES.items() for name, row in rows.items() if row])
def test_model_options_have_an_effect(load, adapter_file, table, name):
    assert has_effect(TABLES[table][name], load, adapter_file)


def test_options_of_an_engine_are_checked_when_the_model_is_made(load):
    wrong = WRONG | {"k_type": "banana", "v_type": "f8", "n_running": -3, "n_ctx": -1, "n_sequences": 0, "n_source": -1, "n_best": -2,
                     "window_rewind": -2, "state_rewind": -1, "rotate_cache": 1, "use_adapters": [(0, 1.0)], "n_step_tokens": -1, "reuse_prefixes": 1, "speculation": "model",
                     "n_draft": 65, "n_waiting": -1, "n_unread": 0, "n_snapshots": -1, "snapshot_bytes": -1, "cache_ram_bytes": -2,
                     "cache_disk": 5}  # fmt: skip
    assert wrong.keys() >= CONTEXT.keys() | SERVICE.keys()
    for name, value in wrong.items():
        with pytest.raises((TypeError, weft.InvalidArgumentError), match=name):
            load(**{name: value})
    with pytest.raises(weft.InvalidArgumentError, match="n_running is 64 and n_sequences 4"):
        load(n_running=64, n_sequences=4)
    with pytest.raises(weft.InvalidArgumentError, match="speculation is 'ngram' and a draft model is given"):
        load(draft=load(), speculation="ngram")
    assert len(load(n_running=64).generate(["hello"] * 70, max_tokens=1)) == 70


@pytest.mark.parametrize("table", ["ModelOptions", "RequestOptions", "EmbedderOptions"])
def test_options_of_a_wrong_type_are_refused(load, table):
    """Before anything is loaded or computed, and in one form."""
    for name, (kind, about) in arguments.known(getattr(options, table)).items():
        assert about.meaning.endswith(".") and "  " not in about.meaning
        for wrong in (object(), b"x", {1: object()}, 1j, [object()]):
            with pytest.raises(TypeError, match=f"^{name} cannot be .*; it must be .*, or None for the default$"):
                arguments.options({name: wrong}, getattr(options, table))
        assert arguments.options({name: None}, getattr(options, table)) == {}
    with pytest.raises(TypeError, match="no option 'no_such'; there are "):
        arguments.options({"no_such": 1}, getattr(options, table))


def test_unknown_options_have_a_hint(load):
    for wrong, meant in {"max_new_tokens": "max_tokens", "num_predict": "max_tokens", "repeat_penalty": "repetition_penalty",
                         "temperture": "temperature", "stop_sequences": "stop", "Temperature": "temperature"}.items():  # fmt: skip
        for ask in (load().generate, load().chat, load().stream):
            with pytest.raises(TypeError, match=f"no option '{wrong}'; did you mean '{meant}'"):
                ask("hello", **{wrong: 1})
    with pytest.raises(TypeError, match="no option 'num_ctx'; did you mean 'n_ctx'"):
        load(num_ctx=512)
    with pytest.raises(TypeError, match="no option 'n_ctxt'; did you mean 'n_ctx'"):
        load().context(n_ctxt=512)
    with pytest.raises(TypeError, match="no option 'special'"):
        load().chat("hello", special=True)  # It would have no effect.
    for name in options.OTHER_NAMES.values():
        known = {**typing.get_type_hints(options.ModelOptions), **typing.get_type_hints(options.RequestOptions)}
        assert name in known or name in ("draft", "path", "reasoning_budget", "template_variables")


def test_errors_are_in_the_words_of_python(load):
    for given, told in {
        "min_tokens": ({"min_tokens": 10, "max_tokens": 5}, "min_tokens is 10 and max_tokens 5"),
        "timeout": ({"timeout": -1}, "timeout is -1; it must be a number >= 0"),
        "seed": ({"seed": -2}, "seed is -2; it must be an int >= -1, or None for the default"),
        "temperature": ({"temperature": "1"}, "temperature cannot be '1'; it must be a number"),
        "stop": ({"stop": [1]}, r"stop cannot be \[1\]; it must be a str or a list of strs"),
        "logit_bias": ({"logit_bias": {"a": 1.0}}, "it must be a dictionary of ints or strs to numbers"),
        "max_tokens": ({"max_tokens": 2**40}, "it must be an int >= -1 of 32 bits"),
        "logprobs": ({"logprobs": 5000}, "logprobs is 5000; it must be an int from 0 to 1024"),
        "use_adapters": ({"use_adapters": [(0, 1.0)]}, r"adapter 0; the model was loaded without adapters=\[...\]"),
        "prompt": ({"prompt": [5] * 5000}, r"enlarge the context \(n_ctx\), or shorten the prompt"),
    }.values():
        with pytest.raises((TypeError, weft.InvalidArgumentError), match=told):
            load().generate(**{"prompt": "hello"} | given)


def test_values_that_other_programs_use_are_taken(load):
    model = load()
    assert len({tuple(tokens(model, seed=-1, **NONE)) for _ in range(4)}) > 1
    assert tokens(model, logit_bias={"7": 100, 8: -100.0}) == [7] * 16
    assert tokens(model, samplers=["top_k"], top_k=1) == tokens(model, samplers="top_k", top_k=1)
    assert model.generate("hello", max_tokens=1, logprobs=False).logprobs == []
    assert tokens(model, max_tokens=np.int64(3), temperature=np.float32(0.5), ignore_end=np.bool_(True), seed=np.uint32(5))


SWITCH = "{{ messages[0]['content'] }}{{ '<think></think>no' if enable_thinking is defined and not enable_thinking else 'yes' }}"
THINKS = "{{ messages[0]['content'] }}{% if add_generation_prompt %}<think>\n{% endif %}"
CHAT = {
    "tools": lambda m, tool: len(m.apply_chat_template("hi", tools=[tool]).tokens) > len(m.apply_chat_template("hi").tokens),
    "tool_choice": lambda m, tool: [
        len(m.chat("hi", tools=[tool], tool_choice=choice, seed=1, max_tokens=200).tool_calls)
        for choice in ("none", "required", "sky", {"type": "function", "function": {"name": "sky"}})] == [0, 1, 1, 1],
    "parallel_tool_calls": lambda m, tool: [
        max(len(m.chat("hi", tools=[tool], tool_choice="required", parallel_tool_calls=several, seed=seed, max_tokens=200).tool_calls)
            for seed in range(8)) > 1
        for several in (True, False)] == [True, False],
    "reasoning_effort": lambda m, tool: raises(weft.InvalidArgumentError, "reasoning_effort", m.chat, "hi", reasoning_effort="huge"),
    "reasoning_budget": lambda m, tool: [
        m.apply_chat_template("hi", chat_template=SWITCH, reasoning_budget=n).text[2:] for n in (-1, 0)] == ["yes", "<think></think>no"],
    "reasoning_budget_message": lambda m, tool: m.chat(
        "hi", chat_template=THINKS, reasoning_budget=3, reasoning_budget_message="Enough.", max_tokens=60).reasoning.endswith("Enough."),
    "chat_template": lambda m, tool: m.apply_chat_template("hi", chat_template="{{ messages[0]['content'] }}!").text == "hi!",
    "template_variables": lambda m, tool: m.apply_chat_template("hi", chat_template="{{ x }}", template_variables={"x": 5}).text == "5",
    "continue_final_message": lambda m, tool: m.apply_chat_template(
        [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "well"}], continue_final_message=True).text.endswith("well"),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore:the model's chat template does not use")
def test_parameters_of_chats_have_an_effect(load):
    parameters = {name for name, one in inspect.signature(weft.Model.chat_stream).parameters.items() if one.kind is one.KEYWORD_ONLY}
    assert CHAT.keys() == parameters == typing.get_type_hints(weft.model.ConversationOptions).keys()
    assert parameters == {name for name, one in inspect.signature(weft.Model.apply_chat_template).parameters.items()
                          if one.kind is one.KEYWORD_ONLY}  # fmt: skip
    tool = {"type": "function", "function": {"name": "sky", "parameters": {"type": "object", "properties": {"blue": {"type": "boolean"}},
                                                                            "required": ["blue"]}}}  # fmt: skip
    model = load(n_ctx=4096)
    for name, row in CHAT.items():
        assert row(model, tool), name


def test_what_a_chat_template_does_not_use_is_a_warning(load):
    model = load()
    with pytest.warns(UserWarning, match="does not use the variable 'enable_thinkin'"):
        model.chat("hello", max_tokens=1, template_variables={"enable_thinkin": False})
    with pytest.warns(UserWarning, match="does not use reasoning_effort"):
        model.chat("hello", max_tokens=1, reasoning_effort="low")
    messages = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "{"}]
    with pytest.raises(weft.InvalidArgumentError, match="continued cannot be held"):
        model.chat(messages, continue_final_message=True, json_schema=True)


def test_old_names_of_chats_warn_and_work(load):
    model = load(n_ctx=4096)
    messages = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "well"}]
    with pytest.warns(DeprecationWarning, match="use continue_final_message"):
        old = model.apply_chat_template(messages, continue_answer=True)
    assert old.text == model.apply_chat_template(messages, continue_final_message=True).text
    model.generate(old.tokens, max_tokens=1)
    with model.chat_stream("hello", max_tokens=2) as events, pytest.warns(DeprecationWarning, match="use response"):
        assert events.answer is events.response
    with pytest.warns(DeprecationWarning, match="ChatResponse"):
        assert weft.ChatAnswer is weft.ChatResponse
    with pytest.warns(DeprecationWarning, match="save_prefix"):
        n, state = model.save_text(old.tokens)
    with pytest.warns(DeprecationWarning, match="restore_prefix"):
        assert model.restore_text(state) == old.tokens[:n]


def test_chats_have_the_logprobs_that_were_asked_for(load):
    model = load(n_ctx=4096)
    ask = {"max_tokens": 4, "logprobs": 2, "prompt_logprobs": True}
    answer = model.chat("hello", **ask)
    prompt = model.apply_chat_template("hello").tokens
    assert [one.token for one in answer.logprobs] == answer.tokens and len(answer.tokens) == 4
    assert [one.token for one in answer.prompt_logprobs] == prompt[1:] and len(answer.logprobs[0].top) == 2
    with model.chat_stream("hello", **ask) as events:
        for _ in events:
            assert len(events.response.logprobs) == len(events.response.tokens)
    assert len(events.response.logprobs) == 4 and events.response.prompt_logprobs == answer.prompt_logprobs


def test_adapters_apply_at_scale_1(load, adapter_file):
    base, adapted = load(), load(adapters=[adapter_file])
    expected = tokens(adapted, use_adapters=[(0, 1.0)], **GREEDY)
    assert tokens(adapted, **GREEDY) == expected != tokens(base, **GREEDY)
    assert tokens(adapted, use_adapters=[], **GREEDY) == tokens(base, **GREEDY)
    assert tokens(load(adapters=[adapter_file], use_adapters=[]), **GREEDY) == tokens(base, **GREEDY)
    # In loops of one's own and in vectors, too.
    batch = weft.Batch()
    batch.add(base.tokenize("hello world"), logits=True)
    rows = []
    for context in (base.context(n_ctx=64), adapted.context(n_ctx=64), adapted.context(n_ctx=64, use_adapters=[])):
        context.decode(batch)
        rows.append(context.logits(len(batch) - 1).copy())
    assert np.array_equal(rows[0], rows[2]) and not np.array_equal(rows[0], rows[1]) and rows[1].argmax() == expected[0]
    vectors = [weft.Embedder(model).embed("hello") for model in (base, adapted)]
    assert not np.array_equal(*vectors)
    assert np.array_equal(weft.Embedder(adapted, use_adapters=[]).embed("hello"), vectors[0])


EMBEDDER = {
    "n_tokens": lambda embedder: embedder(n_tokens=8).max_tokens == 8,
    "use_adapters": lambda embedder: raises(weft.InvalidArgumentError, "use_adapters", embedder, use_adapters=[(0, 1.0)]),
    "normalize": lambda embedder: not np.array_equal(*(embedder().embed("hello", normalize=on) for on in (True, False))),
    "pooling": lambda embedder: not np.array_equal(*(embedder().embed("hello world", pooling=one) for one in ("mean", "last"))),
    "dimensions": lambda embedder: embedder().embed("hello", dimensions=3).shape == (3,),
}


def test_options_of_embedders_have_an_effect(load):
    own = typing.get_type_hints(options.EmbedderOptions).keys() - LOAD.keys()
    of_calls = [{n for n, one in inspect.signature(f).parameters.items() if one.kind is one.KEYWORD_ONLY}
                for f in (weft.Embedder.embed, weft.Embedder.embed_async)]  # fmt: skip
    assert of_calls[0] == of_calls[1] and EMBEDDER.keys() == own | of_calls[0]
    for name, row in EMBEDDER.items():
        assert row(lambda **given: weft.Embedder(ENCODERS / "bert/model.gguf", **({"pack_cache": ""} | given))), name
    for name in ("n_running", "n_ctx", "k_type", "draft"):
        with pytest.raises(TypeError, match=f"no option '{name}'"):
            weft.Embedder(ENCODERS / "bert/model.gguf", **{name: 1})
    with pytest.raises(TypeError, match=r"no option 'pooling'; it is a parameter of embed\(\)"):
        weft.Embedder(ENCODERS / "bert/model.gguf", pooling="mean")
    with pytest.raises(TypeError, match=r"already loaded: give repack to weft\.Model\(\)"):
        weft.Embedder(load(), repack=True)


def test_help_lists_every_option():
    for function, table in ((weft.Model.generate, options.RequestOptions), (weft.Model.chat, options.ResponseOptions),
                            (weft.Model.__init__, options.ModelOptions), (weft.Model.context, options.ContextOptions),
                            (weft.Model.sampler, options.SamplingOptions), (weft.Embedder.__init__, options.EmbedderOptions)):  # fmt: skip
        for name in typing.get_type_hints(table):
            assert f"\n    {name}: " in function.__doc__, (function, name)
    assert "temperature: a number (default 0.8). 0: always" in weft.Model.generate.__doc__
