#!/usr/bin/env python3
"""Runs docs/c.md as a program. The option --write PAGE SOURCE concatenates its blocks of C. With --check PAGE PROGRAM
MODEL it runs the program and compares its output with the page's output blocks."""
import difflib
import re
import subprocess
import sys
from pathlib import Path


def blocks(page: str, kind: str) -> str:
    found = re.findall(r"^```(\w+)\n(.*?)^```$", Path(page).read_text(), re.MULTILINE | re.DOTALL)
    return "".join(text for name, text in found if name == kind)


def main() -> int:
    if sys.argv[1] == "--write":
        _, _, page, source = sys.argv
        Path(source).write_text(blocks(page, "c"))
        return 0
    _, _, page, program, model = sys.argv
    done = subprocess.run([program, model], text=True, stdout=subprocess.PIPE)
    wanted = blocks(page, "text")
    if done.returncode == 0 and done.stdout == wanted and wanted:
        return 0
    print(f"exit status {done.returncode}")
    print("\n".join(difflib.unified_diff(wanted.splitlines(), done.stdout.splitlines(), "the page", "printed")))
    return 1


if __name__ == "__main__":
    sys.exit(main())
