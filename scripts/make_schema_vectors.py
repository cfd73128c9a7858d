#!/usr/bin/env python3
"""Writes tests/data/grammar/schemas.json: schemas, and documents that the package jsonschema calls valid or not.

    pip install 'jsonschema[format]' && scripts/make_schema_vectors.py > tests/data/grammar/schemas.json

Texts are written as json.dumps writes them, properties in the schema's order: the form that weft's grammars allow.
Schemas are written by hand, and drawn with a fixed seed.
"""
import copy
import json
import random

import jsonschema

HAND_WRITTEN = [
    ({"type": "object", "properties": {"name": {"type": "string"}, "age": {"type": "integer"}}, "required": ["name", "age"]},
     ['{"name": "Ann", "age": 3}', '{"name": "", "age": -12}', '{"name": "a\\"b\\u00e9\\n", "age": 0}', '{"name": "Ann"}',
      '{"name": 1, "age": 3}', '{"name": "Ann", "age": 3.5}', '[]', '{"name": "Ann", "age": "3"}']),
    ({"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "number"}, "c": {"type": "boolean"}}},
     ['{}', '{"a": "x"}', '{"b": 1.5e3}', '{"c": true}', '{"a": "x", "c": false}', '{"a": "x", "b": -0.5, "c": true}', '{"b": "x"}', '{"a": null}']),
    ({"type": ["string", "null", "integer"]}, ['"x"', 'null', '12', '1.5', 'true', '{}', '[]']),
    ({"enum": ["red", 1, None, True, {"a": [1, 2]}, 2.5]}, ['"red"', '1', 'null', 'true', '{"a": [1, 2]}', '2.5', '"blue"', '{"a": [1]}', 'false']),
    ({"const": "only \u00e9 \"this\""}, ['"only \u00e9 \\"this\\""', '"other"']),
    ({"type": "string", "enum": ["a", "bb", 3]}, ['"a"', '"bb"', '3', '"c"']),
    ({"enum": ["a", "bbb", "cc"], "maxLength": 2, "pattern": "^[a-b]"}, ['"a"', '"bbb"', '"cc"']),
    ({"type": "string", "minLength": 2, "maxLength": 4}, ['"ab"', '"abcd"', '"\u00e9\U0001f600"', '"a"', '"abcde"', '""', '"\\n\\n"']),
    ({"type": "string", "maxLength": 3000, "minLength": 1500}, ['"' + "x" * 1500 + '"', '"' + "y" * 3000 + '"', '"' + "x" * 1499 + '"', '"' + "y" * 3001 + '"', '"' + "\u00e9" * 2000 + '"']),
    ({"type": "string", "maxLength": 1300}, ['""', '"' + "y" * 1300 + '"', '"' + "y" * 1301 + '"', '"' + "y" * 256 + '"', '"' + "y" * 1280 + '"']),
    ({"type": "string", "pattern": "^[A-Z]{3}-\\d{2,4}$"}, ['"ABC-12"', '"ABC-1234"', '"ABC-1"', '"xABC-12"', '"ABC-12345"']),
    ({"type": "string", "pattern": "ab+"}, ['"ab"', '"xxabbyy"', '"a"', '"b"', '"\\"ab\\n"']),
    ({"type": "string", "pattern": "^(foo|bar$)"}, ['"foo"', '"foox"', '"bar"', '"barx"', '"xbar"']),
    ({"type": "string", "pattern": "^\"\\\\\\n$"}, ['"\\"\\\\\\n"', '"x"']),
    ({"type": "string", "pattern": "^[a-z]+$", "minLength": 2, "maxLength": 3}, ['"ab"', '"abc"', '"a"', '"abcd"', '"AB"']),
    ({"type": "string", "format": "date"}, ['"2024-02-29"', '"2023-02-28"', '"1999-12-31"', '"2023-02-29"', '"1900-02-29"', '"2000-02-29"', '"2024-13-01"', '"2024-04-31"', '"24-01-01"']),
    ({"type": "string", "format": "date-time"}, ['"2024-02-29T12:30:00Z"', '"2024-02-29T12:30:00.123+02:00"', '"2024-02-29 12:30"', '"2024-02-29T25:30:00Z"']),
    ({"type": "string", "format": "time"}, ['"12:30:00Z"', '"23:59:59-05:30"', '"24:00:00Z"', '"12:30"']),
    ({"type": "string", "format": "uuid"}, ['"123e4567-e89b-12d3-a456-426614174000"', '"123e4567-e89b-12d3-a456-42661417400"', '"x"']),
    ({"type": "string", "format": "ipv4"}, ['"127.0.0.1"', '"255.255.255.255"', '"256.1.1.1"', '"1.2.3"', '"01.2.3.4"']),
    ({"type": "string", "format": "ipv6"}, ['"::1"', '"fe80::1:2"', '"1:2:3:4:5:6:7:8"', '"1:2:3:4:5:6:7"', '"::1::2"', '"::"']),
    ({"type": "string", "format": "email"}, ['"a@example.com"', '"a.b+c@sub.example.org"', '"nobody"']),
    ({"type": "string", "format": "hostname"}, ['"example.com"', '"a-b.c"', '"-a.com"', '"a..b"', '"' + "a" * 64 + '.com"']),
    ({"type": "string", "format": "uri"}, ['"https://example.com/a?b=c#d"', '"mailto:a@example.com"', '"no uri"']),
    ({"type": "integer", "minimum": 3, "maximum": 17}, [str(i) for i in range(-2, 21)]),
    ({"type": "integer", "minimum": -120, "exclusiveMaximum": 45}, [str(i) for i in (-1000, -121, -120, -119, -99, -20, -1, 0, 9, 10, 44, 45, 46, 100)]),
    ({"type": "integer", "exclusiveMinimum": 99}, ['99', '100', '101', '999', '1000', '98', '-100', '0']),
    ({"type": "integer", "maximum": -5}, ['-5', '-6', '-50', '-4', '0', '5', '-10']),
    ({"type": "number", "minimum": 0, "maximum": 1}, ['0', '1', '0.5', '1.0', '0.0', '-0.1', '1.01', '2', '0.999', '-0.0', '-0']),
    ({"type": "number", "exclusiveMinimum": 0.25, "maximum": 12.5}, ['0.25', '0.250', '0.2500001', '0.26', '0.3', '1', '12.5', '12.50', '12.51', '12.49', '0.1', '-1', '12', '13']),
    ({"type": "number", "minimum": -1.5, "exclusiveMaximum": -0.125}, ['-1.5', '-1.51', '-1.4', '-1', '-0.125', '-0.13', '-0.1', '0', '-2', '-0.2']),
    ({"type": "number", "minimum": 1e3, "maximum": 1.5e3}, ['1000', '999.9', '1500', '1500.1', '1234.5']),
    ({"type": "integer", "multipleOf": 10}, ['10', '0', '-20', '15', '100', '5']),
    ({"type": "integer", "multipleOf": 5, "minimum": 3, "maximum": 30}, ['5', '0', '10', '30', '35', '12', '25']),
    ({"type": "array", "items": {"type": "integer"}}, ['[]', '[1]', '[1, 2, 3]', '["x"]', '[1, null]', '{}']),
    ({"type": "array", "items": {"type": "string"}, "minItems": 2, "maxItems": 3}, ['["a", "b"]', '["a", "b", "c"]', '["a"]', '[]', '["a", "b", "c", "d"]']),
    ({"type": "array", "prefixItems": [{"type": "string"}, {"type": "integer"}], "items": False}, ['["a", 1]', '["a"]', '[]', '[1]', '["a", 1, 2]', '["a", "b"]']),
    ({"type": "array", "prefixItems": [{"type": "string"}], "items": {"type": "integer"}, "minItems": 2, "maxItems": 3}, ['["a", 1]', '["a", 1, 2]', '["a"]', '["a", 1, 2, 3]', '["a", "b"]', '[1, 1]']),
    ({"type": "array", "maxItems": 0}, ['[]', '[1]']),
    ({"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "number"}}, {"type": "null"}]}, ['"x"', '[1, 2.5]', 'null', '1', '["x"]']),
    ({"oneOf": [{"type": "object", "properties": {"kind": {"const": "a"}, "x": {"type": "integer"}}, "required": ["kind", "x"]},
                {"type": "object", "properties": {"kind": {"const": "b"}, "y": {"type": "string"}}, "required": ["kind", "y"]}]},
     ['{"kind": "a", "x": 1}', '{"kind": "b", "y": "z"}', '{"kind": "a", "y": "z"}', '{"kind": "c"}']),
    ({"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}, "anyOf": [{"required": ["a"]}, {"required": ["b"]}]},
     ['{"a": 1}', '{"b": 1}', '{"a": 1, "b": 2}', '{}', '{"a": "x"}']),
    ({"allOf": [{"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}, {"type": "object", "properties": {"b": {"type": "string"}}, "required": ["b"]}]},
     ['{"a": 1, "b": "x"}', '{"a": 1}', '{"b": "x"}']),
    ({"allOf": [{"type": "integer", "minimum": 3}, {"maximum": 5}, {"type": ["integer", "string"]}]}, ['3', '4', '5', '2', '6', '"x"']),
    ({"$ref": "#/$defs/node", "$defs": {"node": {"type": "object", "properties": {"v": {"type": "integer"}, "next": {"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]}}, "required": ["v", "next"]}}},
     ['{"v": 1, "next": null}', '{"v": 1, "next": {"v": 2, "next": {"v": 3, "next": null}}}', '{"v": 1}', '{"v": 1, "next": 2}']),
    ({"type": "object", "properties": {"v": {"type": "string"}, "c": {"type": "array", "items": {"$ref": "#"}}}, "required": ["v"]},
     ['{"v": "a"}', '{"v": "a", "c": [{"v": "b", "c": []}, {"v": "c"}]}', '{"c": []}', '{"v": "a", "c": [1]}']),
    ({"definitions": {"pos/itive": {"type": "integer", "minimum": 1}}, "type": "array", "items": {"$ref": "#/definitions/pos~1itive"}}, ['[1, 2]', '[0]', '[]']),
    ({"$defs": {"e": {"$anchor": "expr", "anyOf": [{"type": "integer"}, {"type": "array", "items": {"$ref": "#expr"}}]}}, "$ref": "#expr"}, ['1', '[]', '[1, [2, []]]', '"x"', '["x"]']),
    ({"type": "object", "additionalProperties": {"type": "integer"}}, ['{}', '{"x": 1}', '{"x": 1, "y": 2}', '{"x": "1"}']),
    ({"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"], "additionalProperties": {"type": "string"}},
     ['{"id": 1}', '{"id": 1, "x": "y"}', '{"id": 1, "x": 2}', '{"id": "x"}', '{"x": "y"}', '{"id": 1, "i": "y", "idx": "z"}']),
    ({"type": "object", "properties": {"a": {"type": "integer"}}, "additionalProperties": True}, ['{}', '{"a": 1}', '{"b": [1]}', '{"a": 1, "b": null}', '{"a": "x"}']),
    ({"type": "object", "patternProperties": {"^x-[a-z]+$": {"type": "integer"}}, "additionalProperties": False}, ['{}', '{"x-a": 1}', '{"x-a": 1, "x-b": 2}', '{"y": 1}', '{"x-a": "1"}']),
    ({"type": "object", "propertyNames": {"pattern": "^[a-z]{2}$"}, "additionalProperties": {"type": "boolean"}}, ['{}', '{"ab": true}', '{"abc": true}', '{"ab": 1}']),
    ({"type": "object", "minProperties": 1, "additionalProperties": {"type": "null"}}, ['{"a": null}', '{}', '{"a": 1}']),
    ({"type": "object", "maxProperties": 2, "additionalProperties": {"type": "null"}}, ['{}', '{"a": null}', '{"a": null, "b": null}', '{"a": null, "b": null, "c": null}']),
    ({"properties": {"x": {"type": "integer"}}, "required": ["x"], "type": "object", "title": "T", "description": "d", "default": {}, "examples": [1], "$comment": "c"}, ['{"x": 1}', '{}']),
    ({"type": "object", "properties": {"a\"b\\\u00e9": {"type": "integer"}}, "required": ["a\"b\\\u00e9"]}, ['{"a\\"b\\\\\u00e9": 1}', '{}']),
    ({"type": "object"}, ['{}', '{"a": {"b": [1, "x", null, true, 1.5e-3]}}', '[]', '"x"', '{"a": }', '{"a": 1,}']),
    (True, ['1', '"x"', '[]', '{}', 'null', '[1, {"a": [[]]}]']),
    ({}, ['1.5', '"\\ud83d\\ude00"', '[true, false]']),
]

TEXTS = ["", "a", "Hello, world", "line\nbreak", "quote \" and \\", "\u00e9\u4e2d\U0001f600", "tab\t", "x" * 40, "0", "true"]


def draw_schema(rng, depth):
    kinds = ["string", "integer", "number", "boolean", "null", "enum", "bounded", "length"]
    if depth > 0:
        kinds += ["object", "object", "object", "array", "array", "union", "map", "tuple"]
    kind = rng.choice(kinds)
    if kind in ("string", "integer", "number", "boolean", "null"):
        return {"type": kind}
    if kind == "enum":
        return {"enum": rng.sample(["red", "green", "blue", 1, 22, None, True, "r"], rng.randint(1, 4))}
    if kind == "bounded":
        low = rng.randint(-300, 300)
        return {"type": "integer", "minimum": low, "maximum": low + rng.randint(0, 400)}
    if kind == "length":
        low = rng.randint(0, 3)
        return {"type": "string", "minLength": low, "maxLength": low + rng.randint(0, 12)}
    if kind == "array":
        schema = {"type": "array", "items": draw_schema(rng, depth - 1)}
        if rng.random() < 0.5:
            schema["minItems"] = rng.randint(0, 2)
            schema["maxItems"] = schema["minItems"] + rng.randint(0, 3)
        return schema
    if kind == "tuple":
        return {"type": "array", "prefixItems": [draw_schema(rng, depth - 1) for _ in range(rng.randint(1, 3))], "items": False}
    if kind == "union":
        return {"anyOf": [draw_schema(rng, depth - 1) for _ in range(rng.randint(2, 3))]}
    if kind == "map":
        return {"type": "object", "additionalProperties": draw_schema(rng, depth - 1)}
    names = rng.sample(["id", "name", "kind", "value", "items", "next", "a", "ab", "\u00fc"], rng.randint(1, 5))
    return {"type": "object", "properties": {n: draw_schema(rng, depth - 1) for n in names},
            "required": [n for n in names if rng.random() < 0.6], "additionalProperties": False}


def draw_value(rng, schema):
    """A value that often fits."""
    if "anyOf" in schema:
        return draw_value(rng, rng.choice(schema["anyOf"]))
    if "enum" in schema:
        return rng.choice(schema["enum"])
    kind = schema["type"]
    if kind == "string":
        if "maxLength" in schema:
            n = rng.randint(schema["minLength"], schema["maxLength"] + (rng.random() < 0.1))
            return "".join(rng.choice("ab \u00e9\"\n\U0001f600") for _ in range(n))
        return rng.choice(TEXTS)
    if kind == "integer":
        return rng.randint(schema.get("minimum", -10**6) - (rng.random() < 0.1), schema.get("maximum", 10**6) + (rng.random() < 0.1))
    if kind == "number":
        return rng.choice([0, -1, 2.5, 1e-7, 1e30, -0.001, 123456])
    if kind == "boolean":
        return rng.random() < 0.5
    if kind == "null":
        return None
    if kind == "array":
        if "prefixItems" in schema:
            items = [draw_value(rng, s) for s in schema["prefixItems"]]
            return items[: rng.randint(0, len(items))] if rng.random() < 0.3 else items
        n = rng.randint(schema.get("minItems", 0), schema.get("maxItems", 3) + (rng.random() < 0.1))
        return [draw_value(rng, schema["items"]) for _ in range(n)]
    if "properties" not in schema:
        return {f"k{i}": draw_value(rng, schema["additionalProperties"]) for i in range(rng.randint(0, 3))}
    return {n: draw_value(rng, s) for n, s in schema["properties"].items() if n in schema["required"] or rng.random() < 0.5}


def spoil(rng, value):
    """A value that differs a little from another one."""
    value = copy.deepcopy(value)
    if isinstance(value, dict) and value and rng.random() < 0.7:
        key = rng.choice(list(value))
        if rng.random() < 0.3:
            del value[key]
        else:
            value[key] = spoil(rng, value[key])
        return value
    if isinstance(value, list) and value and rng.random() < 0.7:
        i = rng.randrange(len(value))
        value[i] = spoil(rng, value[i])
        return value
    return rng.choice([None, True, 17, -3.5, "zz", [], {}, ["x"], {"x": 1}])


def is_valid(schema, text):
    try:
        value = json.loads(text)
    except ValueError:
        return False
    checker = jsonschema.Draft202012Validator(schema, format_checker=jsonschema.Draft202012Validator.FORMAT_CHECKER)
    return checker.is_valid(value)


def main():
    rng = random.Random(1)
    vectors = []

    def add(schema, texts):
        valid = [t for t in texts if is_valid(schema, t)]
        vectors.append({"source": json.dumps(schema, ensure_ascii=False), "valid": valid, "invalid": [t for t in texts if t not in valid]})

    for schema, texts in HAND_WRITTEN:
        add(schema, texts)
    while len(vectors) < 130:
        schema = draw_schema(rng, 3)
        if "type" in schema and schema["type"] not in ("object", "array"):
            continue
        texts = []
        for _ in range(12):
            value = draw_value(rng, schema)
            texts += [json.dumps(v, ensure_ascii=False) for v in (value, spoil(rng, value))]
        add(schema, sorted(set(texts)))
    print("[")
    print(",\n".join(json.dumps(v, ensure_ascii=True) for v in vectors))
    print("]")


if __name__ == "__main__":
    main()
