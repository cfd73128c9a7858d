#!/usr/bin/env python3
"""gpu.py: checks and measures weft on a machine with a GPU, in one call.

It builds weft and runs the conformance of every op and the golden models on the device. It measures models in all
regimes (a prompt, a token at a time, at depth, many streams, experts), the host's cost of a step, and the time of each
kernel by the device's own clock. With --peer it measures a build of llama.cpp as well:

    gpu.py --peer vulkan=VENV/bin/python --peer cuda=/opt/llama.cpp/build/bin/llama-bench

A peer is a Python with llama-cpp-python, or llama-bench (which knows no streams). `--build-peer vulkan` and
`--build-peer cuda` build the Python from PyPI's source package into build/peer-vulkan and build/peer-cuda (needs glslc
or nvcc).

Results go into one JSON file and a table in Markdown next to it. Both are written again after each measurement, so an
interrupted run keeps its results. A part that fails is a line in the report, and the other parts still run.
"""
import argparse
import json
import os
import platform
import re
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from peer import MODELS, PEER_VERSION, ROOT, BenchPeer, Peer, find_model

# The real models, then random ones in the shapes of 1B, 8B and of experts.
GPU_MODELS = ["smollm2", "gemma3", "1b-q4_k_m", "1b-q4_0", "1b-q8_0", "random-8b-q4_k_m",
              "random-8b-q4_0", "1b-moe"]
QUICK_MODELS = [str(ROOT / "tests" / "data" / "golden" / "llama" / "model.gguf")]


@dataclass
class Regime:
    weft: list[str]  # Words for `weft bench`.
    peer: dict  # The request to peer_works.py or llama-bench.
    streams: bool = False


def decode(tokens: int, depth: int) -> Regime:
    return Regime(["-p", "0", "-n", str(tokens), "-d", str(depth)], {"work": "decode", "tokens": tokens, "depth": depth})


def prefill(tokens: int) -> Regime:
    return Regime(["-p", str(tokens), "-n", "0"], {"work": "prefill", "tokens": tokens})


def streams(n: int) -> Regime:
    return Regime(["--streams", str(n), "-p", "128", "-n", "32"],
                  {"work": "streams", "streams": n, "prompt": 128, "shared": False, "tokens": 32, "unified": False},
                  streams=True)


REGIMES = {
    "prefill 512": prefill(512),
    "prefill 2048": prefill(2048),
    "decode": decode(128, 0),
    "decode @ 4096": decode(64, 4096),
    "decode @ 7936": decode(64, 7936),
    "8 streams": streams(8),
    "32 streams": streams(32),
    "64 streams": streams(64),
}
QUICK_REGIMES = {"prefill 24": prefill(24), "decode": decode(4, 0), "decode @ 32": decode(4, 32)}


# What a worker that ends, or says something else, comes to; subprocess's errors are of their own kind.
PEER_ERRORS = (SystemExit, OSError, ValueError, KeyError, IndexError, subprocess.SubprocessError)


def tail(text: str, lines: int = 12) -> str:
    return "\n".join(text.strip().splitlines()[-lines:])


class Report:
    """What is known so far, and both files of it."""

    def __init__(self, path: Path):
        self.path = path
        self.known = {"when": time.strftime("%Y-%m-%d %H:%M:%S %Z"), "machine": platform.processor() or platform.machine(),
                      "cores": os.cpu_count(), "peer": f"llama-cpp-python {PEER_VERSION}", "devices": [], "checks": [],
                      "speeds": [], "steps": [], "kernels": [], "shaders": [], "failures": []}  # fmt: skip

    def write(self) -> None:
        self.path.write_text(json.dumps(self.known, indent=2) + "\n")
        self.path.with_suffix(".md").write_text(markdown(self.known))

    def add(self, part: str, row: dict) -> None:
        self.known[part].append(row)
        self.write()
        print(f"gpu: {part}: " + ", ".join(f"{k} {v}" for k, v in row.items() if not isinstance(v, (list, dict))), flush=True)

    def run(self, what: str, command: list, timeout: int) -> subprocess.CompletedProcess | None:
        """Null where it failed, which is noted."""
        print(f"gpu: {what}", flush=True)
        try:
            result = subprocess.run([str(c) for c in command], capture_output=True, text=True, timeout=timeout, check=False,
                                    cwd=ROOT)
        except (OSError, subprocess.TimeoutExpired) as error:
            self.add("failures", {"what": what, "why": str(error)})
            return None
        if result.returncode != 0:
            self.add("failures", {"what": what, "why": tail(result.stderr or result.stdout)})
            return None
        return result


def table(head: list[str], rows: list[list[str]]) -> str:
    lines = ["| " + " | ".join(head) + " |", "|" + "|".join([":--"] + ["--:"] * (len(head) - 1)) + "|"]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows]) + "\n"


def number(x: float | None) -> str:
    if x is None:
        return ""
    return f"{x:.0f}" if x >= 100 else f"{x:.1f}" if x >= 1 else f"{x:.3f}"


def megabytes(work: str) -> float | None:
    """What a kernel reads at least, which its name tells: "matmul_codes ffn_up, 9.4 MB"."""
    found = re.search(r", ([0-9.]+) MB$", work)
    return float(found[1]) if found else None


def markdown(known: dict) -> str:
    peers = sorted({peer for row in known["speeds"] for peer in row["peers"]})
    parts = [f"# weft on a GPU, {known['when']}\n"]
    for device in known["devices"]:
        parts.append(f"- {device['name']}: {device.get('description', '')} ({', '.join(device.get('features', []))})")
    parts.append("\n## Checks\n")
    parts.append(table(["check", "result"], [[c["check"], c["result"]] for c in known["checks"]]))
    parts.append("## Speeds, tokens a second\n")
    rows = []
    for row in known["speeds"]:
        cells = [row["model"], row["regime"], number(row["weft"])]
        for peer in peers:
            theirs = row["peers"].get(peer)
            cells += [number(theirs), f"{row['weft'] / theirs:.2f}x" if theirs and row["weft"] else ""]
        rows.append(cells)
    head = ["model", "regime", "weft"]
    for peer in peers:
        head += [f"llama.cpp {peer}", "weft / it"]
    parts.append(table(head, rows))
    parts.append("## What a step costs the host\n")
    parts.append(table(["plan", "microseconds"], [[s["what"], number(s["microseconds"])] for s in known["steps"]]))
    parts.append("## Kernels, by the device's clock, one behind another\n")
    kernels = [[k["model"], k["regime"], k["work"], str(k["calls"]), number(k["microseconds"]),
                f"{100 * k['share']:.0f} %", number(k["gb_per_second"])] for k in known["kernels"]]  # fmt: skip
    parts.append(table(["model", "regime", "kernel", "calls", "us a call", "share", "GB/s"], kernels))
    if known["shaders"]:
        parts.append("## Shaders, by the driver's compiler\n")
        parts += [f"- {s['shader']}: {s['told']}" for s in known["shaders"]]
    if known["failures"]:
        parts.append("## What failed\n")
        parts += [f"### {f['what']}\n\n```\n{f['why']}\n```\n" for f in known["failures"]]
    return "\n".join(parts)


def build(report: Report) -> None:
    jobs = str(os.cpu_count())
    for what, command in (("configuring", ["cmake", "--preset", "release", "--log-level=WARNING"]),
                          ("building", ["cmake", "--build", "--preset", "release", "-j", jobs, "--target", "weft",
                                        "test_backend_vulkan"])):  # fmt: skip
        start = time.monotonic()
        if report.run(what, command, 3600) is None:
            sys.exit(f"gpu: {what} failed; {report.path} says how")
        report.add("checks", {"check": what, "result": f"{time.monotonic() - start:.0f} s"})


def check(report: Report, args: argparse.Namespace) -> None:
    words = ["--op", "norm"] if args.quick else []
    start = time.monotonic()
    command = [str(args.weft), "test-backend", args.device, "--json", "-q", *words]
    told = ""
    try:  # It ends with an error where a case fails, and tells which.
        result = subprocess.run(command, capture_output=True, text=True, timeout=1800, check=False)
        told = tail(result.stderr or result.stdout) or f"it ended with {result.returncode}"
        ops = json.loads(result.stdout)["ops"]
        failed = [op["op"] for op in ops if op["failed"]]
        text = f"{sum(op['cases'] for op in ops)} cases, " + (f"FAILED: {', '.join(failed)}" if failed else "all passed")
        report.add("checks", {"check": "conformance", "result": f"{text}, {time.monotonic() - start:.0f} s"})
    except (OSError, ValueError, KeyError, subprocess.TimeoutExpired) as error:
        report.add("failures", {"what": "conformance", "why": told or str(error)})
    tests = ROOT / "build" / "release" / "tests" / "backend_vulkan" / "test_backend_vulkan"
    if not tests.exists():
        report.add("failures", {"what": "golden models", "why": f"{tests} is not built"})
        return
    which = "Families/VulkanGolden.*/llama" if args.quick else "*VulkanGolden*:*VulkanReal*:VulkanSteps*:VulkanPlan*:VulkanForms*"
    result = report.run("golden models", [tests, f"--gtest_filter={which}"], 3600)
    if result is not None:
        told = re.findall(r"^\[ +(PASSED|SKIPPED) +\] (\d+ tests?)", result.stdout, re.MULTILINE)
        report.add("checks", {"check": "golden models, plans, forms", "result": ", ".join(f"{n} {what.lower()}" for what, n in told)})


def step_costs(report: Report, args: argparse.Namespace) -> None:
    """Printed by the test of what a step costs: of the golden model, and of the real ones where they are there."""
    tests = ROOT / "build" / "release" / "tests" / "backend_vulkan" / "test_backend_vulkan"
    which = "VulkanStepCost.*" if args.quick else "*VulkanStepCost*"
    result = report.run("what a step costs the host", [tests, "--gtest_also_run_disabled_tests", f"--gtest_filter={which}"], 1800)
    plan = ""
    for line in result.stdout.splitlines() if result else []:
        if " launches, " in line:
            plan = line.strip()
        found = re.search(r"change (\w+) +host (\d+) us a step", line)
        if found:
            report.add("steps", {"what": f"{plan}; change {found[1]}", "microseconds": float(found[2])})


def shader_statistics(report: Report) -> None:
    """Registers, shared memory and similar numbers, where the driver reports them."""
    tests = ROOT / "build" / "release" / "tests" / "backend_vulkan" / "test_backend_vulkan"
    result = report.run("shaders", [tests, "--gtest_also_run_disabled_tests", "--gtest_filter=VulkanStatistics.DISABLED*"], 600)
    for line in result.stdout.splitlines() if result else []:
        found = re.fullmatch(r"shader ([^:]+): (.+)", line)
        if found:
            report.add("shaders", {"shader": found[1], "told": found[2]})


def weft_speed(report: Report, model: Path, regime: Regime, args: argparse.Namespace, words: list[str]) -> dict | None:
    command = [args.weft, "bench", "-m", model, "--device", args.device, "-ngl", "all", "-r", args.repetitions, "--json", "-q"]
    result = report.run(f"weft bench {model.stem} {' '.join(regime.weft)}", [*command, *regime.weft, *words], 1200)
    return json.loads(result.stdout)["results"][0] if result else None


def peer_speed(report: Report, peer: Peer, name: str, model: Path, regime: Regime, repetitions: int) -> float | None:
    """The mean of rounds after one that warms up, as weft reports its own."""
    speeds = []
    try:
        for _ in range(repetitions + (0 if peer.warms_up else 1)):
            done = peer.round(regime.peer | {"cache": "f16"})
            speeds.append(done["tokens"] / done["seconds"])
    except PEER_ERRORS as error:
        report.add("failures", {"what": f"llama.cpp {name}, {model.stem}, {regime.peer['work']}", "why": str(error)})
        return None
    if not peer.warms_up:
        del speeds[0]
    return sum(speeds) / len(speeds)


def measure(report: Report, args: argparse.Namespace) -> None:
    python = args.peer_python or Path(sys.executable)
    regimes = QUICK_REGIMES if args.quick else REGIMES
    for name in args.models.split(",") if args.models else QUICK_MODELS if args.quick else GPU_MODELS:
        try:
            model = find_model(name, python)
        except (SystemExit, subprocess.CalledProcessError) as error:
            report.add("failures", {"what": f"model {name}", "why": str(error)})
            continue
        label = name if name in MODELS else model.stem
        peers = {}
        for peer, program in args.peers.items():
            try:
                peers[peer] = (BenchPeer(program, model, os.cpu_count()) if program.name == "llama-bench" else
                               Peer(program, [ROOT / "bench" / "peer_works.py", model, os.cpu_count()]))  # fmt: skip
            except PEER_ERRORS as error:
                report.add("failures", {"what": f"llama.cpp {peer} with {label}", "why": str(error)})
        for regime_name, regime in regimes.items():
            row = weft_speed(report, model, regime, args, [])
            if row is None:
                continue
            speed = row["decode_tokens_per_second"] if regime.streams else row["tokens_per_second"]
            theirs = {p: peer_speed(report, worker, p, model, regime, args.repetitions) for p, worker in peers.items()
                      if not (regime.streams and worker.warms_up)}  # fmt: skip
            report.add("speeds", {"model": label, "regime": regime_name, "weft": speed, "peers": theirs})
            if not regime.streams:
                kernels(report, model, label, regime_name, regime, args)
        for peer, worker in peers.items():
            try:
                worker.close()
            except PEER_ERRORS as error:
                report.add("failures", {"what": f"llama.cpp {peer} with {label}, at its end", "why": str(error)})


def kernels(report: Report, model: Path, label: str, regime_name: str, regime: Regime, args: argparse.Namespace) -> None:
    row = weft_speed(report, model, regime, argparse.Namespace(**vars(args) | {"repetitions": 1}), ["--profile"])
    for work in (row or {}).get("profile", []):
        if work["share"] < 0.01:
            continue
        seconds = work["ms"] * 1e-3 / max(work["calls"], 1)
        read = megabytes(work["work"])
        report.add("kernels", {"model": label, "regime": regime_name, "work": work["work"], "calls": work["calls"],
                               "microseconds": seconds * 1e6, "share": work["share"],
                               "gb_per_second": read * 1e-3 / seconds if read and seconds else None})  # fmt: skip


def build_peer(kind: str) -> Path:
    folder = ROOT / "build" / f"peer-{kind}"
    python = folder / "bin" / "python"
    if not python.exists():
        flag = {"vulkan": "-DGGML_VULKAN=ON", "cuda": "-DGGML_CUDA=ON"}[kind]
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
        pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, "--no-binary", "llama-cpp-python", f"llama-cpp-python=={PEER_VERSION}", "gguf"],
                       env=os.environ | {"CMAKE_ARGS": flag, "CMAKE_BUILD_PARALLEL_LEVEL": str(os.cpu_count())}, check=True)
    return python


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="gpu.py", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--weft", type=Path, default=ROOT / "build" / "release" / "weft")
    parser.add_argument("--device", default="vulkan0", help="as 'weft devices' names it (default: vulkan0)")
    parser.add_argument("--models", help=f"names of the model cache or files (default: {','.join(GPU_MODELS)})")
    parser.add_argument("--peer", action="append", default=[], metavar="NAME=FILE",
                        help="llama.cpp: a Python with llama-cpp-python, or llama-bench; may be given again")
    parser.add_argument("--build-peer", action="append", default=[], choices=["vulkan", "cuda"])
    parser.add_argument("--peer-python", type=Path, help="a Python with numpy and gguf, which writes random models")
    parser.add_argument("-r", "--repetitions", type=int, default=3)
    parser.add_argument("--no-build", action="store_true", help="take what is built")
    parser.add_argument("--no-checks", action="store_true", help="measure only")
    parser.add_argument("--quick", action="store_true", help="a tiny model and a few cases: whether this script works")
    parser.add_argument("--json", type=Path, default=Path("gpu.json"), metavar="FILE",
                        help="where it goes; the table beside it as .md (default: gpu.json)")
    args = parser.parse_args()
    args.peers = {}
    for text in args.peer:
        name, equals, file = text.partition("=")
        if not equals or not Path(file).exists():
            parser.error(f"--peer {text}: not NAME=FILE of a file that is there")
        args.peers[name] = Path(file).absolute()
    args.json = args.json.absolute()
    if args.quick:
        args.repetitions = 1
    return args


def main() -> int:
    args = parse()
    report = Report(args.json)
    if not args.no_build:
        build(report)
    if not args.weft.exists():
        sys.exit(f"gpu: {args.weft} is not built; leave out --no-build")
    devices = json.loads(subprocess.run([str(args.weft), "devices", "--json"], check=True, capture_output=True).stdout)
    report.known["devices"] = devices
    if args.device not in [device["name"] for device in devices]:
        sys.exit(f"gpu: there is no device {args.device}; 'weft devices' lists {', '.join(d['name'] for d in devices)}")
    for kind in args.build_peer:
        try:
            args.peers[kind] = build_peer(kind)
        except subprocess.CalledProcessError as error:
            report.add("failures", {"what": f"building llama.cpp for {kind}", "why": str(error)})
    if not args.no_checks:
        check(report, args)
        step_costs(report, args)
        shader_statistics(report)
    measure(report, args)
    report.write()
    print(f"gpu: {args.json} and {args.json.with_suffix('.md')}")
    return 1 if report.known["failures"] else 0


if __name__ == "__main__":
    sys.exit(main())
