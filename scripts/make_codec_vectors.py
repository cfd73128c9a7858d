#!/usr/bin/env python3
"""Makes tests/data/codec/: what the Python package gguf (GGUF's own) unpacks from random blocks, and
packs from random values, for every tensor type of weft.

  TYPE.unpack  random blocks, with ordinary, denormal, largest, negative and zero scales, and their values
  TYPE.pack    random values and their blocks, where the package can pack the type

A file is: number of elements and number of packed bytes (u32 each), the packed bytes, the float32 values.

Needs: pip install gguf numpy. The files are committed; run this again only to add a type.
"""
import struct
import sys
import zlib
from pathlib import Path

import numpy as np
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType as Type
from gguf.quants import dequantize, quantize

N_ELEMENTS = 1024

# Where the f16 scales of a block lie.
SCALES = {
    Type.Q4_0: [0], Type.Q4_1: [0, 2], Type.Q5_0: [0], Type.Q5_1: [0, 2], Type.Q8_0: [0], Type.IQ4_NL: [0],
    Type.Q2_K: [80, 82], Type.Q3_K: [108], Type.Q4_K: [0, 2], Type.Q5_K: [0, 2], Type.Q6_K: [208],
    Type.IQ4_XS: [0], Type.MXFP4: [], Type.NVFP4: [], Type.TQ1_0: [52], Type.TQ2_0: [64], Type.IQ1_S: [0],
    Type.IQ1_M: [], Type.IQ2_XXS: [0], Type.IQ2_XS: [0], Type.IQ2_S: [0], Type.IQ3_XXS: [0], Type.IQ3_S: [0],
    Type.Q1_0: [0],
}
PLAIN = {Type.F32: np.float32, Type.F64: np.float64, Type.I8: np.int8, Type.I16: np.int16, Type.I32: np.int32,
         Type.I64: np.int64}
PACKED_BY_GGUF = [Type.F16, Type.BF16, Type.Q4_0, Type.Q4_1, Type.Q5_0, Type.Q5_1, Type.Q8_0, Type.MXFP4,
                  Type.TQ1_0, Type.TQ2_0]

EXTREME_SCALES = np.array([65504, -6e-8, 5.96e-6, -0.0, -65504, 6e-8, 6.1e-5, 0.0, 1.0], dtype=np.float16)


def random_blocks(rng, type_):
    elements, size = GGML_QUANT_SIZES[type_]
    n = max(N_ELEMENTS // elements, 8)
    blocks = rng.integers(0, 256, (n, size), dtype=np.uint8)
    for offset in SCALES[type_]:
        scales = rng.standard_normal(n).astype(np.float16)
        # Every other block has scales at the edges of f16.
        for i in range(0, n, 2):
            scales[i] = EXTREME_SCALES[(i // 2 + offset) % len(EXTREME_SCALES)]
        blocks[:, offset:offset + 2] = scales.view(np.uint8).reshape(n, 2)
    if type_ == Type.IQ1_M:  # Of its scale, a fourth lies in each of four words: one exponent, any sign and mantissa.
        blocks[:, 55] = rng.choice([0x30, 0xB0], n) | blocks[:, 55] & 0x0F
    if type_ == Type.MXFP4:  # Exponents: both ends (denormal, nearly infinite) and the middle.
        middle = 127 - (n - 6) // 2
        blocks[:, 0] = [0, 1, 2, 3, 250, 251, *range(middle, middle + n - 6)]
    return blocks.reshape(-1)


def random_bytes(rng, type_):
    if type_ in SCALES:
        return random_blocks(rng, type_)
    if type_ in (Type.F16, Type.BF16):
        halves = rng.integers(0, 65536, N_ELEMENTS, dtype=np.uint16)
        exponent = 0x7C00 if type_ == Type.F16 else 0x7F80
        halves[(halves & exponent) == exponent] = exponent  # No NaN: their bits are not compared.
        return halves.view(np.uint8)
    if type_ == Type.F32:
        return rng.standard_normal(N_ELEMENTS).astype(np.float32).view(np.uint8)
    if type_ == Type.F64:
        return (rng.standard_normal(N_ELEMENTS) * 10.0 ** rng.integers(-46, 38, N_ELEMENTS)).view(np.uint8)
    limits = np.iinfo(PLAIN[type_])
    return rng.integers(limits.min, limits.max, N_ELEMENTS, dtype=PLAIN[type_], endpoint=True).view(np.uint8)


def unpacked(data, type_):
    if type_ in PLAIN:
        return data.view(PLAIN[type_]).astype(np.float32)
    if type_ == Type.Q1_0:  # The package has its sizes only: a bit stands for d or -d.
        blocks = data.reshape(-1, GGML_QUANT_SIZES[type_][1])
        bits = np.unpackbits(blocks[:, 2:], axis=1, bitorder="little")
        d = np.ascontiguousarray(blocks[:, :2]).view(np.float16).astype(np.float32)
        return np.where(bits == 1, d, -d).reshape(-1)
    return np.asarray(dequantize(data, type_), dtype=np.float32)


def write(path, packed, values):
    path.write_bytes(struct.pack("<II", values.size, packed.size) + packed.tobytes() + values.tobytes())


def main():
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent.parent / "tests/data/codec"
    folder.mkdir(parents=True, exist_ok=True)
    for type_ in [*PLAIN, Type.F16, Type.BF16, *SCALES]:
        # Seeded by name, so that adding a type leaves the others' files as they are.
        rng = np.random.default_rng(zlib.crc32(type_.name.encode()))
        name = type_.name.lower()
        packed = random_bytes(rng, type_)
        values = unpacked(packed, type_)
        assert np.isfinite(values).all() or type_ in (Type.F16, Type.BF16), name
        write(folder / f"{name}.unpack", packed, values)
        if type_ in PACKED_BY_GGUF:
            values = (rng.standard_normal(N_ELEMENTS) * 0.05).astype(np.float32)
            values[:256] *= np.float32(1e-6) if type_ in (Type.F16, Type.BF16, Type.MXFP4) else np.float32(40)
            packed = np.ascontiguousarray(quantize(values, type_)).view(np.uint8)
            write(folder / f"{name}.pack", packed, values)


if __name__ == "__main__":
    main()
