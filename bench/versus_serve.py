"""versus.py serve: weft's server compared with llama.cpp's, both loaded by `weft bench --serve`.

Both servers run with the same model, slots, cells and threads. They are loaded alternately with the same requests; each
round has another seed. A figure is the best of all rounds. The server of llama.cpp is built once from the source
package of llama-cpp-python into build/peer/server (about ten minutes on two cores). --peer-server names an existing
one.
"""
import argparse
import json
import os
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path

from peer import PEER_VERSION, ROOT, add_common_options, check_common_options, chosen, find_model, write_report

TOOLS = [
    {"type": "function", "function": {
        "name": "book_room", "description": "Books a room for a meeting.",
        "parameters": {"type": "object", "additionalProperties": False,
                       "required": ["room", "day", "hour", "guests", "equipment"],
                       "properties": {
                           "room": {"enum": ["small", "large", "garden"]},
                           "day": {"type": "string", "pattern": "^(mon|tues|wednes|thurs|fri)day$"},
                           "hour": {"type": "integer", "minimum": 8, "maximum": 18},
                           "guests": {"type": "array", "minItems": 1, "maxItems": 4,
                                      "items": {"type": "object", "required": ["name", "vegetarian"],
                                                "additionalProperties": False,
                                                "properties": {"name": {"type": "string", "maxLength": 24},
                                                               "vegetarian": {"type": "boolean"}}}},
                           "equipment": {"type": "array", "maxItems": 3,
                                         "items": {"enum": ["screen", "board", "phone"]}}}}}},
]  # fmt: skip


@dataclass
class Work:
    load: list[str]
    prompt: str = "32-256"  # Tokens, from-to.
    predict: str = "64"
    shared: int = 0
    long: int = 0  # Tokens of one prompt in ten.
    tools: bool = False  # Each answer calls one ...
    schema: bool = False  # ... or follows the schema of its parameters.


def clients(n: int, **more) -> Work:
    return Work(["--concurrency", str(n), "--requests", str(max(16, 2 * n))], **more)


WORKS = {
    "clients1": clients(1),
    "clients8": clients(8),
    "clients32": clients(32),
    "clients64": clients(64),
    "mix": Work(["--rate", "{rate}", "--requests", "24"], predict="32", long=2048),
    "shared1024": Work(["--concurrency", "32", "--requests", "32"], prompt="16-64", shared=1024),
    "schema8": clients(8, prompt="32-64", predict="256", schema=True),
    "tools8": clients(8, prompt="32-64", predict="256", tools=True),
}
QUICK = ["clients1", "clients32", "mix"]


@dataclass
class Model:
    chat: bool = True
    tokens_per_word: float = 1.0
    rate: float = 0.3  # Requests a second of the mix, which the slower server can just serve.
    requests: float = 1.0  # Of what SmolLM2 is asked.
    without: list[str] = field(default_factory=list)


# The words of the load are five or six tokens each in the vocabulary of the random models, which know no chats.
MODELS = {
    "smollm2": Model(),
    "1b-q4_k_m": Model(chat=False, tokens_per_word=5.6, rate=0.08, requests=0.5, without=["shared1024", "schema8", "tools8"]),
}


class Server:
    def __init__(self, command: list, port: int):
        self.url = f"http://127.0.0.1:{port}"
        self.log = tempfile.TemporaryFile()
        self.process = subprocess.Popen(list(map(str, command)), stdout=self.log, stderr=self.log)
        for _ in range(600):
            if self.process.poll() is not None:
                self.log.seek(0)
                sys.exit(f"{command[0]} ended:\n{self.log.read().decode(errors='replace')[-2000:]}")
            try:
                with urllib.request.urlopen(self.url + "/health", timeout=1) as answer:
                    if answer.status == 200:
                        return
            except OSError:
                time.sleep(0.2)
        sys.exit(f"{command[0]} does not respond")

    def cpu_seconds(self) -> float:
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def __enter__(self) -> "Server":
        return self

    def __exit__(self, *_) -> None:
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(60)


def build_server(python: Path) -> Path:
    folder = ROOT / "build" / "peer" / "server"
    program = folder / "build" / "bin" / "llama-server"
    if program.exists():
        return program
    print(f"building llama.cpp's server into {folder} (once)", file=sys.stderr)
    folder.mkdir(parents=True, exist_ok=True)
    subprocess.run([str(python), "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", "llama-cpp-python",
                    f"llama-cpp-python=={PEER_VERSION}", "-d", str(folder)],
                   check=True)  # fmt: skip
    archive = next(folder.glob("llama_cpp_python-*.tar.gz"))
    with tarfile.open(archive) as tar:
        tar.extractall(folder, filter="data")
    source = folder / archive.name.removesuffix(".tar.gz") / "vendor" / "llama.cpp"
    options = ["GGML_NATIVE=ON", "LLAMA_BUILD_TESTS=OFF", "LLAMA_BUILD_EXAMPLES=OFF", "LLAMA_BUILD_UI=OFF",
               "LLAMA_OPENSSL=OFF", "BUILD_SHARED_LIBS=OFF", "CMAKE_BUILD_TYPE=Release"]  # fmt: skip
    cmake = ["cmake", "-S", str(source), "-B", str(folder / "build"), "-G", "Ninja", *(f"-D{o}" for o in options)]
    subprocess.run(cmake, check=True, stdout=subprocess.DEVNULL)
    subprocess.run(["cmake", "--build", str(folder / "build"), "--target", "llama-server"], check=True,
                   stdout=subprocess.DEVNULL)  # fmt: skip
    return program


def scaled(tokens: str, model: Model) -> str:
    return "-".join(str(max(1, round(int(t) / model.tokens_per_word))) for t in tokens.split("-"))


def load(work: Work, model: Model, server: Server, seed: int, args: argparse.Namespace) -> dict:
    words = [word.format(rate=model.rate) for word in work.load]
    at = words.index("--requests") + 1
    words[at] = str(round(int(words[at]) * model.requests))
    words += ["-p", scaled(work.prompt, model), "-n", work.predict, "--seed", str(seed)]
    words += ["--endpoint", "chat" if model.chat else "completions"]
    if work.shared:
        words += ["--shared-prefix", scaled(str(work.shared), model)]
    if work.long:
        words += ["--long-share", "0.1", "--long-tokens", scaled(str(work.long), model)]
    before = server.cpu_seconds()
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(TOOLS[0]["function"]["parameters"] if work.schema else TOOLS, file)
        file.flush()
        words += ["--schema", file.name] if work.schema else ["--tools", file.name] if work.tools else []
        command = [str(args.weft), "bench", "--serve", server.url, *words, "--json", "-q"]
        row = json.loads(subprocess.run(command, check=False, stdout=subprocess.PIPE).stdout)["results"][0]
    if row["interrupted"] or not row["complete"]:
        sys.exit(f"versus: {server.url} failed: {row['errors']}")
    return row | {"cpu_seconds": server.cpu_seconds() - before}


def best_of(rounds: list[dict]) -> dict:
    return {
        "requests_per_s": max(r["requests_per_s"] for r in rounds),
        "generated_per_s": max(r["generated_per_s"] for r in rounds),
        "ttft_ms_p50": min(r["ttft_ms_p50"] for r in rounds),
        "ttft_ms_p99": min(r["ttft_ms_p99"] for r in rounds),
        "cpu_seconds": min(r["cpu_seconds"] for r in rounds),
        "failed": sum(r["failed"] for r in rounds),
    }


def measure(work: Work, model: Model, weft: Server, peer: Server, args: argparse.Namespace) -> dict:
    found = {"weft": [], "llama_cpp": []}
    for seed in range(1, args.rounds + 1):
        # No work may find its prompts in a cache because another had them.
        seed += 100 * list(WORKS.values()).index(work)
        found["weft"].append(load(work, model, weft, seed, args))
        found["llama_cpp"].append(load(work, model, peer, seed, args))
    return {who: best_of(rounds) for who, rounds in found.items()} | {"rounds": found}


def line(cells: list[str]) -> str:
    widths = [20, 10, 22, 26, 26]
    return "| " + " | ".join(f"{c:<{w}}" if i < 2 else f"{c:>{w}}" for i, (c, w) in enumerate(zip(cells, widths))) + " |"


def pair(row: dict, name: str, digits: int, *, less: bool = False) -> str:
    ours, theirs = row["weft"][name], row["llama_cpp"][name]
    ratio = theirs / ours if less else ours / theirs
    return f"{ours:.{digits}f} / {theirs:.{digits}f} = {ratio:.2f}x"


def serve(words: list[str]) -> int:
    """Servers, loaded by clients."""
    parser = argparse.ArgumentParser(
        prog="versus.py serve", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add_common_options(parser)
    parser.add_argument("-r", "--rounds", type=int, default=2)
    parser.add_argument("--models", help=f"of {', '.join(MODELS)} (default: all)")
    parser.add_argument("--works", help=f"of {', '.join(WORKS)} (default: all)")
    parser.add_argument("--quick", action="store_true", help=f"SmolLM2, {', '.join(QUICK)}, one round")
    parser.add_argument("-np", "--slots", type=int, default=64)
    parser.add_argument("-c", "--cells", type=int, default=163840, help="of the whole cache")
    parser.add_argument("--peer-server", type=Path, help="a llama-server that is there already")
    parser.add_argument("--peer-options", default="--no-kv-unified --cache-ram 0", help="more words for it (%(default)s)")
    args = parser.parse_args(words)
    names = chosen(args.works, WORKS, QUICK if args.quick else list(WORKS), "work")
    models = chosen(None if args.quick else args.models, MODELS, ["smollm2"] if args.quick else list(MODELS), "model")
    args.rounds = 1 if args.quick else args.rounds
    python = check_common_options(args) if not args.peer_server else args.peer_python or Path(sys.executable)
    program = args.peer_server or build_server(python)

    report = []
    print(f"{args.threads} threads, {args.slots} slots, {args.cells} cells, best of {args.rounds} rounds: weft / llama.cpp\n")
    print(line(["model", "work", "requests/s", "first token, ms, p50", "p99"]))
    print(line([":" + "-" * 19, ":" + "-" * 9, *("-" * (w - 1) + ":" for w in (22, 26, 26))]))
    for name in models:
        model, path = MODELS[name], find_model(name, python)
        common = ["-m", path, "-c", args.cells, "-np", args.slots, "-t", args.threads]
        peer_options = ["-fa", "on", *args.peer_options.split()]
        # The one that is not loaded takes no time.
        with (
            Server([args.weft, "serve", *common, "--port", 18080], 18080) as weft,
            Server([program, *common, "--port", 18081, *peer_options], 18081) as peer,
        ):
            for work in (w for w in names if w not in model.without):
                row = {"model": name, "work": work} | measure(WORKS[work], model, weft, peer, args)
                report.append(row)
                cells = [pair(row, "requests_per_s", 2), pair(row, "ttft_ms_p50", 0, less=True)]
                print(line([name, work, *cells, pair(row, "ttft_ms_p99", 0, less=True)]), flush=True)
                for who in row["rounds"]:
                    if row[who]["failed"]:
                        error = next(r["errors"][0] for r in row["rounds"][who] if r["errors"])
                        print(f"  {who}: {row[who]['failed']} requests failed: {error['kind']}")
                write_report(report, args)
    return 0
