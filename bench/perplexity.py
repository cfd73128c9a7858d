#!/usr/bin/env python3
"""perplexity.py: perplexity of weft and llama.cpp with the same model file, and the distance of both from the file's
reference: perplexity.py --llama-perplexity FILE.

The reference is the same weights unpacked to F32 (weft quantize), computed without rounding activations, with an F32
cache. Its distribution for each token is stored. Both programs read that file, so they score the same tokens of the
same chunks: the second half of each. Differences of the log of perplexity and KL divergences are paired, token by
token. So they are known far better than the perplexities, whose errors come from the choice of the document. Seconds
are processor time of the whole program, one thread each.

The exit status is 1 where weft's perplexity differs from llama.cpp's by more than its error. It is also 1 where weft's
KL divergence is greater by more than three errors. The references take 25 MB (SmolLM2) or 134 MB (Gemma 3) a chunk in a
temporary folder.
"""
import argparse
import json
import re
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

from peer import ROOT, find_model, write_report

NOISE = 3.0  # Standard errors.
TEXT = ROOT / "tests" / "data" / "texts" / "genesis.txt"
NUMBER = r"\s*:?\s*(-?[\d.]+) ± +([\d.]+)"


def run(command: list) -> tuple[str, float]:
    """What it prints, and the processor's seconds."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    result = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if result.returncode != 0:
        sys.exit(f"{command} ended with {result.returncode}:\n{result.stdout[-2000:]}{result.stderr[-2000:]}")
    return result.stdout + result.stderr, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def of_weft(text: str) -> dict:
    answer = json.loads(text[text.index("{") : text.rindex("}") + 1])
    names = {"ppl": "perplexity", "base": "base_perplexity", "log_ratio": "log_ratio", "kl": "divergence"}
    return {name: [answer[key]["value"], answer[key]["error"]] for name, key in names.items()}


def of_llama(text: str) -> dict:
    names = {"ppl": r"Mean PPL\(Q\)", "base": r"Mean PPL\(base\)", "log_ratio": r"Mean ln\(PPL\(Q\)/PPL\(base\)\)",
             "kl": "Mean +KLD"}  # fmt: skip
    found = {name: re.search(pattern + NUMBER, text) for name, pattern in names.items()}
    missing = [name for name, match in found.items() if match is None]
    if missing:
        sys.exit(f"llama-perplexity printed no {', '.join(missing)}:\n{text[-2000:]}")
    return {name: [float(match[1]), float(match[2])] for name, match in found.items()}


def verdict(weft: dict, peer: dict) -> str:
    if abs(weft["ppl"][0] - peer["ppl"][0]) > peer["ppl"][1]:
        return "apart"
    noise = NOISE * (weft["kl"][1] ** 2 + peer["kl"][1] ** 2) ** 0.5
    if weft["kl"][0] > peer["kl"][0] + noise:
        return "worse"
    return "better" if peer["kl"][0] > weft["kl"][0] + noise else "as good"


def compare(name: str, args: argparse.Namespace) -> dict:
    model = find_model(name, Path(sys.executable))
    with tempfile.TemporaryDirectory(prefix="weft-") as folder:
        exact, reference = Path(folder) / "f32.gguf", Path(folder) / "logits"
        run([args.weft, "quantize", "--allow-requantize", "-q", model, exact, "F32"])
        words = ["perplexity", "-t", args.threads, "-q"]
        run([args.weft, *words, "-m", exact, "-f", args.text, "-c", 512, "--chunks", args.chunks, "-ctk", "f32", "-ctv",
             "f32", "--no-pack-cache", "--save-all-logits", reference])  # fmt: skip
        text, weft_s = run([args.weft, *words, "-m", model, "--kl-divergence-base", reference, "--json"])
        weft = of_weft(text)
        text, peer_s = run([args.llama_perplexity, "-m", model, "-c", 512, "-t", args.threads, "-fit", "off",
                            "--kl-divergence", "--kl-divergence-base", reference])  # fmt: skip
        peer = of_llama(text)
    return {"model": model.stem, "chunks": args.chunks, "weft": weft, "weft_s": weft_s, "llama_cpp": peer,
            "llama_cpp_s": peer_s, "verdict": verdict(weft, peer)}  # fmt: skip


def line(row: dict) -> str:
    def both(key: str, digits: int) -> str:
        texts = (f"{row[who][key][0]:.{digits}f} +- {row[who][key][1]:.{digits}f}" for who in ("weft", "llama_cpp"))
        return " / ".join(texts)

    return (f"| {row['model']} | {row['weft']['base'][0]:.4f} | {both('ppl', 4)} | {both('log_ratio', 4)} "
            f"| {both('kl', 5)} | {row['llama_cpp_s'] / row['weft_s']:.1f} | {row['verdict']} |")  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--weft", type=Path, default=ROOT / "build" / "release" / "weft")
    parser.add_argument("--llama-perplexity", type=Path, required=True)
    parser.add_argument("-t", "--threads", type=int, default=1)
    parser.add_argument("--models", default="smollm2,gemma3", help="names as versus.py has them (default: %(default)s)")
    parser.add_argument("--text", type=Path, default=TEXT, help="(default: %(default)s)")
    parser.add_argument("--chunks", type=int, default=24, help="of 512 tokens (default: %(default)s; 0: all)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write everything measured there")
    args = parser.parse_args()
    if not args.weft.exists():
        sys.exit(f"{args.weft} is not built; 'make build' does it")
    print("| model | truth | perplexity, weft / llama.cpp | log of it by the truth's | KL divergence | time | weft is |")
    print("|---|---|---|---|---|---|---|")
    report = []
    for name in args.models.split(","):
        report.append(compare(name, args))
        print(line(report[-1]), flush=True)
    write_report(report, args)
    return 1 if any(row["verdict"] in ("apart", "worse") for row in report) else 0


if __name__ == "__main__":
    sys.exit(main())
