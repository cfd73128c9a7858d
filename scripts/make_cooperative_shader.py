#!/usr/bin/env python3
"""Makes src/backend/vulkan/shaders/compiled: the shader of cooperative matrices as SPIR-V, and the checksums of all
that it is made of (as sha256sum -c reads them). The build compiles it itself where it can; older compilers do not know
the extension and get this file, as long as the checksums are right.

Needs: glslangValidator 15 or newer, as in Debian 13. The files are committed.

    scripts/make_cooperative_shader.py [--glslang PROGRAM] [--check]
"""

import argparse
import hashlib
import os
import re
import subprocess
import sys
from pathlib import Path

SHADERS = Path(__file__).parent.parent / "src/backend/vulkan/shaders"
NAME = "matmul_cooperative"


def sources(file: Path, known: list[Path]) -> list[Path]:
    """A shader and its includes, each once."""
    if file not in known:
        known.append(file)
        for include in re.findall(r'^#include "(.+)"', file.read_text(), re.MULTILINE):
            sources(SHADERS / include, known)
    return known


def sums() -> str:
    files = sorted(sources(SHADERS / f"{NAME}.comp", []))
    return "".join(f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {os.path.relpath(file, SHADERS / 'compiled')}\n"
                   for file in files)  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--glslang", default="glslangValidator")
    parser.add_argument("--check", action="store_true", help="only tell whether the files are of today's sources")
    args = parser.parse_args()
    compiled = SHADERS / "compiled" / NAME
    if args.check:
        if compiled.with_suffix(".sha256").read_text() == sums():
            return 0
        print(f"{compiled}.spv is of other sources: run scripts/make_cooperative_shader.py")
        return 1
    compiled.parent.mkdir(exist_ok=True)
    subprocess.run([args.glslang, "--quiet", "-g0", "--target-env", "vulkan1.2", f"-I{SHADERS}", "-DNARROW", "-o",
                    f"{compiled}.spv", SHADERS / f"{NAME}.comp"], check=True)  # fmt: skip
    compiled.with_suffix(".sha256").write_text(sums())
    return 0


if __name__ == "__main__":
    sys.exit(main())
