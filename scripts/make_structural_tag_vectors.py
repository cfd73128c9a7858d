#!/usr/bin/env python3
"""Makes tests/data/grammar/structural_tags.json with xgrammar: the strings that structural tags accept.

    pip install xgrammar
    scripts/make_structural_tag_vectors.py

Each row has a tag, and either "refused" or strings with the verdict of xgrammar 0.2.9.
"""

import json
import pathlib
import sys

from xgrammar import Grammar
from xgrammar.testing import _is_grammar_accept_string as accepts

INTEGER = {"type": "json_schema", "json_schema": {"type": "integer"}}
ANY = {"type": "any_text"}
PERSON = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "n": {"type": "integer"}, "list": {"type": "array", "items": {"type": "integer"}}},
    "required": ["name", "n"],
}


def tag(begin, content, end):
    return {"type": "tag", "begin": begin, "content": content, "end": end}


def const(text):
    return {"type": "const_string", "value": text}


def sequence(*elements):
    return {"type": "sequence", "elements": list(elements)}


A, B = tag("<a>", INTEGER, "</a>"), tag("<b>", INTEGER, "</b>")
TAGS = ["", "x", "x<a>1</a>", "<a>1</a>", "<a>1</a>x", "<a>1</a><b>2</b>", "<a>1</a>y<b>2</b>z", "<a>x</a>", "<a", "<c>", "<a>1", "</a>"]
LISTS = ["", "<a>1</a>", "<a>1</a>,<b>2</b>", "<a>1</a>,", ",", "<a>1</a><a>2</a>", "<a>1</a>,<a>2</a>,<a>3</a>", "x<a>1</a>"]


def triggered(**fields):
    return {"type": "triggered_tags", "triggers": ["<a", "<b"], "tags": [A, B], **fields}


def separated(**fields):
    return {"type": "tags_with_separator", "tags": [A, B], "separator": ",", **fields}



NAMED = ["<parameter=name>Bob</parameter><parameter=n>3</parameter>", "<parameter=name>\nBob\n</parameter>\n<parameter=n>\n3\n</parameter>",
         "<parameter=name>Bob</parameter>\n<parameter=n>3</parameter>\n<parameter=list>[1, 2]</parameter>\n",
         "<parameter=n>3</parameter><parameter=name>B</parameter>", "<parameter=name>B</parameter>", "<parameter=name>B</parameter><parameter=n>x</parameter>",
         "<parameter=name>a</b></parameter><parameter=n>3</parameter>", "", "<parameter=other>1</parameter>"]
FUNCTION = tag("<function=f>", {"type": "qwen_xml_parameter", "json_schema": PERSON}, "</function>")

CASES = [
    (const("ab"), ["ab", "a", "abc", ""]),
    ({"value": "ab"}, ["ab", "a"]),
    (const(""), ["", "a"]),
    (INTEGER, ["1", "-20", "x", "1.5"]),
    ({"type": "json_schema", "json_schema": True}, ["1", "\"a\"", "{}", "[", "x"]),
    (ANY, ["", "x", "<a>"]),
    ({"type": "any_text", "excludes": ["bad", "</"]}, ["", "good", "a bad", "ba", "<", "</a"]),
    ({"type": "regex", "pattern": "[a-z]+"}, ["abc", "", "A"]),
    ({"type": "grammar", "grammar": "root ::= \"x\" | \"y\""}, ["x", "y", "z", ""]),
    (triggered(), TAGS),
    (triggered(at_least_one=True), TAGS),
    (triggered(stop_after_first=True), TAGS),
    (triggered(at_least_one=True, stop_after_first=True), TAGS),
    (triggered(excludes=["z"]), TAGS),
    (triggered(triggers=["<"]), TAGS),
    (separated(), LISTS),
    (separated(at_least_one=True), LISTS),
    (separated(stop_after_first=True), LISTS),
    (separated(separator=""), LISTS),
    (tag("<t>", ANY, "</t>"), ["<t>abc</t>", "<t></t>", "<t>a</t>b", "<t>a</t></t>", "<t>a<</t>", "<t>a"]),
    (tag("<t>", ANY, ["</t>", "</u>"]), ["<t>abc</t>", "<t>x</u>", "<t>a</u>b</t>", "<t>a"]),
    (tag("<t>", sequence(A, ANY), "</t>"), ["<t><a>1</a>x</t>", "<t><a>1</a></t>x</t>", "<t>x</t>"]),
    (tag("<t>", triggered(), "</t>"), ["<t>x<a>1</a>y</t>", "<t></t>", "<t>x</t>y</t>", "<t><a>1</t>"]),
    (tag("<t>", {"type": "or", "elements": [A, const("none")]}, "</t>"), ["<t><a>1</a></t>", "<t>none</t>", "<t></t>"]),
    (tag("", INTEGER, ""), ["1", ""]),
    (tag("<t>", tag("<u>", ANY, "</u>"), "</t>"), ["<t><u>x</u></t>", "<t><u></t></u></t>", "<t></t>"]),
    (sequence(tag("<think>", ANY, "</think>"), const("\n"), A), ["<think>hm</think>\n<a>1</a>", "<a>1</a>", "<think>hm</think><a>1</a>"]),
    (sequence(ANY, A), ["<a>1</a>", "x<a>1</a>", "x"]),
    (sequence(A, ANY), ["<a>1</a>", "<a>1</a>x", "x"]),
    ({"type": "or", "elements": [A, B]}, ["<a>1</a>", "<b>1</b>", "", "<a>1</b>"]),
    ({"type": "optional", "content": A}, ["", "<a>1</a>", "<a>1</a><a>1</a>"]),
    ({"type": "star", "content": A}, ["", "<a>1</a>", "<a>1</a><a>1</a>", "x"]),
    ({"type": "plus", "content": A}, ["", "<a>1</a>", "<a>1</a><a>1</a>"]),
    ({"type": "repeat", "min": 1, "max": 2, "content": const("x")}, ["", "x", "xx", "xxx"]),
    ({"type": "repeat", "min": 2, "max": -1, "content": const("x")}, ["", "x", "xx", "xxxxx"]),
    ({"type": "dispatch", "rules": [["<a>", INTEGER]]}, ["x<a>1y", "<a>x", "x", ""]),
    ({"type": "dispatch", "rules": [["<a>", INTEGER]], "loop": False}, ["x<a>1y", "x<a>1", "x", ""]),
    ({"type": "qwen_xml_parameter", "json_schema": PERSON}, NAMED),
    ({"type": "json_schema", "json_schema": PERSON, "style": "qwen_xml"}, NAMED),
    ({"type": "triggered_tags", "triggers": ["<function="], "tags": [FUNCTION]},
     ["", "I call <function=f>" + NAMED[1] + "</function> now", "<function=f></function>", "<function=g>"]),
    (tag("<t>", ANY, ""), None),
    (triggered(triggers=["<a"]), None),
    (triggered(triggers=["<", "<a"]), None),
    (triggered(triggers=[]), None),
    (triggered(tags=[]), None),
    (sequence(), None),
    ({"type": "or", "elements": []}, None),
    ({"type": "nope"}, None),
    ({"type": "regex"}, None),
    ({"type": "tag", "begin": "<a>", "content": INTEGER}, None),
    (tag("<a>", INTEGER, []), None),
    ({"type": "repeat", "min": 3, "max": 2, "content": A}, None),
    ({"type": "grammar", "grammar": "nothing"}, None),
    (separated(tags=[]), None),
]


def main():
    rows = []
    for form, texts in CASES:
        row = {"tag": {"type": "structural_tag", "format": form}}
        try:
            grammar = Grammar.from_structural_tag(row["tag"])
        except Exception as error:
            if texts is not None:
                sys.exit(f"xgrammar refuses {form}: {error}")
            row["refused"] = True
            rows.append(row)
            continue
        if texts is None:
            sys.exit(f"xgrammar accepts {form}")
        row["texts"] = [[text, bool(accepts(grammar, text))] for text in texts]
        rows.append(row)
    path = pathlib.Path(__file__).parent.parent / "tests/data/grammar/structural_tags.json"
    path.write_text("[\n" + ",\n".join(json.dumps(row) for row in rows) + "\n]\n")
    print(f"{len(rows)} tags, {sum(len(row.get('texts', [])) for row in rows)} texts")


if __name__ == "__main__":
    main()
