#!/usr/bin/env python3
"""versus.py: weft beside llama.cpp on this machine, as ratios of times.

Both read a prompt of 512 random tokens and generate 64 tokens one by one, with the same model file, the same number
of threads and the same cache type; llama.cpp runs with flash attention on, through its C API (no Python between two
tokens but the call itself). They take turns, a round each, so that a machine that slows down slows both; the best of
all rounds counts. weft's figure is `weft bench`, llama.cpp's is a worker process that keeps its model loaded.

`versus.py parallel` compares servers instead: many streams that share a system prompt, served together.

llama.cpp is the llama-cpp-python package, built once from its source package for this machine's processor into
build/peer (about ten minutes on two cores); --peer-python names a Python that has it already.
"""
import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PEER_VERSION = "0.3.36"
MODELS = ["SmolLM2-135M-Instruct.Q4_1", "gemma-3-270m-q4_k_m"]

# Runs in the peer's Python: loads the model, then one measurement a line of standard input.
WORKER = r"""
import ctypes, json, os, random, sys, time
import llama_cpp as L

path, threads, n_prompt, n_gen = sys.argv[1], *map(int, sys.argv[2:5])
L.llama_backend_init()
silent = L.llama_log_callback(lambda level, text, data: None)
L.llama_log_set(silent, ctypes.c_void_p(0))
model = L.llama_model_load_from_file(path.encode(), L.llama_model_default_params())
p = L.llama_context_default_params()
p.n_ctx = max(n_prompt, n_gen)
p.n_batch = p.n_ubatch = 512
p.n_threads = p.n_threads_batch = threads
p.flash_attn_type = 1  # LLAMA_FLASH_ATTN_TYPE_ENABLED
context = L.llama_init_from_model(model, p)
n_vocab = L.llama_vocab_n_tokens(L.llama_model_get_vocab(model))
random.seed(1)
ids = [random.randrange(n_vocab) for _ in range(max(n_prompt, n_gen))]

def clear():
    L.llama_memory_clear(L.llama_get_memory(context), True)

def prefill():
    clear()
    tokens = (L.llama_token * n_prompt)(*ids[:n_prompt])
    start = time.perf_counter()
    for at in range(0, n_prompt, 512):
        n = min(512, n_prompt - at)
        part = ctypes.cast(ctypes.byref(tokens, at * 4), ctypes.POINTER(L.llama_token))
        assert L.llama_decode(context, L.llama_batch_get_one(part, n)) == 0
    L.llama_synchronize(context)
    return (time.perf_counter() - start) * 1e3

def generate():
    clear()
    tokens = [(L.llama_token * 1)(i) for i in ids[:n_gen]]
    batches = [L.llama_batch_get_one(t, 1) for t in tokens]
    start = time.perf_counter()
    for batch in batches:
        assert L.llama_decode(context, batch) == 0
        L.llama_synchronize(context)
    return (time.perf_counter() - start) * 1e3

prefill(); generate()
print("ready", flush=True)
for line in sys.stdin:
    print(json.dumps({"prefill": prefill(), "decode": generate()}), flush=True)
"""


def build_peer() -> Path:
    """A Python with llama-cpp-python, built from source for this processor."""
    folder = ROOT / "build" / "peer"
    python = folder / "bin" / "python"
    check = [str(python), "-c", "import llama_cpp; print(llama_cpp.__version__)"]
    if python.exists():
        result = subprocess.run(check, capture_output=True, text=True)
        if result.returncode == 0 and result.stdout.strip() == PEER_VERSION:
            return python
    print(f"building llama-cpp-python {PEER_VERSION} into {folder} (once)", file=sys.stderr)
    subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True)
    environment = os.environ | {"CMAKE_ARGS": "-DGGML_NATIVE=ON", "CMAKE_BUILD_PARALLEL_LEVEL": str(os.cpu_count())}
    subprocess.run(
        [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        + ["--no-binary", "llama-cpp-python", f"llama-cpp-python=={PEER_VERSION}"],
        env=environment,
        check=True,
    )
    return python


def find_model(name: str) -> Path:
    path = Path(name)
    if path.exists():
        return path
    cache = Path(os.environ.get("WEFT_CACHE") or Path.home() / ".cache" / "weft") / "models"
    if (path := cache / f"{name}.gguf").exists():
        return path
    sys.exit(f"versus: no model {name} in {cache}; 'make models' fetches it")


class Peer:
    """A worker process in the peer's Python: a line in asks for a round, a line of JSON out is its result."""

    def __init__(self, python: Path, arguments: list):
        command = [str(python), *map(str, arguments)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.read()

    def read(self) -> str:
        line = self.process.stdout.readline()
        if not line:
            sys.exit(f"versus: llama.cpp's worker ended with {self.process.wait()}")
        return line

    def round(self) -> dict[str, float]:
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return json.loads(self.read())

    def close(self) -> None:
        self.process.stdin.close()
        self.process.wait()


def weft_round(model: Path, args: argparse.Namespace) -> dict[str, float]:
    command = [str(args.weft), "bench", "-m", str(model), "-p", str(args.prompt), "-n", str(args.generate)]
    command += ["-t", str(args.threads), "-r", "1", "--json"]
    results = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)["results"]
    return {"prefill": results[0]["min_ms"], "decode": results[1]["min_ms"]}


def parse(words: list[str], add_options, rounds: int) -> tuple[argparse.Namespace, Path]:
    """The options of a command, those that all have included, and the peer's Python."""
    parser = argparse.ArgumentParser(
        prog="versus.py",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="commands: single (default), parallel; each has its --help",
    )
    parser.add_argument("--weft", type=Path, default=ROOT / "build" / "release" / "weft")
    parser.add_argument("--peer-python", type=Path, help="a Python that has llama-cpp-python already")
    parser.add_argument("-t", "--threads", type=int, default=2)
    parser.add_argument("-r", "--rounds", type=int, default=rounds)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write everything measured there")
    parser.add_argument("--limit", type=float, help="exit with 1 where a ratio is above this")
    add_options(parser)
    args = parser.parse_args(words)
    if not args.weft.exists():
        sys.exit(f"versus: {args.weft} is not built; 'make build' does it")
    return args, args.peer_python or build_peer()


def finish(report: list[dict], args: argparse.Namespace) -> int:
    if args.json:
        everything = {"peer": f"llama-cpp-python {PEER_VERSION}", "results": report}
        args.json.write_text(json.dumps(everything, indent=2) + "\n")
    if args.limit and any(r["ratio"] > args.limit for r in report):
        print(f"\na ratio is above {args.limit}", file=sys.stderr)
        return 1
    return 0


def single(words: list[str]) -> int:
    """One text: a prompt, and tokens one by one."""

    def options(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("models", nargs="*", default=MODELS, help="names in the model cache, or files")
        parser.add_argument("-p", "--prompt", type=int, default=512)
        parser.add_argument("-n", "--generate", type=int, default=64)

    args, python = parse(words, options, rounds=5)
    report = []
    print(f"{args.threads} threads, best of {args.rounds}; ratio: time of weft / time of llama.cpp\n")
    print(f"| {'model':<28} | {'work':<11} | {'weft':>12} | {'llama.cpp':>12} | {'ratio':>6} |")
    print(f"| {':':-<28} | {':':-<11} | {':':->12} | {':':->12} | {':':->6} |")
    for name in args.models:
        model = find_model(name)
        peer = Peer(python, ["-c", WORKER, model, args.threads, args.prompt, args.generate])
        rounds = {"weft": [], "llama.cpp": []}
        for _ in range(args.rounds):
            rounds["weft"].append(weft_round(model, args))
            rounds["llama.cpp"].append(peer.round())
            time.sleep(0.1)
        peer.close()
        for work, n in (("prefill", args.prompt), ("decode", args.generate)):
            ms = {who: min(r[work] for r in rounds[who]) for who in rounds}
            ratio = ms["weft"] / ms["llama.cpp"]
            speed = {who: f"{1e3 * n / ms[who]:.0f} tok/s" for who in ms}
            print(
                f"| {model.stem:<28} | {f'{work} {n}':<11} | {speed['weft']:>12} | {speed['llama.cpp']:>12} "
                f"| {ratio:>6.2f} |",
                flush=True,
            )
            report.append(
                {"model": model.name, "work": work, "tokens": n, "threads": args.threads, "best_ms": ms, "ratio": ratio}
                | {"rounds_ms": {who: [r[work] for r in rounds[who]] for who in rounds}}
            )
    return finish(report, args)


def parallel_round(model: Path, args: argparse.Namespace, streams: int, sequences: int) -> dict[str, float]:
    command = [str(args.weft.parent / "examples" / "parallel"), "-m", str(model), "-np", str(streams)]
    command += ["-ns", str(sequences), "-n", str(args.tokens), "-c", str(cells(args)), "-t", str(args.threads)]
    command += ["--system-tokens", str(args.system), "--prompt-tokens", str(args.prompt), "--ignore-end", "--json"]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)


def cells(args: argparse.Namespace) -> int:
    """What all streams need at the same time, for both the same. weft shares whole pages of 64 cells: the page in which
    the shared prompt ends is each stream's own."""
    need = args.system + args.streams * (args.prompt + args.tokens + 64)
    return (need + 255) // 256 * 256


def parallel(words: list[str]) -> int:
    """Many streams at a time, with a system prompt that they share."""

    def options(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--model", default=MODELS[0], help="a name in the model cache, or a file")
        parser.add_argument("--streams", type=int, default=32, help="served at the same time")
        parser.add_argument("--sequences", type=int, default=128, help="in all")
        parser.add_argument("--system", type=int, default=300, help="tokens of the prompt that all share")
        parser.add_argument("--prompt", type=int, default=20, help="tokens of each sequence's own prompt")
        parser.add_argument("--tokens", type=int, default=128, help="generated by each sequence")

    args, python = parse(words, options, rounds=2)
    if (load := os.getloadavg()[0]) > 0.5:
        note = f"this machine has other work (load {load:.1f}), from which llama.cpp's spinning threads suffer most"
        print(f"versus: {note}; the processor's time with -t 1 still tells", file=sys.stderr)
    model = find_model(args.model)
    # One at a time is so much slower that a part of the sequences has to do.
    n_alone = max(1, args.sequences // 8)
    settings = {name: getattr(args, name) for name in ("streams", "sequences", "system", "prompt", "tokens", "threads")}
    settings |= {"model": str(model), "cells": cells(args)}
    peer = Peer(python, [Path(__file__).parent / "peer_parallel.py", json.dumps(settings)])
    rounds = {"weft": [], "llama.cpp": [], "weft, one stream": []}
    for _ in range(args.rounds):
        rounds["weft"].append(parallel_round(model, args, args.streams, args.sequences))
        rounds["llama.cpp"].append(peer.round())
        rounds["weft, one stream"].append(parallel_round(model, args, 1, n_alone))
    peer.close()

    best = {who: min(results, key=lambda r: r["seconds"]) for who, results in rounds.items()}
    for who, r in best.items():
        wanted = (n_alone if who == "weft, one stream" else args.sequences) * args.tokens
        if r["generated_tokens"] != wanted:
            sys.exit(f"versus: {who} generated {r['generated_tokens']} tokens, not {wanted}")
    print(f"{model.stem}: {args.sequences} sequences, {args.streams} at a time: {args.system} tokens shared,")
    print(f"{args.prompt} own, {args.tokens} generated; {cells(args)} cells, {args.threads} threads,", end=" ")
    print(f"best of {args.rounds}\n")
    print(f"| {'':<16} | {'seconds':>8} | {'in decode':>9} | {'of CPU':>8} | {'steps':>6} | {'tokens/s':>8} |")
    print(f"| {':':-<16} | {':':->8} | {':':->9} | {':':->8} | {':':->6} | {':':->8} |")
    speed = {who: r["generated_tokens"] / r["seconds"] for who, r in best.items()}
    for who, r in best.items():
        times = f"{r['seconds']:>8.2f} | {r['decode_seconds']:>9.2f} | {r['cpu_seconds']:>8.2f} | {r['steps']:>6}"
        print(f"| {who:<16} | {times} | {speed[who]:>8.0f} |")
    # All of weft's time against llama_decode alone: the peer is not charged with Python.
    ours, theirs = best["weft"], best["llama.cpp"]
    ratio = ours["seconds"] / min(r["decode_seconds"] for r in rounds["llama.cpp"])
    ratio_total = ours["seconds"] / theirs["seconds"]
    gain = speed["weft"] / speed["weft, one stream"]
    ratio_cpu = min(r["cpu_seconds"] for r in rounds["weft"]) / min(r["cpu_seconds"] for r in rounds["llama.cpp"])
    print(f"\nratio {ratio:.2f}: all of weft's time / time in llama_decode alone")
    print(f"ratio with Python's share {ratio_total:.2f}, of the processor's time {ratio_cpu:.2f}")
    print(f"gain over one stream at a time: {gain:.1f}; misses: {ours['misses']}")
    print(f"prompt tokens computed: weft {ours['prompt_tokens']}, llama.cpp {theirs['prompt_tokens']}")
    row = {"work": "parallel", "ratio": ratio, "ratio_total": ratio_total, "ratio_cpu": ratio_cpu}
    row |= {"gain": gain, "n_alone": n_alone}
    return finish([row | settings | {"model": model.name, "best": best, "rounds": rounds}], args)


def main() -> int:
    words = sys.argv[1:]
    commands = {"single": single, "parallel": parallel}
    if words and words[0] in commands:
        return commands[words[0]](words[1:])
    return single(words)


if __name__ == "__main__":
    sys.exit(main())
