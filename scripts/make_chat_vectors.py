#!/usr/bin/env python3
"""Renders the chat templates of tests/data/chat/templates with Jinja2, from messages that were prepared by hand. Writes
prompts.json: the prompts that weft must make from the request below. Needs jinja2 3.1 (pip install jinja2). Run
it after changing a template or a case. --check only says whether the file is current."""
import argparse
import json
import pathlib
import sys

from make_template_vectors import ENV

FOLDER = pathlib.Path(__file__).resolve().parent.parent / "tests" / "data" / "chat"
TOOLS = json.loads((FOLDER / "tools.json").read_text())

ROME = {"city": "Rome", "n": 3}
PARIS = {"city": "Paris"}


def message(role, content, **more):
    return {"role": role, "content": content, **more}


def call(id, arguments, name="get_weather"):
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}


def result(id, content, **more):
    return message("tool", content, tool_call_id=id, **more)


# A client's request: two instructions, two questions in a row, two calls with content, a response.
REQUEST = [
    message("developer", "Be brief."),
    message("system", [{"type": "text", "text": "Use"}, {"type": "text", "text": "tools."}]),
    message("user", "Hello."),
    message("user", "How is the weather in Rome and Paris?"),
    message("assistant", "I look.", reasoning_content="Two cities.", tool_calls=[
        call("call_long_id_1", json.dumps(ROME)), call("call_long_id_2", json.dumps(PARIS))]),
    result("call_long_id_1", "warm"),
    result("call_long_id_2", "cold"),
]
SYSTEM = "Be brief.\n\nUse\ntools."
QUESTIONS = [message("user", "Hello."), message("user", "How is the weather in Rome and Paris?")]
BOTH = "Hello.\n\nHow is the weather in Rome and Paris?"


def tagged(arguments):
    return '<tool_call>\n{"name":"get_weather","arguments":%s}\n</tool_call>' % json.dumps(arguments, separators=(",", ":"))


def described(example):
    lines = "".join(json.dumps(tool, separators=(",", ":")) + "\n" for tool in TOOLS)
    return (
        "You may call one or more functions to help with the user's request. These functions are available, each "
        "described by a JSON schema:\n<tools>\n" + lines + "</tools>\n\nTo call a function write its name and arguments "
        "in this way, and nothing after it:\n" + example + "\nThen its result is given to you.")


EXAMPLE = '{"name":"function_name","arguments":{"argument_name":"value"}}'
FENCED = ("<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>function_name\n```json\n"
          '{"argument_name":"value"}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>')

# Template, request, tools, further variables, and the messages and tools that the template gets.
CASES = [
    ("tags", REQUEST, True, {}, [
        message("system", SYSTEM), *QUESTIONS,
        message("assistant", "I look.", reasoning_content="Two cities.",
                tool_calls=[call("call_long_id_1", ROME), call("call_long_id_2", PARIS)]),
        result("call_long_id_1", "warm"), result("call_long_id_2", "cold")], True),
    ("tags", [message("user", "Hi")], False, {"reasoning_effort": "none"}, [message("user", "Hi")], False),
    ("tags", [message("user", "Hi")], False, {"reasoning_effort": "high"}, [message("user", "Hi")], False),
    ("alternating", REQUEST, True, {}, [
        message("user", SYSTEM + "\n\n" + described(f"<tool_call>\n{EXAMPLE}\n</tool_call>") + "\n\n" + BOTH),
        message("assistant", "I look.\n" + tagged(ROME) + "\n" + tagged(PARIS)),
        message("user", "<tool_response>\nwarm\n</tool_response>\n\n<tool_response>\ncold\n</tool_response>")], False),
    ("alternating", [message("user", "A"), message("assistant", "B"), message("system", "C"), message("user", "D")],
     False, {}, [message("user", "A"), message("assistant", "B"), message("user", "C\n\nD")], False),
    ("nine", [message("system", "S"), message("user", "U"),
              message("assistant", None, tool_calls=[call("abcdefghi", "{}", "now"), call("ABCDEFGHI", json.dumps(PARIS))]),
              result("abcdefghi", "1"), result("ABCDEFGHI", "2")], True, {},
     [message("system", "S"), message("user", "U"),
      message("assistant", "", tool_calls=[call("abcdefghi", {}, "now"), call("ABCDEFGHI", PARIS)]),
      result("abcdefghi", "1"), result("ABCDEFGHI", "2")], True),
    ("strings", REQUEST, True, {}, [
        message("system", SYSTEM + "\n\n" + described(FENCED)), *QUESTIONS, message("assistant", "I look."),
        message("assistant", None, tool_calls=[
            call("call_long_id_1", '{"city":"Rome","n":3}'), call("call_long_id_2", '{"city":"Paris"}')]),
        result("call_long_id_1", "warm"), result("call_long_id_2", "cold")], False),
    ("one_call", REQUEST, True, {}, [
        message("system", SYSTEM), *QUESTIONS, message("assistant", "I look."),
        message("assistant", "", tool_calls=[call("call_long_id_1", ROME)]), result("call_long_id_1", "warm"),
        message("assistant", "", tool_calls=[call("call_long_id_2", PARIS)]), result("call_long_id_2", "cold")], True),
    ("unknown_tags", REQUEST, True, {}, [
        message("system", SYSTEM), *QUESTIONS,
        message("assistant", "I look.", tool_calls=[call("1", ROME), call("2", PARIS)]),
        result("1", "warm"), result("2", "cold")], True),
    ("parts", [message("system", "S"), message("user", "U")], False, {},
     [message("system", [{"type": "text", "text": "S"}]), message("user", [{"type": "text", "text": "U"}])], False),
]


def prompt(template, variables, messages, with_tools):
    if "reasoning_effort" in variables:
        variables = {"enable_thinking": variables["reasoning_effort"] != "none"}
    return ENV.from_string((FOLDER / "templates" / f"{template}.jinja").read_text()).render(
        messages=messages, tools=TOOLS if with_tools else None, bos_token="<s>", eos_token="</s>",
        add_generation_prompt=True, **variables)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    args = parser.parse_args()
    rows = [{"template": template, "messages": request, "tools": tools, **variables,
             "prompt": prompt(template, variables, ready, with_tools)}
            for template, request, tools, variables, ready, with_tools in CASES]
    text = json.dumps(rows, indent=1, ensure_ascii=False) + "\n"
    path = FOLDER / "prompts.json"
    if not args.check:
        path.write_text(text)
    elif path.read_text() != text:
        sys.exit("tests/data/chat/prompts.json is not current: run scripts/make_chat_vectors.py")


if __name__ == "__main__":
    main()
