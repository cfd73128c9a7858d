#!/usr/bin/env python3
"""versus.py: weft compared with llama.cpp on this machine, as ratios of speeds.

Both do the same works with the same model file and the same number of threads. They alternate by rounds, so that a
machine that slows down slows both. K and V are kept in 16 bits, the default of either engine. llama.cpp uses F16, and
weft BF16 where the processor multiplies that (--cache gives both another type). A work's figure is the best of all
rounds. Its ratio is weft's speed divided by llama.cpp's, followed by the lowest and highest ratio of a round. The next
column is the ratio of tokens per second of processor time, which is still meaningful next to other processes. The
column 'of roofline' is the share of the machine's own limit that weft reaches (weft bench --help says how it is
computed).

llama.cpp runs through its C API with flash attention on. Where another of its options may suit a work better, all are
tried and the best one counts. For llama.cpp only llama_decode is timed, for weft all of `weft bench` with its batcher
and sampler.

`versus.py parallel` compares many streams that share a system prompt, served together, and `versus.py serve` the
servers.

llama.cpp is the llama-cpp-python package, built once from its source package for this machine's processor into
build/peer (about ten minutes on two cores); --peer-python names a Python that has it already.
"""
import argparse
import json
import os
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import versus_parallel
import versus_serve
from peer import (CACHE_TYPES, MODELS, BenchPeer, Peer, add_common_options, check_common_options, chosen, find_model,
                  write_report)

BOTH_CACHES = [{"unified": True}, {"unified": False}]


@dataclass
class Work:
    weft: list[str]  # Words for `weft bench`.
    peer: dict  # The request to peer_works.py ...
    peer_options: list[dict] = field(default_factory=lambda: [{}])  # ... each tried with these.
    streams: bool = False
    disturbed: bool = False  # Measured as a share of the undisturbed speed.


def streams(n: int, prompt: int, shared: bool) -> Work:
    weft = ["--streams", str(n), "-p", str(prompt), "-n", "32"] + (["--shared-prompt"] if shared else [])
    peer = {"work": "streams", "streams": n, "prompt": prompt, "shared": shared, "tokens": 32}
    return Work(weft, peer, BOTH_CACHES, streams=True)


def decode(n: int, depth: int = 0, **more) -> Work:
    return Work(["-p", "0", "-n", str(n), "-d", str(depth)], {"work": "decode", "tokens": n, "depth": depth}, **more)


WORKS = {
    "prefill512": Work(["-p", "512", "-n", "0"], {"work": "prefill", "tokens": 512}),
    "decode": decode(64),
    "streams8": streams(8, 128, shared=False),
    "streams32": streams(32, 128, shared=False),
    "shared1024x32": streams(32, 1024, shared=True),
    "decode@4096": decode(32, 4096, peer_options=[{"flash": True}, {"flash": False}]),
    "decode-busy": decode(64, disturbed=True),
}
QUICK = ["prefill512", "decode", "streams8"]


@dataclass
class Speed:
    """Tokens a second, of the clock and of the processor's time (0: not known)."""

    wall: float
    cpu: float
    fastest: float = 0.0  # That this machine could do, as far as was known in this round.

    def relative_to(self, other: "Speed") -> "Speed":
        return Speed(self.wall / other.wall, self.cpu / other.cpu if other.cpu else 0.0)


def at_most(speed: float, fraction: float | None) -> float:
    return speed / fraction if fraction else 0.0


def weft_speed(work: Work, model: Path, args: argparse.Namespace) -> Speed:
    command = [str(args.weft), "bench", "-m", str(model), "-t", str(args.threads), "-r", "1", "--json", "-q"]
    command += ["-ctk", args.cache, "-ctv", args.cache]
    result = subprocess.run([*command, *work.weft], check=True, stdout=subprocess.PIPE)
    row = json.loads(result.stdout)["results"][0]
    if work.streams:
        cpu = row["decode_tokens_per_cpu_second"]
        return Speed(row["decode_tokens_per_second"], cpu,
                     at_most(row["decode_tokens_per_second"], row["decode_roofline_fraction"]))
    n = row["n_prompt"] + row["n_generate"]
    return Speed(row["tokens_per_second"], 1e3 * n / row["min_cpu_ms"],
                 at_most(row["tokens_per_second"], row["roofline_fraction"]))


def peer_speed(work: Work, peer: Peer, args: argparse.Namespace) -> Speed:
    best = None
    for options in work.peer_options[: 1 if args.quick else None]:
        r = peer.round(work.peer | options | {"cache": args.cache})
        speed = Speed(r["tokens"] / r["seconds"], r["tokens"] / r["cpu_seconds"] if r["cpu_seconds"] else 0.0)
        best = speed if best is None or speed.wall > best.wall else best
    return best


@contextmanager
def busy_core():
    """A foreign process that would like to have one core."""
    process = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        time.sleep(0.2)
        yield
    finally:
        process.kill()
        process.wait()


def round_of(work: Work, measure) -> Speed:
    if not work.disturbed:
        return measure()
    undisturbed = measure()
    with busy_core():
        return measure().relative_to(undisturbed)


def measure_work(name: str, model: Path, peer: Peer, args: argparse.Namespace) -> dict:
    work = WORKS[name]
    rounds = {"weft": [], "llama_cpp": []}
    # llama.cpp's first round warms up; weft bench and llama-bench do that by themselves.
    if not peer.warms_up:
        peer_speed(work, peer, args)
    for _ in range(args.rounds):
        rounds["weft"].append(round_of(work, lambda: weft_speed(work, model, args)))
        rounds["llama_cpp"].append(round_of(work, lambda: peer_speed(work, peer, args)))
        time.sleep(0.1)
    best = {who: max(speeds, key=lambda s: s.wall) for who, speeds in rounds.items()}
    ratios = [w.wall / p.wall for w, p in zip(rounds["weft"], rounds["llama_cpp"])]
    cpu = {who: max(s.cpu for s in speeds) for who, speeds in rounds.items()}
    fastest = max(speed.fastest for speed in rounds["weft"])
    return {
        "model": model.stem,
        "work": name,
        "weft": best["weft"].wall,
        "llama_cpp": best["llama_cpp"].wall,
        "ratio": best["weft"].wall / best["llama_cpp"].wall,
        "ratio_lowest": min(ratios),
        "ratio_highest": max(ratios),
        "ratio_cpu": cpu["weft"] / cpu["llama_cpp"] if cpu["llama_cpp"] else 0.0,
        # The limits are measured in each round, and the best counts.
        "roofline": best["weft"].wall / fastest if fastest and not work.disturbed else 0.0,
        "unit": "of undisturbed" if work.disturbed else "tokens/s",
        "threads": args.threads,
        "rounds": {who: [vars(s) for s in speeds] for who, speeds in rounds.items()},
    }


def line(cells: list[str]) -> str:
    widths = [20, 13, 9, 9, 20, 9, 11]
    padded = [f"{c:<{w}}" if i < 2 else f"{c:>{w}}" for i, (c, w) in enumerate(zip(cells, widths))]
    return "| " + " | ".join(padded) + " |"


def row_text(r: dict) -> str:
    digits = 2 if r["unit"] != "tokens/s" else 0 if r["llama_cpp"] >= 100 else 1
    return line([
        r["model"][:20],
        r["work"],
        f"{r['weft']:.{digits}f}",
        f"{r['llama_cpp']:.{digits}f}",
        f"{r['ratio']:.2f}x ({r['ratio_lowest']:.2f}-{r['ratio_highest']:.2f})",
        f"{r['ratio_cpu']:.2f}x" if r["ratio_cpu"] else "",
        f"{100 * r['roofline']:.0f} %" if r["roofline"] else "",
    ])  # fmt: skip


def works(words: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="versus.py", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="'versus.py parallel' and 'versus.py serve' have their own --help",
    )  # fmt: skip
    add_common_options(parser)
    parser.add_argument("-r", "--rounds", type=int, default=5)
    parser.add_argument("--cache", default="auto", choices=list(CACHE_TYPES), help="type of K and V (default: auto)")
    parser.add_argument("--models", help=f"of {', '.join(MODELS)}, names in the model cache, files (default: all)")
    parser.add_argument("--works", help=f"of {', '.join(WORKS)} (default: all)")
    parser.add_argument("--quick", action="store_true", help=f"the real models, {', '.join(QUICK)}, two rounds")
    parser.add_argument("--at-least", type=float, metavar="X", help="exit with 1 where a ratio is below this")
    parser.add_argument("--llama-bench", type=Path, metavar="FILE",
                        help="llama.cpp is this program, which knows prefill and decode, instead of its C API")
    args = parser.parse_args(words)
    if args.quick:
        args.rounds = min(args.rounds, 2)
    models = chosen(args.models, MODELS, ["smollm2", "gemma3"] if args.quick else list(MODELS), "model", others=True)
    names = chosen(args.works, WORKS, QUICK if args.quick else list(WORKS), "work")
    python = check_common_options(args)
    if (load := os.getloadavg()[0]) > 0.5:
        note = f"this machine has other work (load {load:.1f}), from which llama.cpp's spinning threads suffer most"
        print(f"versus: {note}; ratios of the processor's time with -t 1 still tell", file=sys.stderr)

    report = []
    print(f"{args.threads} threads, best of {args.rounds} rounds; ratio: speed of weft / speed of llama.cpp\n")
    print(line(["model", "work", "weft", "llama.cpp", "ratio (rounds)", "of CPU", "of roofline"]))
    print(line([":" + "-" * 19, ":" + "-" * 12, *("-" * (w - 1) + ":" for w in (9, 9, 20, 9, 11))]))
    for name in models:
        model = find_model(name, python)
        if args.llama_bench:
            peer = BenchPeer(args.llama_bench, model, args.threads)
        else:
            peer = Peer(python, [Path(__file__).parent / "peer_works.py", model, args.threads])
        for work in names:
            report.append(measure_work(work, model, peer, args))
            print(row_text(report[-1]), flush=True)
            write_report(report, args)
        peer.close()
    if args.at_least and any(r["ratio"] < args.at_least for r in report):
        print(f"\na ratio is below {args.at_least}", file=sys.stderr)
        return 1
    return 0


def main() -> int:
    words = sys.argv[1:]
    if words and words[0] == "parallel":
        return versus_parallel.parallel(words[1:])
    if words and words[0] == "serve":
        return versus_serve.serve(words[1:])
    return works(words)


if __name__ == "__main__":
    sys.exit(main())
