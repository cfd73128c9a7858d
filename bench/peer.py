"""What the comparisons share: the peer's Python, models by name, workers."""
import argparse
import json
import os
import resource
import subprocess
import sys
import threading
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PEER_VERSION = "0.3.36"
ROUND_SECONDS = 1800  # At most, of one round of a peer.
GGUF_VERSION = "0.19.0"

MODELS = {
    "smollm2": "SmolLM2-135M-Instruct.Q4_1",
    "gemma3": "gemma-3-270m-q4_k_m",
    # Models of random weights, written at their first use. Any other type works as random-1b-TYPE.
    "1b-q4_k_m": "random-1b-q4_k_m",
    "1b-q4_0": "random-1b-q4_0",
    "1b-q8_0": "random-1b-q8_0",
    # Layers of larger models, in Q4_0: 8 of 128 experts, latent attention, sinks and windows, delta nets.
    "1b-moe": "random-1b-moe",
    "1b-mla": "random-1b-mla",
    "1b-sinks": "random-1b-sinks",
    "1b-delta": "random-1b-delta",
}

# llama.cpp's numbers; its default is F16.
CACHE_TYPES = {"auto": 1, "f32": 0, "f16": 1, "bf16": 30, "q8_0": 8}


def build_peer() -> Path:
    """A Python with llama-cpp-python, built from source for this processor, and gguf."""
    folder = ROOT / "build" / "peer"
    python = folder / "bin" / "python"

    def has(package: str, version: str) -> bool:
        check = f"import importlib.metadata as m; print(m.version('{package}'))"
        result = subprocess.run([str(python), "-c", check], capture_output=True, text=True, check=False)
        return result.returncode == 0 and result.stdout.strip() == version

    def install(*words: str, **environment: str) -> None:
        pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, *words], env=os.environ | environment, check=True)

    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    if not has("llama-cpp-python", PEER_VERSION):
        print(f"building llama-cpp-python {PEER_VERSION} into {folder} (once)", file=sys.stderr)
        jobs = str(os.cpu_count())
        install("--no-binary", "llama-cpp-python", f"llama-cpp-python=={PEER_VERSION}",
                CMAKE_ARGS="-DGGML_NATIVE=ON", CMAKE_BUILD_PARALLEL_LEVEL=jobs)  # fmt: skip
    if not has("gguf", GGUF_VERSION):
        install(f"gguf=={GGUF_VERSION}")
    return python


def model_cache() -> Path:
    return Path(os.environ.get("WEFT_CACHE") or Path.home() / ".cache" / "weft") / "models"


def find_model(name: str, python: Path) -> Path:
    """A name of MODELS or of the model cache, or a file."""
    if Path(name).exists():
        return Path(name)
    path = model_cache() / f"{MODELS.get(name, name)}.gguf"
    if not path.exists() and path.stem.startswith(("random-1b-", "random-8b-")):
        print(f"writing {path} (once)", file=sys.stderr)
        path.parent.mkdir(parents=True, exist_ok=True)
        kind = path.stem.removeprefix("random-").removeprefix("1b-")
        subprocess.run([str(python), str(ROOT / "bench" / "random_model.py"), kind, str(path)], check=True)
    if not path.exists():
        sys.exit(f"no model {name} in {path.parent}; 'make models' fetches it")
    return path


class Peer:
    """A worker process in the peer's Python: a line in asks for a round, a line of JSON out is its result."""

    warms_up = False

    def __init__(self, python: Path, arguments: list):
        command = [str(python), *map(str, arguments)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.read()

    def read(self) -> str:
        watch = threading.Timer(ROUND_SECONDS, self.process.kill)  # A driver that hangs would say nothing for ever.
        watch.daemon = True  # Who presses Ctrl-C does not wait for it.
        watch.start()
        try:
            line = self.process.stdout.readline()
        finally:
            watch.cancel()
        if not line:
            sys.exit(f"llama.cpp's worker ended with {self.process.wait()}")
        return line

    def round(self, request: dict | None = None) -> dict:
        self.process.stdin.write(json.dumps(request or {}) + "\n")
        self.process.stdin.flush()
        return json.loads(self.read())

    def close(self) -> None:
        self.process.stdin.close()
        self.process.wait()


class BenchPeer:
    """llama-bench in place of a worker, a process for each round. With one thread, the processor time of a repetition
    is the difference that a second repetition makes. More threads spin while they wait, which would count as well."""

    warms_up = True

    def __init__(self, program: Path, model: Path, threads: int):
        self.command = [str(program), "-m", str(model), "-t", str(threads), "-o", "json"]
        self.threads = threads

    def run(self, words: list[str], repetitions: int) -> tuple[float, float]:
        """The least seconds of a repetition, and the processor's seconds of the process."""
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        result = subprocess.run([*self.command, *words, "-r", str(repetitions)], check=True, stdout=subprocess.PIPE,
                                stderr=subprocess.DEVNULL, timeout=ROUND_SECONDS)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        return min(json.loads(result.stdout)[0]["samples_ns"]) * 1e-9, cpu

    def round(self, request: dict) -> dict:
        tests = {"prefill": ["-p", str(request["tokens"]), "-n", "0"],
                 "decode": ["-p", "0", "-n", str(request["tokens"]), "-d", str(request.get("depth", 0))]}
        if request["work"] not in tests:
            sys.exit(f"versus: llama-bench has no work '{request['work']}'; without --llama-bench there is")
        cache = "f16" if request["cache"] == "auto" else request["cache"]
        flash = "on" if request.get("flash", True) else "off"
        words = [*tests[request["work"]], "-ctk", cache, "-ctv", cache, "-fa", flash]
        seconds, cpu = self.run(words, 1)
        more = self.run(words, 2)[1] - cpu if self.threads == 1 else None
        return {"tokens": request["tokens"], "seconds": seconds, "cpu_seconds": more}

    def close(self) -> None:
        pass


def add_common_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--weft", type=Path, default=ROOT / "build" / "release" / "weft")
    parser.add_argument("--peer-python", type=Path, help="a Python that has llama-cpp-python and gguf already")
    parser.add_argument("-t", "--threads", type=int, default=2)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write everything measured there")


def check_common_options(args: argparse.Namespace) -> Path:
    """The peer's Python."""
    if not args.weft.exists():
        sys.exit(f"{args.weft} is not built; 'make build' does it")
    if args.peer_python is None and getattr(args, "llama_bench", None) is not None:
        return Path(sys.executable)
    return args.peer_python or build_peer()


def chosen(text: str | None, known: dict, default: list[str], what: str, *, others: bool = False) -> list[str]:
    names = text.split(",") if text else default
    for name in names:
        if name not in known and not others:
            sys.exit(f"versus: no {what} '{name}'; there are {', '.join(known)}")
    return names


def write_report(report: list[dict], args: argparse.Namespace) -> None:
    if args.json:
        everything = {"peer": f"llama-cpp-python {PEER_VERSION}", "results": report}
        args.json.write_text(json.dumps(everything, indent=2) + "\n")
