"""Coding agents' conversations, from the first turn to the last."""
import json

import pytest

from agent_requests import (CLAUDE_FIRST, CLAUDE_HISTORY, CODEX_FIRST, CODEX_HISTORY, PATCH_GRAMMAR, claude_code,
                            codex)
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
    assert {"tools.web_search", "tools.local_shell", "tools.image_generation", "tools.tool_search",
            "include.web_search_call.action.sources"} <= set(ignored)
    assert not {"store", "prompt_cache_key", "client_metadata", "service_tier"} & set(ignored)
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
    output, _, _ = respond(address, items, tools=[], tool_choice="none")
    assert output


def test_codex_history(address):
    output, _, answer = respond(address, CODEX_FIRST + CODEX_HISTORY)
    assert output
    ignored = set(answer.headers["X-Weft-Ignored"].split(", "))
    assert {"input.encrypted_content", "input.web_search_call", "input.ghost_snapshot", "input.compaction",
            "input.item_reference"} <= ignored


def test_sealed_reasoning_comes_back(address):
    sealed = {"type": "reasoning", "summary": [], "content": None, "encrypted_content": "weft:TG9vayBmaXJzdC4="}
    answer, body = post(address, "/v1/responses", codex(CODEX_FIRST + [sealed, CODEX_HISTORY[2]]))
    assert answer.status == 200 and "input.encrypted_content" not in answer.headers["X-Weft-Ignored"], body


def test_items_that_are_needed_are_refused_as_references(address):
    answer, body = post(address, "/v1/responses", codex(CODEX_FIRST + [{"type": "item_reference", "id": "msg_1"}]))
    assert answer.status == 400 and b"stores no items" in body


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
    assert {"tools.web_search_20250305", "context_management", "output_config.task_budget"} <= ignored
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
    assert {"messages.content.server_tool_use", "messages.content.container_upload"} <= set(
        answer.headers["X-Weft-Ignored"].split(", "))


def test_claude_codes_bookkeeping_does_not_split_prefixes(address):
    prompts = set()
    for cch in ("11111", "22222222"):
        body = {**claude_code(CLAUDE_FIRST, cch=cch)}
        for key in ("max_tokens", "stream", "temperature"):
            del body[key]
        prompts.add(json.loads(post(address, "/v1/messages/count_tokens", body)[1])["input_tokens"])
    assert len(prompts) == 1


def test_a_document_that_is_not_plain_text_is_refused(address):
    pdf = {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "JVBERi0="}}
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
