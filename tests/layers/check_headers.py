#!/usr/bin/env python3
"""Compiles each public header alone: check_headers.py --root TREE --cxx COMPILER [--self-test]

A header includes all headers that it needs, and uses no deprecated names. --self-test checks that headers with these
faults are found."""
import argparse
import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path


def errors_of(header: Path, folder: Path, cxx: str) -> str:
    """What the compiler writes; empty: it compiles."""
    command = [cxx, "-std=c++20", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-x", "c++", "-I", folder, "-"]
    include = f'#include "{header.relative_to(folder).as_posix()}"\n'
    done = subprocess.run(command, input=include, text=True, capture_output=True)
    return done.stderr if done.returncode else ""


def check(folder: Path, cxx: str) -> list[Path]:
    headers = sorted(folder.rglob("*.h"))
    with ThreadPoolExecutor(os.cpu_count()) as threads:
        errors = dict(zip(headers, threads.map(lambda header: errors_of(header, folder, cxx), headers)))
    for header, text in errors.items():
        if text:
            print(f"{header} does not compile alone:\n{text}")
    return [header for header, text in errors.items() if text]


def self_test(cxx: str) -> bool:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "good.h").write_text("#include <string>\ninline std::string good() { return {}; }\n")
        (folder / "lacking.h").write_text("inline std::string lacking() { return {}; }\n")
        (folder / "deprecated.h").write_text("[[deprecated]] int old();\ninline int used() { return old(); }\n")
        return [header.name for header in check(folder, cxx)] == ["deprecated.h", "lacking.h"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", type=Path, required=True)
    parser.add_argument("--cxx", required=True)
    parser.add_argument("--self-test", action="store_true")
    arguments = parser.parse_args()
    if arguments.self_test:
        return 0 if self_test(arguments.cxx) else 1
    return 1 if check(arguments.root / "include", arguments.cxx) else 0


if __name__ == "__main__":
    sys.exit(main())
