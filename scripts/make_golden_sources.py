#!/usr/bin/env python3
"""Makes tests/data/golden_sources/NAME for models with an encoder and a decoder: make_golden_sources.py [NAME...]

Each has a tiny model with seeded random weights (every value fits F16; vectors are stored as F32), encoder inputs, and
sequences for them. The library transformers computes the logits of each sequence in float32, after every fifth token.
Tensors and metadata have the names that GGUF files of the family have. The vocabulary is the one of
tests/data/golden/mamba. Needs the packages gguf, numpy, torch and transformers. Without names all are made.
"""
import json
import re
import sys
from pathlib import Path

import numpy as np
import torch
import transformers
from gguf import GGUFReader, GGUFValueType, GGUFWriter

import packed_data
from coarse import coarse, reference_bytes

ROOT = Path(__file__).parent.parent / "tests/data"
N_VOCAB = 512
# Sequences exceed the distance of the last bucket, and the size of a page of the cache.
SOURCES, TEXTS = [70, 5, 140, 1], [12, 150, 40, 3]
EVERY = 5

ATTENTION = {f"SelfAttention.{part}": f"attn_{part}" for part in "qkvo"} | {
    "SelfAttention.relative_attention_bias": "attn_rel_b"}
FFN = {"layer_norm": "ffn_norm", "DenseReluDense.wi": "ffn_up", "DenseReluDense.wi_0": "ffn_gate",
       "DenseReluDense.wi_1": "ffn_up", "DenseReluDense.wo": "ffn_down"}
CROSS = {f"EncDecAttention.{part}": f"cross_attn_{part}" for part in "qkvo"} | {"layer_norm": "cross_attn_norm"}
PARTS = {"enc": [ATTENTION | {"layer_norm": "attn_norm"}, FFN],
         "dec": [ATTENTION | {"layer_norm": "attn_norm"}, CROSS, FFN]}
WHOLE = {"shared": "token_embd", "lm_head": "output", "encoder.final_layer_norm": "enc.output_norm",
         "decoder.final_layer_norm": "dec.output_norm"}


class Both:
    """An encoder and a decoder: the architecture in GGUF, the class in transformers, its configuration, and whether it
    has a head of its own."""

    def __init__(self, arch, model, config, own_head=False):
        self.arch, self.model, self.own_head = arch, model, own_head
        self.config = dict(vocab_size=N_VOCAB, d_model=64, d_kv=24, d_ff=96, num_layers=2, num_heads=4,
                           pad_token_id=0, decoder_start_token_id=0) | config


MODELS = {
    "t5": Both("t5", "T5ForConditionalGeneration", dict(feed_forward_proj="relu")),
    "flan-t5": Both("t5", "T5ForConditionalGeneration",
                    dict(feed_forward_proj="gated-gelu", tie_word_embeddings=False, num_decoder_layers=3), own_head=True),
    "umt5": Both("t5", "UMT5ForConditionalGeneration",
                 dict(feed_forward_proj="gated-gelu", decoder_start_token_id=3, num_layers=3, num_decoder_layers=2)),
}


def make_model(both):
    torch.manual_seed(2026)
    kind = getattr(transformers, both.model)
    model = kind(kind.config_class(**both.config, attn_implementation="eager")).eval()
    if both.own_head:
        model.lm_head.weight = torch.nn.Parameter(torch.empty(N_VOCAB, both.config["d_model"]))
    with torch.no_grad():
        for weight in model.parameters():
            weight.copy_(coarse(0.3 * torch.randn_like(weight) + 1.0 if weight.dim() == 1
                                else 0.1 * torch.randn_like(weight)))
        for name, weight in model.named_parameters():  # So that none can be left out unseen.
            if "relative_attention_bias" in name:
                weight.copy_((8.0 * weight).half().float())
    return model


def tensors(model):
    for name, weight in model.named_parameters():
        data = weight.detach().numpy().astype(np.float32)
        stem, tail = name.rsplit(".", 1)
        if layer := re.match(r"(enc|dec)oder\.block\.(\d+)\.layer\.(\d)\.(.*)", stem):
            side, number, part, rest = layer.groups()
            yield f"{side}.blk.{number}.{PARTS[side][int(part)][rest]}.{tail}", data
        else:
            yield f"{WHOLE[stem]}.{tail}", data


def write_model(both, model, path, name):
    config = model.config
    writer = GGUFWriter(path, both.arch)
    writer.add_name(f"golden-{name}")
    keys = {"context_length": 512, "embedding_length": config.d_model, "block_count": config.num_layers,
            "decoder_block_count": config.num_decoder_layers, "feed_forward_length": config.d_ff,
            "attention.head_count": config.num_heads, "attention.key_length": config.d_kv,
            "attention.value_length": config.d_kv, "attention.layer_norm_epsilon": config.layer_norm_epsilon,
            "attention.layer_norm_rms_epsilon": config.layer_norm_epsilon,
            "attention.relative_buckets_count": config.relative_attention_num_buckets,
            "decoder_start_token_id": config.decoder_start_token_id}
    if config.num_decoder_layers == config.num_layers:
        del keys["decoder_block_count"]  # As older files are.
    for key, value in keys.items():
        (writer.add_float32 if isinstance(value, float) else writer.add_uint32)(f"{both.arch}.{key}", value)
    for field in GGUFReader(ROOT / "golden/mamba/model.gguf").fields.values():
        if field.name.startswith("tokenizer."):
            sub_type = field.types[-1] if field.types[0] == GGUFValueType.ARRAY else None
            writer.add_key_value(field.name, field.contents(), field.types[0], sub_type)
    for tensor, data in tensors(model):
        writer.add_tensor(tensor, data.astype(np.float16) if data.ndim > 1 and "rel_b" not in tensor else data)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def write(both, target, name):
    model = make_model(both)
    write_model(both, model, target / "model.gguf", name)
    generator = np.random.default_rng(7)
    sources = [generator.integers(2, N_VOCAB, n).tolist() for n in SOURCES]
    texts = [[both.config["decoder_start_token_id"], *generator.integers(2, N_VOCAB, n - 1).tolist()] for n in TEXTS]
    logits = []
    with torch.no_grad():
        for source, text in zip(sources, texts):
            out = model(input_ids=torch.tensor([source]), decoder_input_ids=torch.tensor([text]))
            logits.append(out.logits[0, ::EVERY].numpy())
    for file, values in (("sources", sources), ("texts", texts)):
        (target / f"{file}.json").write_text(json.dumps(sum(values, [])) + "\n")
        (target / f"{file}_lengths.json").write_text(json.dumps([len(v) for v in values]) + "\n")
    (target / "logits.f32").write_bytes(reference_bytes(np.concatenate(logits)))
    print(f"{name}: {sum(p.numel() for p in model.parameters())} weights, logits {np.concatenate(logits).std():.3f}")


def main():
    packed_data.unpack()
    for name in sys.argv[1:] or MODELS:
        target = ROOT / "golden_sources" / name
        target.mkdir(parents=True, exist_ok=True)
        write(MODELS[name], target, name)
        packed_data.pack_folder(target)


if __name__ == "__main__":
    main()
