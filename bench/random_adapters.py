#!/usr/bin/env python3
"""Adapters of random numbers for a model, to measure with: random_adapters.py MODEL.gguf FOLDER [COUNT [RANK [PARTS]]]

Writes FOLDER/0.gguf ... in F16, for all layers' tensors whose names have one of PARTS (with commas; by default those
that people adapt: attn_q,attn_k,attn_v,attn_output,ffn_gate,ffn_up,ffn_down). Needs gguf and numpy.
"""
import sys
from pathlib import Path

import numpy as np
from gguf import GGUFReader, GGUFWriter

PARTS = "attn_q,attn_k,attn_v,attn_output,ffn_gate,ffn_up,ffn_down"


def main():
    model, folder = GGUFReader(sys.argv[1]), Path(sys.argv[2])
    count, rank = (int(sys.argv[i]) if len(sys.argv) > i else 16 for i in (3, 4))
    parts = (sys.argv[5] if len(sys.argv) > 5 else PARTS).split(",")
    folder.mkdir(exist_ok=True)
    rng = np.random.default_rng(1)
    for i in range(count):
        writer = GGUFWriter(folder / f"{i}.gguf", model.fields["general.architecture"].contents())
        writer.add_string("general.type", "adapter")
        writer.add_string("adapter.type", "lora")
        writer.add_float32("adapter.lora.alpha", float(rank))
        for tensor in model.tensors:
            if len(tensor.shape) != 2 or not any(f".{part}.weight" in tensor.name for part in parts):
                continue
            n_in, n_out = (int(n) for n in tensor.shape)
            writer.add_tensor(tensor.name + ".lora_a", rng.normal(0, n_in ** -0.5, (rank, n_in)).astype(np.float16))
            writer.add_tensor(tensor.name + ".lora_b", rng.normal(0, 0.01, (n_out, rank)).astype(np.float16))
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()


if __name__ == "__main__":
    main()
