#!/usr/bin/env python3
"""weft quantize beside llama.cpp's llama-quantize: what each type loses, and how long packing takes.

Runs in a Python with numpy and gguf, whose unpacking is the judge: versus_quantize.py --llama-quantize FILE. The model
is of random weights: a few layers, whose values have longer tails than normal ones and columns of different size, and
importances that differ by column. Errors are root mean squares, relative to the values'; with importances each square is
weighed by its column's.
"""
import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import gguf
import numpy as np

ROOT = Path(__file__).resolve().parent.parent
TYPES = ["Q8_0", "Q6_K", "Q5_K_S", "Q5_1", "Q5_0", "Q4_K_S", "Q4_1", "Q4_0", "IQ4_NL", "IQ4_XS", "Q3_K_S", "IQ3_S",
         "IQ3_XXS", "Q2_K", "IQ2_S", "IQ2_XS", "IQ2_XXS", "IQ1_M", "IQ1_S", "TQ2_0", "TQ1_0"]  # fmt: skip
NEED_IMPORTANCE = ["IQ3_XXS", "IQ2_S", "IQ2_XS", "IQ2_XXS", "IQ1_M", "IQ1_S"]  # llama.cpp refuses them without.


def write_model(path: Path, layers: int, width: int) -> dict[str, np.ndarray]:
    random = np.random.default_rng(7)
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_context_length(512)
    writer.add_embedding_length(width)
    writer.add_block_count(layers)
    writer.add_feed_forward_length(4 * width)
    writer.add_head_count(16)
    writer.add_head_count_kv(8)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_tokenizer_model("none")
    matrices = {}

    def add(name: str, rows: int, columns: int) -> None:
        values = random.standard_t(5, (rows, columns)) * np.exp(0.2 * random.standard_normal(columns))
        matrices[name] = (values / np.sqrt(columns)).astype(np.float32)
        writer.add_tensor(name, matrices[name])

    for i in range(layers):
        for name, rows, columns in (("attn_q", width, width), ("attn_v", width // 2, width), ("ffn_up", 4 * width, width),
                                    ("ffn_down", width, 4 * width)):  # fmt: skip
            add(f"blk.{i}.{name}.weight", rows, columns)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return matrices


def write_importances(path: Path, matrices: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    random = np.random.default_rng(8)
    writer = gguf.GGUFWriter(path, "")
    writer.add_type("imatrix")
    writer.add_array("imatrix.datasets", ["random"])
    writer.add_uint32("imatrix.chunk_count", 10)
    writer.add_uint32("imatrix.chunk_size", 512)
    result = {}
    for name, matrix in matrices.items():
        result[name] = np.exp(1.5 * random.standard_normal((1, matrix.shape[1]))).astype(np.float32)
        writer.add_tensor(f"{name}.in_sum2", result[name] * 5120)
        writer.add_tensor(f"{name}.counts", np.full((1, 1), 5120, dtype=np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return result


def error_of(path: Path, matrices: dict[str, np.ndarray], importances: dict[str, np.ndarray]) -> float:
    lost = total = 0.0
    for tensor in gguf.GGUFReader(path).tensors:
        truth = matrices[tensor.name].astype(np.float64)
        weights = importances[tensor.name] if importances else 1.0
        values = gguf.quants.dequantize(tensor.data, tensor.tensor_type).reshape(truth.shape)
        lost += float((weights * (values - truth) ** 2).sum())
        total += float((weights * truth**2).sum())
    return (lost / total) ** 0.5


def seconds(command: list) -> float:
    start = time.perf_counter()
    result = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)
    if result.returncode != 0:
        sys.exit(f"{command} ended with {result.returncode}:\n{result.stdout[-2000:]}{result.stderr[-2000:]}")
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--weft", type=Path, default=ROOT / "build" / "release" / "weft")
    parser.add_argument("--llama-quantize", type=Path, required=True)
    parser.add_argument("-t", "--threads", type=int, default=2)
    parser.add_argument("--types", help="comma-separated, of: " + ", ".join(TYPES))
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--width", type=int, default=1024)
    parser.add_argument("--json", type=Path, metavar="FILE")
    args = parser.parse_args()
    report = []
    with tempfile.TemporaryDirectory(prefix="weft-") as folder:
        model, imatrix, out = (Path(folder) / name for name in ("model.gguf", "imatrix.gguf", "out.gguf"))
        matrices = write_model(model, args.layers, args.width)
        importances = write_importances(imatrix, matrices)
        print("type       columns    error weft  llama.cpp   ratio   seconds weft  llama.cpp   ratio")
        for type_ in args.types.split(",") if args.types else TYPES:
            for known in (False, True):
                if type_ in NEED_IMPORTANCE and not known:
                    continue
                more = ["--imatrix", imatrix] if known else []
                row = {"type": type_, "importances": known}
                row["weft_s"] = seconds([args.weft, "quantize", "--pure", *more, "-t", args.threads, model, out, type_])
                row["weft_error"] = error_of(out, matrices, importances if known else {})
                row["peer_s"] = seconds([args.llama_quantize, "--pure", *more, model, out, type_, args.threads])
                row["peer_error"] = error_of(out, matrices, importances if known else {})
                report.append(row)
                print(f"{type_:10} {'known' if known else 'alike':8} {row['weft_error']:11.5f} {row['peer_error']:10.5f}"
                      f" {row['weft_error'] / row['peer_error']:7.3f} {row['weft_s']:14.2f} {row['peer_s']:10.2f}"
                      f" {row['peer_s'] / row['weft_s']:7.2f}", flush=True)  # fmt: skip
    if args.json:
        args.json.write_text(json.dumps(report, indent=2) + "\n")


if __name__ == "__main__":
    main()
