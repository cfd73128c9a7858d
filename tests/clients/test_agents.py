"""Coding agents' conversations, from the first turn to the last."""
import json

import pytest

from agent_requests import (CLAUDE_FIRST, CLAUDE_HISTORY, CODEX_FIRST, CODEX_HISTORY, PATCH_GRAMMAR, PIXEL,
                            claude_code, codex, function, tool_change)
from test_wire import address, post  # noqa: F401: a fixture


def events_of(answer, body):
    assert answer.status == 200, body
    return [json.loads(line[6:]) for line in body.decode().splitlines() if line.startswith("data: {")]


def respond(address, items, **more):
    """The output of a streamed turn, and its events."""
    answer, body = post(address, "/v1/responses", codex(items, **more))
    events = events_of(answer, body)
    assert events[0]["type"] == "response.created" and events[-1]["type"] in ("response.completed", "response.incomplete")
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    done = [event["item"] for event in events if event["type"] == "response.output_item.done"]
    assert done == events[-1]["response"]["output"]
    return done, events, answer


def test_codex_from_the_first_turn_to_the_last(address):
    items = list(CODEX_FIRST)
    output, _, answer = respond(address, items)
    assert output
    ignored = answer.headers["X-Weft-Ignored"].split(", ")
    assert {"tools.web_search", "tools.local_shell", "tools.image_generation", "reasoning.context",
            "stream_options.reasoning_summary_delivery", "include.web_search_call.action.sources"} <= set(ignored)
    assert not {"store", "prompt_cache_key", "client_metadata", "service_tier", "tools.tool_search"} & set(ignored)
    # A call of each kind, the custom one cut by its length, goes back with its output.
    items += output
    output, _, _ = respond(address, items, tool_choice={"type": "function", "name": "read", "namespace": "mcp__files"},
                           parallel_tool_calls=False)
    call = output[-1]
    assert (call["type"], call["namespace"], call["name"]) == ("function_call", "mcp__files", "read")
    assert json.loads(call["arguments"])["path"] in ("a.txt", "b.txt")
    items += output + [{"type": "function_call_output", "call_id": call["call_id"], "output": "teh file"}]
    output, events, _ = respond(address, items, tool_choice={"type": "custom", "name": "apply_patch"}, max_output_tokens=24,
                                parallel_tool_calls=False)
    call = output[-1]
    assert (call["type"], call["name"]) == ("custom_tool_call", "apply_patch") and not call["input"].startswith("{")
    deltas = [event["delta"] for event in events if event["type"] == "response.custom_tool_call_input.delta"]
    assert "".join(deltas) == call["input"]
    assert [event["input"] for event in events if event["type"] == "response.custom_tool_call_input.done"] == [call["input"]]
    items += output + [{"type": "custom_tool_call_output", "call_id": call["call_id"], "output": "Done!"}]
    # The model searches for tools, and calls one of the results.
    output, events, _ = respond(address, items, tool_choice={"type": "function", "name": "tool_search"},
                                parallel_tool_calls=False)
    call = output[-1]
    assert (call["type"], call["execution"]) == ("tool_search_call", "client")
    assert call["arguments"]["query"] in ("notes", "mail")
    assert not [event for event in events if "arguments" in event["type"]]
    found = {"type": "namespace", "name": "mcp__notes", "description": "Notes.", "tools": [
        function("save", title={"type": "string", "enum": ["x"]}) | {"defer_loading": True}]}
    items += output + [{"type": "tool_search_output", "call_id": call["call_id"], "execution": "client",
                        "status": "completed", "tools": [found]}]
    output, _, _ = respond(address, items, tool_choice={"type": "function", "name": "save", "namespace": "mcp__notes"},
                           parallel_tool_calls=False)
    call = output[-1]
    assert (call["namespace"], call["name"], json.loads(call["arguments"])) == ("mcp__notes", "save", {"title": "x"})
    items += output + [{"type": "function_call_output", "call_id": call["call_id"], "output": "saved"}]
    output, _, _ = respond(address, items, tools=[], tool_choice="none")
    assert output


@pytest.mark.parametrize("choice", [
    {"type": "tool_search"}, {"type": "allowed_tools", "mode": "required", "tools": [{"type": "tool_search"}, {"type": "web_search"}]}])
def test_a_search_for_tools_can_be_chosen(address, choice):
    output, _, answer = respond(address, CODEX_FIRST, tool_choice=choice, parallel_tool_calls=False)
    assert output[-1]["type"] == "tool_search_call" and output[-1]["arguments"]["query"] in ("notes", "mail")
    ignored = set(answer.headers["X-Weft-Ignored"].split(", "))
    assert not {"tool_choice.tool_search", "tool_choice.tools.tool_search"} & ignored
    assert ("tool_choice.tools.web_search" in ignored) == ("tools" in choice)


@pytest.mark.parametrize("kind", ["tool_search", "web_search"])
def test_a_tool_of_the_server_cannot_be_chosen(address, kind):
    tools = [function("shell", command={"type": "string"}), {"type": kind, "execution": "server"}]
    for choice, name in (({"type": kind}, "tool_choice."),
                         ({"type": "allowed_tools", "mode": "required", "tools": [{"type": kind}]}, "tool_choice.tools.")):
        output, _, answer = respond(address, CODEX_FIRST, tools=tools, tool_choice=choice, max_output_tokens=8)
        assert name + kind in answer.headers["X-Weft-Ignored"].split(", ")
        assert "tools" not in choice or output[-1]["type"] == "message"


FOUND = {"type": "tool_search_output", "execution": "client", "status": "completed", "call_id": "call_s", "tools": [
    {"type": "namespace", "name": "mcp__notes", "tools": [function("save"), function("find")]}, function("plain")]}


def test_found_tools_are_named_as_the_model_calls_them(address):
    """The prompt has as many tokens as with a result that is the same string."""
    found = "Found: mcp__notes__save, mcp__notes__find, plain"
    counts = []
    for result in (FOUND, {"type": "function_call_output", "call_id": "call_s", "output": found}):
        call = {"type": "function_call", "name": "tool_search", "call_id": "call_s", "arguments": "{}"}
        answer, body = post(address, "/v1/responses/input_tokens", {
            "input": [*CODEX_FIRST, call, result], "tools": FOUND["tools"], "tool_choice": "auto"})
        assert answer.status == 200, body
        counts.append(json.loads(body)["input_tokens"])
    assert counts[0] == counts[1]


def test_tools_that_a_server_has_found_can_be_called(address):
    """Its search has no call_id."""
    found = {**FOUND, "execution": "server", "call_id": None}
    output, _, answer = respond(address, [*CODEX_FIRST, found], parallel_tool_calls=False,
                                tool_choice={"type": "function", "name": "save", "namespace": "mcp__notes"})
    assert (output[-1]["namespace"], output[-1]["name"]) == ("mcp__notes", "save")
    assert "input.tool_search_output" not in answer.headers["X-Weft-Ignored"]


def test_codex_history(address):
    output, _, answer = respond(address, CODEX_FIRST + CODEX_HISTORY)
    assert output
    ignored = set(answer.headers["X-Weft-Ignored"].split(", "))
    assert {"input.encrypted_content", "input.web_search_call", "input.ghost_snapshot", "input.compaction",
            "input.item_reference", "input.image_generation_call", "input.local_shell_call",
            "input.configuration_update", "input.context_compaction", "input.compaction_trigger",
            "input.output.image_url", "input.output.audio_url"} <= ignored
    assert not {"input.agent_message", "input.tool_search_output", "input.additional_tools"} & ignored


def test_tools_within_the_input(address):
    """Codex sends its tools so where it sends neither `tools` nor `instructions`."""
    body = codex([{"type": "additional_tools", "role": "developer", "tools": [
        function("wait", until={"type": "string", "enum": ["noon"]})]}] * 2 + CODEX_FIRST)
    del body["tools"], body["instructions"]
    body |= {"tool_choice": {"type": "function", "name": "wait"}, "parallel_tool_calls": False}
    answer, text = post(address, "/v1/responses", body)
    call = events_of(answer, text)[-1]["response"]["output"][-1]
    assert (call["name"], json.loads(call["arguments"])) == ("wait", {"until": "noon"})


def test_messages_of_other_agents(address):
    counts = []
    for words in ("Go.", "Go to the second file and read all of it."):
        message = {"type": "agent_message", "author": "/root", "recipient": "/root/a", "content": [
            {"type": "input_text", "text": words}]}
        answer, text = post(address, "/v1/responses/input_tokens", {"input": [*CODEX_FIRST, message]})
        assert answer.status == 200, text
        counts.append(json.loads(text)["input_tokens"])
    assert counts[0] < counts[1]


@pytest.mark.parametrize("item", [
    {"type": "agent_message"}, {"type": "message", "role": "user"}, {"type": "message", "role": "assistant"}, {"type": "reasoning"}])
@pytest.mark.parametrize("content", [5, True, {"text": "x"}])
def test_a_content_of_another_type_is_named_by_its_place(address, item, content):
    answer, body = post(address, "/v1/responses", {"input": [*CODEX_FIRST, {**item, "content": content}]})
    error = json.loads(body)["error"]
    assert answer.status == 400 and error["param"] == "input[3].content" and "an array of parts" in error["message"], body


def test_a_result_may_be_any_json(address):
    call = {"type": "function_call", "name": "f", "call_id": "c", "arguments": "{}"}
    for output in (5, True, {"text": "x"}, [{"a": 1}], ["a", "b"], [1, None], [{"type": "input_text", "text": "x"}, "b"]):
        result = {"type": "function_call_output", "call_id": "c", "output": output}
        answer, body = post(address, "/v1/responses/input_tokens", {"input": [*CODEX_FIRST, call, result]})
        assert answer.status == 200, body


def prompt_of(address, output, **item):
    call = {"type": "function_call", "name": "f", "call_id": "c", "arguments": "{}"}
    items = [*CODEX_FIRST, call, {"type": "function_call_output", "call_id": "c", "output": output, **item}]
    answer, body = post(address, "/v1/responses/input_tokens", {"input": items})
    assert answer.status == 200, body
    return json.loads(body)["input_tokens"]


def test_a_list_of_data_is_json_text(address):
    for output in ([{"a": 1}], ["a", "b"]):
        assert prompt_of(address, output) == prompt_of(address, json.dumps(output, separators=(",", ":")))


def test_the_output_of_a_shell_is_text(address):
    output = [{"stdout": "one\n", "stderr": "two", "outcome": {"type": "exit", "exit_code": 1}},
              {"stdout": "three", "stderr": "", "outcome": {"type": "timeout"}}]
    text = "one\ntwo\nExit code: 1\nthree\nThe command timed out."
    assert prompt_of(address, output, type="shell_call_output", max_output_length=100) == prompt_of(address, text)
    assert prompt_of(address, text, type="shell_call_output") == prompt_of(address, text)


def test_null_is_an_empty_result_and_an_empty_message(address):
    call = {"type": "function_call", "name": "f", "call_id": "c", "arguments": "{}"}
    counts = {}
    for empty in (None, ""):
        for last in ({"type": "function_call_output", "call_id": "c", "output": empty}, {"role": "assistant", "content": empty}):
            answer, body = post(address, "/v1/responses/input_tokens", {"input": [*CODEX_FIRST, call, last]})
            assert answer.status == 200 and "X-Weft-Ignored" not in answer.headers, body
            counts.setdefault("output" in last, set()).add(json.loads(body)["input_tokens"])
    assert [len(numbers) for numbers in counts.values()] == [1, 1]
    answer, body = post(address, "/v1/responses", {"input": [{"role": "user", "content": None}]})
    assert answer.status == 400 and json.loads(body)["error"]["param"] == "input[0].content", body


@pytest.mark.parametrize("effort", ["none", "minimal", "low", "medium", "high", "xhigh", "max", "ultra"])
def test_efforts_of_codex(address, effort):
    body = {"input": "x", "max_output_tokens": 1, "reasoning": {"effort": effort}}
    answer, text = post(address, "/v1/responses", body)
    assert answer.status == 200, text


def test_a_schema_for_the_last_message(address):
    """`codex exec --output-schema`, with tools that may be called first."""
    schema = {"type": "object", "properties": {"done": {"enum": [True]}}, "required": ["done"],
              "additionalProperties": False}
    text = {"format": {"type": "json_schema", "strict": True, "schema": schema, "name": "codex_output_schema"}}
    output, _, _ = respond(address, CODEX_FIRST, text=text, tool_choice="none")
    assert json.loads(output[-1]["content"][0]["text"]) == {"done": True}
    output, _, _ = respond(address, CODEX_FIRST, text=text, max_output_tokens=300)
    assert output[-1]["type"] != "message" or json.loads(output[-1]["content"][0]["text"]) == {"done": True}


def test_a_stream_says_that_its_prompt_is_too_long(address):
    """Codex shortens the conversation then. It ends the turn for a status of 400."""
    long = [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": "word " * 100000}]}]
    answer, body = post(address, "/v1/responses", codex(long))
    assert answer.status == 200 and answer.headers["Content-Type"].startswith("text/event-stream"), body
    assert answer.headers["X-Accel-Buffering"] == "no" and answer.headers["Cache-Control"] == "no-cache"
    events = events_of(answer, body)
    assert [event["type"] for event in events] == ["response.created", "response.in_progress", "response.failed"]
    error = events[-1]["response"]["error"]
    assert error["code"] == "context_length_exceeded" and "maximum context length is" in error["message"]
    assert events[-1]["response"]["status"] == "failed"


def test_sealed_reasoning_comes_back(address):
    sealed = {"type": "reasoning", "summary": [], "content": None, "encrypted_content": "weft:TG9vayBmaXJzdC4="}
    answer, body = post(address, "/v1/responses", codex(CODEX_FIRST + [sealed, CODEX_HISTORY[2]]))
    assert answer.status == 200 and "input.encrypted_content" not in answer.headers["X-Weft-Ignored"], body


def test_items_that_are_needed_are_refused_as_references(address):
    answer, body = post(address, "/v1/responses", codex(CODEX_FIRST + [{"type": "item_reference", "id": "msg_1"}]))
    assert answer.status == 400 and b"does not have the item" in body


def test_the_grammar_of_a_custom_tool_is_in_the_prompt(address):
    body = codex(CODEX_FIRST)
    answer, text = post(address, "/apply-template", {"messages": [{"role": "user", "content": "Hi"}], "tools": body["tools"]})
    assert answer.status == 200
    assert json.dumps(PATCH_GRAMMAR)[1:-1].split("\\n")[0].replace('\\"', "") in json.loads(text)["prompt"].replace('\\"', "")


def reply(address, messages, **more):
    """The content of a streamed response."""
    headers = {"anthropic-version": "2023-06-01", "anthropic-beta": "claude-code-20250219,context-management-2025-06-27"}
    answer, body = post(address, "/v1/messages?beta=true", claude_code(messages, **more), headers)
    events = events_of(answer, body)
    assert events[0]["type"] == "message_start" and events[-1]["type"] == "message_stop"
    content = []
    for event in events:
        if event["type"] == "content_block_start":
            content.append({**event["content_block"], "partial": ""})
        elif event["type"] == "content_block_delta":
            delta = event["delta"]
            content[-1]["partial"] += delta.get("text") or delta.get("partial_json") or delta.get("thinking") or ""
    blocks = []
    for block in content:
        partial = block.pop("partial")
        if block["type"] == "tool_use":
            block["input"] = json.loads(partial)
        elif block["type"] == "text":
            block["text"] = partial
        else:
            block["thinking"] = partial
        blocks.append(block)
    return blocks, answer


def test_claude_code_from_the_first_turn_to_the_last(address):
    count = {key: value for key, value in claude_code(CLAUDE_FIRST).items() if key not in ("max_tokens", "stream", "temperature")}
    answer, body = post(address, "/v1/messages/count_tokens?beta=true", count)
    assert answer.status == 200 and json.loads(body)["input_tokens"] > 10
    messages = list(CLAUDE_FIRST)
    content, answer = reply(address, messages, tool_choice={"type": "tool", "name": "Bash", "disable_parallel_tool_use": True})
    ignored = set(answer.headers["X-Weft-Ignored"].split(", "))
    assert {"tools.web_search_20250305", "tools.advisor_20260301", "context_management", "output_config.task_budget",
            "safeguards"} <= ignored
    assert not {"metadata", "thinking", "cache_control", "system"} & ignored
    call = content[-1]
    assert call["name"] == "Bash" and call["input"]["command"] in ("ls", "pwd")
    messages += [{"role": "assistant", "content": content},
                 {"role": "user", "content": [{"tool_use_id": call["id"], "type": "tool_result", "is_error": True,
                                               "content": [{"type": "text", "text": "no such file"}]}]}]
    content, _ = reply(address, messages, tool_choice={"type": "none"})
    assert content and content[0]["type"] == "text"


def test_claude_code_history(address):
    content, answer = reply(address, CLAUDE_FIRST + CLAUDE_HISTORY)
    assert content
    ignored = set(answer.headers["X-Weft-Ignored"].split(", "))
    assert {"messages.content.server_tool_use", "messages.content.container_upload",
            "messages.content.tool_search_tool_result", "messages.content.content.source.data"} <= ignored
    assert not {"messages.output_config", "messages.clear_at", "messages.content.compaction"} & ignored


def n_tokens(address, messages, **more):
    answer, body = post(address, "/v1/messages/count_tokens", {"messages": messages, **more})
    assert answer.status == 200, body
    return json.loads(body)["input_tokens"]


def test_a_conversation_that_ends_with_a_call_is_counted(address):
    call = {"role": "assistant", "content": [{"type": "tool_use", "id": "c", "name": "f", "input": {"a": 1}}]}
    result = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c", "content": "a result of some words"}]}
    user = {"role": "user", "content": "Hi"}
    assert n_tokens(address, [user]) < n_tokens(address, [user, call]) < n_tokens(address, [user, call, result])


def test_a_message_without_a_role_is_refused(address):
    for message in ({"content": "x"}, {"role": None, "content": "x"}):
        answer, body = post(address, "/v1/messages", {"max_tokens": 1, "messages": [{"role": "user", "content": "Hi"}, message]})
        assert answer.status == 400 and json.loads(body)["error"]["message"] == "'messages[1].role' is missing", body


def test_system_messages_within_the_conversation(address):
    user, said = {"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}
    reminder = {"role": "system", "content": "A reminder of a dozen words that ends with its turn, or does not."}
    over = {**reminder, "clear_at": "next_user_message"}
    assert n_tokens(address, [user, over]) == n_tokens(address, [user, reminder]) > n_tokens(address, [user])
    assert n_tokens(address, [user, over, said, user]) == n_tokens(address, [user, said, user])
    assert n_tokens(address, [user, reminder, said, user]) > n_tokens(address, [user, said, user])
    assert n_tokens(address, [user, over, said]) > n_tokens(address, [user, said])


@pytest.mark.parametrize("message", [
    {"role": "system", "content": "A reminder.", "clear_at": "x"}, {"role": "system", "content": "A reminder.", "clear_at": 5},
    {"role": "user", "content": "A reminder.", "clear_at": "next_user_message"}])
def test_an_end_of_a_message_without_effect_is_noted(address, message):
    body = {"max_tokens": 1, "messages": [message, {"role": "user", "content": "Hi"}]}
    answer, text = post(address, "/v1/messages", body)
    assert answer.status == 200 and answer.headers["X-Weft-Ignored"] == "messages.clear_at", text


@pytest.mark.parametrize("config, param", [
    ({"effort": 5}, "messages[1].output_config.effort"), ("high", "messages[1].output_config"),
    ({"efort": "low"}, "messages[1].output_config.efort")])
def test_an_effort_of_a_message_that_is_wrong(address, config, param):
    """It is named even if a later message has another one."""
    messages = [{"role": "user", "content": "Hi"}, {"role": "system", "content": "x", "output_config": config},
                {"role": "system", "content": "x", "output_config": {"effort": "low"}}]
    answer, text = post(address, "/v1/messages", {"max_tokens": 1, "messages": messages})
    assert answer.status == 400 and f"'{param}'" in json.loads(text)["error"]["message"], text


def test_summaries_are_read(address):
    user = {"role": "user", "content": "Hi"}
    short, long = ({"role": "assistant", "content": [{"type": "compaction", "content": words}]}
                   for words in ("Done.", "All files were listed."))
    assert n_tokens(address, [user, short, user]) < n_tokens(address, [user, long, user])


def test_tools_change_within_the_conversation(address):
    schema = {"type": "object", "properties": {"path": {"enum": ["a.txt"]}}, "required": ["path"],
              "additionalProperties": False}
    messages = [*CLAUDE_FIRST, tool_change("tool_addition", "Save", description="Saves.", input_schema=schema)]
    content, answer = reply(address, messages, tool_choice={"type": "tool", "name": "Save"})
    assert content[-1]["name"] == "Save" and content[-1]["input"] == {"path": "a.txt"}
    assert "tool_addition" not in answer.headers["X-Weft-Ignored"]
    messages.append(tool_change("tool_removal", "Save"))
    gone = post(address, "/v1/messages", claude_code(messages, tool_choice={"type": "tool", "name": "Save"}))
    assert gone[0].status == 400 and b"Save" in gone[1]
    messages.append(tool_change("tool_addition", "Save"))
    assert reply(address, messages, tool_choice={"type": "tool", "name": "Save"})[0][-1]["name"] == "Save"
    messages.append(tool_change("tool_removal", "Save"))
    again = tool_change("tool_addition", "Save", description="Saves.", input_schema=schema)
    assert reply(address, [*messages, again], tool_choice={"type": "tool", "name": "Save"})[0][-1]["name"] == "Save"
    gone = post(address, "/v1/messages", claude_code([*messages, again, messages[-1]], tool_choice={"type": "tool", "name": "Save"}))
    assert gone[0].status == 400 and b"Save" in gone[1]
    for kind in ("tool_addition", "tool_removal"):
        assert f"messages.content.{kind}" in reply(address, [*CLAUDE_FIRST, tool_change(kind, "Nothing")])[1].headers["X-Weft-Ignored"]


@pytest.mark.parametrize("body", [
    {"max_tokens": 1, "messages": [{"role": "user", "content": "quota"}], "metadata": {"user_id": "{}"}},
    {"max_tokens": 0, "messages": [{"role": "user", "content": "warmup"}], "system": [
        {"type": "text", "text": "Be brief."}]},
    {"max_tokens": 128000, "stop_sequences": ["e"], "messages": [{"role": "user", "content": "Hi"}]},
    {"max_tokens": 8, "messages": [
        {"role": "user", "content": "Hi"}, {"role": "assistant", "content": [{"type": "text", "text": "{"}]}]},
    {"max_tokens": 8, "tools": [], "messages": [{"role": "user", "content": "Title?"}],
     "thinking": {"type": "disabled"}, "output_config": {"format": {"type": "json_schema", "schema": {
         "type": "object", "properties": {"title": {"type": "string"}}, "required": ["title"]}}}},
])
def test_side_requests_of_claude_code(address, body):
    answer, text = post(address, "/v1/messages?beta=true", {"model": "claude-haiku-4-5", "temperature": 0, **body})
    assert answer.status == 200, text


@pytest.mark.parametrize("path, where, body", [
    ("/v1/chat/completions", "messages.content", {"messages": [
        {"role": "user", "content": "Look."},
        {"role": "assistant", "content": None, "tool_calls": [
            {"id": "c", "type": "function", "function": {"name": "look", "arguments": "{}"}}]},
        {"role": "tool", "tool_call_id": "c", "content": [
            {"type": "image_url", "image_url": {"url": "data:image/png;base64," + PIXEL}}]}]}),
    ("/v1/responses", "input.output.image_url", {"input": [
        {"role": "user", "content": "Look."},
        {"type": "function_call", "call_id": "c", "name": "look", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c", "output": [
            {"type": "input_image", "image_url": "data:image/png;base64," + PIXEL}]}]}),
])
def test_images_of_tools_for_a_model_that_cannot_read_them(address, path, where, body):
    answer, text = post(address, path, {**body, "max_tokens" if "chat" in path else "max_output_tokens": 1})
    assert answer.status == 200 and where in answer.headers["X-Weft-Ignored"], text
    for key in ("messages", "input"):  # The user's own image is needed.
        if key in body:
            part = (body[key][-1].get("content") or body[key][-1].get("output"))[0]
            answer, text = post(address, path, {key: [{"role": "user", "content": [part]}]})
            assert answer.status == 400 and b"cannot read images" in text


def test_claude_codes_bookkeeping_does_not_split_prefixes(address):
    prompts = set()
    for cch in ("11111", "22222222"):
        body = {**claude_code(CLAUDE_FIRST, cch=cch)}
        for key in ("max_tokens", "stream", "temperature"):
            del body[key]
        prompts.add(json.loads(post(address, "/v1/messages/count_tokens", body)[1])["input_tokens"])
    assert len(prompts) == 1


PDF = {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "JVBERi0="}}
PDF_PART = {"type": "input_file", "filename": "a.pdf", "file_data": "data:application/pdf;base64,JVBERi0="}


@pytest.mark.parametrize("path, body, where", [
    ("/v1/messages", {"max_tokens": 1, "messages": [
        {"role": "user", "content": "Read."},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "c", "name": "read", "input": {}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c", "content": [PDF]}]}]},
     "messages[2].content[0].content[0].source.type"),
    ("/v1/responses", {"max_output_tokens": 1, "input": [
        {"role": "user", "content": "Read."}, {"type": "function_call", "call_id": "c", "name": "read", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c", "output": [PDF_PART]}]}, "input[2].output[0]"),
    ("/v1/chat/completions", {"max_tokens": 1, "messages": [
        {"role": "user", "content": "Read."},
        {"role": "assistant", "content": None, "tool_calls": [
            {"id": "c", "type": "function", "function": {"name": "read", "arguments": "{}"}}]},
        {"role": "tool", "tool_call_id": "c", "content": [
            {"type": "file", "file": {"file_data": PDF_PART["file_data"]}}, {"type": "text", "text": "Done."}]}]},
     "messages[2].content[0]"),
])
def test_a_pdf_in_a_tool_result_is_left_out(address, path, body, where):
    answer, text = post(address, path, body)
    assert answer.status == 200 and where in answer.headers["X-Weft-Warnings"], text
    for key, part in (("messages", {"type": "file"}), ("input", PDF_PART)):  # The user's own is refused.
        if key in body and path != "/v1/messages":
            assert post(address, path, {**body, key: [{"role": "user", "content": [part]}]})[0].status == 400


def test_a_document_that_is_not_plain_text_is_refused(address):
    pdf = PDF
    answer, body = post(address, "/v1/messages", {"max_tokens": 4, "messages": [{"role": "user", "content": [pdf]}]})
    assert answer.status == 400 and b"plain-text documents only" in body


def test_prompts_that_are_too_long(address):
    long = "word " * 100000
    answer, body = post(address, "/v1/messages", {"max_tokens": 4, "messages": [{"role": "user", "content": long}]})
    error = json.loads(body)["error"]
    assert answer.status == 400 and error["type"] == "invalid_request_error"
    assert error["message"].startswith("prompt is too long: ") and " tokens > " in error["message"]
    for path, body in (("/v1/chat/completions", {"messages": [{"role": "user", "content": long}]}),
                       ("/v1/responses", {"input": long}), ("/v1/completions", {"prompt": long})):
        answer, text = post(address, path, body)
        error = json.loads(text)["error"]
        assert answer.status == 400 and error["code"] == "context_length_exceeded", path
        assert error["param"] == next(iter(body))
        assert error["n_prompt_tokens"] > error["n_ctx"] > 0, path


def test_custom_tools_in_chat_completions(address):
    tool = {"type": "custom", "custom": {"name": "run", "description": "Runs code."}}
    body = {"messages": [{"role": "user", "content": "Run something."}], "tools": [tool, {"type": "web_search"}],
            "tool_choice": {"type": "custom", "custom": {"name": "run"}}, "max_tokens": 24, "temperature": 0,
            "parallel_tool_calls": False}
    answer, text = post(address, "/v1/chat/completions", body)
    assert answer.status == 200 and answer.headers["X-Weft-Ignored"] == "tools.web_search", text
    message = json.loads(text)["choices"][0]["message"]
    call = message["tool_calls"][0]
    assert call["type"] == "custom" and call["custom"]["name"] == "run" and "function" not in call
    streamed = {}
    for chunk in events_of(*post(address, "/v1/chat/completions", {**body, "stream": True})):
        for delta in chunk["choices"][0]["delta"].get("tool_calls", []):
            streamed.setdefault("name", delta["custom"].get("name"))
            streamed["input"] = streamed.get("input", "") + delta["custom"].get("input", "")
    assert streamed == {"name": "run", "input": call["custom"]["input"]}
    more = [*body["messages"], message, {"role": "tool", "tool_call_id": call["id"], "content": "ran"}]
    answer, text = post(address, "/v1/chat/completions", {**body, "messages": more, "tool_choice": "auto"})
    assert answer.status == 200, text


@pytest.mark.parametrize("n", [3, 9, 14, 20, 25])
def test_calls_that_were_cut_may_come_back(address, n):
    tool = {"type": "function", "function": {"name": "write", "parameters": {
        "type": "object", "properties": {"text": {"type": "string", "maxLength": 200}}, "required": ["text"]}}}
    body = {"messages": [{"role": "user", "content": "Write a story."}], "tools": [tool], "tool_choice": "required",
            "max_tokens": n, "temperature": 0}
    answer, text = post(address, "/v1/chat/completions", body)
    message = json.loads(text)["choices"][0]["message"]
    more = [*body["messages"], message, {"role": "user", "content": "Go on."}]
    answer, text = post(address, "/v1/chat/completions", {**body, "messages": more, "tool_choice": "auto"})
    assert answer.status == 200, text
