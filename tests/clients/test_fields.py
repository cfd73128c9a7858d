"""Fields that clients of other servers send."""
import json
from pathlib import Path

import pytest

from test_wire import CHAT, address, get, post  # noqa: F401: a fixture

# Fields that clients of vLLM, SGLang, llama.cpp, Ollama, OpenRouter and web pages send.
FOREIGN = {
    "keep_alive": "5m", "options": {"num_ctx": 4096}, "include_reasoning": True, "separate_reasoning": True, "t_max_predict_ms": 100,
    "t_max_prompt_ms": 100, "post_sampling_probs": True, "response_fields": ["content"], "verbose": True, "n_indent": 4,
    "backend_sampling": True, "reasoning_control": "x", "adaptive_target": 0.5, "adaptive_decay": 0.9,
    "sse_ping_interval": 5, "speculative.n_max": 4,
    "speculative": {"n_max": 4}, "grammar_lazy": True, "grammar_triggers": [1], "preserved_tokens": [1],
    "length_penalty": 0.9, "early_stopping": True, "prompt_logprobs": 1, "logprob_token_ids": [1], "kv_transfer_params": {"a": 1},
    "vllm_xargs": {"a": 1}, "mm_processor_kwargs": {"a": 1}, "documents": [{"text": "x"}], "chat_template": "x", "custom_params": {"a": 1},
    "top_a": 0.3, "tfs_z": 0.9, "rep_pen": 1.1, "rep_pen_range": 64, "mode": "chat", "character": "x", "preset": "x",
    "models": ["a", "b"], "provider": {"order": ["a"]}, "transforms": ["middle-out"], "route": "fallback", "plugins": [{"id": "web"}],
    "usage": {"include": True}, "session_id": "1", "chat_id": "1", "id": "1", "background_tasks": {"a": True}, "features": {"a": True},
    "variables": {"a": "b"}, "model_item": {"id": "x"}, "filter_ids": ["a"], "tool_ids": ["a"], "files": [{"id": "a"}],
    "draft": "x", "num_predict": 5, "num_ctx": 1024, "raw": True, "format": "json", "images": ["x"], "context": [1], "bogus": 1,
    "mirostat_mode": 1, "no_stop_trim": True, "regex": "a", "ebnf": "x", "rid": "1", "lora_path": "x", "return_hidden_states": True,
    "repetition_detection": {"a": 1}, "cache_salt": "x", "data_parallel_rank": 1, "echo": True, "best_of": 4,
    "min_keep": 3, "n_cache_reuse": 64, "return_progress": True, "n_discard": 5, "store": True, "verbosity": "low",
    "service_tier": "flex", "web_search_options": {"search_context_size": "low"}, "audio": {"voice": "alloy"},
    "modalities": ["text", "audio"], "samplers_order": [1],
}


def chat(address, **fields):
    answer, body = post(address, "/v1/chat/completions", {**CHAT, "max_tokens": 2, **fields})
    return answer, json.loads(body) if body.startswith(b"{") else body


def ignored(answer):
    return [name for name in (answer.headers["X-Weft-Ignored"] or "").split(", ") if name]


@pytest.mark.parametrize("breakers", [[""], ["", "\n"], []])
@pytest.mark.parametrize("multiplier", [0, 0.8])
def test_empty_dry_breakers_match_nothing(address, breakers, multiplier):
    answer, body = chat(address, dry_multiplier=multiplier, dry_sequence_breakers=breakers)
    assert answer.status == 200, body


@pytest.mark.parametrize("samplers, skipped", [
    (["penalties", "dry", "top_n_sigma", "top_k", "tfs_z", "typ_p", "top_p", "min_p", "xtc", "temperature"], ["samplers.tfs_z"]),
    (["adaptive_p", "infill", "top_k"], ["samplers.infill", "samplers.adaptive_p"]),
    (["min_p", "temperature"], []), ("min_p;temperature", []), ("mt", []), ("kfypmt", ["samplers.tfs_z"]), ("edskypmxta", ["samplers.adaptive_p"]), ("ki", ["samplers.infill"]), ("a", ["samplers.adaptive_p"]),
    ("min_p", []), ("", []), ([], []),
])
def test_samplers_that_weft_lacks_are_skipped(address, samplers, skipped):
    answer, body = chat(address, samplers=samplers)
    assert (answer.status, ignored(answer)) == (200, skipped), body


@pytest.mark.parametrize("samplers", [["nonsense"], "zz", ["top_kk"], "kq"])
def test_unknown_samplers_are_refused(address, samplers):
    answer, body = chat(address, samplers=samplers)
    assert answer.status == 400 and "unknown sampler" in body["error"]["message"]


def test_foreign_fields_are_reported(address):
    for name, value in FOREIGN.items():
        answer, body = chat(address, max_tokens=1, **{name: value})
        assert (answer.status, ignored(answer)) == (200, [name]), body


def test_values_without_effect_are_not_reported(address):
    nothing = dict.fromkeys(FOREIGN) | {"echo": False, "best_of": 1, "min_keep": 0, "n_cache_reuse": 0, "tfs_z": 1, "top_a": 0,
                                        "return_progress": False, "store": False, "service_tier": "auto"}
    answer, body = chat(address, **nothing)
    assert answer.status == 200 and ignored(answer) == [], body
    for name in ("temperature", "top_p", "seed", "stop", "tools", "tool_choice", "response_format", "stream", "stream_options",
                 "max_tokens", "logit_bias", "n", "grammar", "structured_outputs", "logprobs", "user", "metadata", "audio"):
        answer, body = chat(address, **{name: None})
        assert answer.status == 200 and ignored(answer) == [], (name, body)


@pytest.mark.parametrize("path, body", [
    ("/v1/completions", {"prompt": "x", "max_tokens": 1}), ("/v1/embeddings", {"input": "x"}), ("/v1/responses", {"input": "x", "max_output_tokens": 1}),
    ("/v1/messages", {"messages": [{"role": "user", "content": "x"}], "max_tokens": 1}), ("/tokenize", {"content": "x"}),
    ("/v1/messages/count_tokens", {"messages": [{"role": "user", "content": "x"}]}), ("/apply-template", {"messages": CHAT["messages"]}),
])
def test_all_endpoints_take_unknown_fields(address, path, body):
    answer, text = post(address, path, {**body, "keep_alive": 5, "zorp\r\nX: y": 1, "nothing": None})
    assert answer.status == 200, text
    assert ignored(answer) == ["keep_alive", "zorp__X:_y".replace(":", "_")]


def test_names_are_logged_once(start_server):
    mine = start_server()
    for _ in range(3):
        post(mine.address, "/tokenize", {"content": "x", "keep_alive": 5})
    for i in range(400):
        post(mine.address, "/tokenize", {"content": "x", f"unknown_{i}": 5})
    assert mine.text().count("'keep_alive' is ignored") == 1
    assert mine.text().count("is ignored") == 256


def test_mistyped_names_are_refused(address):
    for name in ("temprature", "max_token", "messagess", "steam", "tool_choise", "top_pp"):
        answer, body = chat(address, **{name: 1})
        assert answer.status == 400 and "did you mean" in body["error"]["message"], name
    answer, body = chat(address, stream=True, stream_options={"include_usge": True})
    assert answer.status == 400 and json.loads(json.dumps(body))


def test_settings_that_are_empty_or_huge(address):
    for fields in ({"stop": [""]}, {"stop": ""}, {"stop": ["", "zzz"]}, {"max_tokens": 2 ** 31, "stop": ["a", "e", "o"]},
                   {"top_k": 2 ** 40}, {"logit_bias": {}}, {"tools": []}, {"tool_choice": ""}, {"guided_json": ""},
                   {"stream_options": {"include_usage": True}}):
        answer, body = chat(address, **fields)
        assert answer.status == 200, (fields, body)


def test_repeat_penalty_names_itself(address):
    for name in ("repeat_penalty", "repetition_penalty"):
        answer, body = chat(address, **{name: 0})
        assert answer.status == 400 and f"'{name}' must be above 0" in body["error"]["message"]


def test_minimum_above_the_maximum_names_both(address):
    for name in ("max_tokens", "max_completion_tokens", "n_predict"):
        answer, body = chat(address, **{"min_tokens": 10, "max_tokens": None, name: 5})
        assert answer.status == 400
        assert body["error"]["message"] == f"'min_tokens' is 10 and '{name}' 5; make 'min_tokens' the smaller one"


SCHEMA = {"type": "object", "properties": {"a": {"enum": [1]}}, "required": ["a"], "additionalProperties": False}


@pytest.mark.parametrize("fields, expected", [
    ({"structured_outputs": {"json": SCHEMA}}, '{"a":1}'), ({"structured_outputs": {"json": json.dumps(SCHEMA)}}, '{"a":1}'),
    ({"structured_outputs": {"regex": "yes!"}}, "yes!"), ({"structured_outputs": {"choice": ["north"]}}, "north"),
    ({"structured_outputs": {"grammar": 'root ::= "ok"'}}, "ok"), ({"guided_json": json.dumps(SCHEMA)}, '{"a":1}'),
    ({"guided_json": SCHEMA}, '{"a":1}'), ({"guided_regex": "yes!"}, "yes!"), ({"guided_choice": ["north"]}, "north"),
    ({"guided_grammar": 'root ::= "ok"'}, "ok"), ({"response_format": {"type": "regex", "pattern": "yes!"}}, "yes!"),
    ({"response_format": {"type": "regex", "value": "yes!"}}, "yes!"), ({"response_format": {"type": "grammar", "grammar": 'root ::= "ok"'}}, "ok"),
    ({"json_schema": SCHEMA}, '{"a":1}'),
])
def test_constraints_of_other_servers(address, fields, expected):
    answer, body = chat(address, max_tokens=40, **fields)
    assert answer.status == 200, body
    assert body["choices"][0]["message"]["content"].replace(" ", "").replace("\n", "") == expected
    assert ignored(answer) == []


def test_constraints_exclude_each_other(address):
    answer, body = chat(address, grammar='root ::= "a"', structured_outputs={"regex": "b"})
    assert answer.status == 400 and "send one of them" in body["error"]["message"]
    answer, body = chat(address, guided_json="{nonsense")
    assert answer.status == 400 and body["error"]["param"] == "guided_json"


def complete(address, **fields):
    answer, body = post(address, "/v1/completions", {"prompt": "The sky is", "max_tokens": 8, "temperature": 0, **fields})
    assert answer.status == 200, body
    return json.loads(body)


def test_stops(address):
    whole = complete(address, return_token_ids=True)["choices"][0]
    word = whole["text"].split()[1]
    assert not complete(address, stop=[word])["choices"][0]["text"].endswith(word)
    shown = complete(address, stop=[word], include_stop_str_in_output=True)["choices"][0]
    assert shown["text"].endswith(word) and shown["finish_reason"] == "stop"
    ended = complete(address, stop_token_ids=[whole["token_ids"][2]])["choices"][0]
    assert ended["finish_reason"] == "stop" and whole["text"].startswith(ended["text"]) and ended["text"] != whole["text"]


def test_lengths_and_prompts(address):
    assert complete(address, max_tokens=None, max_completion_tokens=3)["usage"]["completion_tokens"] == 3
    assert complete(address, truncate_prompt_tokens=2)["usage"]["prompt_tokens"] == 2
    cached = [complete(address, prompt="A prompt of a few words that comes again", cache_prompt=cache)["usage"]["prompt_tokens_details"]["cached_tokens"]
              for cache in (True, True, False)]
    assert cached[1] > 0 and cached[2] == 0


def test_a_cut_prompt_is_echoed_as_it_was_read(address):
    choices = complete(address, prompt="one two three", truncate_prompt_tokens=1, echo=True, n=2, max_tokens=1, return_token_ids=True)["choices"]
    for choice in choices:
        assert choice["text"].strip().startswith("three") and "one" not in choice["text"]
    assert complete(address, prompt="one two three", truncate_prompt_tokens=64, echo=True)["choices"][0]["text"].startswith("one two three")


def test_a_negative_n_keep_keeps_the_whole_prompt(address):
    for n_keep in (-1, 0, 5):
        assert complete(address, n_keep=n_keep)["usage"]["completion_tokens"] > 0


def test_seeds_have_64_bits(address):
    seeds = (2**62 + 1, 2**62 + 2, 2**64 - 2, -(2**63))
    texts = {complete(address, seed=seed, temperature=1.5, max_tokens=24)["choices"][0]["text"] for seed in (*seeds, *seeds)}
    assert len(texts) == len(seeds)


def test_logprobs_have_the_chosen_token(address):
    logprobs = complete(address, logprobs=0, max_tokens=3)["choices"][0]["logprobs"]
    assert [list(top) for top in logprobs["top_logprobs"]] == [[token] for token in logprobs["tokens"]]
    assert complete(address, logprobs=True, max_tokens=1)["choices"][0]["logprobs"]["tokens"]
    for off in ({"logprobs": False}, {"n_probs": 0}):
        assert complete(address, max_tokens=1, **off)["choices"][0]["logprobs"] is None


@pytest.mark.parametrize("path, body", [("/v1/chat/completions", CHAT), ("/v1/completions", {"prompt": "The sky is", "max_tokens": 8})])
def test_usage_in_each_chunk(address, path, body):
    options = {"include_usage": True, "continuous_usage_stats": True}
    answer, text = post(address, path, {**body, "stream": True, "stream_options": options})
    chunks = [json.loads(line[6:]) for line in text.decode().splitlines() if line.startswith("data: {")]
    counts = [chunk["usage"]["completion_tokens"] for chunk in chunks]
    assert counts == sorted(counts) and counts[-1] == counts[-2] > 0
    assert len({chunk["usage"]["prompt_tokens"] for chunk in chunks}) == 1


@pytest.mark.parametrize("path", ["/chat/completions/input_tokens", "/responses/input_tokens"])
def test_tokens_are_counted_without_the_prefix(address, path):
    body = {"messages": CHAT["messages"], "input": CHAT["messages"]}
    counts = [json.loads(post(address, prefix + path, body)[1])["input_tokens"] for prefix in ("", "/v1")]
    assert counts[0] == counts[1] > 5


def test_parts_of_text_are_embedded(address):
    def embed(value):
        answer, text = post(address, "/v1/embeddings", {"input": value})
        assert answer.status == 200, text
        return [entry["embedding"] for entry in json.loads(text)["data"]]

    parts = {"content": [{"type": "text", "text": "hello "}, {"type": "text", "text": "world"}]}
    assert embed(parts) == embed("hello world")
    assert len(embed(["hello world", parts])) == 2
    image = {"content": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}]}
    assert post(address, "/v1/embeddings", {"input": image})[0].status == 400


def test_biases_of_strings(address):
    word = complete(address)["choices"][0]["text"].split()[0]
    assert not complete(address, logit_bias={" " + word: -100})["choices"][0]["text"].startswith(" " + word)
    answer, body = post(address, "/v1/completions", {"prompt": "x", "logit_bias": {"": 1}})
    assert answer.status == 400 and b"the string \\\"\\\"" in body


TOOLS = [{"type": "function", "function": {"name": name, "parameters": {
    "type": "object", "properties": {"x": {"enum": ["a"]}}, "required": ["x"], "additionalProperties": False}}} for name in ("one", "two")]


@pytest.mark.parametrize("choice, names", [
    ("any", {"one", "two"}), ({"type": "any"}, {"one", "two"}), ({"type": "tool", "name": "two"}, {"two"}),
    ({"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [{"type": "function", "function": {"name": "two"}}]}}, {"two"}),
    ({"type": "allowed_tools", "mode": "required", "tools": [{"type": "function", "name": "one"}]}, {"one"}),
    ({"type": "none"}, set()), ({"type": "web_search"}, None),
])
def test_choices_of_tools(address, choice, names):
    answer, body = chat(address, tools=TOOLS, tool_choice=choice, max_tokens=60, parallel_tool_calls=False)
    assert answer.status == 200, body
    calls = body["choices"][0]["message"].get("tool_calls") or []
    if names is None:
        assert ignored(answer) == ["tool_choice.web_search"]
    else:
        assert {call["function"]["name"] for call in calls} <= names and bool(calls) == bool(names)


def test_the_last_message_is_continued(address):
    messages = [*CHAT["messages"], {"role": "assistant", "content": "The answer is"}]
    for how in (True, "content", "reasoning_content"):
        assert chat(address, messages=messages, continue_final_message=how)[0].status == 200, how
        answer, text = post(address, "/apply-template", {"messages": messages, "continue_final_message": how})
        assert json.loads(text)["prompt"].endswith("The answer is")
    answer, body = chat(address, messages=messages, continue_final_message=True, add_generation_prompt=True)
    assert answer.status == 400


def test_reasoning_formats(address):
    for how in ("auto", "none", "deepseek", "deepseek-legacy"):
        assert chat(address, reasoning_format=how)[0].status == 200
    assert chat(address, reasoning_format="what")[0].status == 400


@pytest.mark.parametrize("fields", [
    {"enable_thinking": False}, {"think": False}, {"think": "low"}, {"thinking": {"type": "disabled"}}, {"thinking": {"type": "enabled"}},
    {"reasoning": {"effort": "low"}}, {"reasoning": {"enabled": False}}, {"reasoning_effort": "xhigh"}, {"reasoning_effort": "none"}])
def test_efforts_of_other_apis(address, fields):
    answer, body = chat(address, **fields)
    assert answer.status == 200 and ignored(answer) == [], body


BUDGETS = [{"reasoning_budget": 3}, {"reasoning_budget_tokens": 3}, {"thinking_budget_tokens": 3}, {"thinking_token_budget": 3},
           {"thinking_budget": 3}, {"thinking": {"type": "enabled", "budget_tokens": 3}}, {"reasoning": {"max_tokens": 3}}]


@pytest.mark.parametrize("fields", BUDGETS)
def test_budgets_of_other_apis(address, fields):
    answer, body = chat(address, **fields)
    assert answer.status == 200 and ignored(answer) == [], body
    answer, _ = post(address, "/v1/completions", {"prompt": "a", "max_tokens": 1, **fields})
    assert answer.status == 200 and [name for name in ignored(answer) if name.startswith(next(iter(fields)))]


def test_wrong_budgets_are_named(address):
    for fields in ({"thinking_budget": "x"}, {"reasoning_budget": -2}, {"thinking": {"type": "enabled", "budget_tokens": 1.5}}):
        answer, body = chat(address, **fields)
        assert answer.status == 400 and param_of(body).startswith(next(iter(fields))), body


def test_banned_strings_are_never_in_a_response(address):
    for stream in (False, True):
        free = chat(address, temperature=0, max_tokens=12)[1]["choices"][0]["message"]["content"]
        banned = free[len(free) // 2:][:4]
        answer, body = post(address, "/v1/chat/completions", {**CHAT, "temperature": 0, "max_tokens": 12, "banned_strings": [banned, ""], "stream": stream})
        assert answer.status == 200 and ignored(answer) == [], body
        if not stream:
            assert banned.lower() not in json.loads(body)["choices"][0]["message"]["content"].lower()
    answer, body = chat(address, banned_strings=["x" * 1000])
    assert answer.status == 400, body


def test_structural_tags(address):
    form = {"type": "tag", "begin": "<n>", "content": {"type": "json_schema", "json_schema": {"enum": [1, 2]}}, "end": "</n>"}
    tag = {"type": "structural_tag", "format": form}
    for fields in ({"response_format": tag}, {"structured_outputs": {"structural_tag": tag}}, {"structured_outputs": {"structural_tag": json.dumps(tag)}}):
        answer, body = chat(address, max_tokens=40, **fields)
        assert answer.status == 200 and ignored(answer) == [], body
        assert body["choices"][0]["message"]["content"] in ("<n>1</n>", "<n>2</n>"), body
    older = {"type": "structural_tag", "structures": [{"begin": "<n>", "schema": {"enum": [1]}, "end": "</n>"}], "triggers": ["<n"]}
    assert chat(address, response_format=older)[0].status == 200
    answer, body = chat(address, response_format={"type": "structural_tag", "format": {"type": "regex"}})
    assert answer.status == 400 and "format.pattern" in body["error"]["message"] and param_of(body) == "response_format", body


def test_roles_and_empty_lists(address):
    for messages in ([{"role": "developer", "content": "x"}, {"role": "user", "content": "x"}], [{"role": "what", "content": "x"}],
                     [{"role": "user", "content": "x", "tool_calls": []}],
                     [{"role": "user", "content": "x"}, {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": "{"}},
                      {"role": "function", "name": "f", "content": None}, {"role": "user", "content": "y"}]):
        answer, body = chat(address, messages=messages)
        assert answer.status == 200, body
        assert ('the role "what" is unknown' in (answer.headers["X-Weft-Warnings"] or "")) == (messages[0]["role"] == "what")


def test_a_lone_surrogate_is_named(address):
    answer, body = post(address, "/v1/chat/completions", b'{"messages": [{"role": "user", "content": "\\ud83d"}]}')
    assert answer.status == 400 and b"lone surrogate" in body


def test_a_wrong_key(start_server):
    mine = start_server("--api-key", "right")
    answer, body = post(mine.address, "/v1/chat/completions", CHAT)
    assert answer.status == 401 and json.loads(body)["error"]["type"] == "authentication_error"


def param_of(body):
    return (body if isinstance(body, dict) else json.loads(body))["error"]["param"]


def test_switches_of_reasoning_have_types(address):
    for fields in ({"enable_thinking": "false"}, {"enable_thinking": 0}, {"thinking": "disabled"}, {"think": 1}, {"thinking": {"type": "off"}}):
        answer, body = chat(address, **fields)
        assert answer.status == 400 and param_of(body).startswith(next(iter(fields))), body
    body = {"messages": CHAT["messages"], "max_tokens": 1}
    for thinking in ("disabled", {"type": "off"}):
        assert post(address, "/v1/messages", {**body, "thinking": thinking})[0].status == 400
    for thinking in ({"type": "enabled", "budget_tokens": 1024}, {"type": "adaptive", "display": "omitted"}, {"type": "disabled"}):
        answer, text = post(address, "/v1/messages", {**body, "thinking": thinking})
        assert answer.status == 200 and ignored(answer) == [], text


WRONG_TOOL = {"type": "function", "function": {"name": "a b"}}


@pytest.mark.parametrize("fields, path", [
    ({"tools": [{"type": "web_search"}, TOOLS[0], WRONG_TOOL]}, "tools[2].function"),
    ({"tools": [{"type": "namespace", "name": "s", "tools": [TOOLS[0], {"type": "function", "name": "a b"}]}]}, "tools[0].tools[1]"),
    ({"tools": [TOOLS[0], WRONG_TOOL]}, "tools[1].function"),
    ({"tools": [TOOLS[0], {"type": "function", "name": "a b"}]}, "tools[1]"),
])
def test_a_wrong_tool_is_named_by_its_place(address, fields, path):
    answer, body = chat(address, **fields)
    assert answer.status == 400 and param_of(body) == path.removesuffix(".function"), body
    assert body["error"]["message"].startswith(path + ".name")


def test_a_strict_tool_is_named_by_its_place(address):
    strict = {"type": "function", "function": {"name": "f", "strict": True, "parameters": {
        "type": "object", "properties": {"x": {"not": {"type": "string"}}}}}}
    allowed = {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "f"}]}
    for choice in ("auto", allowed):
        answer, body = chat(address, tools=[{"type": "web_search"}, TOOLS[0], strict], tool_choice=choice)
        assert answer.status == 400 and param_of(body) == "tools[2]", body


def test_allowed_tools_that_are_wrong(address):
    def allowed(names, **more):
        return chat(address, tools=TOOLS, tool_choice={"type": "allowed_tools", "tools": [{"type": "function", "name": n} for n in names], **more})
    answer, body = allowed(["one", "three"])
    assert answer.status == 400 and param_of(body) == "tool_choice.tools[1]" and "three" in body["error"]["message"]
    answer, body = allowed(["one"] * 2049)
    assert answer.status == 400 and "2048" in body["error"]["message"]
    answer, body = allowed(["one"], bogus=1)
    assert answer.status == 200 and ignored(answer) == ["tool_choice.bogus"]
    answer, body = chat(address, tools=TOOLS, tool_choice={"type": "auto", "bogus": 1})
    assert answer.status == 200 and ignored(answer) == ["tool_choice.bogus"]


def test_forms_of_a_response_exclude_each_other(address):
    form = {"type": "json_schema", "name": "x", "schema": SCHEMA}
    bare = {"type": "json_schema", "schema": SCHEMA}
    message = {"messages": CHAT["messages"], "max_tokens": 1}
    for path, body in (("/v1/responses", {"input": "x", "grammar": 'root ::= "a"', "text": {"format": form}}),
                       ("/v1/responses", {"input": "x", "response_format": {"type": "json_object"}, "text": {"format": {"type": "json_object"}}}),
                       ("/v1/messages", {**message, "output_format": bare, "output_config": {"format": bare}}),
                       ("/v1/messages", {**message, "guided_regex": "a", "output_format": bare})):
        answer, text = post(address, path, body)
        assert answer.status == 400 and b"send one of them" in text, text


@pytest.mark.parametrize("name, value, code", [
    ("guided_regex", "(", "invalid_regex"), ("grammar", "root ::= (", "invalid_grammar"),
    ("guided_grammar", "root ::=  missing", "invalid_grammar")])
def test_a_wrong_grammar_names_its_field(address, name, value, code):
    for path, body in (("/v1/chat/completions", CHAT), ("/v1/completions", {"prompt": "x", "max_tokens": 1})):
        answer, text = post(address, path, {**body, name: value})
        assert answer.status == 400 and param_of(text) == name, text
        assert json.loads(text)["error"]["code"] == code


def test_a_strict_schema_that_cannot_be_enforced_has_its_own_code(address):
    form = {"type": "json_schema", "json_schema": {"name": "x", "strict": True, "schema": {"not": {"type": "string"}}}}
    for path, body in (("/v1/chat/completions", CHAT), ("/v1/completions", {"prompt": "x", "max_tokens": 1})):
        answer, text = post(address, path, {**body, "response_format": form})
        assert answer.status == 400 and json.loads(text)["error"]["code"] == "invalid_json_schema", text


def test_shown_stops_follow_the_last_list(address):
    def write(**fields):
        answer, text = post(address, "/v1/messages", {"messages": CHAT["messages"], "max_tokens": 8, "temperature": 0, **fields})
        assert answer.status == 200, text
        return json.loads(text)["content"][0]["text"]

    whole = write()
    stop = whole[2:4]
    for others in ([], ["zz", "yy"]):
        assert write(stop=others, include_stop_str_in_output=True, stop_sequences=[stop]) == whole[:whole.index(stop) + 2]


def test_biases_of_objects(address):
    whole = complete(address, return_token_ids=True)["choices"][0]
    first = whole["token_ids"][0]
    biased = complete(address, logit_bias=[{"id": first, "bias": -100}], return_token_ids=True)["choices"][0]
    assert biased["token_ids"][0] != first
    for wrong in ({"id": first}, {"id": 1.5, "bias": 1}, {"id": -1, "bias": 1}, {"bias": 1}):
        answer, body = post(address, "/v1/completions", {"prompt": "x", "logit_bias": [wrong]})
        assert answer.status == 400 and b"logit_bias[0]" in body
    answer, body = post(address, "/v1/completions", {"prompt": "x", "logit_bias": {"a b " * 70000: 1}})
    assert answer.status == 400 and b"the size of the vocabulary" in body


@pytest.mark.parametrize("token", [999999, 99999999999, 2 ** 64 - 1, -7])
def test_tokens_outside_the_vocabulary_are_named_as_they_were_sent(address, token):
    for biases in ({str(token): 1}, [[token, 1]], [{"id": token, "bias": 1}]):
        answer, body = post(address, "/v1/completions", {"prompt": "x", "logit_bias": biases})
        assert answer.status == 400 and f"token {token} is outside the vocabulary" in json.loads(body)["error"]["message"]


def test_calls_of_mcp_have_one_id(address):
    call = {"type": "mcp_call", "id": "mcp_1", "call_id": "call_1", "name": "f", "arguments": "{}", "output": "seen"}
    counts = []
    for item in (call, {**call, "id": "call_1"}):
        answer, text = post(address, "/v1/responses/input_tokens", {"input": [{"role": "user", "content": "x"}, item]})
        assert answer.status == 200, text
        counts.append(json.loads(text)["input_tokens"])
    assert counts[0] == counts[1]


TINY = ("-m", str(Path(__file__).parent.parent / "data/golden/llama/model.gguf"), "-c", "256", "-np", "2")


@pytest.fixture(scope="module")
def tiny(start_server, tmp_path_factory):
    return start_server(*TINY, "--slot-save-path", str(tmp_path_factory.mktemp("slots"))).address


def test_large_objects_of_data_are_read(tiny):
    n_vocab = json.loads(get(tiny, "/v1/models")[1])["data"][0]["meta"]["n_vocab"]
    body = {"prompt": "x", "max_tokens": 3, "return_token_ids": True, "metadata": {f"key{i}": "x" for i in range(300000)}}
    answer, text = post(tiny, "/v1/completions", {**body, "logit_bias": {str(i): -100 for i in range(n_vocab) if i != 7}, "ignore_eos": True})
    assert answer.status == 200 and json.loads(text)["choices"][0]["token_ids"] == [7, 7, 7], text
    answer, text = post(tiny, "/v1/completions", {**body, "logit_bias": {str(i): 1 for i in range(n_vocab + 1)}})
    assert answer.status == 400 and b"logit_bias" in text
    answer, text = post(tiny, "/v1/completions", '{"prompt": "x", "max_tokens": 1, "n": 7, "stop": "x", "n": 2}')
    assert answer.status == 200 and len(json.loads(text)["choices"]) == 2, text


def test_what_generates_nothing_may_fill_the_context(tiny):
    for n, status in ((256, 200), (257, 400)):
        answer, text = post(tiny, "/v1/embeddings", {"input": [5] * n})
        assert answer.status == status, text
        answer, text = post(tiny, "/v1/completions", {"prompt": [5] * n, "max_tokens": 0, "echo": True, "logprobs": 0})
        assert answer.status == status, text
        if status == 200:
            assert len(json.loads(text)["choices"][0]["logprobs"]["tokens"]) == n
        else:
            assert "maximum context length is 256" in json.loads(text)["error"]["message"]
    answer, text = post(tiny, "/v1/completions", {"prompt": [5] * 256, "max_tokens": 1})
    assert answer.status == 400 and "at least one" in json.loads(text)["error"]["message"]


def test_a_grammar_that_is_too_ambiguous_is_an_error_of_the_request(tiny):
    # Each "a" doubles the parses. Token 100 is the byte "a".
    rules = ['root ::= s "z"', 's ::= "a" s "b" | "a" t "c" | "y"', 't ::= "a" t "b" | "a" s "d" | "y"']
    body = {"prompt": "x", "max_tokens": 64, "grammar": "\n".join(rules), "logit_bias": {"100": 100}}
    answer, text = post(tiny, "/v1/completions", body)
    error = json.loads(text)["error"]
    assert answer.status == 400 and (error["code"], error["param"]) == ("invalid_grammar", "grammar"), text
    assert error["type"] == "invalid_request_error" and "too ambiguous" in error["message"]
    answer, text = post(tiny, "/v1/completions", {**body, "stream": True})
    assert answer.status == 200
    assert b'"code":"invalid_grammar"' in text and b'"type":"invalid_request_error"' in text, text


def test_allowed_tokens_and_bad_words(tiny):
    def tokens(**fields):
        answer, text = post(tiny, "/v1/completions", {"prompt": "x", "max_tokens": 8, "return_token_ids": True, "seed": 1,
                                                      "ignore_eos": True, "temperature": 2, **fields})
        assert answer.status == 200 and ignored(answer) == [], text
        return json.loads(text)["choices"][0]["token_ids"]

    assert set(tokens(allowed_token_ids=[7, 9])) <= {7, 9}
    assert set(tokens(allowed_token_ids=[7, 9], logit_bias={"7": -100, "8": 100})) == {9}
    word, = [piece for piece in "abcdefghijklmnopqrstuvwxyz" if len(ids_of(tiny, piece)) == 1][:1]
    banned = ids_of(tiny, word)
    assert set(tokens(allowed_token_ids=[*banned, 9], bad_words=[word])) == {9}
    for fields, param in (({"allowed_token_ids": []}, "allowed_token_ids"), ({"allowed_token_ids": [-1]}, "allowed_token_ids[0]"),
                          ({"bad_words": ["a", ""]}, "bad_words[1]"), ({"use_beam_search": True}, "use_beam_search")):
        answer, text = post(tiny, "/v1/completions", {"prompt": "x", "max_tokens": 1, **fields})
        assert answer.status == 400 and param_of(text) == param, text
    assert post(tiny, "/v1/completions", {"prompt": "x", "max_tokens": 1, "use_beam_search": False, "bad_words": ["many different words"]})[0].status == 200


def ids_of(address, text):
    return json.loads(post(address, "/tokenize", {"content": text})[1])["tokens"]


def test_an_unknown_action_on_a_slot_is_named(tiny):
    answer, text = post(tiny, "/slots/0?action=zork", {})
    assert answer.status == 400 and param_of(text) == "action" and b"'zork'" in text, text


def test_tools_that_were_left_out_are_named(address):
    for tools in ([], [{"type": "web_search"}, {"type": "mcp"}]):
        answer, body = chat(address, tools=tools, tool_choice="required")
        assert answer.status == 400 and param_of(body) == "tool_choice"
        message = body["error"]["message"]
        assert "tools[0] (web_search), tools[1] (mcp)" in message if tools else "missing or empty" in message, message
