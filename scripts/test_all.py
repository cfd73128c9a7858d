#!/usr/bin/env python3
"""test_all.py [TARGET...]: runs make targets one after another, all of them after a failure too, and prints a table.

Without targets: all checks that exist. A target that exits with 77 is skipped: its packages cannot be fetched. Output goes to build/test-all/TARGET.log. The exit status is 1 if a target failed."""
import re
import subprocess
import sys
import time
from pathlib import Path

SOURCE = Path(__file__).resolve().parent.parent
LOGS = SOURCE / "build" / "test-all"
# Those that find mistakes soonest come first.
TARGETS = ["check-format", "test", "test-families", "test-vulkan", "test-cuda", "test-plugins", "test-mpi", "test-web", "test-ray", "test-aarch64", "lint",
           "test-asan", "test-tsan", "fuzz"]  # fmt: skip
SKIPPED = re.compile(r"make(\[\d+\])?: \*\*\* .* Error 77$")


def run(target: str) -> tuple[str, str, float]:
    """The target, its result with the reason, and seconds."""
    log = LOGS / f"{target}.log"
    begin = time.monotonic()
    with log.open("w") as file:
        status = subprocess.run(["make", "-C", SOURCE, target], stdin=subprocess.DEVNULL, stdout=file,
                                stderr=subprocess.STDOUT).returncode  # fmt: skip
    seconds = time.monotonic() - begin
    lines = log.read_text(errors="replace").splitlines()
    if status == 0:
        return target, "passed", seconds
    if any(SKIPPED.match(line) for line in lines):
        reasons = [line for line in lines if "skipped:" in line]
        return target, reasons[-1].strip() if reasons else "skipped", seconds
    return target, f"FAILED ({log.relative_to(SOURCE)})", seconds


def main() -> int:
    LOGS.mkdir(parents=True, exist_ok=True)
    rows = []
    for target in sys.argv[1:] or TARGETS:
        print(f"make {target} ...", flush=True)
        rows.append(run(target))
        print(f"make {target}: {rows[-1][1]}, {rows[-1][2]:.0f} s", flush=True)
    width = max(len(target) for target, _, _ in rows)
    print(f"\n{'target':{width}}  seconds  result")
    for target, result, seconds in rows:
        print(f"{target:{width}}  {seconds:7.0f}  {result}")
    return 1 if any(result.startswith("FAILED") for _, result, _ in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
