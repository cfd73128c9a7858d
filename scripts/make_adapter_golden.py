#!/usr/bin/env python3
"""Makes tests/data/adapters: LoRA adapters and a control vector for tests/data/golden/llama, and the model's logits.
Adapters are merged into its matrices: W + scale * alpha / rank * B A, computed in float64 after every position.

one.gguf     all matrices of all layers and the head, rank 5, F32; attn_v has rank 2
two.gguf     attn_q and attn_v, rank 8, F16, the most common choice
control.gguf directions for layers 1 and 2
logits_NAME.f32 holds float32 logits; `both` is 0.5 * one - 1.5 * two, `control` is 2 * control.

The model is computed here, and checked against the logits that transformers gave for it. Needs gguf and numpy.
"""
import json
from pathlib import Path

import numpy as np
from gguf import GGUFReader, GGUFWriter

import packed_data
from coarse import reference_bytes

DATA = Path(__file__).parent.parent / "tests/data"
LAYERS, EMBD, HEADS, KV_HEADS, HEAD_DIM, EPS = 3, 128, 4, 2, 32, 1e-5
MATRICES = ["attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"]


def read_model(path):
    shape = lambda t: tuple(reversed([int(n) for n in t.shape]))
    return {t.name: t.data.astype(np.float64).reshape(shape(t)) for t in GGUFReader(path).tensors}


def norm(x, weight):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + EPS) * weight


def rope(x, positions):
    """Turns neighbours, as GGUF's llama has them."""
    angles = positions[:, None] * 10000.0 ** (-np.arange(0, HEAD_DIM, 2) / HEAD_DIM)
    cos, sin = np.cos(angles)[:, None], np.sin(angles)[:, None]
    even, odd = x[..., 0::2], x[..., 1::2]
    return np.stack([even * cos - odd * sin, even * sin + odd * cos], -1).reshape(x.shape)


def logits(w, tokens, directions=None):
    n = len(tokens)
    x = w["token_embd.weight"][tokens]
    positions, seen = np.arange(n), np.tril(np.ones((n, n), bool))
    for layer in range(LAYERS):
        of = lambda name: w[f"blk.{layer}.{name}.weight"]
        h = norm(x, of("attn_norm"))
        q = rope((h @ of("attn_q").T).reshape(n, HEADS, HEAD_DIM), positions)
        k = rope((h @ of("attn_k").T).reshape(n, KV_HEADS, HEAD_DIM), positions).repeat(HEADS // KV_HEADS, 1)
        v = (h @ of("attn_v").T).reshape(n, KV_HEADS, HEAD_DIM).repeat(HEADS // KV_HEADS, 1)
        scores = np.where(seen, np.einsum("qhd,khd->hqk", q, k) / np.sqrt(HEAD_DIM), -np.inf)
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        weights /= weights.sum(-1, keepdims=True)
        x = x + np.einsum("hqk,khd->qhd", weights, v).reshape(n, -1) @ of("attn_output").T
        h = norm(x, of("ffn_norm"))
        gate = h @ of("ffn_gate").T
        x = x + (gate / (1.0 + np.exp(-gate)) * (h @ of("ffn_up").T)) @ of("ffn_down").T
        if directions and layer in directions:
            x = x + directions[layer]
    return norm(x, w["output_norm.weight"]) @ w["output.weight"].T


def adapter(rng, model, names, rank_of, dtype):
    """A and B of each matrix: as large as to matter."""
    pairs = {}
    for name in names:
        n_out, n_in = model[name].shape
        rank = rank_of(name)
        pairs[name] = (rng.normal(0, n_in ** -0.5, (rank, n_in)).astype(dtype), rng.normal(0, 0.1, (n_out, rank)).astype(dtype))
    return pairs


def write_adapter(path, pairs, alpha, name):
    writer = GGUFWriter(path, "llama")
    writer.add_string("general.type", "adapter")
    writer.add_name(name)
    writer.add_string("adapter.type", "lora")
    writer.add_float32("adapter.lora.alpha", alpha)
    for matrix, (a, b) in pairs.items():
        writer.add_tensor(matrix + ".lora_a", a)
        writer.add_tensor(matrix + ".lora_b", b)
    finish(writer)


def finish(writer):
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def merged(model, *uses):
    w = dict(model)
    for pairs, alpha, scale in uses:
        for name, (a, b) in pairs.items():
            w[name] = w[name] + scale * alpha / a.shape[0] * (b.astype(np.float64) @ a.astype(np.float64))
    return w


def main():
    packed_data.unpack()
    rng = np.random.default_rng(2026)
    golden, out = DATA / "golden/llama", DATA / "adapters"
    out.mkdir(exist_ok=True)
    model, tokens = read_model(golden / "model.gguf"), json.loads((golden / "tokens.json").read_text())
    truth = np.fromfile(golden / "logits.f32", np.float32).reshape(len(tokens), -1)
    plain = logits(model, tokens)
    assert ((plain - truth) ** 2).sum() / (truth ** 2).sum() < 1e-10

    every = [f"blk.{layer}.{name}.weight" for layer in range(LAYERS) for name in MATRICES] + ["output.weight"]
    one = adapter(rng, model, every, lambda name: 2 if "attn_v" in name else 5, np.float32)
    two = adapter(rng, model, [name for name in every if "attn_q" in name or "attn_v" in name], lambda name: 8, np.float16)
    write_adapter(out / "one.gguf", one, 10.0, "one")
    write_adapter(out / "two.gguf", two, 16.0, "two")
    directions = {layer: rng.normal(0, 0.3, EMBD).astype(np.float32) for layer in (1, 2)}
    writer = GGUFWriter(out / "control.gguf", "controlvector")
    writer.add_string("controlvector.model_hint", "llama")
    writer.add_uint32("controlvector.layer_count", len(directions))
    for layer, direction in directions.items():
        writer.add_tensor(f"direction.{layer}", direction)
    finish(writer)

    results = {
        "one": logits(merged(model, (one, 10.0, 1.0)), tokens),
        "two": logits(merged(model, (two, 16.0, 1.0)), tokens),
        "both": logits(merged(model, (one, 10.0, 0.5), (two, 16.0, -1.5)), tokens),
        "control": logits(model, tokens, {layer: 2.0 * d.astype(np.float64) for layer, d in directions.items()}),
    }
    for name, values in results.items():
        difference = ((values - plain) ** 2).sum() / (plain ** 2).sum()
        assert 0.01 < difference, f"{name} does not matter"
        print(f"{name}: differs from the model by an NMSE of {difference:.3f}")
        (out / f"logits_{name}.f32").write_bytes(reference_bytes(values))
    packed_data.pack_folder(out)


if __name__ == "__main__":
    main()
