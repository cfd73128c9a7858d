#!/usr/bin/env python3
"""Checks that each internal link of the Markdown pages leads to a file, and its fragment to a heading. Paths of sources in
code, such as `src/base/pool.h`, must exist, too.

--self-test plants wrong links and fails if one of them is not found.
"""
import posixpath
import re
import sys

from pages import ROOT, line_of, pages, parts

LINK = re.compile(r"\]\(<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\)|<(?:img|a)\b[^>]*?(?:src|href)=\"([^\"]+)\"")
SOURCE_PATH = re.compile(r"`((?:bench|c|cli|cmake|fetch|include|labs|packaging|python|scripts|server|src|tests)/[\w./-]*\w)/?`")
# History, with names of its time.
HISTORY = ("CHANGELOG.md", "docs/changes.md", "labs/NOTES.md")
# Written by `make docs`.
GENERATED = ("docs/reference/",)


def anchors(text: str) -> set[str]:
    """The fragments of a page's headings, as GitHub and MyST make them."""
    found: set[str] = set()
    for title in re.findall(r"^#{1,6}[ \t]+(.*?)[ \t#]*$", parts(text)[0], re.M):
        title = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", title)
        name = re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")
        n, unique = 0, name
        while unique in found:
            n += 1
            unique = f"{name}-{n}"
        found.add(unique)
    return found


def problems(texts: dict[str, str]) -> list[str]:
    found = []
    for page, text in texts.items():
        for match in SOURCE_PATH.finditer(parts(text)[0]):
            path, is_pattern = match[1], re.search(r"NAME|TARGET|FAMILY|ARCH|KIND|OP\b", match[1])
            if page not in HISTORY and not is_pattern and not (ROOT / path).exists():
                found.append(f"{page}:{line_of(text, match.start())}: {path}: no such file")
        prose = re.sub(r"`[^`\n]*`", lambda code: " " * len(code[0]), parts(text)[0])
        for match in LINK.finditer(prose):
            target = match[1] or match[2]
            if re.match(r"[a-z][a-z0-9+.-]*:", target):
                continue
            place, _, fragment = target.partition("#")
            path = posixpath.normpath(posixpath.join(posixpath.dirname(page), place)) if place else page
            where = f"{page}:{line_of(prose, match.start())}: {target}"
            if path.startswith(GENERATED):
                continue
            if not (ROOT / path).exists():
                found.append(f"{where}: no such file")
            elif fragment and path in texts and fragment not in anchors(texts[path]):
                found.append(f"{where}: no such heading")
    return found


def self_test() -> list[str]:
    texts = {"README.md": "# A title: with `code`\n[up](docs/c.md), [here](#a-title-with-code)\n"
                          "```\n[in code](nowhere.md)\n```\nand `[code](nowhere.md)`\n"}
    missed = [f"right, but reported: {problem}" for problem in problems(texts)]
    for planted in ["[a](docs/nowhere.md)", "[a](#nowhere)", "![a](nowhere.svg)", "[a](README.md#nowhere)",
                    '<img src="nowhere.png">', "`src/nowhere.cpp`"]:
        if len(problems({"README.md": texts["README.md"] + planted + "\n"})) != 1:
            missed.append(f"not found: {planted}")
    return missed


def main() -> int:
    found = self_test() if "--self-test" in sys.argv else problems(pages())
    print("\n".join([*found, f"{len(found)} problems"]))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
