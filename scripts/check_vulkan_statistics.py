#!/usr/bin/env python3
"""check_vulkan_statistics.py PROGRAM [--update]: what Mesa's compiler makes of the shaders for GPUs of AMD, compared with a table.

No GPU is needed: RADV_FORCE_FAMILY lets the driver compile only. PROGRAM is test_backend_vulkan. tests/backend_vulkan/statistics.txt
has a line for each shader and family of GPUs: vector registers, and spilled registers. A shader fails if it spills, or if it needs more
registers than before with fewer subgroups per SIMD. WEFT_FAMILIES=all looks at all families of GPUs, else the first. --update writes the new table, for changes that are meant. Without the driver, or with
another version of it, the exit status is 77."""
import argparse
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TABLE = ROOT / "tests" / "backend_vulkan" / "statistics.txt"
DRIVER = Path("/usr/share/vulkan/icd.d/radeon_icd.x86_64.json")
FAMILIES = ["gfx1100", "navi21", "vega10"]
NUMBERS = {"VGPRs": "VGPRs", "spilled": "Spilled VGPRs", "subgroups": "Subgroups per SIMD"}
Statistics = dict[tuple[str, str], list[int]]


def version() -> str:
    """Of the driver's package: other versions compile otherwise."""
    told = subprocess.run(["dpkg-query", "-W", "-f", "${Version}", "mesa-vulkan-drivers"], text=True, stdout=subprocess.PIPE, check=False)
    return told.stdout.strip()


def compile_for(program: Path, family: str) -> Statistics:
    environment = {**os.environ, "RADV_FORCE_FAMILY": family, "VK_ICD_FILENAMES": str(DRIVER)}
    text = subprocess.run([program, "--gtest_also_run_disabled_tests", "--gtest_filter=VulkanStatistics.DISABLED_ArePrinted"], env=environment,
                          check=True, text=True, stdout=subprocess.PIPE).stdout  # fmt: skip
    found: Statistics = {}
    for name, numbers in re.findall(r"^shader (.*?): (.*)$", text, re.MULTILINE):
        values = {key: int(value) for key, value in re.findall(r"([A-Za-z][A-Za-z -]*) (\d+)(?:,|$)", numbers)}
        found[name, family] = [values[key] for key in NUMBERS.values()]
    return found


def to_text(statistics: Statistics) -> str:
    rows = [f"{name}, {family}: " + " ".join(map(str, numbers)) for (name, family), numbers in sorted(statistics.items())]
    return "\n".join([f"# mesa-vulkan-drivers {version()}", f"# shader and constants, family: {', '.join(NUMBERS)}", *rows]) + "\n"


def read_table() -> Statistics:
    rows = re.findall(r"^([^#].*), (\w+): (.*)$", TABLE.read_text(), re.MULTILINE)
    return {(name, family): [int(n) for n in numbers.split()] for name, family, numbers in rows}


def problems(known: Statistics, found: Statistics) -> list[str]:
    lines = []
    for (name, family), (registers, spilled, subgroups) in found.items():
        if spilled > 0:
            lines.append(f"{name} on {family} spills {spilled} registers")
        before = known.get((name, family))
        if before is None:
            lines.append(f"{name} on {family} is not in the table")
        elif registers > before[0] and subgroups < before[2]:
            lines.append(f"{name} on {family}: {before[0]} -> {registers} registers, {before[2]} -> {subgroups} subgroups per SIMD")
    return lines + [f"{name} on {family} is in the table only" for name, family in known.keys() - found.keys()]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", type=Path)
    parser.add_argument("--update", action="store_true")
    args = parser.parse_args()
    if not DRIVER.exists():
        print("skipped: Mesa's driver for AMD is not installed (mesa-vulkan-drivers)")
        return 77
    if not args.update and f"# mesa-vulkan-drivers {version()}\n" not in TABLE.read_text():
        print(f"skipped: the table is of another version of Mesa than {version()}")
        return 77
    found: Statistics = {}
    families = FAMILIES if args.update or os.environ.get("WEFT_FAMILIES") == "all" else FAMILIES[:1]
    with ThreadPoolExecutor(2) as pool:
        for one in pool.map(lambda family: compile_for(args.program, family), families):
            found |= one
    if args.update:
        TABLE.write_text(to_text(found))
        print(f"{TABLE.relative_to(ROOT)}: {len(found)} rows, {sum(numbers[1] > 0 for numbers in found.values())} spill")
        return 0
    known = {key: numbers for key, numbers in read_table().items() if key[1] in families}
    lines = problems(known, found)
    print("\n".join(lines) or f"{len(found)} rows, none is worse")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
