#!/usr/bin/env python3
"""Compares the table of fields in docs/server.md with the fields that server/api reads.

Each name of the table's first column occurs as a string in server/api. Each field that common_fields.cpp reads is in the
table.

--self-test plants mistakes and fails if one of them is not found.
"""
import re
import sys

from pages import ROOT

PAGE, SOURCES, COMMON = "docs/server.md", "server/api", "server/api/common_fields.cpp"
HEADING = "## Fields of generating requests\n"
# Alternatives of other servers, which docs/server.md describes with their field, and fields of their objects.
WITHIN = {"type", "schema", "strict", "include_usage", "continuous_usage_stats", "json_object"}


def documented(page: str) -> set[str]:
    section = page.split(HEADING)[1].split("\n## ")[0]
    rows = [line.split("|")[1] for line in section.split("\n") if line.startswith("| `")]
    return {name for row in rows for name in re.findall(r"`([\w.]+)`", row)}


def read_by_all(source: str) -> set[str]:
    """The names in calls such as fields.integer("top_k", ...)."""
    reads = r"\b(?:fields|inner|format)\.(?:boolean|integer|number|string|strings|object|array|word|find|bits)\(\"([\w.]+)\""
    return set(re.findall(reads, source)) | set(re.findall(r"\bnumber\(\"([\w.]+)\"", source))


def mistakes(page: str, common: str, sources: str) -> list[str]:
    names = documented(page)
    found = [f"{PAGE}: no file of {SOURCES} reads the field '{name}'" for name in sorted(names) if f'"{name}"' not in sources]
    return found + [f"{PAGE} lacks the field '{name}' of {COMMON}" for name in sorted(read_by_all(common) - names - WITHIN)]


def main() -> int:
    page, common = (ROOT / PAGE).read_text(), (ROOT / COMMON).read_text()
    sources = "".join(path.read_text() for path in sorted((ROOT / SOURCES).glob("*.[ch]*")))
    found = mistakes(page, common, sources)
    if "--self-test" in sys.argv[1:]:
        planted = [(page.replace("`n_keep`", "`n_kept`"), common), (page, common + 'fields.integer("unknown_field", 0);'),
                   (page, common + 'number("unknown_number", x);')]
        missed = [i for i, (text, source) in enumerate(planted) if len(mistakes(text, source, sources)) <= len(found)]
        print(f"missed: {missed}")
        return 1 if missed else 0
    print("\n".join(found))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
