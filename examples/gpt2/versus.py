#!/usr/bin/env python3
"""versus.py GPT2: the example compared with transformers (PyTorch, CPU) in one run, on a GPT-2 of the published size.

GPT2 is the example's program. Weights are random unless --model names a folder (config.json, model.safetensors), as no
comparison depends on them. It compares the error of logits (NMSE), the tokens appended to several prompts, and the
speeds of prefill and decode. Speeds are measured in alternating rounds with the same number of threads.

Needs Python with torch and transformers, from PyPI.
"""
import argparse
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path


def make_model(folder: Path) -> None:
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel
    torch.manual_seed(1)
    model = GPT2LMHeadModel(GPT2Config(initializer_range=0.08))
    model.save_pretrained(folder)


class Weft:
    def __init__(self, program: Path, folder: Path, threads: int, weights: str):
        self.name = f"weft {weights.upper()}"
        self.words = [str(program), "-m", str(folder), "-t", str(threads), "--weights", weights, "--ids"]

    def run(self, rows: list[list[int]], *words: str) -> subprocess.CompletedProcess:
        return subprocess.run([*self.words, *words, *(" ".join(map(str, row)) for row in rows)], check=True,
                              capture_output=True, text=True)

    def logits(self, rows, n_vocab):
        import numpy as np
        with tempfile.NamedTemporaryFile() as file:
            self.run(rows, "--logits", file.name)
            return np.fromfile(file.name, "<f4").reshape(-1, n_vocab)

    def written(self, rows, n):
        return [list(map(int, line.split())) for line in self.run(rows, "-n", str(n)).stdout.splitlines()]

    def speeds(self, rows, n):
        """Tokens per second: prefill, decode."""
        found = re.search(r"prefill: \d+ tokens, ([\d.]+) tokens/s; decode: \d+ tokens, ([\d.]+)",
                          self.run(rows, "-n", str(n), "-c", str(len(rows[0]) + n), "--speed").stderr)
        return float(found[1]), float(found[2])


class Transformers:
    def __init__(self, folder: Path, threads: int):
        import torch
        from transformers import GPT2LMHeadModel
        torch.set_num_threads(threads)
        self.name = "transformers, float32"
        self.torch = torch
        self.model = GPT2LMHeadModel.from_pretrained(folder, dtype=torch.float32).eval()

    def logits(self, rows):
        import numpy as np
        with self.torch.inference_mode():
            return np.concatenate([self.model(self.torch.tensor([row])).logits[0].numpy() for row in rows])

    def step(self, ids, cache):
        out = self.model(ids, past_key_values=cache, use_cache=True, logits_to_keep=1)
        return out.logits[:, -1].argmax(-1, keepdim=True), out.past_key_values

    def written(self, rows, n):
        """Logits for rows of different lengths, one after another."""
        result = []
        with self.torch.inference_mode():
            for row in rows:
                token, cache = self.step(self.torch.tensor([row]), None)
                result.append([int(token)])
                while len(result[-1]) < n and result[-1][-1] != self.model.config.eos_token_id:
                    token, cache = self.step(token, cache)
                    result[-1].append(int(token))
        return result

    def speeds(self, rows, n):
        """Logits for rows of one length, without padding: the best case for transformers."""
        with self.torch.inference_mode():
            start = time.perf_counter()
            token, cache = self.step(self.torch.tensor(rows), None)
            read = time.perf_counter()
            for _ in range(n - 1):
                token, cache = self.step(token, cache)
            end = time.perf_counter()
        return len(rows) * len(rows[0]) / (read - start), len(rows) * (n - 1) / (end - read)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("gpt2", type=Path)
    parser.add_argument("--model", type=Path, help="a folder with config.json and model.safetensors")
    parser.add_argument("-r", "--rounds", type=int, default=3)
    parser.add_argument("-t", "--threads", type=int, default=os.cpu_count())
    args = parser.parse_args()
    import numpy as np
    with tempfile.TemporaryDirectory() as scratch:
        folder = args.model or Path(scratch)
        if args.model is None:
            make_model(folder)
        peer = Transformers(folder, args.threads)
        engines = [Weft(args.gpt2, folder, args.threads, weights) for weights in ("f32", "f16", "q8_0")]
        n_vocab = peer.model.config.vocab_size
        draw = random.Random(3)
        rows = [[draw.randrange(n_vocab) for _ in range(n)] for n in (1, 7, 40, 100)]
        truth, written = peer.logits(rows).astype(np.float64), peer.written(rows, 24)
        print(f"{len(rows)} sequences of {[len(row) for row in rows]} tokens in one step, {args.threads} threads")
        for engine in engines:
            nmse = float(((engine.logits(rows, n_vocab) - truth) ** 2).sum() / (truth**2).sum())
            got = engine.written(rows, 24)
            same = sum(a == b for x, y in zip(got, written) for a, b in zip(x, y))
            print(f"{engine.name}: NMSE {nmse:.1e}, {same} of {sum(map(len, written))} tokens are transformers'")
        best = {}
        for n_sequences, n_prompt in ((1, 256), (8, 64)):
            batch = [[draw.randrange(n_vocab) for _ in range(n_prompt)] for _ in range(n_sequences)]
            for _ in range(args.rounds):
                for engine in [*engines, peer]:
                    speeds = engine.speeds(batch, 64)
                    key = engine.name, n_sequences
                    best[key] = tuple(map(max, speeds, best.get(key, (0.0, 0.0))))
    print("| tokens/s | 1 sequence: prefill 256 | decode 64 | 8 sequences: prefill 512 | decode 512 |")
    print("|---|---|---|---|---|")
    for engine in [*engines, peer]:
        cells = []
        for n_sequences in (1, 8):
            for own, other in zip(best[engine.name, n_sequences], best[peer.name, n_sequences]):
                cells.append(f"{own:.0f}" + ("" if engine is peer else f" ({own / other:.1f}x)"))
        print(f"| {engine.name} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
