#!/usr/bin/env python3
"""weft quantize compared with llama.cpp's llama-quantize: the error of each type, and the time and memory of packing.

Runs in a Python with numpy and gguf, whose unpacking is the reference: versus_quantize.py --llama-quantize FILE. The
model has a few layers of random weights. Their values have longer tails than normal ones, columns of different size,
and importances that differ by column. The option --model takes the first layers of a real model instead: its matrices
unpacked to F32, as far as every type can hold their rows. Errors are root mean squares, relative to the values. With
importances each square is weighted by its column's importance. Seconds are processor time.
"""
import argparse
import json
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import gguf
import numpy as np

ROOT = Path(__file__).resolve().parent.parent
TYPES = ["Q8_0", "Q6_K", "Q5_K_S", "Q5_1", "Q5_0", "Q4_K_S", "Q4_1", "Q4_0", "IQ4_NL", "IQ4_XS", "Q3_K_S", "IQ3_S",
         "IQ3_XXS", "Q2_K", "IQ2_S", "IQ2_XS", "IQ2_XXS", "IQ1_M", "IQ1_S", "TQ2_0", "TQ1_0", "MXFP4", "NVFP4",
         "Q1_0"]  # fmt: skip
NEED_IMPORTANCE = ["IQ3_XXS", "IQ2_S", "IQ2_XS", "IQ2_XXS", "IQ1_M", "IQ1_S"]  # llama.cpp refuses them without.
MIXES = {"IQ2_S": "IQ2_M"}  # Of this type; the mix IQ2_S is of IQ2_XS.
# llama-quantize has other words for these: a mix for mixtures of experts, and no mix at all.
PEER_MIXES = MIXES | {"MXFP4": "MXFP4_MOE", "NVFP4": "Q8_0"}
PEER_RULES = {"NVFP4": ["--tensor-type", "weight=nvfp4"]}
WHOLE_ROWS = 256  # Values that the largest block holds.


def random_matrices(layers: int, width: int) -> dict[str, np.ndarray]:
    random = np.random.default_rng(7)
    matrices = {}
    for i in range(layers):
        for name, rows, columns in (("attn_q", width, width), ("attn_v", width // 2, width), ("ffn_up", 4 * width, width),
                                    ("ffn_down", width, 4 * width)):  # fmt: skip
            values = random.standard_t(5, (rows, columns)) * np.exp(0.2 * random.standard_normal(columns))
            matrices[f"blk.{i}.{name}.weight"] = (values / np.sqrt(columns)).astype(np.float32)
    return matrices


def real_matrices(path: Path, layers: int) -> dict[str, np.ndarray]:
    matrices = {}
    for tensor in gguf.GGUFReader(path).tensors:
        layer = re.match(r"blk\.(\d+)\.", tensor.name)
        if layer and int(layer[1]) < layers and len(tensor.shape) == 2 and tensor.shape[0] % WHOLE_ROWS == 0:
            values = gguf.quants.dequantize(tensor.data, tensor.tensor_type)
            matrices[tensor.name] = np.ascontiguousarray(values.reshape(tensor.shape[::-1].tolist()), np.float32)
    if not matrices:
        sys.exit(f"{path} has no matrices whose rows are multiples of {WHOLE_ROWS}")
    return matrices


def write_model(path: Path, matrices: dict[str, np.ndarray], layers: int, width: int) -> None:
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_context_length(512)
    writer.add_embedding_length(width)
    writer.add_block_count(layers)
    writer.add_feed_forward_length(4 * width)
    writer.add_head_count(16)
    writer.add_head_count_kv(8)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_tokenizer_model("none")
    for name, values in matrices.items():
        writer.add_tensor(name, values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


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


def unpacked(tensor) -> np.ndarray:
    if tensor.tensor_type.name != "Q1_0":
        return gguf.quants.dequantize(tensor.data, tensor.tensor_type)
    # Which gguf does not unpack: a block has an F16 and the signs of 128 values.
    blocks = tensor.data.reshape(-1, 18)
    signs = np.unpackbits(blocks[:, 2:], axis=1, bitorder="little").astype(np.float32) * 2 - 1
    return signs * blocks[:, :2].copy().view(np.float16).astype(np.float32)


def error_of(path: Path, type_: str, matrices: dict[str, np.ndarray], importances: dict[str, np.ndarray]) -> float:
    lost = total = 0.0
    wanted = type_.removesuffix("_S") if "_K_" in type_ else type_
    for tensor in gguf.GGUFReader(path).tensors:
        if tensor.tensor_type.name != wanted:
            sys.exit(f"{tensor.name} has the type {tensor.tensor_type.name} where {wanted} was asked for")
        truth = matrices[tensor.name].astype(np.float64)
        weights = importances[tensor.name] if importances else 1.0
        values = unpacked(tensor).reshape(truth.shape)
        lost += float((weights * (values - truth) ** 2).sum())
        total += float((weights * truth**2).sum())
    return (lost / total) ** 0.5


@dataclass
class Cost:
    seconds: float
    megabytes: float


# A process counts the memory of the one that started it, so a small one does that.
STARTER = """
import os, sys
pid = os.spawnv(os.P_NOWAIT, sys.argv[1], sys.argv[1:])
_, status, usage = os.wait4(pid, 0)
print(f"\\n{usage.ru_utime + usage.ru_stime} {usage.ru_maxrss}")
sys.exit(os.waitstatus_to_exitcode(status))
"""


def cost_of(command: list) -> Cost:
    words = [sys.executable, "-I", "-S", "-c", STARTER, *map(str, command)]
    result = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if result.returncode != 0:
        sys.exit(f"{command} ended with {result.returncode}:\n{result.stdout[-2000:]}")
    seconds, kilobytes = result.stdout.splitlines()[-1].split()
    return Cost(float(seconds), int(kilobytes) / 1000)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--weft", type=Path, default=ROOT / "build" / "release" / "weft")
    parser.add_argument("--llama-quantize", type=Path, required=True)
    parser.add_argument("-t", "--threads", type=int, default=2)
    parser.add_argument("--types", help="comma-separated, of: " + ", ".join(TYPES))
    parser.add_argument("--model", type=Path, help="a real model; without, random weights")
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--width", type=int, default=1024)
    parser.add_argument("--json", type=Path, metavar="FILE")
    args = parser.parse_args()
    report = []
    with tempfile.TemporaryDirectory(prefix="weft-") as folder:
        model, imatrix, out = (Path(folder) / name for name in ("model.gguf", "imatrix.gguf", "out.gguf"))
        matrices = real_matrices(args.model, args.layers) if args.model else random_matrices(args.layers, args.width)
        write_model(model, matrices, args.layers, args.width)
        importances = write_importances(imatrix, matrices)
        print("type       columns    error weft  llama.cpp   ratio   seconds weft  llama.cpp   ratio   MB weft  llama.cpp")
        for type_ in args.types.split(",") if args.types else TYPES:
            for known in (False, True):
                if type_ in NEED_IMPORTANCE and not known:
                    continue
                more = ["--imatrix", imatrix] if known else []
                row = {"type": type_, "importances": known}
                weft = [args.weft, "quantize", "--pure", *more, "-t", args.threads, model, out,
                        MIXES.get(type_, type_)]  # fmt: skip
                peer = [args.llama_quantize, "--pure", *more, *PEER_RULES.get(type_, []), model, out,
                        PEER_MIXES.get(type_, type_), args.threads]  # fmt: skip
                for who, command in (("weft", weft), ("peer", peer)):
                    cost = cost_of(command)
                    row[f"{who}_s"], row[f"{who}_mb"] = cost.seconds, cost.megabytes
                    row[f"{who}_error"] = error_of(out, type_, matrices, importances if known else {})
                report.append(row)
                print(f"{type_:10} {'known' if known else 'alike':8} {row['weft_error']:11.5f} {row['peer_error']:10.5f}"
                      f" {row['weft_error'] / row['peer_error']:7.3f} {row['weft_s']:14.2f} {row['peer_s']:10.2f}"
                      f" {row['peer_s'] / row['weft_s']:7.2f} {row['weft_mb']:9.0f} {row['peer_mb']:10.0f}", flush=True)  # fmt: skip
    if args.json:
        args.json.write_text(json.dumps(report, indent=2) + "\n")


if __name__ == "__main__":
    main()
