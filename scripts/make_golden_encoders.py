#!/usr/bin/env python3
"""Makes tests/data/golden_encoders/NAME for families of encoders: usage make_golden_encoders.py [NAME...]

Each has a tiny model with seeded random weights (every value fits F16; vectors are stored as F32) and strings of
several lengths. The library transformers computes each string alone in float32. The outputs are the hidden states of
all tokens, the vectors pooled as the model's file says, and the scores of models with a classifier. Tensors and
metadata have the names that GGUF files of the family have. The vocabulary is the one of tests/data/golden/mamba. Needs
the packages gguf, numpy, torch and transformers. Without names all are made.
"""
import json
import re
import sys
from pathlib import Path

import numpy as np
import torch
import transformers
from gguf import GGUFReader, GGUFValueType, GGUFWriter, PoolingType

import own_encoders
import packed_data
from coarse import coarse, reference_bytes

ROOT = Path(__file__).parent.parent / "tests/data"
N_VOCAB, N_CTX = 512, 96
LENGTHS = [5, 32, 1, 17, 70, 2]
SIZES = dict(vocab_size=N_VOCAB, hidden_size=64, intermediate_size=96, num_hidden_layers=3, num_attention_heads=4,
             max_position_embeddings=N_CTX, pad_token_id=0)

BERT = {"attention.self.query": "attn_q", "attention.self.key": "attn_k", "attention.self.value": "attn_v",
        "attention.output.dense": "attn_output", "attention.output.LayerNorm": "attn_output_norm",
        "intermediate.dense": "ffn_up", "output.dense": "ffn_down", "output.LayerNorm": "layer_output_norm"}
BERT_WHOLE = {"embeddings.word_embeddings": "token_embd", "embeddings.position_embeddings": "position_embd",
              "embeddings.token_type_embeddings": "token_types", "embeddings.LayerNorm": "token_embd_norm",
              "pooler.dense": "cls", "classifier": "cls.output", "classifier.dense": "cls",
              "classifier.out_proj": "cls.output"}
NOMIC = {"self_attn.o_proj": "attn_output", "self_attn.q_proj": "attn_qkv#0", "self_attn.k_proj": "attn_qkv#1",
         "self_attn.v_proj": "attn_qkv#2", "post_attention_layernorm": "attn_output_norm",
         "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down",
         "post_mlp_layernorm": "layer_output_norm"}
MODERN = {"attn_norm": "attn_norm", "attn.Wqkv": "attn_qkv", "attn.Wo": "attn_output", "mlp_norm": "ffn_norm",
          "mlp.Wi": "ffn_up", "mlp.Wo": "ffn_down"}
MODERN_WHOLE = {"embeddings.tok_embeddings": "token_embd", "embeddings.norm": "token_embd_norm",
                "final_norm": "output_norm", "head.dense": "cls", "head.norm": "cls.norm", "classifier": "cls.output"}
GEMMA = {"input_layernorm": "attn_norm", "post_attention_layernorm": "post_attention_norm",
         "pre_feedforward_layernorm": "ffn_norm", "post_feedforward_layernorm": "post_ffw_norm",
         "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
         "self_attn.o_proj": "attn_output", "self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm",
         "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down"}
LLAMA = {"input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm", "self_attn.q_proj": "attn_q",
         "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output",
         "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down"}
LLAMA_WHOLE = {"embed_tokens": "token_embd", "norm": "output_norm"}
EUROBERT = dict(num_key_value_heads=2, bos_token_id=1, eos_token_id=2, mask_token_id=3, head_dim=16,
                rope_parameters={"rope_type": "default", "rope_theta": 250000.0})
T5 = {"layer.0.SelfAttention.q": "attn_q", "layer.0.SelfAttention.k": "attn_k", "layer.0.SelfAttention.v": "attn_v",
      "layer.0.SelfAttention.o": "attn_o", "layer.0.SelfAttention.relative_attention_bias": "attn_rel_b",
      "layer.0.layer_norm": "attn_norm", "layer.1.layer_norm": "ffn_norm", "layer.1.DenseReluDense.wi": "ffn_up",
      "layer.1.DenseReluDense.wi_0": "ffn_gate", "layer.1.DenseReluDense.wi_1": "ffn_up",
      "layer.1.DenseReluDense.wo": "ffn_down"}
T5_WHOLE = {"shared": "token_embd", "encoder.embed_tokens": "token_embd", "encoder.final_layer_norm": "enc.output_norm"}
T5_SIZES = dict(d_kv=24, d_ff=96)
T5_META = {"attention.relative_buckets_count": 32, "attention.key_length": 24, "attention.value_length": 24,
           "attention.layer_norm_epsilon": 1e-6, "decoder_start_token_id": 0}


class Encoder:
    """A model: its architecture in GGUF, its class in transformers, and its configuration on top of SIZES. It also has
    its metadata on top of the common ones, names of tensors, and the prefixes of layers and of the encoder within a
    classifier."""

    def __init__(self, arch, model, config=None, meta=None, layer=BERT, whole=BERT_WHOLE, layers="encoder.layer.",
                 inner="", pooling=PoolingType.MEAN, positions=0, offset=0.0, types=False, dense=(), source=transformers,
                 unused=(), permute=False, block="blk"):
        self.arch, self.model, self.config, self.meta = arch, model, config or {}, meta or {}
        self.layer, self.whole, self.layers, self.inner = layer, whole, layers, inner
        self.pooling, self.positions, self.offset, self.types = pooling, positions, offset, types
        self.source, self.unused = source, unused  # The module of the class; what it has and files have not.
        self.permute, self.block = permute, block  # Rope that turns neighbours; what layers are called.
        self.dense = dense  # Widths of products behind the pooling, in sentence-transformers' modules.


MODERN_SIZES = dict(global_attn_every_n_layers=2, num_hidden_layers=4, local_attention=8, sep_token_id=2, cls_token_id=1,
                    bos_token_id=1, eos_token_id=2,
                    rope_parameters={"full_attention": {"rope_type": "default", "rope_theta": 160000.0},
                                     "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0}})
MODERN_META = {"attention.sliding_window": 8, "attention.sliding_window_pattern": 2, "rope.freq_base": 160000.0,
               "rope.freq_base_swa": 10000.0}
ENCODERS = {
    "bert": Encoder("bert", "BertModel", types=True),
    "bert-rank": Encoder("bert", "BertForSequenceClassification", dict(num_labels=1), inner="bert.", types=True,
                         pooling=PoolingType.RANK),
    "xlm-roberta": Encoder("bert", "XLMRobertaModel", dict(pad_token_id=1, type_vocab_size=1,
                                                           max_position_embeddings=N_CTX + 2),
                           positions=2, pooling=PoolingType.CLS),
    "xlm-roberta-rank": Encoder("bert", "XLMRobertaForSequenceClassification",
                                dict(pad_token_id=1, type_vocab_size=1, max_position_embeddings=N_CTX + 2, num_labels=3),
                                inner="roberta.", positions=2, pooling=PoolingType.RANK),
    "nomic-bert": Encoder("nomic-bert", "NomicBertModel", dict(rope_parameters={"rope_type": "default",
                                                                                "rope_theta": 1000.0}),
                          {"rope.freq_base": 1000.0}, NOMIC, layers="layers.", types=True),
    "modern-bert": Encoder("modern-bert", "ModernBertModel", MODERN_SIZES, MODERN_META, MODERN, MODERN_WHOLE, "layers.",
                           pooling=PoolingType.CLS),
    "modern-bert-rank": Encoder("modern-bert", "ModernBertForSequenceClassification",
                                MODERN_SIZES | dict(num_labels=1, classifier_pooling="mean"), MODERN_META,
                                MODERN, MODERN_WHOLE, "layers.", inner="model.", pooling=PoolingType.MEAN),
    "gemma-embedding": Encoder("gemma-embedding", "Gemma3TextModel",
                               dict(head_dim=32, hidden_activation="gelu_pytorch_tanh", sliding_window=8, sliding_window_pattern=3,
                                    num_hidden_layers=4, num_key_value_heads=2, query_pre_attn_scalar=32,
                                    use_bidirectional_attention=True,
                                    layer_types=["sliding_attention", "sliding_attention", "full_attention",
                                                 "sliding_attention"],
                                    rope_parameters={"full_attention": {"rope_type": "default", "rope_theta": 1e6},
                                                     "sliding_attention": {"rope_type": "default", "rope_theta": 1e4}}),
                               {"attention.sliding_window": 8, "attention.sliding_window_pattern": 3,
                                "attention.key_length": 32, "attention.value_length": 32, "attention.head_count_kv": 2,
                                "rope.freq_base": 1e6},
                               GEMMA, {"embed_tokens": "token_embd", "norm": "output_norm"}, "layers.", offset=1.0,
                               dense=(128, 64)),
    "nomic-bert-moe": Encoder("nomic-bert-moe", "NomicBertMoeModel",
                              dict(rope_parameters={"rope_type": "default", "rope_theta": 1000.0}, type_vocab_size=1),
                              {"rope.freq_base": 1000.0, "expert_count": 6, "expert_used_count": 2,
                               "moe_every_n_layers": 2},
                              NOMIC | {"mlp.fc1": "ffn_up", "mlp.fc2": "ffn_down", "mlp.gate": "ffn_gate_inp",
                                       "mlp.up": "ffn_up_exps", "mlp.down": "ffn_down_exps"},
                              layers="layers.", source=own_encoders),
    "jina-bert-v2": Encoder("jina-bert-v2", "JinaBertModel", layer=BERT, types=True, source=own_encoders,
                            unused=("embeddings.position_embeddings",)),
    "jina-bert-v3": Encoder("jina-bert-v3", "JinaEmbeddingsV3Model",
                            dict(bos_token_id=1, eos_token_id=2, type_vocab_size=1,
                                 rope_parameters={"rope_type": "default", "rope_theta": 20000.0}),
                            {"rope.freq_base": 20000.0}, NOMIC | {"mlp.fc1": "ffn_up", "mlp.fc2": "ffn_down"},
                            layers="layers."),
    "eurobert": Encoder("eurobert", "EuroBertModel", EUROBERT, {"attention.head_count_kv": 2, "rope.freq_base": 250000.0},
                        LLAMA, LLAMA_WHOLE, layers="layers."),
    "llama-embed": Encoder("llama-embed", "EuroBertModel", EUROBERT,
                           {"attention.head_count_kv": 2, "rope.freq_base": 250000.0, "rope.dimension_count": 16}, LLAMA,
                           LLAMA_WHOLE, layers="layers.", permute=True),
    "neo-bert": Encoder("neo-bert", "EuroBertModel", EUROBERT | dict(num_key_value_heads=4),
                        {"rope.freq_base": 250000.0},
                        LLAMA | {"self_attn.q_proj": "attn_qkv#0", "self_attn.k_proj": "attn_qkv#1",
                                 "self_attn.v_proj": "attn_qkv#2", "mlp.gate_proj": "ffn_up#0", "mlp.up_proj": "ffn_up#1"},
                        LLAMA_WHOLE | {"norm": "enc.output_norm"}, layers="layers.", permute=True),
    "t5encoder": Encoder("t5encoder", "T5EncoderModel", T5_SIZES, T5_META, T5, T5_WHOLE, layers="encoder.block.",
                         block="enc.blk"),
    "t5encoder-umt5": Encoder("t5encoder", "UMT5EncoderModel", T5_SIZES | dict(feed_forward_proj="gated-gelu"), T5_META,
                              T5, T5_WHOLE, layers="encoder.block.", block="enc.blk"),
}


def make_model(encoder):
    torch.manual_seed(2026)
    kind = getattr(encoder.source, encoder.model)
    config = kind.config_class(**(SIZES | encoder.config), attn_implementation="eager")
    model = kind(config).eval()
    with torch.no_grad():
        for name, weight in model.named_parameters():
            # Nothing stays the constant that it starts as, so that none can be left out unseen.
            if weight.dim() == 1:
                base = 1.0 - encoder.offset if name.endswith("weight") else 0.0
                weight.copy_(base + 0.3 * torch.randn_like(weight))
            else:
                weight.copy_(0.1 * torch.randn_like(weight))
            weight.copy_(coarse(weight))
    return model


def tensors(encoder, model):
    rows = {}
    for name, weight in model.named_parameters():
        data = weight.detach().numpy().astype(np.float32)
        inner = name.removeprefix(encoder.inner)
        if inner.startswith(encoder.layers):
            layer, rest = inner.removeprefix(encoder.layers).split(".", 1)
            stem, tail = rest.rsplit(".", 1)
            new, _, part = encoder.layer[stem].partition("#")
            new = f"{encoder.block}.{layer}.{new}.{tail}"
        else:
            stem, tail = inner.rsplit(".", 1)
            if stem in encoder.unused or (stem == "pooler.dense" and "ForSequence" not in encoder.model):
                continue  # Embeddings have no use for it.
            new, part = f"{encoder.whole[stem]}.{tail}", ""
        if new == "position_embd.weight":
            data = data[encoder.positions:]
        if encoder.offset and "norm" in new:
            data = data + np.float32(encoder.offset)
        if encoder.permute and re.search(r"[qk]_proj$", stem):
            dim = model.config.head_dim
            data = data.reshape(-1, 2, dim // 2, data.shape[1]).swapaxes(1, 2).reshape(data.shape)
        rows.setdefault(new, []).append((part, data))
    for name, parts in rows.items():
        yield name, np.ascontiguousarray(np.concatenate([data for _, data in sorted(parts, key=lambda p: p[0])]))


def write_model(encoder, model, dense, path, name):
    config = model.config
    writer = GGUFWriter(path, encoder.arch)
    writer.add_name(f"golden-{name}")
    keys = {"context_length": N_CTX, "embedding_length": config.hidden_size, "block_count": config.num_hidden_layers,
            "feed_forward_length": getattr(config, "intermediate_size", None) or config.d_ff, "attention.head_count": config.num_attention_heads,
            "attention.causal": False, "pooling_type": int(encoder.pooling)}
    if hasattr(config, "rms_norm_eps"):
        keys["attention.layer_norm_rms_epsilon"] = config.rms_norm_eps
    elif hasattr(config, "layer_norm_epsilon"):
        keys["attention.layer_norm_rms_epsilon"] = config.layer_norm_epsilon
    else:
        keys["attention.layer_norm_epsilon"] = getattr(config, "layer_norm_eps", None) or config.norm_eps
    for key, value in (keys | encoder.meta).items():
        add = writer.add_bool if isinstance(value, bool) else writer.add_float32 if isinstance(value, float) else writer.add_uint32
        add(f"{encoder.arch}.{key}", value)
    for field in GGUFReader(ROOT / "golden/mamba/model.gguf").fields.values():
        if field.name.startswith("tokenizer."):
            sub_type = field.types[-1] if field.types[0] == GGUFValueType.ARRAY else None
            writer.add_key_value(field.name, field.contents(), field.types[0], sub_type)
    for tensor, data in [*tensors(encoder, model), *dense]:
        writer.add_tensor(tensor, data.astype(np.float16) if data.ndim > 1 and not re.search(r"norm|bias", tensor) else data)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def pooled(states, pooling):
    return {PoolingType.MEAN: lambda: states.mean(0), PoolingType.CLS: lambda: states[0],
            PoolingType.LAST: lambda: states[-1], PoolingType.RANK: lambda: states[0]}[pooling]()


def write(encoder, target, name):
    model = make_model(encoder)
    dense = []
    width = model.config.hidden_size
    for i, out in enumerate(encoder.dense):
        dense.append((f"dense_{i + 2}.weight", coarse(0.1 * torch.randn(out, width)).numpy()))
        width = out
    write_model(encoder, model, dense, target / "model.gguf", name)

    generator = np.random.default_rng(7)
    # The ids of padding are left out: some models give them no position.
    texts = [generator.integers(2, N_VOCAB, n).tolist() for n in LENGTHS]
    seconds = [n // 2 if encoder.types and n > 1 and i % 2 == 1 else -1 for i, n in enumerate(LENGTHS)]
    states, vectors, scores = [], [], []
    with torch.no_grad():
        for ids, second in zip(texts, seconds):
            inputs = {"input_ids": torch.tensor([ids])}
            if second >= 0:
                inputs["token_type_ids"] = torch.tensor([[int(i >= second) for i in range(len(ids))]])
            out = model(**inputs, output_hidden_states=True)
            # The last of the hidden states is in front of a last norm in some models, so classifiers' encoders are
            # asked.
            encode = getattr(model, encoder.inner.rstrip("."), model) if encoder.inner else model
            state = encode(**inputs).last_hidden_state[0].numpy()
            vector = pooled(state, encoder.pooling)
            if hasattr(out, "logits"):
                scores.append(out.logits[0].numpy())
            for _, weight in dense:
                state, vector = state @ weight.T, weight @ vector
            states.append(state)
            vectors.append(vector)
    (target / "tokens.json").write_text(json.dumps(sum(texts, [])) + "\n")
    (target / "lengths.json").write_text(json.dumps(LENGTHS) + "\n")
    (target / "types.json").write_text(json.dumps([int(s >= 0 and i >= s) for ids, s in zip(texts, seconds)
                                                   for i in range(len(ids))]) + "\n")
    for file, values in (("states", states), ("vectors", vectors), ("scores", scores)):
        if values:
            (target / f"{file}.f32").write_bytes(reference_bytes(np.concatenate([v.reshape(-1) for v in values])))
    print(f"{name}: {sum(p.numel() for p in model.parameters())} weights, states {np.concatenate(states).std():.3f}"
          + (f", scores {np.concatenate(scores).std():.3f}" if scores else ""))


def main():
    packed_data.unpack()
    for name in sys.argv[1:] or ENCODERS:
        target = ROOT / "golden_encoders" / name
        target.mkdir(parents=True, exist_ok=True)
        write(ENCODERS[name], target, name)
        packed_data.pack_folder(target)


if __name__ == "__main__":
    main()
