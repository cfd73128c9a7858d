#!/usr/bin/env python3
"""Compares the tables of metrics in docs/operations.md with the metrics of server/observe/metrics.cpp, both ways.

A table with the first column "metric" has the names without the prefix `weft:`. One with the first column
"llama.cpp's metric" has those without `llamacpp:`.

--self-test plants mistakes and fails if one of them is not found.
"""
import re
import sys

from pages import ROOT, parts

PAGE, SOURCE = "docs/operations.md", "server/observe/metrics.cpp"
COLUMNS = {"metric": "weft:", "llama.cpp's metric": "llamacpp:"}


def exported(source: str) -> set[str]:
    """The names that the server exports. The functions below the second marker add llama.cpp's."""
    own, marker, rest = source.partition("void add_for_llama_cpp(")
    others, end, http = rest.partition("\n}\n")
    if not marker or not end:
        raise ValueError(f"{SOURCE}: add_for_llama_cpp is not found")
    call = re.compile(r"\b(?:count|counter|gauge|histogram)\(\s*\"(\w+)\"")
    return {"weft:" + name for name in call.findall(own + http)} | {"llamacpp:" + name for name in call.findall(others)}


def documented(page: str) -> list[str]:
    found, prefix = [], None
    for line in parts(page)[0].split("\n"):
        cells = [cell.strip() for cell in line.strip("|").split("|")] if line.startswith("|") else None
        if cells is None:
            prefix = None
        elif cells[0] in COLUMNS:
            prefix = COLUMNS[cells[0]]
        elif prefix is not None:
            found += [prefix + name for name in re.findall(r"`(\w+)[^`]*`", cells[0])]
    return found


def problems(page: str, source: str) -> list[str]:
    names, there = documented(page), exported(source)
    return ([f"{PAGE}: {name} is missing" for name in sorted(there - set(names))] +
            [f"{PAGE}: {name}: the server has no such metric" for name in sorted(set(names) - there)] +
            [f"{PAGE}: {name} is listed twice" for name in sorted({name for name in names if names.count(name) > 1})])


def self_test() -> list[str]:
    source = ('  gauge("a", "A.", 1);\n  families.histogram(\n      "b_seconds", "B.", model, s);\n'
              'void add_for_llama_cpp(Families& families) {\n  count("a", "A.", 1);\n}\n  families.counter("c", "C.");\n')
    page = ("| metric | meaning |\n|---|---|\n| `a{state}`, `b_seconds` | 1 |\n| `c` | 2 |\n\n"
            "| llama.cpp's metric | weft's |\n|---|---|\n| `a` | `nothing` |\n\n| field | meaning |\n|---|---|\n| `d` | 3 |\n")
    missed = [f"right, but reported: {problem}" for problem in problems(page, source)]
    for old, new in [("`a{state}`, ", ""), ("`c`", "`c`, `d`"), ("| `a` | `nothing`", "| | `nothing`"), ("`c`", "`c`, `c`"),
                     ("| `a` |", "| `a`, `b_seconds` |")]:
        if len(problems(page.replace(old, new, 1), source)) != 1:
            missed.append(f"not found once: {new} for {old}: {problems(page.replace(old, new, 1), source)}")
    return missed


def main() -> int:
    found = self_test() if "--self-test" in sys.argv else problems((ROOT / PAGE).read_text(), (ROOT / SOURCE).read_text())
    print("\n".join([*found, f"{len(found)} problems"]))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
