#!/usr/bin/env python3
"""run.py PROGRAM FOLDER [PYTEST ARGUMENTS...]: the clients' tests against a server that PROGRAM serves.

The clients are installed into a virtual environment in FOLDER, once. Exits with 77 (skipped) where they cannot be had.
"""
import os
import subprocess
import sys
from pathlib import Path

SKIPPED = 77
HERE = Path(__file__).resolve().parent


def main() -> int:
    program, folder = Path(sys.argv[1]).resolve(), Path(sys.argv[2])
    python = folder / "bin" / "python3"
    wanted = (HERE / "requirements.txt").read_text()
    stamp = folder / "requirements.txt"
    if not stamp.exists() or stamp.read_text() != wanted:
        try:
            subprocess.run([sys.executable, "-m", "venv", folder], check=True)
            subprocess.run([python, "-m", "pip", "install", "-q", "-r", HERE / "requirements.txt"], check=True, timeout=600)
        except (OSError, subprocess.SubprocessError) as error:
            print(f"skipped: the clients cannot be installed ({error})")
            return SKIPPED
        stamp.write_text(wanted)
    environment = {**os.environ, "WEFT_PROGRAM": str(program)}
    return subprocess.run([python, "-m", "pytest", "-q", "-p", "no:cacheprovider", HERE, *sys.argv[3:]],
                          env=environment).returncode


if __name__ == "__main__":
    sys.exit(main())
