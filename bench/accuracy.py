#!/usr/bin/env python3
"""accuracy.py: how far the logits of weft and of llama.cpp are from the truth of the same model file.

The reference is the same model with its weights dequantised to F32 (by the gguf package), computed in F32 with an F32
cache by weft's plain kernels (--isa generic). The peer, llama.cpp, computes that file as well. The distance of the two
F32 results is printed; no figure below can resolve less. The result of weft is the reference because all its steps are
in F32 (llama.cpp's GELU is a table of F16).

The report has, for each cache type, over the positions of a fixed document:

- the mean KL divergence of an engine's next-token distribution from the reference;
- how often both have the same most probable token.

The exit status is 1 where weft is worse by more than three standard errors of the differences, position by position.

Takes about 2 GB of disk in a temporary folder. --help lists the options. The peer is the one of versus.py.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, stdev

from peer import add_common_options, check_common_options, find_model, write_report

CACHES = ["auto", "f16", "q8_0"]
NOISE = 3.0  # Standard errors.

TEXT = """\
The mill by the river had stood empty for eleven years when Ada bought it. People in the village told her that the
wheel would never turn again, because the water had moved: after the great flood it ran two metres further to the
east, behind the alders, and left the old channel dry. She listened, thanked them, and ordered three kilometres of
measuring tape.

Every morning that spring she walked the bank with a notebook. She wrote down the height of the water, the colour of
the sky, and the number of herons. On the first of May the level was 1.42 m; on the second, 1.39 m; on the third it
rose again to 1.47 m, and she counted five herons instead of four. "A river is a clock," she said to the boy who
carried the poles, "but nobody has printed the numbers on it." He asked what happens when the clock is wrong. "Then
you wait," said Ada, "and you look at the birds."

In June the engineer came from the city. He brought a laptop and a program that he had written himself:

    def flow(depth, width, slope):
        area = depth * width
        radius = area / (width + 2 * depth)
        return area * radius ** (2 / 3) * slope ** 0.5 / 0.035

It gave 6.1 cubic metres a second, which was more than the mill had ever needed. The question was only how to lead a
tenth of it back to where it had been. They drew a ditch, ninety metres long, with a gate of oak at its upper end. The
council discussed it for two evenings. Someone feared for the trout, someone else for the cellar of the inn; in the end
eight voted for the plan and three against, and the mayor, who had not voted, paid for the beer.

By October the ditch was dug. Ada opened the gate by the width of a hand. For a while nothing happened; then leaves
began to move along the stones, slowly, as if they had forgotten the way, and under the roof something very large and
very old drew a breath and started to turn.
"""


def dequantise(source: Path, target: Path) -> None:
    """The same file with every tensor in F32."""
    import gguf

    reader = gguf.GGUFReader(source)
    arch = reader.get_field("general.architecture").contents()
    writer = gguf.GGUFWriter(target, arch, use_temp_file=True)
    for key, field in reader.fields.items():
        if key.startswith("GGUF.") or key in ("general.architecture", "general.file_type"):
            continue
        kind = field.types[0]
        item = field.types[-1] if kind == gguf.GGUFValueType.ARRAY else None
        writer.add_key_value(key, field.contents(), kind, sub_type=item)
    for tensor in reader.tensors:
        values = gguf.quants.dequantize(tensor.data, tensor.tensor_type).astype("float32")
        writer.add_tensor(tensor.name, values.reshape(list(reversed(tensor.shape.tolist()))))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def weft_logits(args: argparse.Namespace, model: Path, tokens: list[int], cache: str, *words: str):
    import numpy as np

    with tempfile.NamedTemporaryFile() as out:
        command = [args.weft, "run", "-m", model, "--tokens", ",".join(map(str, tokens)), "--logits", out.name]
        command += ["-t", args.threads, "-ctk", cache, "-ctv", cache, "-c", len(tokens), "-q", *words]
        subprocess.run([str(word) for word in command], check=True)
        return np.fromfile(out.name, dtype=np.float32).reshape(len(tokens), -1)


def peer_logits(args: argparse.Namespace, model: Path, tokens: list[int], cache: str):
    import llama_cpp as L
    import numpy as np
    from peer_llama import Batch, Clock, load, n_vocab, open_context

    loaded = load(str(model))
    context = open_context(loaded, args.threads, (len(tokens) + 255) // 256 * 256, batch=len(tokens), cache=cache)
    batch = Batch(len(tokens))
    batch.add_each(tokens, range(len(tokens)), 0)
    Clock().decode(context, batch)
    shape = (len(tokens), n_vocab(loaded))
    logits = np.ctypeslib.as_array(L.llama_get_logits(context), shape=shape).copy()
    L.llama_free(context)
    L.llama_model_free(loaded)
    return logits


@dataclass
class Distance:
    """An engine's logits compared with the reference, by position."""

    kl: list[float]
    differs: list[float]  # 1 where another token is the most probable, 0 elsewhere.

    def figures(self) -> dict:
        return {"kl": mean(self.kl), "top1": 1.0 - mean(self.differs)}


def distance(truth, logits) -> Distance:
    import numpy as np

    kl, differs = [], []
    for t, x in zip(truth, logits):  # One position at a time: vocabularies are large.
        t, x = t.astype(np.float64), x.astype(np.float64)
        log_p = t - t.max() - np.log(np.exp(t - t.max()).sum())
        log_q = x - x.max() - np.log(np.exp(x - x.max()).sum())
        kl.append(float((np.exp(log_p) * (log_p - log_q)).sum()))
        differs.append(float(t.argmax() != x.argmax()))
    return Distance(kl, differs)


def worse(ours: list[float], theirs: list[float]) -> bool:
    """Whether the mean of `ours` is above the mean of `theirs`, beyond noise."""
    differences = [a - b for a, b in zip(ours, theirs)]
    return mean(differences) > NOISE * stdev(differences) / len(differences) ** 0.5


def judge(name: str, args: argparse.Namespace, python: Path) -> list[dict]:
    model = find_model(name, python)
    words = [str(args.weft), "tokenize", "-m", str(model), "--json"]
    result = subprocess.run(words, input=TEXT.encode(), check=True, stdout=subprocess.PIPE)
    tokens = json.loads(result.stdout)
    tokens = [t if isinstance(t, int) else t["id"] for t in tokens][: args.positions]
    with tempfile.TemporaryDirectory() as folder:
        exact = Path(folder) / "f32.gguf"
        dequantise(model, exact)
        truth = weft_logits(args, exact, tokens, "f32", "--isa", "generic")
        second = distance(truth, peer_logits(args, exact, tokens, "f32")).figures()
    print(f"\n{model.stem}: {len(tokens)} positions; llama.cpp's F32 answer differs from weft's F32 answer (the truth)")
    print(f"by KL {second['kl']:.1e}, top-1 {100 * second['top1']:.1f} %\n")
    print("| cache | KL weft | KL llama.cpp | ratio | top-1 weft | top-1 llama.cpp | weft is |")
    print("| :---- | ------: | -----------: | ----: | ---------: | --------------: | :------ |")
    rows = []
    for cache in args.caches.split(","):
        weft = distance(truth, weft_logits(args, model, tokens, cache))
        peer = distance(truth, peer_logits(args, model, tokens, cache))
        is_worse = worse(weft.kl, peer.kl) or worse(weft.differs, peer.differs)
        is_better = worse(peer.kl, weft.kl)
        verdict = "worse" if is_worse else "better" if is_better else "as good"
        w, p = weft.figures(), peer.figures()
        print(
            f"| {cache:<5} | {w['kl']:.5f} | {p['kl']:>12.5f} | {w['kl'] / p['kl']:>5.2f} | {100 * w['top1']:>8.1f} % "
            f"| {100 * p['top1']:>13.1f} % | {verdict:<7} |",
            flush=True,
        )
        row = {"model": model.stem, "cache": cache, "positions": len(tokens), "weft": w, "llama_cpp": p}
        rows.append(row | {"f32_apart": second, "verdict": verdict})
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_common_options(parser)
    parser.add_argument("--models", default="smollm2,gemma3", help="names as versus.py has them (default: %(default)s)")
    caches = "types of K and V; auto: as each keeps them unasked (default: %(default)s)"
    parser.add_argument("--caches", default=",".join(CACHES), help=caches)
    parser.add_argument("--positions", type=int, default=400, help="of the text at most (default: %(default)s)")
    args = parser.parse_args()
    python = check_common_options(args)
    if Path(sys.prefix).resolve() != python.parent.parent.resolve():
        # numpy, gguf and llama_cpp are there.
        os.execv(python, [str(python), *sys.argv])
    report = [row for name in args.models.split(",") for row in judge(name, args, python)]
    write_report(report, args)
    return 1 if any(row["verdict"] == "worse" for row in report) else 0


if __name__ == "__main__":
    sys.exit(main())
