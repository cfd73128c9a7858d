#!/usr/bin/env python3
"""check_cuda_statistics.py [--update]: what nvcc makes of the CUDA kernels, compared with a table.

tests/backend_cuda/statistics.txt has a line for each kernel and compute capability. It has the registers of a thread, and the bytes of its stack, of
spilled registers and of shared memory. A kernel fails if one of these numbers became larger. --update writes the new table, for changes that are meant. Without nvcc the exit status is 77."""
import argparse
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TABLE = ROOT / "tests" / "backend_cuda" / "statistics.txt"
CAPABILITIES = ["80", "89", "90", "120"]
NUMBERS = ["registers", "stack", "spilled", "shared"]
Statistics = dict[tuple[str, str], list[int]]


def short_name(symbol: str) -> str:
    """"matmul_codes<1,3>" for "_ZN4weft4cuda12matmul_codesILj1ELj3EEEvNS0_9ArgumentsE"."""
    length, rest = re.fullmatch(r"_ZN4weft4cuda(\d+)(.*)", symbol).groups()
    name, rest = rest[:int(length)], rest[int(length):]
    constants = re.findall(r"Lj(\d+)E", rest)
    return name + (f"<{','.join('any' if c == str(2**32 - 1) else c for c in constants)}>" if constants else "")


def compile_for(nvcc: str, capability: str) -> Statistics:
    text = subprocess.run([nvcc, "-std=c++17", "-O3", "-fmad=false", "--expt-relaxed-constexpr", "-Xptxas", "-v", f"-gencode=arch=compute_{capability},code=sm_{capability}", f"-I{ROOT / 'src'}",
                           "-cubin", ROOT / "src/backend/cuda/module/launch.cu", "-o", "/dev/null"],
                          check=True, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT).stdout  # fmt: skip
    found: Statistics = {}
    kernel, stack, spilled = "", 0, 0
    for line in text.splitlines():
        if match := re.search(r"Compiling entry function '(\S+)'", line):
            kernel = short_name(match[1])
        elif match := re.search(r"(\d+) bytes stack frame, (\d+) bytes spill stores", line):
            stack, spilled = int(match[1]), int(match[2])
        elif match := re.search(r"Used (\d+) registers", line):
            shared = re.search(r"(\d+) bytes smem", line)
            found[kernel, capability] = [int(match[1]), stack, spilled, int(shared[1]) if shared else 0]
    return found


def to_text(statistics: Statistics) -> str:
    rows = [f"{kernel} sm_{capability} " + " ".join(map(str, numbers)) for (kernel, capability), numbers in sorted(statistics.items())]
    return "\n".join([f"# kernel, compute capability, {', '.join(NUMBERS)} (scripts/check_cuda_statistics.py)", *rows]) + "\n"


def read_table() -> Statistics:
    lines = [line.split() for line in TABLE.read_text().splitlines() if not line.startswith("#")]
    return {(kernel, capability.removeprefix("sm_")): [int(n) for n in numbers] for kernel, capability, *numbers in lines}


def problems(known: Statistics, found: Statistics) -> list[str]:
    lines = []
    for (kernel, capability), numbers in found.items():
        before = known.get((kernel, capability))
        if before is None:
            lines.append(f"{kernel} on sm_{capability} is not in the table")
            continue
        lines += [f"{kernel} on sm_{capability}: {name} {was} -> {now}"
                  for name, was, now in zip(NUMBERS, before, numbers, strict=True) if now > was]  # fmt: skip
    return lines + [f"{kernel} on sm_{capability} is in the table only" for kernel, capability in known.keys() - found.keys()]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--update", action="store_true")
    update = parser.parse_args().update
    nvcc = shutil.which("nvcc") or shutil.which("/usr/local/cuda/bin/nvcc")
    if nvcc is None:
        print("skipped: there is no nvcc")
        return 77
    found: Statistics = {}
    with ThreadPoolExecutor(2) as pool:
        for one in pool.map(lambda capability: compile_for(nvcc, capability), CAPABILITIES):
            found |= one
    if update:
        TABLE.write_text(to_text(found))
        return 0
    lines = problems(read_table(), found)
    print("\n".join(lines) if lines else f"{len(found)} kernels, none of them larger than in the table")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
