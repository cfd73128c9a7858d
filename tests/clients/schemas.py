#!/usr/bin/env python3
"""schemas.py PROGRAM [--prompts N] [--temperature F] [--cost]: tests responses that 100 schemas constrain.

Sends N prompts (default 3) with each schema, 16 at a time. 20 schemas are also sent as parameters of a required tool.
The package jsonschema validates the responses: pip install 'jsonschema[format]' (without it, formats are not checked).
A response that was cut is requested again with more tokens. If it is cut again, it must be a prefix of JSON. Exits with
1 if a check fails.

--cost measures instead how much slower a constrained stream is, and 31 free ones next to it. Loopback only.
"""
import argparse
import collections
import concurrent.futures
import decimal
import http.client
import itertools
import json
import os
import re
import signal
import statistics
import sys
import threading
import time

import weft_server

AT_A_TIME = 16
ROOM, MORE_ROOM = 512, 2048
N_TOOLS = 20
PROMPTS = ["Write JSON for this schema: {schema}", "Tell me about a city in winter.", "Invent an example that is short and plain."]
# How the checker names what weft holds to.
FIXED_FORMATS = ["date", "time", "date-time", "uuid", "ipv4", "ipv6"]
FREE_FORMATS = ["duration", "hostname", "email", "uri"]  # Of any length.
FORMATS = FIXED_FORMATS + FREE_FORMATS

# --- Schemas


def record(optional=(), **properties):
    return {"type": "object", "properties": properties, "required": [n for n in properties if n not in optional],
            "additionalProperties": False}


def listed(items, least, most):
    return {"type": "array", "items": items, "minItems": least, "maxItems": most}


def text(most=30, **more):
    return {"type": "string", "maxLength": most, **more}


def pattern(expression):
    return {"type": "string", "pattern": expression}


def ref(name):
    return {"$ref": f"#/$defs/{name}"}


def one_of(values):
    return {"enum": values}


LEAVES = [
    text(), text(12, minLength=3), {"type": "integer", "minimum": -40, "maximum": 1200}, {"type": "integer", "minimum": 1, "multipleOf": 5, "maximum": 500},
    {"type": "number", "exclusiveMinimum": 0, "maximum": 12.5}, {"type": "number", "minimum": 0, "maximum": 100, "multipleOf": 0.01},
    {"type": "boolean"}, {"type": "null"}, one_of(["red", "green", "blue"]), one_of([1, "one", None, 1.5, True, ["a", 1], {"k": "v"}]),
    {"const": {"kind": "fixed", "list": [1, 2, 3]}}, pattern("^[A-Z]{2}-\\d{4}$"), pattern("^(mon|tues|wednes)day( (am|pm))?$"),
    pattern("^#[0-9a-f]{6}$"), {**pattern("^[a-z]+( [a-z]+){0,3}$"), "maxLength": 24}, {"type": ["string", "null"], "maxLength": 20},
    {"type": ["integer", "boolean"], "minimum": 0, "maximum": 9}, *({"type": "string", "format": name} for name in FIXED_FORMATS),
    *({"type": "string", "format": name, "maxLength": 32} for name in FREE_FORMATS), {"type": "string", "format": "date", "pattern": "^20"},
]

# Each makes a schema of two others.
FRAMES = [
    lambda a, b: record(first=a, second=b),
    lambda a, b: record(("first", "second"), first=a, second=b),
    lambda a, b: record(("left",), left=a, right=listed(b, 1, 3)),
    lambda a, b: {"type": "object", "properties": {"tuple": {"type": "array", "prefixItems": [a, b], "items": False, "minItems": 2}}, "required": ["tuple"]},
    lambda a, b: listed({"anyOf": [a, record(value=b)]}, 2, 4),
    lambda a, b: {"$defs": {"a": a, "b": record(("b",), a=ref("a"), b=b)}, **record(one=ref("b"), two=ref("b"), three=listed(ref("a"), 0, 2))},
    lambda a, b: {"type": "object", "properties": {"known": a}, "required": ["known"], "additionalProperties": b},
    lambda a, b: {"oneOf": [record(kind={"const": "a"}, value=a), record(kind={"const": "b"}, value=b, more=a)]},
    lambda a, b: {"allOf": [{"type": "object", "properties": {"a": a}, "required": ["a"]}, {"type": "object", "properties": {"b": b}, "required": ["b"]}]},
    lambda a, b: record(outer=record(middle=record(inner=a, beside=b), list=listed(listed(a, 1, 2), 1, 2))),
]

PERSON = record(("nick",), name=text(), age={"type": "integer", "minimum": 0, "maximum": 120}, nick=text(10))
NODE = record(value={"type": "integer", "minimum": 0, "maximum": 99}, next={"anyOf": [ref("node"), {"type": "null"}]})
TREE = record(("children",), name=text(12), children=listed({"$ref": "#"}, 0, 2))
HAND_WRITTEN = [
    PERSON,
    record(people=listed(PERSON, 1, 3), n={"type": "integer", "minimum": 1, "maximum": 3}),
    {"$defs": {"node": NODE}, **ref("node")},
    TREE,
    {"$defs": {"e": {"$anchor": "expr", "anyOf": [{"type": "integer", "minimum": 0, "maximum": 9}, listed({"$ref": "#expr"}, 1, 2)]}}, "$ref": "#expr"},
    {"$defs": {"even": record(odd={"anyOf": [{"type": "null"}, ref("odd")]}), "odd": record(even={"anyOf": [{"type": "null"}, ref("even")]})}, **ref("even")},
    {"definitions": {"pos/itive": {"type": "integer", "minimum": 1, "maximum": 77}}, "type": "array", "items": {"$ref": "#/definitions/pos~1itive"}, "minItems": 2, "maxItems": 5},
    {"$defs": {"node": record(op=one_of(["+", "*"]), sides={"type": "array", "prefixItems": [ref("side"), ref("side")], "items": False, "minItems": 2}),
               "side": {"anyOf": [{"type": "number", "minimum": 0, "maximum": 10}, ref("node")]}}, **ref("node")},
    {"type": "object", "properties": {"a": {"type": "integer", "minimum": 0, "maximum": 9}, "b": text(9)}, "anyOf": [{"required": ["a"]}, {"required": ["b"]}]},
    {"type": "object", "properties": {f"p{i}": {"type": "boolean"} for i in range(12)}, "additionalProperties": False},
    record(**{f"p{i}": {"type": "integer", "minimum": -i, "maximum": i} for i in range(20)}),
    record(**{"a\"b\\\u00e9": {"type": "boolean"}, "\u4e2d\u6587": text(5), "with space": {"type": "null"}, "$ref": {"type": "integer", "minimum": 0, "maximum": 9}}),
    {"type": "object", "patternProperties": {"^x-[a-z]{1,8}$": {"type": "integer", "minimum": 0, "maximum": 9}}, "additionalProperties": False},
    {"type": "object", "propertyNames": {"pattern": "^[a-z]{2}$"}, "additionalProperties": {"type": "boolean"}, "minProperties": 1, "maxProperties": 4},
    {"type": "object", "propertyNames": {"enum": ["north", "south"]}, "additionalProperties": {"type": "integer", "minimum": 0, "maximum": 99}, "maxProperties": 3},
    {"type": "object", "additionalProperties": text(8), "minProperties": 1, "maxProperties": 3},
    {"type": "object", "unevaluatedProperties": {"type": "integer", "minimum": 0, "maximum": 9}, "maxProperties": 3},
    {"allOf": [PERSON | {"additionalProperties": True}, {"type": "object", "properties": {"id": {"type": "string", "format": "uuid"}}, "required": ["id"]}], "unevaluatedProperties": False},
    {"type": "array", "unevaluatedItems": {"type": "boolean"}, "minItems": 1, "maxItems": 4},
    {"type": "array", "prefixItems": [text(9), {"type": "integer", "minimum": 0, "maximum": 9}], "unevaluatedItems": False},
    {"type": "array", "prefixItems": [text(9)], "items": {"type": "integer", "minimum": 0, "maximum": 9}, "minItems": 2, "maxItems": 4},
    {"type": "array", "items": {"type": "array", "items": {"type": "number", "minimum": -1, "maximum": 1}, "minItems": 3, "maxItems": 3}, "minItems": 3, "maxItems": 3},
    {"type": "array", "maxItems": 0},
    {"allOf": [{"type": "integer", "minimum": 3}, {"maximum": 500}, {"type": ["integer", "string"]}, {"multipleOf": 10}]},
    {"allOf": [{"type": "string", "pattern": "^a"}, {"pattern": "z$"}, {"minLength": 4, "maxLength": 12}]},
    {"type": "string", "pattern": "colou?r", "maxLength": 40},
    {"type": "string", "minLength": 40, "maxLength": 60},
    {"type": "string", "enum": ["a", "ab", "abc", "\u00fcber", "line\nbreak", "quote \" and \\"]},
    {"anyOf": [{"type": "string", "maxLength": 9}, {"type": "number", "minimum": 0, "maximum": 9}, {"type": "null"}, record(deep=listed({"type": "boolean"}, 0, 2))]},
    {"oneOf": [{"type": "integer", "minimum": 0, "maximum": 9}, {"type": "string", "maxLength": 12}, listed({"type": "null"}, 1, 2)]},
    {"oneOf": [record(kind={"const": kind}, **{kind: LEAVES[i]}) for i, kind in enumerate(["circle", "square", "line", "point"])]},
    {"anyOf": [record(a=text(6), b=text(6)), record(a=text(6), c={"type": "integer", "minimum": 0, "maximum": 5})]},
    {"type": "object", "properties": {"ab": {"type": "boolean"}, "abc": {"type": "null"}}, "required": ["abc"], "additionalProperties": {"type": "integer", "minimum": 0, "maximum": 9}},
    {"properties": {"x": {"minimum": 0, "maximum": 5, "type": "integer"}}, "required": ["x", "y"], "type": "object", "title": "T", "description": "d", "default": {}, "examples": [1]},
    record(latitude={"type": "number", "minimum": -90, "maximum": 90}, longitude={"type": "number", "minimum": -180, "exclusiveMaximum": 180}),
    record(price={"type": "number", "minimum": 0, "maximum": 999.99, "multipleOf": 0.01}, currency=pattern("^[A-Z]{3}$"), vat={"type": ["number", "null"], "minimum": 0, "maximum": 1}),
    record(version=pattern("^\\d{1,2}\\.\\d{1,2}\\.\\d{1,2}(-(alpha|beta)\\.\\d)?$"), files=listed(pattern("^[\\w-]{1,12}\\.(txt|md|py)$"), 1, 3)),
    record(from_={"type": "string", "format": "date-time"}, to={"type": "string", "format": "date-time"}, days=listed({"type": "string", "format": "date"}, 1, 2)),
    record(answer={"type": "string"}),
    record(steps=listed(record(explanation={"type": "string", "maxLength": 80}, output={"type": "string", "maxLength": 40}), 1, 3), final_answer={"type": "string"}),
]


def all_schemas():
    """The hand-written ones, and frames around leaves: each leaf and each frame several times, no pair twice."""
    schemas = list(HAND_WRITTEN)
    for i in itertools.count():
        if len(schemas) == 100:
            return schemas
        schemas.append(FRAMES[i % len(FRAMES)](LEAVES[i * 7 % len(LEAVES)], LEAVES[(i * 11 + 3) % len(LEAVES)]))


# --- Answers


def read_json(source):
    """Numbers as they are written: 0.29 is a multiple of 0.01."""
    return json.loads(source, parse_float=decimal.Decimal)


class Checker:
    def __init__(self):
        import jsonschema
        self.formats = jsonschema.Draft202012Validator.FORMAT_CHECKER
        self.kind = jsonschema.Draft202012Validator
        unchecked = [name for name in FORMATS if self.formats.conforms("?", name)]
        if unchecked:
            raise SystemExit(f"jsonschema does not check {', '.join(unchecked)}: pip install 'jsonschema[format]'")

    def problem(self, schema, source):
        try:
            value = read_json(source)
        except ValueError as error:
            return f"no JSON: {error}"
        errors = self.kind(read_json(json.dumps(schema)), format_checker=self.formats).iter_errors(value)
        return next((f"{error.json_path}: {error.message}" for error in errors), None)


def begins_json(source):
    """Whether `source` is a prefix of JSON."""
    closing, in_string = [], False
    for c in re.sub(r"\\.", "", source):
        if c == '"':
            in_string = not in_string
        elif not in_string and c in "[{":
            closing.append("]" if c == "[" else "}")
        elif not in_string and c in "]}" and (not closing or closing.pop() != c):
            return False
    words = [word[i:] for word in ("true", "false", "null") for i in range(len(word))]
    ends = ["", '"', '":0', ":0", "0", '"":0', ', "":0', *words, *(f'{"0" * i}"{more}' for i in range(5) for more in ("", ":0"))]
    cut = re.sub(r"\\$", "", source)  # An escape that is cut.
    for end in ends:
        try:
            json.loads(cut + end + "".join(reversed(closing)))
            return True
        except ValueError:
            pass
    return False


class Server(weft_server.Server):
    def __init__(self, program, *options):
        super().__init__(program, *options, *os.environ.get("WEFT_OPTIONS", "").split())
        signal.signal(signal.SIGTERM, self.give_up)

    def post(self, body):
        connection = http.client.HTTPConnection(*self.address, timeout=600)
        connection.request("POST", "/v1/chat/completions", json.dumps(body), {"Content-Type": "application/json"})
        return connection, connection.getresponse()

    def ask(self, body):
        connection, answer = self.post(body)
        data = answer.read().decode()
        connection.close()
        if answer.status != 200:
            raise ValueError(f"{answer.status} {data}")
        return json.loads(data)

    def give_up(self, *_):
        self.process.kill()
        os._exit(1)


def ask(server, checker, schema, prompt, as_tool, options):
    """Returns the result in one word, and the problem. The penalty leads small models out of recursion."""
    body = {"messages": [{"role": "user", "content": prompt.format(schema=json.dumps(schema))}], "seed": 7,
            "temperature": options.temperature, "max_tokens": ROOM, "frequency_penalty": 0.2, "repeat_last_n": -1}
    if options.temperature > 1:
        body |= {"top_k": 0, "top_p": 1, "min_p": 0}
    if as_tool:
        body |= {"tools": [{"type": "function", "function": {"name": "answer", "description": "Takes the answer.", "parameters": schema, "strict": True}}],
                 "tool_choice": "required", "parallel_tool_calls": False}
    else:
        body["response_format"] = {"type": "json_schema", "json_schema": {"name": "answer", "strict": True, "schema": schema}}
    try:
        choice = server.ask(body)["choices"][0]
        if choice["finish_reason"] == "length":
            choice = server.ask(body | {"max_tokens": MORE_ROOM})["choices"][0]
    except (ValueError, OSError, http.client.HTTPException) as error:
        return "refused", str(error)
    if as_tool:
        calls = choice["message"].get("tool_calls") or []
        if choice["finish_reason"] == "length":
            return "cut", None
        if [call["function"]["name"] for call in calls] != ["answer"] * max(len(calls), 1):
            return "invalid", f"no calls: {choice}"
        texts = [call["function"]["arguments"] for call in calls]
    else:
        texts = [choice["message"]["content"]]
        if choice["finish_reason"] == "length":
            return ("cut", None) if begins_json(texts[0]) else ("invalid", "cut, and no beginning: " + texts[0])
    for answer in texts:
        if problem := checker.problem(schema, answer):
            return "invalid", f"{problem}\n    {answer}"
    return "valid", None


def check(options):
    checker = Checker()
    schemas = all_schemas()
    for schema in schemas:
        checker.kind.check_schema(schema)
    prompts = [PROMPTS[i % len(PROMPTS)] + " Again." * (i // len(PROMPTS)) for i in range(options.prompts)]
    objects = [schema for schema in schemas if schema.get("type") == "object"]
    jobs = [(schema, prompt, False) for schema in schemas for prompt in prompts]
    jobs += [(schema, prompt, True) for schema in objects[:: max(len(objects) // N_TOOLS, 1)][:N_TOOLS] for prompt in prompts]
    server = Server(options.program, "-m", options.model, "-np", str(AT_A_TIME), "-c", "32k")
    start = time.time()
    counts = {False: collections.Counter(), True: collections.Counter()}
    try:
        with concurrent.futures.ThreadPoolExecutor(AT_A_TIME) as pool:
            results = pool.map(lambda job: ask(server, checker, *job, options), jobs)
            for (schema, prompt, as_tool), (what, problem) in zip(jobs, results):
                counts[as_tool][what] += 1
                if problem is not None or what == "cut":
                    print(f"{what}{' call' if as_tool else ''}: {json.dumps(schema)}\n    {prompt[:40]}\n    {problem or ''}", flush=True)
    finally:
        code = server.stop()
    for as_tool, name in ((False, "answers"), (True, "calls")):
        print(f"{name}: {dict(counts[as_tool])}")
    print(f"{len(schemas)} schemas, {len(jobs)} requests, {time.time() - start:.0f} s")
    total = counts[False] + counts[True]
    return 1 if total["invalid"] + total["refused"] > 0 or code != 0 else 0


# --- Cost

FREE_STREAMS = 31
LONG = listed(record(id=pattern("^[A-Z]{2}-\\d{4}$"), name={**pattern("^[A-Z][a-z]+( [a-z]+)*$"), "maxLength": 40}, tags=listed(text(12), 1, 4),
                     score={"type": "number", "minimum": 0, "maximum": 100}, on={"type": "string", "format": "date"}), 500, 600)
# Nothing in it is forced: each token is a step, as of a free stream.
UNFORCED = pattern("^[A-Za-z][A-Za-z ,.]{3000,}$")
VARIANTS = {"free": None, "objects": LONG, "text": UNFORCED}


class Beside:
    """The 32nd stream: the times at which its tokens came."""

    def __init__(self, server, schema):
        body = {"messages": [{"role": "user", "content": "Write down all that you know of looms."}], "temperature": 0, "max_tokens": MORE_ROOM,
                "stream": True, "return_tokens": True}
        body |= {"ignore_eos": True} if schema is None else {
            "response_format": {"type": "json_schema", "json_schema": {"name": "a", "strict": True, "schema": schema}}}
        self.connection, self.answer = server.post(body)
        self.arrivals = []
        self.first = threading.Event()
        self.thread = threading.Thread(target=self.read)
        self.thread.start()

    def read(self):
        try:
            for line in self.answer:
                if line.startswith(b"data: {"):
                    for choice in json.loads(line[6:]).get("choices", []):
                        n = len(choice.get("token_ids") or choice.get("delta", {}).get("token_ids") or [])
                        if n > 0:
                            self.arrivals.append((time.time(), n))
                            self.first.set()
        except (OSError, ValueError, AttributeError, http.client.HTTPException):
            pass  # It was closed.
        self.first.set()

    def leave(self):
        self.connection.sock and self.connection.sock.shutdown(2)
        self.thread.join()
        self.connection.close()


def measure(server, schema, n_tokens):
    """Milliseconds per token of the free streams, and of the constrained stream that runs with them."""
    beside = Beside(server, schema)
    beside.first.wait()
    verbs, things = ("Describe", "Count", "Praise", "Explain"), ("a loom", "the sea", "horses", "winter", "bread", "the moon", "a river", "glass")
    bodies = [{"messages": [{"role": "user", "content": f"{verb} {thing}."}], "temperature": 0, "max_tokens": n_tokens, "ignore_eos": True}
              for verb in verbs for thing in things][:FREE_STREAMS]
    with concurrent.futures.ThreadPoolExecutor(FREE_STREAMS) as pool:
        begin = time.time()
        timings = [answer["timings"] for answer in pool.map(server.ask, bodies)]
        end = time.time()
    still_running = beside.thread.is_alive()
    beside.leave()
    if not still_running:
        raise SystemExit("the stream beside the free ones ended before them")
    ms = statistics.mean(t["predicted_ms"] / t["predicted_n"] for t in timings)
    n = sum(n for at, n in beside.arrivals if begin < at <= end)
    own = (end - begin) * 1000 / n
    return ms, own


def cost(options):
    server = Server(options.program, "-m", options.model, "-np", str(FREE_STREAMS + 1), "-c", "32k")
    variants = options.variants.split(",")
    try:
        for name in variants:  # Compiles, and fills the caches.
            beside = Beside(server, VARIANTS[name])
            beside.first.wait()
            time.sleep(0.5)
            beside.leave()
        measured = {name: [] for name in variants}
        measure(server, None, 2)
        for i in range(options.rounds):
            for name in variants if i % 2 == 0 else reversed(variants):
                measured[name].append(measure(server, VARIANTS[name], options.tokens))
                print(f"{name}: {measured[name][-1][0]:.3f} ms a free token, {measured[name][-1][1]:.3f} ms a token of its own", flush=True)
    finally:
        server.stop()
    free = measured["free"]
    for name in variants:
        ratios = [[m[k] / f[k] for m, f in zip(measured[name], free)] for k in (0, 1)]
        print(f"{name}: free streams {statistics.median(m[0] for m in measured[name]):.3f} ms a token, x {statistics.median(ratios[0]):.4f} "
              f"({min(ratios[0]):.4f} to {max(ratios[0]):.4f}); its own {statistics.median(m[1] for m in measured[name]):.3f} ms, x {statistics.median(ratios[1]):.4f}")
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--model", default="smollm2")
    parser.add_argument("--prompts", type=int, default=3)
    parser.add_argument("--temperature", type=float, default=0.8, help="above 1 nothing is cut off: all that a schema allows is tried")
    parser.add_argument("--cost", action="store_true")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--tokens", type=int, default=256, help="of each free stream (--cost)")
    parser.add_argument("--variants", default="free,objects,text", help="of the stream beside the free ones (--cost)")
    options = parser.parse_args()
    return cost(options) if options.cost else check(options)


if __name__ == "__main__":
    sys.exit(main())
