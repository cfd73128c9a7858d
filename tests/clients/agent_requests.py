"""Requests as coding agents send them, with short prompts."""

PATCH_GRAMMAR = 'start: begin_patch hunk+ end_patch\nbegin_patch: "*** Begin Patch" LF\n'


def function(name, **properties):
    return {"type": "function", "name": name, "description": f"Runs {name}.", "strict": False,
            "parameters": {"type": "object", "properties": properties, "required": list(properties)[:1],
                           "additionalProperties": False}}


def codex(items, **more):
    """Codex, /v1/responses: function, freeform, hosted and namespaced tools."""
    text = {"type": "string"}
    return {
        "model": "gpt-5.2-codex", "instructions": "You are a coding agent.", "input": items,
        "tools": [
            function("shell", command={"type": "array", "items": text}, workdir=text, timeout_ms={"type": "number"}),
            function("update_plan", plan={"type": "array", "items": {"type": "object", "properties": {"step": text}}}),
            {"type": "custom", "name": "apply_patch", "description": "Edits files.",
             "format": {"type": "grammar", "syntax": "lark", "definition": PATCH_GRAMMAR}},
            {"type": "web_search", "external_web_access": False},
            {"type": "local_shell"},
            {"type": "image_generation", "output_format": "png"},
            {"type": "tool_search", "execution": "client", "description": "Finds tools.", "parameters": {
                "type": "object", "properties": {"query": {"type": "string", "enum": ["notes", "mail"]}},
                "required": ["query"], "additionalProperties": False}},
            {"type": "namespace", "name": "mcp__files", "description": "Files.", "tools": [
                function("read", path={"type": "string", "enum": ["a.txt", "b.txt"]}) | {"defer_loading": True}]},
        ],
        "tool_choice": "auto", "parallel_tool_calls": True,
        "reasoning": {"effort": "xhigh", "summary": "auto", "context": "all_turns"}, "access_programs": {},
        "store": False, "stream": True, "stream_options": {"reasoning_summary_delivery": "sequential_cutoff"},
        "include": ["reasoning.encrypted_content", "web_search_call.action.sources"],
        "prompt_cache_key": "0199a213-81c0-7800", "text": {"verbosity": "low"}, "service_tier": "auto",
        "client_metadata": {"x-codex-installation-id": "1"}, "temperature": 0, "max_output_tokens": 60, **more}


CODEX_FIRST = [
    {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "<permissions>read-only</permissions>"}]},
    {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "<environment_context>/src</environment_context>"}]},
    {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Fix the typo in a.txt."}]},
]
TURN = {"internal_chat_message_metadata_passthrough": {"turn_id": "1", "create_time": 1.5}}
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
# Items of earlier turns, some of other servers.
CODEX_HISTORY = [
    {"type": "reasoning", "summary": [{"type": "summary_text", "text": "Look first."}], "content": None, "encrypted_content": "gAAAA"},
    {"type": "reasoning", "summary": [], "encrypted_content": "gAAAA"},
    {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "I look."}], "phase": "commentary"},
    {"type": "function_call", "name": "shell", "arguments": '{"command": ["cat', "call_id": "call_cut"},
    {"type": "function_call_output", "call_id": "call_cut", "output": "aborted"},
    {"type": "local_shell_call", "call_id": "call_sh", "status": "completed", "action": {"type": "exec", "command": ["ls"]}},
    {"type": "function_call_output", "call_id": "call_sh", "output": [{"type": "input_text", "text": "a.txt"}]},
    {"type": "custom_tool_call", "call_id": "call_p", "name": "apply_patch", "input": "*** Begin Patch\n", "status": "completed"},
    {"type": "custom_tool_call_output", "call_id": "call_p", "output": "failed"},
    {"type": "function_call", "name": "read", "namespace": "mcp__files", "arguments": "{}", "call_id": "call_n"},
    {"type": "function_call_output", "call_id": "call_n", "output": "teh"},
    {"type": "web_search_call", "status": "completed", "action": {"type": "search", "query": "typo"}},
    {"type": "tool_search_call", "call_id": "call_t", "execution": "client", "arguments": {"query": "x"}, **TURN},
    {"type": "tool_search_output", "call_id": "call_t", "execution": "client", "status": "completed", "tools": []},
    {"type": "function_call", "name": "view_image", "arguments": "{}", "call_id": "call_i",
     "encrypted_function_args": ["x"]},
    {"type": "function_call_output", "call_id": "call_i", "name": "view_image", "output": [
        {"type": "input_text", "text": "1 x 1"}, {"type": "encrypted_content", "encrypted_content": "gAAAA"},
        {"type": "input_image", "image_url": "data:image/png;base64," + PIXEL, "detail": "original"},
        {"type": "input_audio", "audio_url": "data:audio/wav;base64,AAAA"}]},
    {"type": "function_call_output", "name": "notify", "output": "late"},
    {"type": "agent_message", "author": "/root", "recipient": "/root/helper", "content": [
        {"type": "input_text", "text": "Look at b.txt, too."},
        {"type": "encrypted_content", "encrypted_content": "gAAAA"}], **TURN},
    {"type": "image_generation_call", "id": "ig_1", "status": "completed", "result": "AAAA"},
    {"type": "local_shell_call", "call_id": None, "status": "in_progress",
     "action": {"type": "exec", "command": ["ls"], "env": None}},
    {"type": "configuration_update", "reasoning": {"effort": "low"}},
    {"type": "context_compaction"},
    {"type": "compaction_trigger"},
    {"type": "mcp_call", "id": "mcp_1", "server_label": "x", "name": "find", "arguments": "{}", "output": "found"},
    {"type": "ghost_snapshot", "ghost_commit": {"id": "1"}},
    {"type": "compaction", "encrypted_content": "gAAAA"},
    {"type": "item_reference", "id": "rs_1"},
]


def claude_code(messages, **more):
    """Claude Code, /v1/messages."""
    cached = {"cache_control": {"type": "ephemeral", "ttl": "1h"}}
    return {
        "model": "claude-sonnet-4-6", "max_tokens": 60, "stream": True, "temperature": 0,
        "system": [{"type": "text", "text": "x-anthropic-billing-header: cc_version=2.1.37.0d9; cch=" + more.pop("cch", "fa690") + ";"},
                   {"type": "text", "text": "You are a coding agent.", **cached},
                   {"type": "text", "text": "Be brief.", **cached}],
        "metadata": {"user_id": "user_1_account__session_2"}, "thinking": {"type": "adaptive", "display": "omitted"},
        "safeguards": [{"type": "dangerous_tool_use", "classifier_context": {}}],
        "output_config": {"effort": "max", "task_budget": {"type": "tokens", "total": 1000}},
        "context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]},
        "tools": [
            {"name": "Bash", "description": "Runs a command.", "input_schema": {
                "$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object", "required": ["command"],
                "properties": {"command": {"type": "string", "enum": ["ls", "pwd"]}}, "additionalProperties": False}},
            {"name": "Edit", "description": "Edits.", "defer_loading": True, "eager_input_streaming": True, "strict": None,
             "input_schema": {"type": "object", "properties": {"file_path": {"type": "string"}}}, **cached},
            {"type": "web_search_20250305", "name": "web_search", "max_uses": 8, "allowed_domains": ["example.com"]},
            {"type": "tool_search_tool_regex_20251119", "name": "tool_search_tool_regex"},
            {"type": "advisor_20260301", "name": "advisor", "model": "claude-opus-5"}],
        "messages": messages, **more}


CLAUDE_FIRST = [{"role": "user", "content": [
    {"type": "text", "text": "<system-reminder>Today is Monday.</system-reminder>"},
    {"type": "document", "title": "notes.txt", "source": {"type": "text", "media_type": "text/plain", "data": "The notes."}},
    {"type": "text", "text": "List the files.", "cache_control": {"type": "ephemeral"}}]}]
CLAUDE_HISTORY = [
    {"role": "assistant", "content": [
        {"type": "thinking", "thinking": "I list.", "signature": "abc"}, {"type": "redacted_thinking", "data": "x"},
        {"type": "text", "text": "I list them.", "citations": None},
        {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "files"}},
        {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": [
            {"type": "web_search_result", "title": "Files", "url": "https://example.com", "encrypted_content": "x", "page_age": None}]},
        {"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {"command": "ls"}, "caller": {"type": "direct"}},
        {"type": "tool_use", "id": "toolu_2", "name": "Edit", "input": {"_partial": '{"file_pa'}}]},
    {"role": "user", "content": [
        {"type": "tool_result", "tool_use_id": "toolu_1", "is_error": True, "content": [
            {"type": "text", "text": "denied"}, {"type": "tool_reference", "tool_name": "Edit"}]},
        {"type": "tool_result", "tool_use_id": "toolu_2", "content": [
            {"type": "search_result", "source": "a.txt", "title": "A", "content": [{"type": "text", "text": "found"}]}]},
        {"type": "text", "text": "[Request interrupted by user]"}]},
    {"role": "user", "content": [{"type": "container_upload", "file_id": "f"}, {"type": "text", "text": "Go on."}]},
    {"role": "system", "content": [{"type": "text", "text": "Skills: none.", "cache_control": {"type": "ephemeral"}}],
     "output_config": {"effort": "low"}},
    {"role": "assistant", "content": [
        {"type": "compaction", "content": "The files were listed."},
        {"type": "server_tool_use", "id": "srvtoolu_2", "name": "tool_search_tool_regex", "input": {"query": "read"}},
        {"type": "tool_search_tool_result", "tool_use_id": "srvtoolu_2", "content": {
            "type": "tool_search_tool_search_result",
            "tool_references": [{"type": "tool_reference", "tool_name": "Edit"}]}},
        {"type": "tool_use", "id": "toolu_3", "name": "Read", "input": {"file_path": "dot.png"}}]},
    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_3", "content": [
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PIXEL}}]}]},
    {"role": "system", "content": "Read files in one go.", "clear_at": "next_user_message"},
]


def tool_change(kind, name, **definition):
    """A change of the tools within the conversation."""
    tool = {"type": "tool_definition", "definition": {"name": name, **definition}} if definition else {
        "type": "tool_reference", "name": name}
    return {"role": "system", "content": [{"type": kind, "tool": tool}]}
