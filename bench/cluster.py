#!/usr/bin/env python3
"""cluster.py: tokens per second over several processes of this machine, compared with the prediction of `weft inspect
--plan --nodes`. Layers are divided between the processes, or shared by them.

The simulator gets only the speed of a process that waits for no messages, and the properties of the link. For a token
over divided layers, where one process works at a time, that process is measured alone. Otherwise it is measured next to
as many others, as processes of one machine share its memory and perhaps its cores. Each process is bound to a core
while there are enough cores.

--rate limits the link, in bits a second as tc writes them (100mbit). The link is then the loopback of a network
namespace, over TCP, which needs root, iproute2 and the kernel's token bucket.

    bench/cluster.py --weft build/release/weft -m model.gguf --processes 2 3 4
    bench/cluster.py --weft build/release/weft -m model.gguf --processes 2 --rate 100mbit
"""
import argparse
import json
import os
import statistics
import subprocess
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

NAMESPACE = "weft_cluster"


def run(*command: str) -> str:
    environment = os.environ | {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    result = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=900, check=False)
    if result.returncode != 0:
        raise SystemExit(f"{' '.join(command)}\n{result.stdout}{result.stderr}")
    return result.stdout


class Link:
    """Between the processes: this machine's memory, or a loopback that is held to a rate."""

    def __init__(self, rate: str) -> None:
        self.rate = rate

    def __enter__(self) -> "Link":
        if self.rate:
            run("ip", "netns", "add", NAMESPACE)
            inside = ["ip", "netns", "exec", NAMESPACE]
            run(*inside, "ip", "link", "set", "lo", "up", "mtu", "1500")
            run(*inside, "tc", "qdisc", "add", "dev", "lo", "root", "tbf", "rate", self.rate, "burst", "32kb", "latency",
                "400ms")  # fmt: skip
        return self

    def __exit__(self, *_: object) -> None:
        if self.rate:
            run("ip", "netns", "del", NAMESPACE)

    def mpirun(self, n: int) -> list[str]:
        bind = ["--bind-to", "core"] if n <= (os.cpu_count() or 1) else ["--oversubscribe", "--bind-to", "none"]
        if self.rate:
            return ["ip", "netns", "exec", NAMESPACE, "mpirun", "-np", str(n), *bind, "--mca", "btl", "self,tcp", "--mca",
                    "btl_tcp_if_include", "lo", "--mca", "oob_tcp_if_include", "lo"]  # fmt: skip
        return ["mpirun", "-np", str(n), *bind, "--mca", "btl", "self,vader"]


def speeds(launch: list[str], weft: str, model: str, words: list[str], rounds: int) -> tuple[float, float]:
    """Medians of tokens per second: of prefill and of decode."""
    read, written = [], []
    for _ in range(rounds):
        told = json.loads(run(*launch, weft, "bench", "-m", model, "-t", "1", *words, "-r", "1", "--json"))
        for result in told["results"]:
            if "streams" in result:
                read.append(result["prefill_tokens_per_second"])
                written.append(result["decode_tokens_per_second"])
            else:
                (read if result["n_generate"] == 0 else written).append(result["tokens_per_second"])
    return statistics.median(read), statistics.median(written)


def speeds_together(n: int, weft: str, model: str, words: list[str], rounds: int) -> tuple[float, float]:
    """Speeds of the slowest of n processes that run at the same time, as the others wait for it."""
    n_cores = os.cpu_count() or 1
    launches = [["taskset", "-c", str(i) if n <= n_cores else f"0-{n_cores - 1}"] for i in range(n)]
    with ThreadPoolExecutor(n) as pool:
        each = list(pool.map(lambda launch: speeds(launch, weft, model, words, rounds), launches))
    return min(read for read, _ in each), min(written for _, written in each)


def simulated(weft: str, model: str, n: int, prompt: int, link: dict, reads: float, writes: float) -> dict[str, dict]:
    """What the simulator says of n processes, by the name of the way."""
    # Prompts go in steps of at least 64 tokens, eight at most, that overlap.
    nodes = {"prompt_tokens": prompt, "ubatch_size": max(64, -(-prompt // 8)), "link": link,
             "nodes": [{"name": "node", "count": n, "memory_bytes": 1e10,
                        "tokens_per_second": writes, "prompt_tokens_per_second": reads}]}  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "nodes.json"
        file.write_text(json.dumps(nodes))
        told = json.loads(run(weft, "inspect", model, "--plan", "--nodes", str(file), "--json"))
    return {way["name"]: way for way in told["ways"]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--weft", default="build/release/weft")
    parser.add_argument("-m", "--model", required=True)
    parser.add_argument("--processes", type=int, nargs="+", default=[2])
    parser.add_argument("--rate", default="", help="of the link, as tc writes it")
    parser.add_argument("--prompt", type=int, default=512)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--streams", type=int, default=16, help="texts at once, which are measured and not simulated")
    args = parser.parse_args()
    works = ["-p", str(args.prompt), "-n", "64", "-d", str(args.prompt)]
    streams = ["--streams", str(args.streams), "-p", "32", "-n", "32"]
    core = ["taskset", "-c", "0"]
    reads, writes = speeds(core, args.weft, args.model, works, args.rounds)
    print(f"one process: a token {1e3 / writes:.2f} ms, a prompt of {args.prompt} {args.prompt / reads:.3f} s, {args.streams} "
          f"texts {speeds(core, args.weft, args.model, streams, args.rounds)[1]:.0f} tokens/s")  # fmt: skip
    with Link(args.rate) as link:
        devices = json.loads(run(*link.mpirun(2), args.weft, "devices", "--measure", "--json"))
        follower = next(device for device in devices if device["name"] == "rank1.cpu")["measured"]
        # A step goes there and back.
        message = {"seconds": follower["step_seconds"] / 2, "bytes_per_second": follower["copy_bytes_per_second"]}
        print(f"link: {message['seconds'] * 1e6:.1f} us, {message['bytes_per_second'] / 1e9:.3g} GB/s")
        for n in args.processes:
            beside = speeds_together(n, args.weft, args.model, works, args.rounds)
            print(f"{n} processes that do not know of each other: a token {1e3 / beside[1]:.2f} ms, a prompt "
                  f"{args.prompt / beside[0]:.3f} s each")  # fmt: skip
            alone = simulated(args.weft, args.model, n, args.prompt, message, reads, writes)
            together = simulated(args.weft, args.model, n, args.prompt, message, *beside)
            for mode, name, of_token in (("layer", f"pipeline of {n}", alone), ("tensor", f"tensors over {n}", together)):
                if name not in together:
                    continue
                # Divided layers overlap in a prompt's steps; shared ones are at one step together.
                token_said = of_token[name]["token_seconds"]
                prompt_said = together[name]["pipelined_prompt_seconds"]
                measured = speeds(link.mpirun(n), args.weft, args.model, ["--split-mode", mode, *works], args.rounds)
                token, prompt = 1 / measured[1], args.prompt / measured[0]
                texts = speeds(link.mpirun(n), args.weft, args.model, ["--split-mode", mode, *streams], args.rounds)[1]
                print(f"{n} processes, {mode}: a token {token_said * 1e3:.2f} ms simulated, {token * 1e3:.2f} measured "
                      f"({token_said / token - 1:+.0%}); a prompt {prompt_said:.3f} s, {prompt:.3f} "
                      f"({prompt_said / prompt - 1:+.0%}); {args.streams} texts {texts:.0f} tokens/s")  # fmt: skip


if __name__ == "__main__":
    main()
