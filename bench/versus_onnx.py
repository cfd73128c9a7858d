#!/usr/bin/env python3
"""versus_onnx.py FILE... [--size NAME=N]...: ONNX models through weft.onnx compared with onnxruntime, alternating.

FILE is a model, or a wheel with models, which are all measured. Many packages have some, for example
  pip download --no-deps rapidocr-onnxruntime silero-vad magika nudenet basic-pitch onnx-asr speechmos
Inputs are random (a sampling rate is 16000, lengths are 16000). The default of a size is 1; a size without a name is
INPUT.AXIS. Prints the error of the outputs (NMSE against onnxruntime's), and milliseconds of the fastest round.

Needs Python with weft[onnx] and onnxruntime.
"""
import argparse
import sys
import time
import zipfile

import numpy as np
import onnxruntime
import weft
import weft.onnx


def models(paths):
    for path in paths:
        if not path.endswith(".whl"):
            with open(path, "rb") as file:
                yield path, file.read()
            continue
        with zipfile.ZipFile(path) as wheel:
            for name in sorted(wheel.namelist()):
                if name.endswith(".onnx"):
                    yield name, wheel.read(name)


def random_input(name, tensor, sizes, rng):
    shape = [size if isinstance(size, int) else sizes.get(size, 1) for size in tensor.shape]
    if name == "sr" or "len" in name:
        return np.full(shape, 16000, tensor.dtype)
    if tensor.dtype.kind in "iu":
        return rng.integers(0, 200, shape).astype(tensor.dtype)
    return (rng.standard_normal(shape) * 0.3).astype(tensor.dtype)


def fastest(run, n):
    best = float("inf")
    for _ in range(n):
        begin = time.perf_counter()
        run()
        best = min(best, time.perf_counter() - begin)
    return best * 1e3


def compare(name, data, sizes, args):
    model = weft.onnx.load(data, n_threads=args.threads)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = args.threads, 3
    peer = onnxruntime.InferenceSession(data, options)
    rng = np.random.default_rng(1)
    given = {one: random_input(one, tensor, sizes, rng) for one, tensor in model.inputs.items()}
    right, made = peer.run(None, given), model.run(given)
    error = 0.0
    for one, truth in zip(peer.get_outputs(), right):
        away = np.square(made[one.name].astype(np.float64) - truth)
        error = max(error, float(away.sum() / max(np.square(truth.astype(np.float64)).sum(), 1e-30)))
    mine = fastest(lambda: model.run(given), args.repeat)
    theirs = fastest(lambda: peer.run(None, given), args.repeat)
    print(f"{name:60} {error:8.1e} {mine:9.2f} {theirs:9.2f} {theirs / mine:6.2f}x", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", metavar="FILE")
    parser.add_argument("--size", action="append", default=[], metavar="NAME=N")
    parser.add_argument("-t", "--threads", type=int, default=2)
    parser.add_argument("-r", "--repeat", type=int, default=10)
    args = parser.parse_args()
    sizes = {name: int(number) for name, _, number in (one.rpartition("=") for one in args.size)}
    print(f"{'model':60} {'NMSE':>8} {'weft, ms':>9} {'peer, ms':>9}")
    failed = False
    for name, data in models(args.files):
        try:
            compare(name, data, sizes, args)
        except (weft.Error, onnxruntime.capi.onnxruntime_pybind11_state.Fail,
                onnxruntime.capi.onnxruntime_pybind11_state.InvalidArgument) as error:
            failed = True
            print(f"{name:60} {' '.join(str(error).split())[:300]}", flush=True)
    return failed


if __name__ == "__main__":
    sys.exit(main())
