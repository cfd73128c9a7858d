#!/usr/bin/env python3
"""Compares the exports of the graph library with the list in this folder (graph_exports.txt).

    check_exports.py build/release/libweft_graph.so             fails where they differ, and shows how
    check_exports.py build/release/libweft_graph.so --update    writes the list again

The list has the functions and data that are defined once, in the library. It lacks inline definitions of headers and
instances of the standard library's templates (weak symbols), which every program has for itself."""
import difflib
import re
import subprocess
import sys
from pathlib import Path

LIST = Path(__file__).with_name("graph_exports.txt")
# How the demangler writes types, and how people do.
READABLE = [
    (re.escape("std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> >"), "std::string"),
    (re.escape("std::basic_string_view<char, std::char_traits<char> >"), "std::string_view"),
    (r"std::variant<weft::ops::[^<>]*>", "weft::Op"),
    (r"std::span<([^<>]*), 18446744073709551615ul>", r"std::span<\1>"),
    (r"std::filesystem::__cxx11::", "std::filesystem::"),
    (r"\[abi:cxx11\]", ""),
    (r" >", ">"),
]


def exports(library: str) -> list[str]:
    output = subprocess.run(["nm", "-D", "-C", "--defined-only", library], check=True, text=True,
                            stdout=subprocess.PIPE).stdout
    strong = re.findall(r"^[0-9a-f]+ [TDBR] (.+)$", output, re.MULTILINE)
    # Constructors and destructors come in several forms of one name.
    names = set()
    for name in strong:
        for wordy, readable in READABLE:
            name = re.sub(wordy, readable, name)
        names.add(name)
    return sorted(names)


def main() -> int:
    library, *options = sys.argv[1:]
    now = exports(library)
    if options == ["--update"]:
        LIST.write_text("".join(f"{name}\n" for name in now))
        print(f"{LIST}: {len(now)} symbols")
        return 0
    listed = LIST.read_text().splitlines()
    diff = [line for line in difflib.unified_diff(listed, now, "listed", "exported", n=0, lineterm="")
            if line[0] in "+-"]
    if not diff:
        print(f"{len(now)} symbols, as listed")
        return 0
    print("\n".join(diff))
    print(f"\nThe graph library exports (+) what {LIST.name} does not list, or no longer (-) what it lists. Names that "
          "go break\nprograms, and names of inner layers are no business of theirs. Where it is meant to be so:\n"
          f"  {Path(__file__).resolve()} {library} --update")
    return 1


if __name__ == "__main__":
    sys.exit(main())
