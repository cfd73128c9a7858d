#!/usr/bin/env python3
"""Makes tests/data/control for families with special layers: a control vector after each layer but the first
(NAME.gguf), and logits (NAME.f32, float32). The logits of the golden model are computed by transformers; a hook adds
the vector to each layer's output. In Gemma 3n that output has several forms of each row, and all of them get it. Needs
the packages of make_golden_families.py.
"""
import json

import numpy as np
import torch
from gguf import GGUFWriter

import packed_data
from coarse import reference_bytes
from make_golden_families import FAMILIES, GOLDEN, make_model

NAMES = ["nemotron_h", "gemma3n", "gemma4"]
OUT = GOLDEN.parent / "control"


def adding(direction):
    def hook(_module, _args, output):
        return (output[0] + direction, *output[1:]) if isinstance(output, tuple) else output + direction
    return hook


def write(name):
    family, golden = FAMILIES[name], GOLDEN / name
    model = make_model(family)
    ids = torch.tensor([json.loads((golden / "tokens.json").read_text())])
    truth = np.fromfile(golden / "logits.f32", np.float32)
    with torch.no_grad():
        plain = model(ids).logits[0].numpy().ravel()
    assert ((plain - truth) ** 2).sum() / (truth ** 2).sum() < 1e-10, "not the golden model"
    writer = GGUFWriter(OUT / f"{name}.gguf", "controlvector")
    writer.add_string("controlvector.model_hint", family.arch)
    rng = np.random.default_rng(2026)
    for i, layer in enumerate(model.get_submodule(family.prefix.rstrip("."))):
        if i == 0:
            continue
        direction = rng.normal(0, 0.3, model.get_input_embeddings().weight.shape[1]).astype(np.float32)
        writer.add_tensor(f"direction.{i}", direction)
        layer.register_forward_hook(adding(torch.from_numpy(direction)))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    with torch.no_grad():
        logits = model(ids).logits[0].numpy()
    (OUT / f"{name}.f32").write_bytes(reference_bytes(logits))
    print(f"{name}: {((logits.ravel() - plain) ** 2).sum() / (plain ** 2).sum():.3f} of the logits")


def main():
    packed_data.unpack()
    OUT.mkdir(exist_ok=True)
    for name in NAMES:
        write(name)
    packed_data.pack_folder(OUT)


if __name__ == "__main__":
    main()
