#!/usr/bin/env python3
"""versus_ops.py WEFT: the ops of `weft bench --ops` compared with torch's and onnxruntime's on the CPU, in one run.

WEFT is the program. It lists the ops and shapes that it measures (cli/bench/op_shapes.cpp). Its peers, torch and onnxruntime,
compute the same, alternating with it, with the same number of threads. The fastest of all rounds counts. The peers lack
such quantised weights, so they multiply with F32 ones. Memory that torch frees is kept for its next result. Times are
in milliseconds; brackets have the time as a multiple of weft's.

Needs Python with torch, onnx and onnxruntime, from PyPI.
"""
import argparse
import json
import os
import subprocess
import sys
import time

import numpy as np
import torch
import torch.nn.functional as F

LEAST_SECONDS = 0.02


def values(*shape):
    return torch.rand(*shape) * 2 - 1


def linear(rows, n_in, n_out):
    return F.linear, [values(rows, n_in), values(n_out, n_in)], ("MatMul", [0, "1t"], {})


def conv1d(times, n_in, n_out, kernel, stride, padding):
    x, w, b = values(1, n_in, times), values(n_out, n_in, kernel), values(n_out)
    return (lambda x, w, b: F.conv1d(x, w, b, stride=stride, padding=padding)), [x, w, b], \
        ("Conv", [0, 1, 2], {"strides": [stride], "pads": [padding, padding]})


def conv2d(size, n_in, n_out, kernel, stride, padding, groups):
    x, w, b = values(1, n_in, size, size), values(n_out, n_in // groups, kernel, kernel), values(n_out)
    return (lambda x, w, b: F.conv2d(x, w, b, stride, padding, 1, groups)), [x, w, b], \
        ("Conv", [0, 1, 2], {"strides": [stride] * 2, "pads": [padding] * 4, "group": groups})


def attention(rows, keys, heads, head_dim):
    operands = [values(1, heads, n, head_dim) for n in (rows, keys, keys)]
    return F.scaled_dot_product_attention, operands, None


def one(f, onnx=None, **attributes):
    return lambda *sizes: (f, [values(*sizes)], (onnx, [0], attributes) if onnx else None)


# By weft's names: torch's function, its operands, and the node of ONNX, where it has one.
OPS = {
    "linear": linear,
    "matmul": lambda b, m, k, n: (torch.matmul, [values(b, m, k), values(b, k, n)], ("MatMul", [0, 1], {})),
    "matmul_nt": lambda b, m, k, n: (lambda x, y: x @ y.transpose(1, 2), [values(b, m, k), values(b, n, k)], None),
    "conv1d": conv1d,
    "conv2d": conv2d,
    "conv2d_depthwise": conv2d,
    "attention": attention,
    "ragged_attention": attention,
    "softmax": one(lambda x: torch.softmax(x, -1), "Softmax"),
    "layer_norm": lambda m, d: (lambda x, w, b: F.layer_norm(x, (d,), w, b), [values(m, d), values(d), values(d)],
                                ("LayerNormalization", [0, 1, 2], {})),
    "gelu": one(F.gelu, "Gelu"),
    "gelu_tanh": one(lambda x: F.gelu(x, approximate="tanh"), "Gelu", approximate="tanh"),
    "exp": one(torch.exp, "Exp"),
    "add": lambda m, n: (torch.add, [values(m, n), values(m, n)], ("Add", [0, 1], {})),
    "add_row": lambda m, n: (torch.add, [values(m, n), values(n)], ("Add", [0, 1], {})),
    "add_column": lambda m, n: (torch.add, [values(m, n), values(m, 1)], ("Add", [0, 1], {})),
    "sum_rows": one(lambda x: x.sum(1)),
    "sum_columns": one(lambda x: x.sum(0)),
    "argmax": one(lambda x: x.argmax(1), "ArgMax", axis=1),
    "permute": one(lambda x: x.permute(1, 0, 2).contiguous(), "Transpose", perm=[1, 0, 2]),
    "transpose": one(lambda x: x.t().contiguous(), "Transpose", perm=[1, 0]),
}


def best_ms(f, rounds=3) -> float:
    f()
    n = 1
    while True:
        start = time.perf_counter()
        for _ in range(n):
            f()
        if time.perf_counter() - start > LEAST_SECONDS:
            break
        n *= 2
    best = float("inf")
    for _ in range(rounds):
        start = time.perf_counter()
        for _ in range(n):
            f()
        best = min(best, 1e3 * (time.perf_counter() - start) / n)
    return best


def onnx_session(node, operands, threads):
    """A session of one node, and what calls it: operands and results stay where they are."""
    import onnx
    import onnxruntime
    from onnx import TensorProto, helper, numpy_helper
    op, places, attributes = node
    inputs, constants, feeds = [], [], {}
    for place in places:
        i = int(str(place).rstrip("t"))
        array = operands[i].numpy()
        # The first is the input of each run; weights are constants, as weft's are.
        if i == 0 or op in ("Add", "MatMul") and place != "1t":
            inputs.append(helper.make_tensor_value_info(f"x{i}", TensorProto.FLOAT, array.shape))
            feeds[f"x{i}"] = array
        else:
            array = np.ascontiguousarray(array.T) if str(place).endswith("t") else array
            constants.append(numpy_helper.from_array(array, f"x{i}"))
    kind = TensorProto.INT64 if op == "ArgMax" else TensorProto.FLOAT
    result = helper.make_tensor_value_info("y", kind, None)
    graph = helper.make_graph([helper.make_node(op, [f"x{str(p).rstrip('t')}" for p in places], ["y"], **attributes)], "op",
                              inputs, [result], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(onnx.ModelProto.SerializeToString(model), options, ["CPUExecutionProvider"])
    binding = session.io_binding()
    for name, array in feeds.items():
        binding.bind_cpu_input(name, array)
    shape = session.run(None, feeds)[0].shape
    output = onnxruntime.OrtValue.ortvalue_from_shape_and_type(shape, np.int64 if op == "ArgMax" else np.float32)
    binding.bind_ortvalue_output("y", output)
    return session, binding, output


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("weft")
    parser.add_argument("--filter", default="")
    parser.add_argument("-r", "--rounds", type=int, default=3)
    parser.add_argument("-t", "--threads", type=int, default=os.cpu_count())
    args = parser.parse_args()
    if "MALLOC_MMAP_MAX_" not in os.environ:  # glibc reads it when a process starts.
        memory = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(1 << 40)}
        os.execve(sys.executable, [sys.executable, *sys.argv], os.environ | memory)
    torch.set_num_threads(args.threads)
    command = [args.weft, "bench", "--ops", "--filter", args.filter, "-t", str(args.threads), "-r", "3", "--json"]
    rows, shared = {}, {}
    with torch.inference_mode():
        for _ in range(args.rounds):
            for row in json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)["results"]:
                key = row["op"], row["type"], row["shape"]
                best = rows.setdefault(key, {**row, "torch": None, "onnxruntime": None})
                if row["min_ms"] < best["min_ms"]:
                    best.update(row)
            for (op, _, shape), row in rows.items():
                if op not in OPS:
                    sys.exit(f"versus_ops.py: it has no row for {op}")
                f, operands, node = OPS[op](*row["sizes"])
                times = shared.setdefault((op, shape), {"torch": float("inf"), "onnxruntime": float("inf")})
                if "done" not in times:
                    times["torch"] = min(times["torch"], best_ms(lambda: f(*operands)))
                    if node is not None:
                        session, binding, _ = onnx_session(node, operands, args.threads)
                        ms = best_ms(lambda: session.run_with_iobinding(binding))
                        times["onnxruntime"] = min(times["onnxruntime"], ms)
                    times["done"] = True
            for times in shared.values():
                times.pop("done")
    print(f"| op, {args.threads} threads | type | shape | weft, ms | of roofline | torch {torch.__version__.split('+')[0]} | onnxruntime |")
    print("|---|---|---|---|---|---|---|")
    for (op, dtype, shape), row in rows.items():
        cells = []
        for ms in shared[op, shape].values():
            cells.append("" if ms == float("inf") else f"{ms:.2f} ({ms / row['min_ms']:.2f}x)")
        print(f"| {op} | {dtype} | {shape} | {row['min_ms']:.2f} | {100 * row['roofline_fraction']:.0f} % | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
