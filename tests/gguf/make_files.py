#!/usr/bin/env python3
"""Makes tests/data/gguf/ with the Python package gguf: small files that tests read and write again.

  values.gguf                 metadata of every type
  tensors.gguf                tensors of several types and shapes, alignment 64
  types.gguf                  a block of each type that weft knows
  set-00001-of-00003.gguf ... a set of seven tensors in three files

Needs: pip install gguf numpy. The files are committed; run this again only to change them.
"""
from pathlib import Path

import numpy as np
from gguf import GGML_QUANT_SIZES
from gguf import GGMLQuantizationType as Type
from gguf import GGUFValueType as Value
from gguf import GGUFWriter
from gguf.quants import quantize


def write(writer):
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def values(path):
    writer = GGUFWriter(path, "llama")
    writer.add_uint8("value.u8", 255)
    writer.add_int8("value.i8", -128)
    writer.add_uint16("value.u16", 65535)
    writer.add_int16("value.i16", -32768)
    writer.add_uint32("value.u32", 2**32 - 1)
    writer.add_int32("value.i32", -(2**31))
    writer.add_uint64("value.u64", 2**64 - 1)
    writer.add_int64("value.i64", -(2**63))
    writer.add_float32("value.f32", 0.1)
    writer.add_float64("value.f64", 0.1)
    writer.add_bool("value.true", True)
    writer.add_bool("value.false", False)
    writer.add_string("value.string", "Gr\u00fc\u00dfe \u2192 \U0001f9f5")
    writer.add_key_value("value.empty", "", Value.STRING)  # add_string leaves it out.
    arrays = {
        "u8": (Value.UINT8, [0, 255]), "i8": (Value.INT8, [-128, 127]), "u16": (Value.UINT16, [0, 65535]),
        "i16": (Value.INT16, [-32768, 32767]), "u32": (Value.UINT32, [0, 2**32 - 1]),
        "i32": (Value.INT32, [-(2**31), 2**31 - 1]), "u64": (Value.UINT64, [0, 2**64 - 1]),
        "i64": (Value.INT64, [-(2**63), 2**63 - 1]), "f32": (Value.FLOAT32, [0.5, -1e30]),
        "f64": (Value.FLOAT64, [0.1, 1e300]), "bool": (Value.BOOL, [True, False, True]),
        "string": (Value.STRING, ["one", "", "three"]),
    }
    for name, (type_, elements) in arrays.items():
        writer.add_key_value(f"array.{name}", elements, Value.ARRAY, sub_type=type_)
    writer.add_key_value("array.array", [[1, 2], [3]], Value.ARRAY, sub_type=Value.ARRAY)
    write(writer)


def tensors(path):
    writer = GGUFWriter(path, "llama")
    writer.add_custom_alignment(64)
    writer.data_alignment = 64
    writer.add_tensor("vector", np.arange(5, dtype=np.float32))
    writer.add_tensor("matrix", np.arange(6, dtype=np.float16).reshape(2, 3))
    writer.add_tensor("quantised", quantize(np.arange(64, dtype=np.float32).reshape(1, 64), Type.Q8_0),
                      raw_dtype=Type.Q8_0)
    writer.add_tensor("four.dims", np.arange(24, dtype=np.int32).reshape(2, 3, 4, 1))
    writer.add_tensor("byte", np.array([-7], dtype=np.int8))
    write(writer)


def types(path):
    writer = GGUFWriter(path, "llama")
    names = "F32 F16 Q4_0 Q4_1 Q5_0 Q5_1 Q8_0 Q2_K Q3_K Q4_K Q5_K Q6_K IQ2_XXS IQ2_XS IQ3_XXS IQ1_S IQ4_NL IQ3_S"
    names += " IQ2_S IQ4_XS I8 I16 I32 I64 F64 IQ1_M BF16 TQ1_0 TQ2_0 MXFP4 NVFP4 Q1_0"
    for name in names.split():
        block = np.full((1, GGML_QUANT_SIZES[Type[name]][1]), ord(name[-1]), dtype=np.uint8)
        writer.add_tensor(name, block, raw_dtype=Type[name])
    write(writer)


def split(path):
    writer = GGUFWriter(path, "llama", split_max_tensors=3)
    writer.add_uint32("llama.block_count", 7)
    for i in range(7):
        writer.add_tensor(f"tensor.{i}", np.full(3, i, dtype=np.float32))
    write(writer)


def main():
    folder = Path(__file__).parent.parent / "data" / "gguf"
    folder.mkdir(parents=True, exist_ok=True)
    values(folder / "values.gguf")
    tensors(folder / "tensors.gguf")
    types(folder / "types.gguf")
    split(folder / "set.gguf")


if __name__ == "__main__":
    main()
