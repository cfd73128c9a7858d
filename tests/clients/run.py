#!/usr/bin/env python3
"""run.py PROGRAM FOLDER [PYTEST ARGUMENTS...]: the clients' tests against a server that PROGRAM serves.

The clients are installed into a virtual environment in FOLDER, once. Exits with 77 (skipped) where they cannot be
fetched."""
import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "scripts"))

from make_wheel import make_environment  # noqa: E402


def main() -> int:
    program, folder = Path(sys.argv[1]).resolve(), Path(sys.argv[2])
    python = make_environment(folder, *(HERE / "requirements.txt").read_text().split())
    environment = {**os.environ, "WEFT_PROGRAM": str(program)}
    return subprocess.run([python, "-m", "pytest", "-q", "-p", "no:cacheprovider", HERE, *sys.argv[3:]],
                          env=environment).returncode


if __name__ == "__main__":
    sys.exit(main())
