#!/usr/bin/env python3
"""test_gpt2.py PROGRAM FOLDER: compares examples/gpt2 with transformers' results (scripts/make_gpt2_folder.py)."""
import json
import subprocess
import sys
import tempfile
from array import array
from pathlib import Path

MAX_NMSE = 1e-10


def need(holds: bool, message: str) -> None:
    if not holds:
        sys.exit(f"FAILED: {message}")


class Program:
    def __init__(self, program: str, folder: Path):
        self.words = [program, "-m", str(folder)]

    def run(self, *words: str) -> str:
        return subprocess.run([*self.words, *words], check=True, capture_output=True, encoding="utf-8",
                              errors="replace").stdout

    def refuses(self, *words: str) -> str:
        result = subprocess.run([*self.words, *words], capture_output=True, text=True)
        need(result.returncode == 1, f"{words} was not refused")
        return result.stderr


def floats(path: Path) -> array:
    values = array("f", path.read_bytes())
    if sys.byteorder == "big":
        values.byteswap()
    return values


def main() -> None:
    folder = Path(sys.argv[2])
    gpt2 = Program(sys.argv[1], folder)
    expected = json.loads((folder / "expected.json").read_text())
    ids = [" ".join(map(str, row)) for row in expected["ids"]]
    written = "".join(" ".join(map(str, row)) + "\n" for row in expected["written"])

    # All sequences in one step, each alone, over two devices, and with prompts as strings.
    need(gpt2.run("--ids", "-n", "16", *ids) == written, "other tokens than transformers'")
    need("".join(gpt2.run("--ids", "-n", "16", row) for row in ids) == written, "alone, a sequence continues otherwise")
    two = ("--device", "second=cpu", "--pin", r"^h\.1\.=second")
    need(gpt2.run("--ids", "-n", "16", *two, *ids) == written, "over two devices, other tokens")
    texts = gpt2.run("-n", "16", *expected["texts"])
    for text in expected["texts"]:
        need(text in texts, f"{text!r} is not among {texts!r}")

    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch) / "logits.f32"
        for words in (["--ids", "--logits", str(path), *ids], ["--logits", str(path), *expected["texts"]]):
            gpt2.run(*words)
            got, truth = floats(path), floats(folder / "logits.f32")
            need(len(got) == len(truth), f"{len(got)} logits, not {len(truth)}")
            nmse = sum((a - b) ** 2 for a, b in zip(got, truth)) / sum(b * b for b in truth)
            need(nmse < MAX_NMSE, f"the logits' NMSE is {nmse}")
            print(f"NMSE {nmse:.2e}")

    need("no token 999" in gpt2.refuses("--ids", "1 999"), "a token that is not there")
    need("UTF-8" in gpt2.refuses(b"\xff\xfe".decode("utf-8", "surrogateescape")), "what is not UTF-8")
    need("more than 64" in gpt2.refuses("--ids", "1 " * 65), "a sequence that is too long")
    need("config.json" in Program(sys.argv[1], folder / "none").refuses("a"), "a folder that is not there")


if __name__ == "__main__":
    main()
