#!/usr/bin/env python3
"""Makes a reference model for make_golden_data.py: usage make_mamba2_reference.py SOURCE_DIR

Writes SOURCE_DIR/mamba2: a small Mamba-2 with seeded random weights (each representable in F16) as GGUF, and the logits
that transformers computes with it in float32. It has the vocabulary and prompts of SOURCE_DIR/mamba, and one group.
With several groups, transformers norms over all of them at once and the authors' code group by group. Needs the
packages gguf, numpy, torch and transformers.
"""
import json
import shutil
import sys
from pathlib import Path

import numpy as np
import torch
from gguf import GGUFReader, GGUFValueType, GGUFWriter
from transformers import Mamba2Config, Mamba2ForCausalLM

CONFIG = dict(vocab_size=512, hidden_size=128, num_hidden_layers=3, state_size=16, num_heads=8, head_dim=32, expand=2,
              conv_kernel=4, n_groups=1, chunk_size=16, use_bias=False, use_conv_bias=True, rms_norm=True,
              layer_norm_epsilon=1e-5, tie_word_embeddings=True, initializer_range=0.1)

NAMES = {"norm.weight": "attn_norm.weight", "mixer.in_proj.weight": "ssm_in.weight",
         "mixer.out_proj.weight": "ssm_out.weight", "mixer.conv1d.weight": "ssm_conv1d.weight",
         "mixer.conv1d.bias": "ssm_conv1d.bias", "mixer.dt_bias": "ssm_dt.bias", "mixer.A_log": "ssm_a",
         "mixer.D": "ssm_d", "mixer.norm.weight": "ssm_norm.weight"}


def make_model() -> Mamba2ForCausalLM:
    torch.manual_seed(2405)
    model = Mamba2ForCausalLM(Mamba2Config(**CONFIG)).eval()
    with torch.no_grad():
        for name, weight in model.named_parameters():
            # What starts as a constant gets values of its own, so that none can be left out unseen.
            if name.endswith(("norm.weight", "norm_f.weight", ".D")):
                weight.copy_(1.0 + 0.3 * torch.randn_like(weight))
            if name.endswith("conv1d.bias"):
                weight.copy_(0.2 * torch.randn_like(weight))
            weight.copy_(weight.half().float())
    return model


def tensors(model: Mamba2ForCausalLM):
    for name, weight in model.named_parameters():
        data = weight.detach().numpy().astype(np.float32)
        if name == "backbone.embeddings.weight":
            yield "token_embd.weight", data
        elif name == "backbone.norm_f.weight":
            yield "output_norm.weight", data
        elif name.startswith("backbone.layers."):
            layer, rest = name.removeprefix("backbone.layers.").split(".", 1)
            new = NAMES[rest]
            if new == "ssm_a":
                data = -np.exp(data)
            if new in ("ssm_a", "ssm_d"):
                data = data.reshape(-1, 1)
            if new == "ssm_conv1d.weight":
                data = data.reshape(data.shape[0], data.shape[-1])
            if new == "ssm_norm.weight":
                data = data.reshape(CONFIG["n_groups"], -1)
            yield f"blk.{layer}.{new}", data
        else:
            raise ValueError(name)


def main() -> None:
    source = Path(sys.argv[1])
    target = source / "mamba2"
    target.mkdir(exist_ok=True)
    model = make_model()

    writer = GGUFWriter(target / "model.gguf", "mamba2")
    writer.add_name("golden-mamba2")
    inner = CONFIG["expand"] * CONFIG["hidden_size"]
    for key, value in {"context_length": 1 << 20, "embedding_length": CONFIG["hidden_size"], "feed_forward_length": 0,
                       "attention.head_count": 0, "block_count": CONFIG["num_hidden_layers"],
                       "ssm.conv_kernel": CONFIG["conv_kernel"], "ssm.inner_size": inner,
                       "ssm.state_size": CONFIG["state_size"], "ssm.time_step_rank": CONFIG["num_heads"],
                       "ssm.group_count": CONFIG["n_groups"]}.items():
        writer.add_uint32(f"mamba2.{key}", value)
    writer.add_float32("mamba2.attention.layer_norm_rms_epsilon", CONFIG["layer_norm_epsilon"])
    for field in GGUFReader(source / "mamba" / "model.gguf").fields.values():
        if field.name.startswith("tokenizer."):
            sub_type = field.types[-1] if field.types[0] == GGUFValueType.ARRAY else None
            writer.add_key_value(field.name, field.contents(), field.types[0], sub_type)
    for name, data in tensors(model):
        writer.add_tensor(name, data)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()

    for file in ("tokens.json", "tokenize.json"):
        shutil.copyfile(source / "mamba" / file, target / file)
    ids = json.loads((target / "tokens.json").read_text())
    with torch.no_grad():
        logits = model(torch.tensor([ids])).logits[0]
    (target / "logits.f32").write_bytes(logits.numpy().astype("<f4").tobytes())


if __name__ == "__main__":
    main()
