#!/usr/bin/env python3
"""versus_embed.py: sentence vectors of weft, sentence-transformers, onnxruntime, ctranslate2 and llama.cpp.

all-MiniLM-L6-v2 is converted to GGUF by `weft convert`, in F32 and Q8_0. All vectors are compared with those vectors
that sentence-transformers computes in float32. Sentences a second are measured in alternating rounds, with equal
numbers of threads. A request has one sentence, or 64 of mixed lengths. For weft it is `weft embed`, from strings to
vectors. For llama.cpp it is its server with --embedding and the same GGUF file, over one connection. `weft serve` is
measured in the same way, which shows the cost of HTTP. Peers that pad a batch to its longest sentence get the sentences
sorted by length, as sentence-transformers sorts them.

Needs Python with what examples/minilm/versus.py needs; --peer-server names a llama-server, and
--peer-python a Python with llama-cpp-python, which computes the vectors without one (bench/peer_embed.py).
"""
import argparse
import base64
import http.client
import importlib.util
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[1]


def load(path: Path):
    spec = importlib.util.spec_from_file_location(path.stem + "_module", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


minilm = load(ROOT / "examples/minilm/versus.py")


class Weft:
    def __init__(self, program: Path, kind: str, model: Path, threads: int):
        self.name = "weft " + kind
        self.command = [str(program), "embed", "-m", str(model), "-t", str(threads), "--json", "--truncate", "-c", "256",
                        "--device", "cpu"]

    def run(self, sentences, batch):
        out = subprocess.run([*self.command, "-b", str(batch)], input="\n".join(sentences) + "\n", text=True, check=True,
                             capture_output=True).stdout
        return json.loads(out)

    def encode(self, sentences):
        return np.array([entry["embedding"] for entry in self.run(sentences, 64)["data"]])

    def speed(self, sentences, batch):
        return max(self.run(sentences, batch)["timings"]["texts_per_second"] for _ in range(2))


class Served(minilm.Peer):
    """A server with OpenAI's /v1/embeddings."""

    def __init__(self, name: str, command: list[str]):
        self.name = name
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.process = subprocess.Popen([*command, "--port", str(port)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for _ in range(300):
            time.sleep(0.2)
            try:
                self.connection = http.client.HTTPConnection("127.0.0.1", port)
                self.connection.request("GET", "/health")
                answer = self.connection.getresponse()
                answer.read()
                if answer.status == 200:
                    return
            except OSError:
                pass
        sys.exit(f"versus_embed.py: {name} does not come up")

    def ask(self, sentences):
        self.connection.request("POST", "/v1/embeddings", json.dumps({"input": sentences, "encoding_format": "base64"}),
                                {"Content-Type": "application/json"})
        return self.connection.getresponse()

    def encode(self, sentences):
        try:
            answer = self.ask(sentences)
        except (OSError, http.client.HTTPException):  # Closed, as nothing was asked for a while.
            self.connection.close()
            answer = self.ask(sentences)
        body = json.loads(answer.read())
        if answer.status != 200:
            sys.exit(f"versus_embed.py: {self.name}: {body}")
        vectors = [np.frombuffer(base64.b64decode(entry["embedding"]), dtype="<f4") for entry in body["data"]]
        return np.array(vectors, dtype=np.float64)

    def end(self):
        self.process.terminate()
        self.process.wait()


class InProcess(minilm.Peer):
    """llama.cpp in a process of the peer's Python."""

    def __init__(self, name: str, python: Path, model: Path, threads: int):
        self.name = name
        worker = [str(python), str(ROOT / "bench/peer_embed.py"), str(model), str(threads)]
        self.process = subprocess.Popen(worker, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        if self.process.stdout.readline() != "ready\n":
            sys.exit(f"versus_embed.py: {name} does not come up")

    def encode(self, sentences):
        self.process.stdin.write(json.dumps(sentences) + "\n")
        self.process.stdin.flush()
        rows = np.frombuffer(base64.b64decode(self.process.stdout.readline()), dtype="<f4")
        return rows.reshape(len(sentences), -1).astype(np.float64)

    def end(self):
        self.process.stdin.close()
        self.process.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--weft", type=Path, default=ROOT / "build/release/weft")
    parser.add_argument("--peer-server", type=Path, help="llama.cpp's llama-server")
    parser.add_argument("--peer-python", type=Path, help="a Python that has llama-cpp-python")
    parser.add_argument("--text", type=Path, nargs="*", help="files that the sentences are taken from")
    parser.add_argument("-n", "--sentences", type=int, default=512)
    parser.add_argument("-r", "--rounds", type=int, default=2)
    parser.add_argument("-t", "--threads", type=int, default=os.cpu_count())
    parser.add_argument("--skip", nargs="*", default=[], help="words in the names of peers")
    args = parser.parse_args()
    folder = minilm.model_folder()
    sentences = minilm.sentences_from(args.text or [ROOT / "ARCHITECTURE.md", ROOT / "README.md"], args.sentences)
    sentences.sort(key=len)
    threads = str(args.threads)
    with tempfile.TemporaryDirectory() as scratch:
        files = {}
        for kind in ("f32", "q8_0"):
            files[kind] = Path(scratch) / f"minilm-{kind}.gguf"
            subprocess.run([args.weft, "convert", "-q", "--type", kind, "-o", files[kind], folder], check=True)
        makers = {"sentence-transformers": lambda: minilm.SentenceTransformers(folder, args.threads),
                  "onnxruntime": lambda: minilm.OnnxRuntime(folder, args.threads, Path(scratch)),
                  "ctranslate2 float32": lambda: minilm.CTranslate2(folder, args.threads, Path(scratch), "float32"),
                  "ctranslate2 int8": lambda: minilm.CTranslate2(folder, args.threads, Path(scratch), "int8")}
        for kind, file in files.items():
            makers[f"weft serve {kind}"] = lambda kind=kind, file=file: Served(
                f"weft serve {kind}", [str(args.weft), "serve", "-m", str(file), "-t", threads, "--device", "cpu"])
            if args.peer_server is not None:
                makers[f"llama.cpp {kind}"] = lambda kind=kind, file=file: Served(
                    f"llama.cpp {kind}", [str(args.peer_server), "-m", str(file), "--embedding", "-t", threads, "-tb", threads,
                                          "-c", "16384", "-b", "4096", "-ub", "4096", "-np", "64", "--no-webui"])
            if args.peer_python is not None:
                makers[f"llama.cpp {kind}, no server"] = lambda kind=kind, file=file: InProcess(
                    f"llama.cpp {kind}, no server", args.peer_python, file, args.threads)
        engines = [Weft(args.weft, kind, file, args.threads) for kind, file in files.items()]
        for name, make in makers.items():
            if not any(word in name for word in args.skip):
                engines.append(make())
        truth = next((engine for engine in engines if engine.name == "sentence-transformers"), engines[0])
        expected = np.array(truth.encode(sentences), dtype=np.float64)
        results = {}
        for engine in engines:
            got = np.concatenate([engine.encode(sentences[i : i + 64]) for i in range(0, len(sentences), 64)])
            nmse = float(((got - expected) ** 2).sum() / (expected**2).sum())
            results[engine.name] = {"nmse": nmse, 1: 0.0, 64: 0.0}
        for _ in range(args.rounds):
            for batch in (1, 64):
                for engine in engines:
                    some = sentences if batch > 1 else sentences[::4]
                    results[engine.name][batch] = max(results[engine.name][batch], engine.speed(some, batch))
        for engine in engines:
            if isinstance(engine, (Served, InProcess)):
                engine.end()
    print(f"| {len(sentences)} sentences, {args.threads} threads | NMSE | one at a time /s | 64 together /s |")
    print("|---|---|---|---|")
    own = results["weft f32"]
    for name, r in results.items():
        print(f"| {name} | {r['nmse']:.1e} | {r[1]:.0f} ({own[1] / r[1]:.2f}x) | {r[64]:.0f} ({own[64] / r[64]:.2f}x) |")


if __name__ == "__main__":
    main()
