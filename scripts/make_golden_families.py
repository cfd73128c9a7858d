#!/usr/bin/env python3
"""Makes tests/data/golden/NAME for families of models: usage make_golden_families.py [NAME...]

Each is a tiny model with seeded random weights (every value fits F16; vectors are stored as F32) and the logits that
transformers computes with it in float32, after every position. Matrices have few different values, so that files
compress well (coarse.py). Tensors and metadata have the names that GGUF files of the family have. Most vocabularies are
the one of tests/data/golden/mamba. The models of KEPT keep the metadata, vocabulary and tokens of their files, which
the converter of llama.cpp wrote. The repository keeps the files compressed (packed_data.py). Needs the packages gguf,
numpy, torch and transformers. Without names all families are made.
"""
import json
import re
import sys
from pathlib import Path

import numpy as np
import torch
import transformers
from gguf import GGUFReader, GGUFValueType, GGUFWriter

import own_references
import packed_data
import rwkv_reference
from coarse import coarse, reference_bytes

GOLDEN = Path(__file__).parent.parent / "tests/data/golden"
N_VOCAB, N_CTX, N_TOKENS = 512, 256, 32

# What most models of transformers call the tensors of a layer, and what GGUF files do.
LAYER = {
    "input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm", "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm", "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down",
}
WHOLE = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}
EXPERTS = {"mlp.gate": "ffn_gate_inp", "mlp.experts.gate_up_proj": "ffn_gate_up_exps",
           "mlp.experts.down_proj": "ffn_down_exps"}
SHARED = {"mlp.shared_experts.gate_proj": "ffn_gate_shexp", "mlp.shared_experts.up_proj": "ffn_up_shexp",
          "mlp.shared_experts.down_proj": "ffn_down_shexp", "mlp.gate.e_score_correction_bias": "exp_probs_b.bias"}
# Of attention over latent rows.
LATENT_LAYER = EXPERTS | SHARED | {"self_attn.q_a_proj": "attn_q_a", "self_attn.q_a_layernorm": "attn_q_a_norm",
                                   "self_attn.q_b_proj": "attn_q_b", "self_attn.kv_a_proj_with_mqa": "attn_kv_a_mqa",
                                   "self_attn.kv_a_layernorm": "attn_kv_a_norm", "self_attn.kv_b_proj": "attn_kv_b"}
LATENT = {"attention.head_count_kv": 1, "attention.key_length": 40, "attention.value_length": 32,
          "attention.key_length_mla": 24, "attention.value_length_mla": 16, "attention.kv_lora_rank": 32,
          "rope.dimension_count": 8, "expert_count": 8, "expert_shared_count": 1, "expert_feed_forward_length": 32,
          "leading_dense_block_count": 1}
SIZES = dict(pad_token_id=0, vocab_size=N_VOCAB, hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4,
             num_key_value_heads=2, max_position_embeddings=N_CTX)

# For delta nets, in addition to attention.
DELTA_LAYER = {"post_attention_layernorm": "post_attention_norm", "linear_attn.in_proj_qkvz": "attn_qkvz",
               "linear_attn.in_proj_ba": "ssm_ba", "linear_attn.in_proj_qkv": "attn_qkv",
               "linear_attn.in_proj_z": "attn_gate", "linear_attn.in_proj_b": "ssm_beta",
               "linear_attn.in_proj_a": "ssm_alpha", "linear_attn.conv1d": "ssm_conv1d", "linear_attn.A_log": "ssm_a",
               "linear_attn.dt_bias": "ssm_dt.bias", "linear_attn.norm": "ssm_norm", "linear_attn.out_proj": "ssm_out"}
SHARED_GATED = {"mlp.shared_expert.gate_proj": "ffn_gate_shexp", "mlp.shared_expert.up_proj": "ffn_up_shexp",
                "mlp.shared_expert.down_proj": "ffn_down_shexp", "mlp.shared_expert_gate": "ffn_gate_inp_shexp"}
DELTA = dict(num_hidden_layers=3, layer_types=["linear_attention", "full_attention", "linear_attention"], head_dim=32,
             linear_key_head_dim=16, linear_value_head_dim=24, linear_num_key_heads=2, linear_num_value_heads=4)
DELTA_META = {"attention.key_length": 32, "attention.value_length": 32, "rope.dimension_count": 8,
              "attention.recurrent_layers": [True, False, True], "ssm.conv_kernel": 4, "ssm.state_size": 16,
              "ssm.group_count": 2, "ssm.time_step_rank": 4, "ssm.inner_size": 96}

def mixer(name):
    """The tensors of Mamba and Mamba-2."""
    return {f"{name}.in_proj": "ssm_in", f"{name}.conv1d": "ssm_conv1d", f"{name}.x_proj": "ssm_x",
            f"{name}.dt_proj": "ssm_dt", f"{name}.dt_bias": "ssm_dt.bias", f"{name}.A_log": "ssm_a",
            f"{name}.D": "ssm_d", f"{name}.norm": "ssm_norm", f"{name}.out_proj": "ssm_out"}


GRANITE_HYBRID = dict(num_hidden_layers=3, layer_types=["linear_attention", "full_attention", "linear_attention"],
                      embedding_multiplier=6.0, residual_multiplier=0.3, attention_multiplier=0.2, logits_scaling=4.0,
                      shared_intermediate_size=96, mamba_n_heads=8, mamba_d_head=16, mamba_n_groups=1, mamba_d_state=16)
GRANITE_HYBRID_META = {"embedding_scale": 6.0, "residual_scale": 0.3, "attention.scale": 0.2, "logit_scale": 4.0,
                       "attention.head_count_kv": [0, 2, 0], "ssm.conv_kernel": 4, "ssm.inner_size": 128,
                       "ssm.state_size": 16, "ssm.time_step_rank": 8, "ssm.group_count": 1}
GRANITE_HYBRID_LAYER = mixer("mamba") | {"block_sparse_moe.router": "ffn_gate_inp",
                                         "block_sparse_moe.experts.gate_up_proj": "ffn_gate_up_exps",
                                         "block_sparse_moe.experts.down_proj": "ffn_down_exps",
                                         "shared_mlp.input_linear": "ffn_gate_up_shexp",
                                         "shared_mlp.output_linear": "ffn_down_shexp"}
NEMOTRON_H = dict(head_dim=16, ssm_state_size=16, mamba_num_heads=6, mamba_head_dim=16, n_groups=2, time_step_min=1e-9)
NEMOTRON_H_META = {"attention.key_length": 16, "attention.value_length": 16, "ssm.conv_kernel": 4,
                   "ssm.inner_size": 96, "ssm.state_size": 16, "ssm.time_step_rank": 6, "ssm.group_count": 2,
                   "attention.layer_norm_rms_epsilon": 1e-5}
NEMOTRON_H_LAYER = mixer("mixer") | {"norm": "attn_norm", "mixer.q_proj": "attn_q", "mixer.k_proj": "attn_k",
                                     "mixer.v_proj": "attn_v", "mixer.o_proj": "attn_output",
                                     "mixer.up_proj": "ffn_up", "mixer.down_proj": "ffn_down",
                                     "mixer.gate": "ffn_gate_inp",
                                     "mixer.gate.e_score_correction_bias": "exp_probs_b.bias",
                                     "mixer.experts.up_proj": "ffn_up_exps", "mixer.experts.down_proj": "ffn_down_exps",
                                     "mixer.fc1_latent_proj": "ffn_latent_down", "mixer.fc2_latent_proj": "ffn_latent_up",
                                     "mixer.shared_experts.up_proj": "ffn_up_shexp",
                                     "mixer.shared_experts.down_proj": "ffn_down_shexp"}
NEMOTRON_H_WHOLE = {"model.embeddings": "token_embd", "model.norm_f": "output_norm"}
DELTA_EXPERTS = dict(num_experts=6, num_experts_per_tok=2, moe_intermediate_size=32, shared_expert_intermediate_size=48)
DELTA_EXPERTS_META = {"expert_count": 6, "expert_used_count": 2, "expert_feed_forward_length": 32,
                      "expert_shared_feed_forward_length": 48}
RWKV = {"attention.head_count": 0, "attention.head_count_kv": 0, "wkv.head_size": 32, "attention.decay_lora_rank": 8,
        "attention.iclr_lora_rank": 12, "attention.value_residual_mix_lora_rank": 16, "attention.gate_lora_rank": 20}
CHAMELEON = dict(vocabulary_map={"<image>": N_VOCAB - 1}, rms_norm_eps=1e-6,
                 vq_config=dict(base_channels=32, channel_multiplier=[1], num_res_blocks=1, num_embeddings=8, embed_dim=8,
                                latent_channels=8, resolution=32))
RWKV6 = {"attention.head_count": 0, "attention.head_count_kv": 0, "wkv.head_size": 32, "time_mix_extra_dim": 12,
         "time_decay_extra_dim": 8, "token_shift_count": 2}
GEMMA4 = dict(head_dim=16, global_head_dim=32, num_hidden_layers=6, sliding_window=8, final_logit_softcapping=3.0,
              vocab_size_per_layer_input=N_VOCAB, layer_types=["sliding_attention", "full_attention"] * 3)
GEMMA4_META = {"attention.key_length": 32, "attention.value_length": 32, "attention.key_length_swa": 16,
               "attention.value_length_swa": 16, "attention.sliding_window": 8,
               "attention.sliding_window_pattern": [True, False] * 3, "rope.freq_base": 1000000.0,
               "rope.dimension_count": 32, "rope.dimension_count_swa": 16, "final_logit_softcapping": 3.0}
GEMMA4_LAYER = {"post_attention_layernorm": "post_attention_norm", "pre_feedforward_layernorm": "ffn_norm",
                "post_feedforward_layernorm": "post_ffw_norm", "per_layer_input_gate": "inp_gate",
                "per_layer_projection": "proj", "post_per_layer_input_norm": "post_norm",
                "layer_scalar": "layer_output_scale", "router.proj": "ffn_gate_inp",
                "router.scale": "ffn_gate_inp.scale", "router.per_expert_scale": "ffn_down_exps.scale",
                "experts.gate_up_proj": "ffn_gate_up_exps", "experts.down_proj": "ffn_down_exps",
                "post_feedforward_layernorm_1": "post_ffw_norm_1", "post_feedforward_layernorm_2": "post_ffw_norm_2",
                "pre_feedforward_layernorm_2": "pre_ffw_norm_2"}


# The sizes of the models of KEPT, and names of their tensors.
BIG = dict(hidden_size=128, num_hidden_layers=3)
GPT2_LAYER = {"ln_1": "attn_norm", "ln_2": "ffn_norm", "attn.c_attn": "attn_qkv", "attn.c_proj": "attn_output",
              "mlp.c_fc": "ffn_up", "mlp.c_proj": "ffn_down"}
GEMMA3_LAYER = {"post_attention_layernorm": "post_attention_norm", "pre_feedforward_layernorm": "ffn_norm",
                "post_feedforward_layernorm": "post_ffw_norm"}
LFM2_LAYER = {"operator_norm": "attn_norm", "ffn_norm": "ffn_norm", "conv.conv": "shortconv.conv",
              "conv.in_proj": "shortconv.in_proj", "conv.out_proj": "shortconv.out_proj",
              "self_attn.out_proj": "attn_output", "self_attn.q_layernorm": "attn_q_norm",
              "self_attn.k_layernorm": "attn_k_norm", "feed_forward.w1": "ffn_gate", "feed_forward.w2": "ffn_down",
              "feed_forward.w3": "ffn_up"}
MAMBA_WHOLE = {"backbone.embeddings": "token_embd", "backbone.norm_f": "output_norm"}


def default_rope(theta):
    return {"rope_type": "default", "rope_theta": theta}


class Family:
    """A family: its architecture in GGUF, its class in transformers, and its configuration on top of SIZES. It also has
    its metadata on top of the common ones, names of tensors in addition to LAYER and WHOLE, and changes of tensors."""

    def __init__(self, arch, model, config=None, meta=None, layer=None, whole=None, change=None, prefix="model.layers.",
                 permute=False, offset=0.0, seed=2026, learned=None, alibi=False, kind=None,
                 n_tokens=N_TOKENS, source=transformers, named=None, head="ForCausalLM", unused=()):
        self.arch, self.model, self.config, self.meta = arch, model, config or {}, meta or {}
        self.learned = learned  # Metadata that is learned: a function of the model.
        self.alibi = alibi  # In place of rope, in a class that has that.
        self.layer, self.whole = LAYER | (layer or {}), WHOLE | (whole or {})
        self.change, self.prefix, self.permute, self.offset = change, prefix, permute, offset
        self.seed = seed
        self.kind = kind or model + "Config"
        self.n_tokens = n_tokens
        # The module of the class. Parameters of our own have the names that tensors have in files.
        self.source, self.named = source, source is not transformers if named is None else named
        self.head, self.unused = head, unused  # The end of the class's name; beginnings of tensors that files have not.
        self.kept = False  # One of KEPT.
        if self.named:
            self.prefix = "layers."


def interleave(data, n_heads):
    """Rows of Q or K of rope that turns halves of a head, in the order of rope that turns neighbours."""
    return data.reshape(n_heads, 2, data.shape[0] // n_heads // 2, *data.shape[1:]).swapaxes(1, 2).reshape(data.shape)


def split_experts(name, data, config):
    """transformers has gate and up of experts in one tensor."""
    if name.endswith("ffn_gate_up_exps.weight"):
        half = data.shape[1] // 2
        return [(name.replace("gate_up", "gate"), data[:, :half]), (name.replace("gate_up", "up"), data[:, half:])]
    return [(name, data)]


def fused_qkv_by_heads(name, data, config):
    """Q, K and V of each head, head after head."""
    if ".attn_qkv." not in name:
        return [(name, data)]
    n = config.num_attention_heads
    parts = data.reshape(n, 3, data.shape[0] // n // 3, *data.shape[1:])
    return [(name, np.concatenate([parts[:, i].reshape(-1, *data.shape[1:]) for i in range(3)]))]


def fuse_qkv(name, data, config):
    """Q, K and V in one tensor."""
    return [(re.sub(r"attn_[qkv]\.", "attn_qkv.", name) + ("+" if re.search(r"attn_[qkv]\.", name) else ""), data)]


# Models with the metadata, vocabularies and tokens that their files have.
KEPT = {
    # Completions of short prompts do not end early with this seed; tests of the program need that.
    "llama": Family("llama", "Llama", BIG | dict(intermediate_size=352, rms_norm_eps=1e-5), permute=True, seed=36),
    "llama-rope3": Family("llama", "Llama",
                          BIG | dict(intermediate_size=320, head_dim=64, num_key_value_heads=1, rms_norm_eps=1e-5,
                                     tie_word_embeddings=True,
                                     rope_parameters={"rope_type": "llama3", "rope_theta": 500000.0, "factor": 8.0,
                                                      "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                                                      "original_max_position_embeddings": 32}),
                          permute=True, change=lambda name, data, c: llama3_factors(name, c) + [(name, data)], seed=18),
    "qwen2": Family("qwen2", "Qwen2", BIG | dict(intermediate_size=384, tie_word_embeddings=True, rms_norm_eps=1e-6,
                                                 rope_parameters=default_rope(1e6)), seed=19),
    "qwen3": Family("qwen3", "Qwen3", BIG | dict(intermediate_size=320, head_dim=64, tie_word_embeddings=True,
                                                 rms_norm_eps=1e-6, rope_parameters=default_rope(1e6)), seed=20),
    "qwen3moe": Family("qwen3moe", "Qwen3Moe",
                       dict(hidden_size=128, intermediate_size=256, head_dim=32, moe_intermediate_size=64,
                            num_experts=8, num_experts_per_tok=2, norm_topk_prob=True, rms_norm_eps=1e-6,
                            rope_parameters=default_rope(1e6)),
                       layer=EXPERTS, change=split_experts, seed=21),
    "gemma3": Family("gemma3", "Gemma3",
                     dict(hidden_size=96, intermediate_size=192, num_hidden_layers=8, num_key_value_heads=1,
                          head_dim=32, query_pre_attn_scalar=32, sliding_window=16, rms_norm_eps=1e-6,
                          layer_types=["full_attention" if i == 5 else "sliding_attention" for i in range(8)],
                          rope_parameters={"full_attention": default_rope(1e6),
                                           "sliding_attention": default_rope(1e4)}),
                     layer=GEMMA3_LAYER, offset=1.0, kind="Gemma3TextConfig", seed=22),
    "phi3": Family("phi3", "Phi3", BIG | dict(intermediate_size=320, rms_norm_eps=1e-5),
                   layer={"self_attn.qkv_proj": "attn_qkv", "mlp.gate_up_proj": "ffn_up"}, seed=23),
    "gpt2": Family("gpt2", "GPT2", BIG | dict(vocab_size=521, max_position_embeddings=128), head="LMHeadModel",
                   layer=GPT2_LAYER, whole={"transformer.wte": "token_embd", "transformer.wpe": "position_embd",
                                            "transformer.ln_f": "output_norm"}, prefix="transformer.h.",
                   change=lambda name, data, c: [(name, data.T if re.match(r"blk.*weight", name) else data)], seed=24),
    "lfm2": Family("lfm2", "Lfm2",
                   dict(hidden_size=128, intermediate_size=192, num_hidden_layers=4, norm_eps=1e-5, conv_L_cache=3,
                        block_auto_adjust_ff_dim=False, layer_types=["conv", "conv", "full_attention", "conv"],
                        tie_word_embeddings=True, rope_parameters=default_rope(1e6)),
                   layer=LFM2_LAYER, whole={"model.embedding_norm": "token_embd_norm"},
                   change=lambda name, data, c: [(name, data.squeeze(1) if "shortconv.conv" in name else data)], seed=25),
    "mamba": Family("mamba", "Mamba", BIG | dict(intermediate_size=256, state_size=16, conv_kernel=4, expand=2,
                                                 time_step_rank=8, layer_norm_epsilon=1e-5),
                    layer=mixer("mixer") | {"norm": "attn_norm"}, whole=MAMBA_WHOLE, prefix="backbone.layers.",
                    change=lambda name, data, c: [scan_tensors(name, data)], seed=26),
    # One group: with several, transformers norms over all of them at once and the authors' code group by group.
    "mamba2": Family("mamba2", "Mamba2",
                     BIG | dict(state_size=16, num_heads=8, head_dim=32, expand=2, conv_kernel=4, n_groups=1,
                                chunk_size=16, layer_norm_epsilon=1e-5, tie_word_embeddings=True),
                     layer=mixer("mixer") | {"norm": "attn_norm"}, whole=MAMBA_WHOLE, prefix="backbone.layers.",
                     change=lambda name, data, c: [scan_heads(name, data, c.n_groups)], seed=27),
}
for kept in KEPT.values():
    kept.kept = True

FAMILIES = {
    "mixtral": Family("llama", "Mixtral", dict(num_local_experts=6, num_experts_per_tok=2),
                      lambda c: {"expert_count": 6, "expert_used_count": 2, "rope.dimension_count": 16},
                      layer=EXPERTS, change=split_experts, permute=True),
    "gemma": Family("gemma", "Gemma", dict(head_dim=32, hidden_activation="gelu_pytorch_tanh"),
                    lambda c: {"attention.key_length": 32, "attention.value_length": 32}, offset=1.0),
    "gemma2": Family("gemma2", "Gemma2",
                     dict(head_dim=32, hidden_activation="gelu_pytorch_tanh", sliding_window=8, num_hidden_layers=4,
                          query_pre_attn_scalar=32, attn_logit_softcapping=5.0, final_logit_softcapping=3.0),
                     lambda c: {"attention.key_length": 32, "attention.value_length": 32,
                                "attention.sliding_window": 8, "attn_logit_softcapping": 5.0,
                                "final_logit_softcapping": 3.0},
                     layer={"post_attention_layernorm": "post_attention_norm", "pre_feedforward_layernorm": "ffn_norm",
                            "post_feedforward_layernorm": "post_ffw_norm"}, offset=1.0),
    "starcoder2": Family("starcoder2", "Starcoder2", dict(use_bias=True, hidden_act="gelu_pytorch_tanh", sliding_window=None),
                         layer={"mlp.c_fc": "ffn_up", "mlp.c_proj": "ffn_down"}),
    "stablelm": Family("stablelm", "StableLm", dict(partial_rotary_factor=0.25, use_qkv_bias=True),
                       lambda c: {"rope.dimension_count": 4, "use_parallel_residual": False}),
    "stablelm2": Family("stablelm", "StableLm",
                        dict(partial_rotary_factor=0.5, qk_layernorm=True, use_parallel_residual=True),
                        lambda c: {"rope.dimension_count": 8, "use_parallel_residual": True},
                        layer={"self_attn.q_layernorm": "attn_q_norm", "self_attn.k_layernorm": "attn_k_norm"},
                        change=lambda name, data, c: stack_head_norms(name, data)),
    "phi2": Family("phi2", "Phi", dict(partial_rotary_factor=0.5, hidden_act="gelu_new", num_key_value_heads=4),
                   lambda c: {"rope.dimension_count": 8},
                   layer={"self_attn.dense": "attn_output", "mlp.fc1": "ffn_up", "mlp.fc2": "ffn_down"},
                   whole={"model.final_layernorm": "output_norm"}),
    "gptneox": Family("gptneox", "GPTNeoX", dict(num_key_value_heads=4, rotary_pct=0.25, hidden_act="gelu", use_parallel_residual=True),
                      lambda c: {"rope.dimension_count": 4, "use_parallel_residual": True},
                      layer={"attention.query_key_value": "attn_qkv", "attention.dense": "attn_output",
                             "mlp.dense_h_to_4h": "ffn_up", "mlp.dense_4h_to_h": "ffn_down"},
                      whole={"gpt_neox.embed_in": "token_embd", "gpt_neox.final_layer_norm": "output_norm",
                             "embed_out": "output"},
                      prefix="gpt_neox.layers.", change=fused_qkv_by_heads),
    "olmo": Family("olmo", "Olmo", dict(clip_qkv=0.4), lambda c: {"attention.clamp_kqv": 0.4,
                                                                  "attention.layer_norm_epsilon": 1e-5}, permute=True),
    "olmo2": Family("olmo2", "Olmo2", layer={"post_attention_layernorm": "post_attention_norm",
                                             "post_feedforward_layernorm": "post_ffw_norm"}),
    "olmo3": Family("olmo2", "Olmo3",
                    dict(sliding_window=8, num_hidden_layers=4,
                         rope_parameters={
                             "full_attention": {"rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0,
                                                "original_max_position_embeddings": 64},
                             "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0}}),
                    lambda c: {"attention.sliding_window": 8, "rope.scaling.type": "yarn", "rope.scaling.factor": 4.0,
                               "rope.scaling.original_context_length": 64,
                               "rope.scaling.attn_factor": 1.0},
                    layer={"post_attention_layernorm": "post_attention_norm",
                           "post_feedforward_layernorm": "post_ffw_norm"}),
    "olmoe": Family("olmoe", "Olmoe", dict(num_experts=6, num_experts_per_tok=2, norm_topk_prob=False),
                    lambda c: {"expert_count": 6, "expert_used_count": 2}, layer=EXPERTS, change=split_experts),
    "granite": Family("granite", "Granite",
                      dict(embedding_multiplier=6.0, residual_multiplier=0.3, attention_multiplier=0.2, logits_scaling=4.0),
                      lambda c: {"embedding_scale": 6.0, "residual_scale": 0.3, "attention.scale": 0.2,
                                 "logit_scale": 4.0}, permute=True),
    "granitemoe": Family("granitemoe", "GraniteMoe",
                         dict(embedding_multiplier=6.0, residual_multiplier=0.3, attention_multiplier=0.2,
                              logits_scaling=4.0, num_local_experts=6, num_experts_per_tok=2),
                         lambda c: {"embedding_scale": 6.0, "residual_scale": 0.3, "attention.scale": 0.2,
                                    "logit_scale": 4.0, "expert_count": 6, "expert_used_count": 2},
                         layer={"block_sparse_moe.router": "ffn_gate_inp",
                                "block_sparse_moe.experts.gate_up_proj": "ffn_gate_up_exps",
                                "block_sparse_moe.experts.down_proj": "ffn_down_exps"},
                         permute=True, change=split_experts),
    "nemotron": Family("nemotron", "Nemotron", dict(partial_rotary_factor=0.5, head_dim=16),
                       lambda c: {"rope.dimension_count": 8, "attention.layer_norm_epsilon": c.norm_eps}, offset=1.0),
    "command-r": Family("command-r", "Cohere", dict(logit_scale=0.25, use_qk_norm=False),
                        lambda c: {"logit_scale": 0.25, "attention.layer_norm_epsilon": c.layer_norm_eps}),
    "command-r-plus": Family("command-r", "Cohere", dict(logit_scale=0.25, use_qk_norm=True),
                             lambda c: {"logit_scale": 0.25, "attention.layer_norm_epsilon": c.layer_norm_eps}),
    "cohere2": Family("cohere2", "Cohere2", dict(logit_scale=0.25, sliding_window=8, num_hidden_layers=4),
                      lambda c: {"logit_scale": 0.25, "attention.layer_norm_epsilon": c.layer_norm_eps,
                                 "attention.sliding_window": 8}),
    "glm4": Family("glm4", "Glm4", dict(partial_rotary_factor=0.5, attention_bias=True, head_dim=16),
                   lambda c: {"rope.dimension_count": 8},
                   layer={"post_attention_layernorm": "ffn_norm", "post_self_attn_layernorm": "post_attention_norm",
                          "post_mlp_layernorm": "post_ffw_norm", "mlp.gate_up_proj": "ffn_up"}),
    "exaone4": Family("exaone4", "Exaone4", dict(sliding_window=8, sliding_window_pattern=4, num_hidden_layers=4,
                                                 head_dim=16),
                      lambda c: {"attention.sliding_window": 8},
                      layer={"post_attention_layernorm": "post_attention_norm",
                             "post_feedforward_layernorm": "post_ffw_norm"}),
    "exaone4-rope3": Family("exaone4", "Exaone4",
                            dict(sliding_window=8, sliding_window_pattern=4, num_hidden_layers=4, head_dim=16,
                                 rope_parameters={"rope_type": "llama3", "rope_theta": 10000.0, "factor": 8.0,
                                                  "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                                                  "original_max_position_embeddings": 64}),
                            lambda c: {"attention.sliding_window": 8},
                            layer={"post_attention_layernorm": "post_attention_norm",
                                   "post_feedforward_layernorm": "post_ffw_norm"},
                            change=lambda name, data, c: llama3_factors(name, c) + [(name, data)], seed=17),
    "smollm3": Family("smollm3", "SmolLM3", dict(num_hidden_layers=4), permute=True),
    "ernie4_5": Family("ernie4_5", "Ernie4_5", dict(head_dim=16)),
    "seed_oss": Family("seed_oss", "SeedOss", dict(head_dim=32, attention_bias=True, attention_out_bias=False),
                       lambda c: {"attention.key_length": 32, "attention.value_length": 32},
                       layer={"post_attention_layernorm": "post_attention_norm"}),
    "hunyuan-dense": Family("hunyuan-dense", "HunYuanDenseV1", dict(head_dim=16),
                            layer={"self_attn.query_layernorm": "attn_q_norm", "self_attn.key_layernorm": "attn_k_norm"}),
    "qwen2moe": Family("qwen2moe", "Qwen2Moe",
                       dict(num_experts=6, num_experts_per_tok=2, moe_intermediate_size=32,
                            shared_expert_intermediate_size=48, norm_topk_prob=False),
                       lambda c: {"expert_count": 6, "expert_used_count": 2, "expert_feed_forward_length": 32,
                                  "expert_shared_feed_forward_length": 48},
                       layer=EXPERTS | {"mlp.shared_expert.gate_proj": "ffn_gate_shexp",
                                        "mlp.shared_expert.up_proj": "ffn_up_shexp",
                                        "mlp.shared_expert.down_proj": "ffn_down_shexp",
                                        "mlp.shared_expert_gate": "ffn_gate_inp_shexp"}, change=split_experts),
    "arcee": Family("arcee", "Arcee", dict(head_dim=16), permute=True),
    "gpt-oss": Family("gpt-oss", "GptOss",
                      dict(head_dim=16, intermediate_size=48, num_local_experts=4, num_experts_per_tok=2, sliding_window=8,
                           num_hidden_layers=4,
                           rope_parameters={"rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0,
                                            "original_max_position_embeddings": 64, "beta_fast": 32.0,
                                            "beta_slow": 1.0, "truncate": False}),
                      lambda c: {"attention.key_length": 16, "attention.value_length": 16, "expert_count": 4,
                                 "expert_used_count": 2, "expert_feed_forward_length": 48,
                                 "attention.sliding_window": 8, "rope.scaling.type": "yarn",
                                 "rope.scaling.factor": 4.0, "rope.scaling.original_context_length": 64},
                      layer={"post_attention_layernorm": "post_attention_norm", "self_attn.sinks": "attn_sinks",
                             "mlp.router": "ffn_gate_inp", "mlp.experts.gate_up_proj": "ffn_gate_up_exps",
                             "mlp.experts.gate_up_proj_bias": "ffn_gate_up_exps.bias",
                             "mlp.experts.down_proj": "ffn_down_exps",
                             "mlp.experts.down_proj_bias": "ffn_down_exps.bias"},
                      change=lambda name, data, c: turned_experts(name, data)),
    "glm4moe": Family("glm4moe", "Glm4Moe",
                      dict(head_dim=16, partial_rotary_factor=0.5, use_qk_norm=True, attention_bias=True,
                           num_hidden_layers=3, first_k_dense_replace=1, n_routed_experts=6, num_experts_per_tok=2,
                           n_shared_experts=1, moe_intermediate_size=32, routed_scaling_factor=1.5, n_group=1,
                           topk_group=1),
                      lambda c: {"rope.dimension_count": 8, "expert_count": 6, "expert_used_count": 2,
                                 "expert_shared_count": 1, "expert_feed_forward_length": 32,
                                 "expert_weights_scale": 1.5, "expert_weights_norm": True, "expert_gating_func": 2,
                                 "leading_dense_block_count": 1},
                      layer={"post_attention_layernorm": "post_attention_norm"} | EXPERTS | SHARED,
                      change=split_experts),
    "deepseek3": Family("deepseek2", "DeepseekV3",
                        dict(q_lora_rank=24, kv_lora_rank=32, qk_nope_head_dim=16, qk_rope_head_dim=8, v_head_dim=16,
                             num_key_value_heads=4, num_hidden_layers=3, first_k_dense_replace=1, n_routed_experts=8,
                             n_group=4, topk_group=2, num_experts_per_tok=3, n_shared_experts=1,
                             moe_intermediate_size=32, routed_scaling_factor=2.5,
                             rope_parameters={"rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0,
                                              "original_max_position_embeddings": 64, "mscale": 1.0,
                                              "mscale_all_dim": 1.0, "beta_fast": 32.0, "beta_slow": 1.0}),
                        lambda c: LATENT | {"attention.q_lora_rank": 24, "expert_used_count": 3,
                                            "expert_weights_scale": 2.5, "expert_weights_norm": True,
                                            "expert_gating_func": 2, "expert_group_count": 4,
                                            "expert_group_used_count": 2, "rope.scaling.type": "yarn",
                                            "rope.scaling.factor": 4.0, "rope.scaling.original_context_length": 64,
                                            "rope.scaling.yarn_log_multiplier": 0.1},
                        layer=LATENT_LAYER, change=lambda name, data, c: split_latent(name, data, c)),
    "mistral4": Family("mistral4", "Mistral4",
                       dict(q_lora_rank=24, kv_lora_rank=32, qk_nope_head_dim=16, qk_rope_head_dim=8, v_head_dim=16,
                            num_key_value_heads=4, num_hidden_layers=3, first_k_dense_replace=1, n_routed_experts=8,
                            n_group=1, topk_group=1, num_experts_per_tok=3, n_shared_experts=1,
                            moe_intermediate_size=32, routed_scaling_factor=1.5,
                            rope_parameters={"rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0,
                                             "original_max_position_embeddings": 12, "mscale": 1.0,
                                             "mscale_all_dim": 1.0, "beta_fast": 32.0, "beta_slow": 1.0,
                                             "llama_4_scaling_beta": 0.5}),
                       lambda c: LATENT | {"attention.q_lora_rank": 24, "expert_used_count": 3,
                                           "expert_weights_scale": 1.5, "expert_weights_norm": True,
                                           "rope.scaling.type": "yarn", "rope.scaling.factor": 4.0,
                                           "rope.scaling.original_context_length": 12,
                                           "rope.scaling.yarn_log_multiplier": 0.1,
                                           "attention.temperature_length": 12, "attention.temperature_scale": 0.5},
                       layer=LATENT_LAYER, change=lambda name, data, c: split_latent(name, data, c)),
    "deepseek2-lite": Family("deepseek2", "DeepseekV2",
                             dict(q_lora_rank=None, kv_lora_rank=32, qk_nope_head_dim=16, qk_rope_head_dim=8,
                                  v_head_dim=16, num_key_value_heads=4, num_hidden_layers=3, first_k_dense_replace=1,
                                  n_routed_experts=8, n_group=1, topk_group=1, num_experts_per_tok=3,
                                  n_shared_experts=2, moe_intermediate_size=32, routed_scaling_factor=1.0,
                                  norm_topk_prob=False, topk_method="greedy"),
                             lambda c: LATENT | {"expert_used_count": 3, "expert_weights_norm": False,
                                                 "expert_shared_count": 2, "expert_gating_func": 1},
                             layer=LATENT_LAYER, change=lambda name, data, c: split_latent(name, data, c)),
    "dots1": Family("dots1", "Dots1",
                    dict(head_dim=16, num_hidden_layers=3, first_k_dense_replace=1, n_routed_experts=6,
                         num_experts_per_tok=2, n_shared_experts=1, moe_intermediate_size=32, n_group=1, topk_group=1,
                         routed_scaling_factor=1.5),
                    lambda c: {"expert_count": 6, "expert_used_count": 2, "expert_shared_count": 1,
                               "expert_feed_forward_length": 32, "expert_weights_scale": 1.5,
                               "expert_weights_norm": c.norm_topk_prob, "expert_gating_func": 2,
                               "leading_dense_block_count": 1},
                    layer=EXPERTS | SHARED, change=split_experts),
    "minimax-m2": Family("minimax-m2", "MiniMaxM2",
                         dict(head_dim=16, rotary_dim=8, num_local_experts=6, num_experts_per_tok=2,
                              intermediate_size=32),
                         lambda c: {"rope.dimension_count": 8, "expert_count": 6, "expert_used_count": 2,
                                    "expert_gating_func": 2, "expert_feed_forward_length": 32},
                         layer=EXPERTS | {"mlp.e_score_correction_bias": "exp_probs_b.bias"}, change=split_experts,
                         seed=7),
    "hunyuan-moe": Family("hunyuan-moe", "HunYuanMoEV1",
                          dict(head_dim=16, num_experts=6, moe_topk=2, intermediate_size=48),
                          lambda c: {"expert_count": 6, "expert_used_count": 2,
                                     "expert_shared_feed_forward_length": 48},
                          layer=EXPERTS | {"self_attn.query_layernorm": "attn_q_norm",
                                           "self_attn.key_layernorm": "attn_k_norm", "mlp.gate.wg": "ffn_gate_inp",
                                           "mlp.shared_mlp.gate_proj": "ffn_gate_shexp",
                                           "mlp.shared_mlp.up_proj": "ffn_up_shexp",
                                           "mlp.shared_mlp.down_proj": "ffn_down_shexp"}, change=split_experts),
    "lfm2moe": Family("lfm2moe", "Lfm2Moe",
                      dict(num_hidden_layers=3, num_experts=6, num_experts_per_tok=2, moe_intermediate_size=32,
                           num_dense_layers=1, layer_types=["conv", "full_attention", "conv"], conv_L_cache=3),
                      lambda c: {"attention.head_count_kv": [0, 2, 0], "shortconv.l_cache": 3, "expert_count": 6,
                                 "expert_used_count": 2, "expert_feed_forward_length": 32, "expert_gating_func": 2,
                                 "leading_dense_block_count": 1, "attention.layer_norm_rms_epsilon": c.norm_eps},
                      layer=LFM2_LAYER |
                            {"feed_forward.gate": "ffn_gate_inp", "feed_forward.expert_bias": "exp_probs_b.bias",
                             "feed_forward.experts.gate_up_proj": "ffn_gate_up_exps",
                             "feed_forward.experts.down_proj": "ffn_down_exps"},
                      whole={"model.embedding_norm": "token_embd_norm"},
                      change=lambda name, data, c: split_experts(name, data.squeeze(1) if "conv.conv" in name else data, c)),
    "falcon": Family("falcon", "Falcon", dict(num_kv_heads=1, multi_query=True, parallel_attn=True, bias=False,
                                              new_decoder_architecture=False, alibi=False),
                     lambda c: {"attention.head_count_kv": 1, "feed_forward_length": 256},
                     layer={"self_attention.query_key_value": "attn_qkv", "self_attention.dense": "attn_output",
                            "mlp.dense_h_to_4h": "ffn_up", "mlp.dense_4h_to_h": "ffn_down"},
                     whole={"transformer.word_embeddings": "token_embd", "transformer.ln_f": "output_norm"},
                     prefix="transformer.h."),
    "falcon-40b": Family("falcon", "Falcon", dict(num_kv_heads=2, multi_query=False, parallel_attn=True, bias=False,
                                                  new_decoder_architecture=True, alibi=False),
                         lambda c: {"attention.head_count_kv": 2, "feed_forward_length": 256},
                         layer={"self_attention.query_key_value": "attn_qkv", "self_attention.dense": "attn_output",
                                "mlp.dense_h_to_4h": "ffn_up", "mlp.dense_4h_to_h": "ffn_down",
                                "ln_mlp": "attn_norm", "ln_attn": "attn_norm_2"},
                         whole={"transformer.word_embeddings": "token_embd", "transformer.ln_f": "output_norm"},
                         prefix="transformer.h.", change=lambda name, data, c: fused_qkv_by_groups(name, data, c)),
    "mistral3": Family("mistral3", "Ministral3",
                       dict(head_dim=16, sliding_window=None,
                            rope_parameters={"rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0,
                                             "original_max_position_embeddings": 12, "mscale": 1.0,
                                             "mscale_all_dim": 1.0, "beta_fast": 32.0, "beta_slow": 1.0,
                                             "llama_4_scaling_beta": 0.5}),
                       lambda c: {"attention.key_length": 16, "attention.value_length": 16, "rope.scaling.type": "yarn",
                                  "rope.scaling.factor": 4.0, "rope.scaling.original_context_length": 12,
                                  "rope.scaling.yarn_log_multiplier": 1.0, "attention.temperature_scale": 0.5},
                       permute=True),
    "gptj": Family("gptj", "GPTJ", dict(n_inner=96, rotary_dim=8),
                   lambda c: {"attention.head_count_kv": 4, "rope.dimension_count": 8},
                   layer={"ln_1": "attn_norm", "attn.q_proj": "attn_q", "attn.k_proj": "attn_k", "attn.v_proj": "attn_v",
                          "attn.out_proj": "attn_output", "mlp.fc_in": "ffn_up", "mlp.fc_out": "ffn_down"},
                   whole={"transformer.wte": "token_embd", "transformer.ln_f": "output_norm"}, prefix="transformer.h."),
    "starcoder": Family("starcoder", "GPTBigCode", dict(n_inner=96), lambda c: {"attention.head_count_kv": 1},
                        layer={"ln_1": "attn_norm", "attn.c_attn": "attn_qkv", "attn.c_proj": "attn_output",
                               "ln_2": "ffn_norm", "mlp.c_fc": "ffn_up", "mlp.c_proj": "ffn_down"},
                        whole={"transformer.wte": "token_embd", "transformer.wpe": "position_embd",
                               "transformer.ln_f": "output_norm"}, prefix="transformer.h."),
    "minicpm": Family("minicpm", "Granite",
                      dict(embedding_multiplier=6.0, residual_multiplier=0.3, attention_multiplier=0.25,
                           logits_scaling=4.0),
                      lambda c: {"embedding_scale": 6.0, "residual_scale": 0.3, "logit_scale": 4.0}, permute=True),
    "minicpm3": Family("minicpm3", "MiniCPM3",
                       dict(q_lora_rank=24, kv_lora_rank=32, qk_nope_head_dim=16, qk_rope_head_dim=8, v_head_dim=16,
                            num_key_value_heads=4, rms_norm_eps=1e-6),
                       lambda c: {"attention.q_lora_rank": 24, "attention.kv_lora_rank": 32, "attention.key_length": 24,
                                  "rope.dimension_count": 8},
                       layer=LATENT_LAYER),
    "ernie4_5-moe": Family("ernie4_5-moe", "Ernie4_5_Moe",
                           dict(num_hidden_layers=3, moe_num_experts=6, moe_k=2, moe_num_shared_experts=2,
                                moe_layer_start_index=1, moe_layer_interval=1, moe_intermediate_size=32),
                           lambda c: {"expert_count": 6, "expert_used_count": 2, "expert_shared_count": 2,
                                      "expert_feed_forward_length": 32, "leading_dense_block_count": 1,
                                      "expert_shared_feed_forward_length": 64, "interleave_moe_layer_step": 1},
                           layer=EXPERTS | SHARED |
                           {"mlp.gate.moe_statics.e_score_correction_bias": "exp_probs_b.bias"},
                           change=lambda name, data, c: split_experts(name, data.squeeze(), c)),
    "bitnet": Family("bitnet", "BitNet", dict(hidden_act="silu"), layer={"self_attn.attn_sub_norm": "attn_sub_norm",
                                                                         "mlp.ffn_sub_norm": "ffn_sub_norm"}),
    "bitnet-b158": Family("bitnet-b1.58", "BitNet", layer={"self_attn.attn_sub_norm": "attn_sub_norm",
                                                           "mlp.ffn_sub_norm": "ffn_sub_norm"}),
    "phimoe": Family("phimoe", "Phimoe",
                     dict(num_local_experts=6, num_experts_per_tok=2, attention_bias=True, lm_head_bias=True,
                          sliding_window=None,
                          rope_parameters={"rope_type": "longrope", "rope_theta": 10000.0, "short_mscale": 1.2,
                                           "long_mscale": 1.2, "original_max_position_embeddings": N_CTX,
                                           "short_factor": [1.0 + 0.1 * i for i in range(8)],
                                           "long_factor": [1.0 + 0.3 * i for i in range(8)]}),
                     lambda c: {"expert_count": 6, "expert_used_count": 2, "rope.scaling.type": "longrope",
                                "rope.scaling.original_context_length": 4 * N_CTX, "rope.scaling.attn_factor": 1.2},
                     layer=EXPERTS | {"mlp.router": "ffn_gate_inp"},
                     change=lambda name, data, c: long_rope_factors(name, c) + split_experts(name, data, c)),
    # LongRope's factors below and beyond the length that the model first learned: the tokens are 32.
    **{f"phi3-{side}": Family("phi3", "Phi3",
                              dict(max_position_embeddings=4 * original, original_max_position_embeddings=original,
                                   rope_parameters={"rope_type": "longrope", "rope_theta": 10000.0,
                                                    "original_max_position_embeddings": original,
                                                    "short_factor": [1.0 + 0.1 * i for i in range(8)],
                                                    "long_factor": [1.0 + 0.3 * i for i in range(8)]}),
                              lambda c: {"rope.dimension_count": 16,
                                         "rope.scaling.original_context_length": c.original_max_position_embeddings,
                                         "rope.scaling.attn_factor": (1 + np.log(4) / np.log(c.original_max_position_embeddings)) ** 0.5},
                              layer={"self_attn.qkv_proj": "attn_qkv", "mlp.gate_up_proj": "ffn_up"},
                              change=lambda name, data, c: long_rope_factors(name, c) + [(name, data)], seed=16)
       for side, original in (("short", N_CTX), ("long", 16))},
    "apertus": Family("apertus", "Apertus",
                      dict(hidden_act="xielu", rope_parameters={"rope_type": "default", "rope_theta": 10000.0}),
                      layer={"attention_layernorm": "attn_norm", "feedforward_layernorm": "ffn_norm",
                             "mlp.act_fn": "act_fn"},
                      change=lambda name, data, c: [] if "act_fn" in name else [(name, data)],
                      learned=lambda model: {f"xielu.{part}": [getattr(layer.mlp.act_fn, part).detach().float().item()
                                                               for layer in model.model.layers]
                                             for part in ("alpha_p", "alpha_n", "beta", "eps")}),
    "internlm2": Family("internlm2", "Llama", None, lambda c: {"rope.dimension_count": 16}, permute=True, seed=2),
    "exaone": Family("exaone", "Llama", seed=3),
    "xverse": Family("xverse", "Llama", None, lambda c: {"rope.dimension_count": 16}, permute=True, seed=4),
    "orion": Family("orion", "StableLm", dict(partial_rotary_factor=1.0), seed=5),
    "codeshell": Family("codeshell", "Starcoder2", dict(use_bias=True, hidden_act="gelu_pytorch_tanh", sliding_window=None),
                        layer={"mlp.c_fc": "ffn_up", "mlp.c_proj": "ffn_down"}, change=fuse_qkv, seed=6),
    "jais2": Family("jais2", "Jais2", dict(head_dim=16), lambda c: {"rope.dimension_count": 16}),
    "qwen": Family("qwen", "Qwen2", dict(num_key_value_heads=4),
                   lambda c: {"feed_forward_length": 192, "attention.layer_norm_rms_epsilon": c.rms_norm_eps},
                   change=fuse_qkv, seed=7),
    "chatglm": Family("chatglm", "Glm", dict(partial_rotary_factor=0.5, attention_bias=True, head_dim=16),
                      lambda c: {"rope.dimension_count": 8}, layer={"mlp.gate_up_proj": "ffn_up"}, change=fuse_qkv),
    "dbrx": Family("dbrx", "Dbrx",
                   dict(d_model=64, n_heads=4, n_layers=2, max_seq_len=N_CTX,
                        attn_config=dict(kv_n_heads=2, clip_qkv=0.4, rope_theta=10000.0),
                        ffn_config=dict(hidden_size=64, ffn_hidden_size=48, moe_num_experts=6, moe_top_k=2)),
                   lambda c: {"feed_forward_length": 48, "attention.head_count_kv": 2, "attention.clamp_kqv": 0.4,
                              "attention.layer_norm_epsilon": 1e-5, "expert_count": 6, "expert_used_count": 2},
                   layer={"norm_attn_norm.norm_1": "attn_norm", "norm_attn_norm.norm_2": "attn_output_norm",
                          "norm_attn_norm.attn.Wqkv": "attn_qkv", "norm_attn_norm.attn.out_proj": "attn_output",
                          "ffn.router.layer": "ffn_gate_inp", "ffn.experts.mlp.w1": "ffn_gate_exps",
                          "ffn.experts.mlp.v1": "ffn_up_exps", "ffn.experts.mlp.w2": "ffn_down_exps"},
                   whole={"transformer.wte": "token_embd", "transformer.norm_f": "output_norm"},
                   prefix="transformer.blocks.", change=lambda name, data, c: stacked_experts(name, data, 6)),
    "afmoe": Family("afmoe", "Afmoe",
                    dict(num_hidden_layers=4, head_dim=16, num_experts=6, num_experts_per_tok=2, num_shared_experts=1,
                         moe_intermediate_size=32, num_dense_layers=1, route_scale=2.0, sliding_window=8,
                         mup_enabled=True),
                    lambda c: {"expert_count": 6, "expert_used_count": 2, "expert_shared_count": 1,
                               "expert_feed_forward_length": 32, "expert_weights_scale": 2.0,
                               "expert_weights_norm": True, "leading_dense_block_count": 1,
                               "attention.sliding_window": 8},
                    layer=EXPERTS | SHARED |
                    {"post_attention_layernorm": "post_attention_norm", "pre_mlp_layernorm": "ffn_norm",
                     "post_mlp_layernorm": "post_ffw_norm", "self_attn.gate_proj": "attn_gate",
                     "mlp.router.gate": "ffn_gate_inp", "mlp.expert_bias": "exp_probs_b.bias"}, change=split_experts),
    "bailingmoe": Family("bailingmoe", "Ernie4_5_Moe",
                         dict(num_hidden_layers=3, moe_num_experts=6, moe_k=2, moe_num_shared_experts=1,
                              moe_layer_start_index=1, moe_layer_interval=1, moe_intermediate_size=32),
                         lambda c: {"expert_count": 6, "expert_used_count": 2, "expert_shared_count": 1,
                                    "expert_feed_forward_length": 32, "leading_dense_block_count": 1,
                                    "expert_weights_norm": True, "expert_weights_scale": 1.0,
                                    "rope.dimension_count": 16},
                         layer=EXPERTS | SHARED |
                         {"mlp.gate.moe_statics.e_score_correction_bias": "exp_probs_b.bias"},
                         change=lambda name, data, c: split_experts(name, data.squeeze(), c), seed=8),
    "bailingmoe2": Family("bailingmoe2", "Glm4Moe",
                          dict(head_dim=16, partial_rotary_factor=0.5, use_qk_norm=True, attention_bias=False,
                               num_hidden_layers=3, first_k_dense_replace=1, n_routed_experts=8, num_experts_per_tok=3,
                               n_shared_experts=1, moe_intermediate_size=32, routed_scaling_factor=2.5, n_group=4,
                               topk_group=2),
                          lambda c: {"rope.dimension_count": 8, "expert_count": 8, "expert_used_count": 3,
                                     "expert_shared_count": 1, "expert_feed_forward_length": 32,
                                     "expert_shared_feed_forward_length": 32, "expert_weights_scale": 2.5,
                                     "expert_weights_norm": True, "expert_gating_func": 2, "expert_group_count": 4,
                                     "expert_group_used_count": 2, "leading_dense_block_count": 1},
                          layer=EXPERTS | SHARED,
                          change=lambda name, data, c: [pair for part in split_experts(name, data, c)
                                                        for pair in fuse_qkv(*part, c)], seed=9),
    "qwen3next": Family("qwen3next", "Qwen3Next", DELTA | DELTA_EXPERTS,
                        lambda c: DELTA_META | DELTA_EXPERTS_META, layer=DELTA_LAYER | EXPERTS | SHARED_GATED,
                        change=lambda name, data, c: delta_net(name, data, c), offset=1.0),
    "qwen3next-old": Family("qwen3next", "Qwen3Next", DELTA | DELTA_EXPERTS,
                            lambda c: DELTA_META | DELTA_EXPERTS_META,
                            layer=DELTA_LAYER | EXPERTS | SHARED_GATED | {"linear_attn.in_proj_qkvz": "ssm_in"},
                            change=lambda name, data, c: split_experts(*scan_tensors(name, data), c), offset=1.0,
                            seed=15),
    "qwen35": Family("qwen35", "Qwen3_5", DELTA, lambda c: DELTA_META, layer=DELTA_LAYER,
                     change=lambda name, data, c: tiled_delta_net(name, data, c), offset=1.0, kind="Qwen3_5TextConfig",
                     n_tokens=48),
    "qwen35moe": Family("qwen35moe", "Qwen3_5Moe", DELTA | DELTA_EXPERTS,
                        lambda c: DELTA_META | DELTA_EXPERTS_META, layer=DELTA_LAYER | EXPERTS | SHARED_GATED,
                        change=lambda name, data, c: tiled_delta_net(name, data, c), offset=1.0,
                        kind="Qwen3_5MoeTextConfig"),
    "falcon-mamba": Family("mamba", "FalconMamba",
                           dict(state_size=8, conv_kernel=4, expand=2, intermediate_size=128, time_step_rank=4,
                                mixer_rms_eps=1e-5, tie_word_embeddings=False),
                           lambda c: {"feed_forward_length": 0, "attention.layer_norm_rms_epsilon": 1e-5,
                                      "ssm.conv_kernel": 4, "ssm.inner_size": 128, "ssm.state_size": 8,
                                      "ssm.time_step_rank": 4, "ssm.dt_b_c_rms": True},
                           layer=mixer("mixer") | {"norm": "attn_norm"}, prefix="backbone.layers.",
                           whole={"backbone.embeddings": "token_embd", "backbone.norm_f": "output_norm"},
                           change=lambda name, data, c: [scan_tensors(name, data)]),
    "jamba": Family("jamba", "Jamba",
                    dict(num_hidden_layers=4, attn_layer_period=4, attn_layer_offset=2, expert_layer_period=2,
                         expert_layer_offset=1, num_experts=4, num_experts_per_tok=2, mamba_d_state=8, mamba_dt_rank=4,
                         intermediate_size=48),
                    lambda c: {"attention.head_count_kv": [0, 0, 2, 0], "expert_count": 4, "expert_used_count": 2,
                               "ssm.conv_kernel": 4, "ssm.inner_size": 128, "ssm.state_size": 8,
                               "ssm.time_step_rank": 4},
                    layer=mixer("mamba") | {"pre_ff_layernorm": "ffn_norm", "mamba.dt_layernorm": "ssm_dt_norm",
                                            "mamba.b_layernorm": "ssm_b_norm", "mamba.c_layernorm": "ssm_c_norm",
                                            "feed_forward.gate_proj": "ffn_gate", "feed_forward.up_proj": "ffn_up",
                                            "feed_forward.down_proj": "ffn_down",
                                            "feed_forward.router": "ffn_gate_inp",
                                            "feed_forward.experts.gate_up_proj": "ffn_gate_up_exps",
                                            "feed_forward.experts.down_proj": "ffn_down_exps"},
                    whole={"model.final_layernorm": "output_norm"},
                    change=lambda name, data, c: split_experts(*scan_tensors(name, data), c)),
    "granitehybrid": Family("granitehybrid", "GraniteMoeHybrid", GRANITE_HYBRID | dict(num_local_experts=0,
                                                                                       position_embedding_type="rope"),
                            lambda c: GRANITE_HYBRID_META | {"feed_forward_length": 96}, layer=GRANITE_HYBRID_LAYER,
                            permute=True, change=lambda name, data, c: granite_hybrid(name, data, c)),
    "granitehybridmoe": Family("granitehybrid", "GraniteMoeHybrid",
                               GRANITE_HYBRID | dict(num_local_experts=6, num_experts_per_tok=2, intermediate_size=32),
                               lambda c: GRANITE_HYBRID_META | {"feed_forward_length": 32, "expert_count": 6,
                                                                "expert_used_count": 2,
                                                                "expert_shared_feed_forward_length": 96,
                                                                "rope.scaling.finetuned": False},
                               layer=GRANITE_HYBRID_LAYER, change=lambda name, data, c: granite_hybrid(name, data, c)),
    "nemotron_h": Family("nemotron_h", "NemotronH",
                         NEMOTRON_H | dict(layers_block_type=["linear_attention", "mlp", "full_attention", "mlp"]),
                         lambda c: NEMOTRON_H_META | {"attention.head_count_kv": [0, 0, 2, 0],
                                                      "feed_forward_length": [0, 96, 0, 96]},
                         layer=NEMOTRON_H_LAYER, prefix="model.layers.", whole=NEMOTRON_H_WHOLE,
                         change=lambda name, data, c: nemotron_h(name, data, c)),
    "nemotron_h_moe": Family("nemotron_h_moe", "NemotronH",
                             NEMOTRON_H | dict(layers_block_type=["full_attention", "moe", "linear_attention"],
                                               n_routed_experts=6, num_experts_per_tok=2, moe_intermediate_size=48,
                                               moe_shared_expert_intermediate_size=64, moe_latent_size=32,
                                               routed_scaling_factor=1.5),
                             lambda c: NEMOTRON_H_META | {"attention.head_count_kv": [2, 0, 0],
                                                          "feed_forward_length": [0, 48, 0], "expert_count": 6,
                                                          "expert_used_count": 2, "expert_feed_forward_length": 48,
                                                          "expert_shared_feed_forward_length": 64,
                                                          "expert_shared_count": 1, "expert_weights_norm": True,
                                                          "expert_weights_scale": 1.5, "expert_group_count": 1,
                                                          "moe_latent_size": 32},
                             layer=NEMOTRON_H_LAYER, prefix="model.layers.", whole=NEMOTRON_H_WHOLE,
                             change=lambda name, data, c: nemotron_h(name, data, c)),
    "falcon-h1": Family("falcon-h1", "FalconH1",
                        dict(mamba_d_ssm=96, mamba_n_heads=6, mamba_d_head=16, mamba_n_groups=2, mamba_d_state=16,
                             mamba_rms_norm=False, head_dim=16, attention_in_multiplier=0.5,
                             attention_out_multiplier=2.0, key_multiplier=4.0, ssm_in_multiplier=2.0,
                             ssm_out_multiplier=0.5, ssm_multipliers=[0.5, 2.0, 4.0, 0.25, 0.5],
                             mlp_multipliers=[2.0, 0.5], embedding_multiplier=4.0, lm_head_multiplier=0.5),
                        lambda c: {"attention.key_length": 16, "attention.value_length": 16, "ssm.conv_kernel": 4,
                                   "ssm.inner_size": 96, "ssm.state_size": 16, "ssm.time_step_rank": 6,
                                   "ssm.group_count": 2},
                        layer=mixer("mamba") | {"pre_ff_layernorm": "ffn_norm", "feed_forward.gate_proj": "ffn_gate",
                                                "feed_forward.up_proj": "ffn_up",
                                                "feed_forward.down_proj": "ffn_down"},
                        whole={"model.final_layernorm": "output_norm"},
                        change=lambda name, data, c: falcon_h1(name, data, c), n_tokens=48),
    "kimi-linear": Family("kimi-linear", "KimiLinear",
                          dict(num_hidden_layers=4, num_key_value_heads=4, q_lora_rank=None, kv_lora_rank=32,
                               qk_nope_head_dim=16, qk_rope_head_dim=8, v_head_dim=16, linear_head_dim=16,
                               linear_num_heads=4, num_local_experts=6, num_experts_per_tok=2, n_shared_experts=1,
                               moe_intermediate_size=32, routed_scaling_factor=1.5, n_group=1, topk_group=1,
                               layer_types=["linear_attention", "full_attention", "linear_attention",
                                            "linear_attention"],
                               mlp_layer_types=["dense", "sparse", "sparse", "sparse"], rms_norm_eps=1e-6),
                          lambda c: LATENT | {"attention.head_count_kv": [0, 1, 0, 0], "kda.head_dim": 16,
                                              "ssm.conv_kernel": 4, "expert_count": 6, "expert_used_count": 2,
                                              "expert_gating_func": 2, "expert_weights_scale": 1.5},
                          layer=LATENT_LAYER | {"self_attn.conv1d": "ssm_conv1d", "self_attn.b_proj": "ssm_beta",
                                                "self_attn.forget_gate.f_a_proj": "ssm_f_a",
                                                "self_attn.forget_gate.f_b_proj": "ssm_f_b",
                                                "self_attn.forget_gate.dt_bias": "ssm_dt.bias",
                                                "self_attn.forget_gate.A_log": "ssm_a",
                                                "self_attn.g_a_proj": "ssm_g_a", "self_attn.g_b_proj": "ssm_g_b",
                                                "self_attn.o_norm": "ssm_norm"},
                          change=lambda name, data, c: kimi_linear(name, data, c)),
    "llama4": Family("llama4", "Llama4",
                     dict(head_dim=16, num_hidden_layers=4, num_local_experts=6, num_experts_per_tok=1,
                          intermediate_size=48, intermediate_size_mlp=96, interleave_moe_layer_step=2,
                          attention_chunk_size=12, floor_scale=8, attn_scale=0.3),
                     lambda c: {"feed_forward_length": 96, "expert_feed_forward_length": 48, "expert_count": 6,
                                "expert_used_count": 1, "interleave_moe_layer_step": 2, "rope.dimension_count": 16,
                                "attention.sliding_window": 12, "attention.temperature_length": 8,
                                "attention.temperature_scale": 0.3, "rope.freq_base": 500000.0},
                     layer={"feed_forward.gate_proj": "ffn_gate", "feed_forward.up_proj": "ffn_up",
                            "feed_forward.down_proj": "ffn_down", "feed_forward.router": "ffn_gate_inp",
                            "feed_forward.experts.gate_up_proj": "ffn_gate_up_exps",
                            "feed_forward.experts.down_proj": "ffn_down_exps",
                            "feed_forward.shared_expert.gate_proj": "ffn_gate_shexp",
                            "feed_forward.shared_expert.up_proj": "ffn_up_shexp",
                            "feed_forward.shared_expert.down_proj": "ffn_down_shexp"},
                     change=lambda name, data, c: split_experts(
                         name, data.swapaxes(1, 2) if name.endswith("_exps.weight") else data, c), kind="Llama4TextConfig"),
    "bloom": Family("bloom", "Bloom", dict(num_attention_heads=6, hidden_size=96),
                    lambda c: {"attention.head_count": 6, "attention.head_count_kv": 6, "feed_forward_length": 384},
                    layer={"self_attention.query_key_value": "attn_qkv", "self_attention.dense": "attn_output",
                           "mlp.dense_h_to_4h": "ffn_up", "mlp.dense_4h_to_h": "ffn_down"},
                    whole={"transformer.word_embeddings": "token_embd",
                           "transformer.word_embeddings_layernorm": "token_embd_norm",
                           "transformer.ln_f": "output_norm"},
                    prefix="transformer.h.", change=fused_qkv_by_heads),
    "mpt": Family("mpt", "Mpt",
                  dict(d_model=64, n_heads=4, n_layers=2, max_seq_len=N_CTX, expansion_ratio=2,
                       attn_config=dict(clip_qkv=0.4, alibi_bias_max=8, attn_type="multihead_attention")),
                  lambda c: {"attention.head_count_kv": 4, "feed_forward_length": 256, "attention.clamp_kqv": 0.4,
                             "attention.max_alibi_bias": 8.0, "attention.layer_norm_epsilon": 1e-5},
                  layer={"norm_1": "attn_norm", "norm_2": "ffn_norm", "attn.Wqkv": "attn_qkv",
                         "attn.out_proj": "attn_output", "ffn.up_proj": "ffn_up", "ffn.down_proj": "ffn_down"},
                  whole={"transformer.wte": "token_embd", "transformer.norm_f": "output_norm"},
                  prefix="transformer.blocks."),
    "baichuan": Family("baichuan", "Llama", dict(num_key_value_heads=4), lambda c: {"rope.dimension_count": 16},
                       permute=True, seed=10),
    "baichuan-13b": Family("baichuan", "Llama",
                           dict(hidden_size=16, intermediate_size=24, num_hidden_layers=40, num_attention_heads=2,
                                num_key_value_heads=2), alibi=True),
    "refact": Family("refact", "Llama", dict(num_key_value_heads=1), alibi=True, seed=11),
    "gemma3n": Family("gemma3n", "Gemma3n",
                      dict(head_dim=16, hidden_activation="gelu_pytorch_tanh", num_hidden_layers=6,
                           sliding_window=8, num_kv_shared_layers=2, hidden_size_per_layer_input=16,
                           vocab_size_per_layer_input=N_VOCAB, laurel_rank=64, altup_num_inputs=4,
                           altup_active_idx=0, altup_correct_scale=True, final_logit_softcapping=3.0,
                           activation_sparsity_pattern=[0.9, 0.6, 0.0, 0.0, 0.0, 0.0],
                           layer_types=["sliding_attention", "full_attention", "sliding_attention", "full_attention",
                                        "sliding_attention", "full_attention"]),
                      lambda c: {"feed_forward_length": 96, "attention.key_length": 16, "attention.value_length": 16,
                                 "attention.sliding_window": 8,
                                 "attention.sliding_window_pattern": [True, False, True, False, True, False],
                                 "attention.shared_kv_layers": 2, "altup.num_inputs": 4, "altup.active_idx": 0,
                                 "embedding_length_per_layer_input": 16, "final_logit_softcapping": 3.0,
                                 "rope.freq_base": 1000000.0,
                                 "activation_sparsity_scale": [
                                     torch.distributions.normal.Normal(0, 1).icdf(torch.tensor(share)).item()
                                     for share in c.activation_sparsity_pattern]},
                      layer={"post_attention_layernorm": "post_attention_norm", "pre_feedforward_layernorm": "ffn_norm",
                             "post_feedforward_layernorm": "post_ffw_norm", "per_layer_input_gate": "inp_gate",
                             "per_layer_projection": "proj", "post_per_layer_input_norm": "post_norm",
                             "altup.correction_coefs": "altup_correct_coef",
                             "altup.correct_output_scale": "altup_correct_scale",
                             "altup.prediction_coefs": "altup_predict_coef", "altup.modality_router": "altup_router",
                             "altup.router_norm": "altup_router_norm", "laurel.linear_left": "laurel_l",
                             "laurel.linear_right": "laurel_r", "laurel.post_laurel_norm": "laurel_post_norm"},
                      whole={"model.embed_tokens_per_layer": "per_layer_token_embd",
                             "model.per_layer_model_projection": "per_layer_model_proj",
                             "model.per_layer_projection_norm": "per_layer_proj_norm"} |
                      {f"model.altup_projections.{i}": "altup_proj" for i in range(3)} |
                      {f"model.altup_unembed_projections.{i}": "altup_unembd_proj" for i in range(3)},
                      kind="Gemma3nTextConfig"),
    "gemma4": Family("gemma4", "Gemma4",
                     GEMMA4 | dict(num_kv_shared_layers=2, hidden_size_per_layer_input=16, use_double_wide_mlp=True),
                     lambda c: GEMMA4_META | {"feed_forward_length": [96] * 4 + [192] * 2,
                                              "attention.shared_kv_layers": 2, "embedding_length_per_layer_input": 16},
                     layer=GEMMA4_LAYER,
                     whole={"model.embed_tokens_per_layer": "per_layer_token_embd",
                            "model.per_layer_model_projection": "per_layer_model_proj",
                            "model.per_layer_projection_norm": "per_layer_proj_norm"},
                     change=lambda name, data, c: part_of_rope(name, 16, 4) + [(name, data)], kind="Gemma4TextConfig"),
    # Without images, positions of time, lines and columns are the same: these are Qwen2 and Qwen3.
    "mellum": Family("mellum", "Mellum",
                     dict(head_dim=16, num_hidden_layers=4, num_local_experts=6, num_experts_per_tok=2, moe_intermediate_size=32,
                          sliding_window=8, layer_types=["sliding_attention"] * 3 + ["full_attention"],
                          rope_parameters={
                              "full_attention": {"rope_type": "yarn", "rope_theta": 500000.0, "factor": 4.0,
                                                 "original_max_position_embeddings": 64},
                              "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0}}),
                     lambda c: {"attention.key_length": 16, "attention.value_length": 16, "expert_count": 6,
                                "expert_used_count": 2, "expert_feed_forward_length": 32, "attention.sliding_window": 8,
                                "attention.sliding_window_pattern": [True, True, True, False],
                                "rope.freq_base": 500000.0, "rope.freq_base_swa": 10000.0, "rope.scaling.type": "yarn",
                                "rope.scaling.factor": 4.0, "rope.scaling.original_context_length": 64,
                                "rope.scaling.attn_factor": 1.0},
                     layer=EXPERTS, change=split_experts),
    "qwen2vl": Family("qwen2vl", "Qwen2", None, lambda c: {"rope.dimension_sections": [2, 3, 3, 0]}, seed=12),
    "qwen3vl": Family("qwen3vl", "Qwen3", dict(head_dim=16, num_hidden_layers=3),
                      lambda c: {"attention.key_length": 16, "attention.value_length": 16,
                                 "rope.dimension_sections": [4, 2, 2, 0], "n_deepstack_layers": 2}, seed=13),
    "qwen3vlmoe": Family("qwen3vlmoe", "Qwen3Moe",
                         dict(head_dim=16, num_experts=6, num_experts_per_tok=2, moe_intermediate_size=32,
                              norm_topk_prob=True),
                         lambda c: {"attention.key_length": 16, "attention.value_length": 16, "expert_count": 6,
                                    "expert_used_count": 2, "expert_feed_forward_length": 32,
                                    "rope.dimension_sections": [4, 2, 2, 0], "n_deepstack_layers": 1},
                         layer=EXPERTS, change=split_experts, seed=14),
    "gemma4-moe": Family("gemma4", "Gemma4",
                         GEMMA4 | dict(attention_k_eq_v=True, num_global_key_value_heads=1, enable_moe_block=True,
                                       num_experts=6, top_k_experts=2, moe_intermediate_size=32,
                                       hidden_size_per_layer_input=0),
                         lambda c: GEMMA4_META | {"feed_forward_length": 96, "embedding_length_per_layer_input": 0,
                                                  "attention.shared_kv_layers": 0,
                                                  "attention.head_count_kv": [2, 1, 2, 1, 2, 1], "expert_count": 6,
                                                  "expert_used_count": 2, "expert_feed_forward_length": 32},
                         layer=GEMMA4_LAYER,
                         change=lambda name, data, c: part_of_rope(name, 16, 4) + [(name, data)], kind="Gemma4TextConfig"),
    "rwkv7": Family("rwkv7", "Rwkv7", dict(num_hidden_layers=3), lambda c: RWKV | {"attention.layer_norm_epsilon": 1e-5},
                    change=lambda name, data, c: first_values(name, data), source=rwkv_reference, n_tokens=48),
    "arwkv7": Family("arwkv7", "Arwkv7", dict(num_hidden_layers=3, gated=False, rms_norm_eps=1e-6),
                     lambda c: RWKV | {"attention.gate_lora_rank": 0, "token_shift_count": 1}, 
                     change=lambda name, data, c: first_values(name, data), source=rwkv_reference, n_tokens=48),
    "deepseek": Family("deepseek", "Deepseek",
                       dict(num_hidden_layers=3, num_experts=6, num_experts_per_tok=2, moe_intermediate_size=32,
                            n_shared_experts=2, first_k_dense_replace=1),
                       lambda c: {"expert_count": 6, "expert_used_count": 2, "expert_shared_count": 2,
                                  "expert_feed_forward_length": 32, "leading_dense_block_count": 1,
                                  "expert_weights_scale": 1.0, "rope.dimension_count": 16}, source=own_references),
    "deci": Family("deci", "Deci",
                   dict(num_hidden_layers=5, num_attention_heads=[4, 4, 0, 4, 0], num_key_value_heads=[2, 0, 0, 1, 0],
                        intermediate_size=[96, 64, 128, 0, 96], head_dim=16),
                   lambda c: {"feed_forward_length": c.intermediate_size, "attention.head_count": c.num_attention_heads,
                              "attention.head_count_kv": c.num_key_value_heads, "attention.key_length": 16,
                              "attention.value_length": 16, "rope.dimension_count": 16}, source=own_references),
    "exaone-moe": Family("exaone-moe", "ExaoneMoe",
                         dict(num_hidden_layers=4, head_dim=16, sliding_window=8, sliding_window_pattern="LLLG",
                              layer_types=["sliding_attention"] * 3 + ["full_attention"], num_experts=6,
                              num_experts_per_tok=2, moe_intermediate_size=32, num_shared_experts=1, n_group=1,
                              topk_group=1, routed_scaling_factor=2.5, norm_topk_prob=True, first_k_dense_replace=1,
                              mlp_layer_types=["dense"] + ["sparse"] * 3),
                         lambda c: {"attention.sliding_window": 8, "expert_count": 6, "expert_used_count": 2,
                                    "expert_shared_count": 1, "expert_feed_forward_length": 32,
                                    "expert_weights_scale": 2.5, "expert_weights_norm": True, "expert_gating_func": 2,
                                    "leading_dense_block_count": 1, "attention.key_length": 16,
                                    "attention.value_length": 16},
                         layer=EXPERTS | SHARED | {"mlp.e_score_correction_bias": "exp_probs_b.bias"},
                         change=split_experts),
    "smallthinker": Family("smallthinker", "SmallThinker",
                           dict(num_hidden_layers=5, num_experts=6, num_experts_per_tok=2, moe_intermediate_size=32,
                                sliding_window=8, rope="halves"),
                           lambda c: {"attention.sliding_window": 8, "expert_count": 6, "expert_used_count": 2,
                                      "expert_feed_forward_length": 32, "expert_gating_func": 2,
                                      "feed_forward_length": 32}, source=own_references),
    "arctic": Family("arctic", "Arctic", dict(num_experts=6, num_experts_per_tok=2, moe_intermediate_size=48),
                     lambda c: {"feed_forward_length": 48, "expert_count": 6, "expert_used_count": 2,
                                "rope.dimension_count": 16}, source=own_references),
    "openelm": Family("openelm", "OpenElm",
                      dict(num_hidden_layers=3, num_attention_heads=[2, 4, 6], num_key_value_heads=[1, 2, 2],
                           intermediate_size=[64, 96, 128], head_dim=16, rope="halves"),
                      lambda c: {"feed_forward_length": c.intermediate_size,
                                 "attention.head_count": c.num_attention_heads,
                                 "attention.head_count_kv": c.num_key_value_heads, "attention.key_length": 16,
                                 "attention.value_length": 16}, change=fuse_qkv, source=own_references),
    "maincoder": Family("maincoder", "HunYuanDenseV1", dict(head_dim=16),
                        layer={"self_attn.query_layernorm": "attn_q_norm", "self_attn.key_layernorm": "attn_k_norm"},
                        seed=12),
    "pangu-embedded": Family("pangu-embedded", "Llama", dict(attention_bias=True), seed=13),
    "mimo2": Family("mimo2", "MiMoV2Flash",
                    dict(num_hidden_layers=4, head_dim=24, v_head_dim=16, num_key_value_heads=1, sliding_window=8,
                         layer_types=["full_attention", "sliding_attention", "sliding_attention", "full_attention"],
                         mlp_layer_types=["dense"] + ["sparse"] * 3, n_routed_experts=6, num_experts_per_tok=2,
                         moe_intermediate_size=32, attention_value_scale=0.7,
                         rope_parameters={kind: {"rope_type": "default", "rope_theta": base, "partial_rotary_factor": 1 / 3}
                                          for kind, base in (("full_attention", 5e6), ("sliding_attention", 1e4))}),
                    lambda c: {"attention.head_count_kv": [1, 2, 2, 1], "attention.key_length": 24,
                               "attention.value_length": 16, "attention.value_scale": 0.7,
                               "attention.sliding_window": 8,
                               "attention.sliding_window_pattern": [False, True, True, False], "rope.freq_base": 5e6,
                               "rope.freq_base_swa": 1e4, "rope.dimension_count": 8, "expert_count": 6,
                               "expert_used_count": 2, "expert_feed_forward_length": 32},
                    layer=EXPERTS | {"self_attn.sinks": "attn_sinks",
                                     "mlp.gate.e_score_correction_bias": "exp_probs_b.bias"}, change=split_experts),
    "llama4-dense": Family("llama4", "Llama4",
                           dict(head_dim=16, num_hidden_layers=4, intermediate_size_mlp=96, moe_layers=[],
                                attention_chunk_size=12, floor_scale=8, attn_scale=0.3),
                           lambda c: {"feed_forward_length": 96, "rope.dimension_count": 16,
                                      "attention.sliding_window": 12, "attention.temperature_length": 8,
                                      "attention.temperature_scale": 0.3, "rope.freq_base": 500000.0},
                           layer={"feed_forward.gate_proj": "ffn_gate", "feed_forward.up_proj": "ffn_up",
                                  "feed_forward.down_proj": "ffn_down"}, kind="Llama4TextConfig", seed=14),
    "chameleon": Family("chameleon", "Chameleon", CHAMELEON, lambda c: {"swin_norm": False}, permute=True,
                        change=lambda name, data, c: turned_head_norms(name, data), head="ForConditionalGeneration",
                        unused=("model.vqmodel",)),
    "chameleon-swin": Family("chameleon", "Chameleon", CHAMELEON | dict(swin_norm=True), lambda c: {"swin_norm": True},
                             permute=True, change=lambda name, data, c: turned_head_norms(name, data),
                             head="ForConditionalGeneration", unused=("model.vqmodel",), seed=15),
    "nemotron_h_puzzle": Family("nemotron_h_moe", "NemotronHPuzzle",
                                NEMOTRON_H | dict(layers_block_type=["full_attention", "moe", "linear_attention", "moe"],
                                                  n_routed_experts=6, moe_shared_expert_intermediate_size=64,
                                                  moe_latent_size=32, routed_scaling_factor=1.5,
                                                  moe_widths=[0, 48, 0, 32], experts_used=[0, 2, 0, 3]),
                                lambda c: NEMOTRON_H_META | {"attention.head_count_kv": [2, 0, 0, 0],
                                                             "feed_forward_length": c.moe_widths, "expert_count": 6,
                                                             "expert_used_count": c.experts_used,
                                                             "expert_feed_forward_length": c.moe_widths,
                                                             "expert_shared_feed_forward_length": 64,
                                                             "expert_shared_count": 1, "expert_weights_norm": True,
                                                             "expert_weights_scale": 1.5, "expert_group_count": 1,
                                                             "moe_latent_size": 32},
                                layer=NEMOTRON_H_LAYER, prefix="model.layers.", whole=NEMOTRON_H_WHOLE,
                                change=lambda name, data, c: nemotron_h(name, data, c), source=own_references,
                                named=False),
    "plamo2": Family("plamo2", "Plamo2",
                     dict(num_hidden_layers=3, num_attention_heads=[0, 4, 0], num_key_value_heads=[0, 2, 0], head_dim=16,
                          rope="halves", scan_heads=4, scan_dim=16, scan_state=8, taps=4),
                     lambda c: {"attention.head_count": c.num_attention_heads,
                                "attention.head_count_kv": c.num_key_value_heads, "attention.key_length": 16,
                                "attention.value_length": 16, "ssm.conv_kernel": 4, "ssm.inner_size": 64,
                                "ssm.state_size": 8, "ssm.time_step_rank": 4, "ssm.group_count": 0},
                     change=lambda name, data, c: plamo2(name, data, c), source=own_references, n_tokens=48),
    "step35": Family("step35", "Step35",
                     dict(num_hidden_layers=4, head_dim=16, sliding_window=8, num_sliding_attention_heads=6,
                          layer_types=["full_attention"] + ["sliding_attention"] * 2 + ["full_attention"],
                          mlp_layer_types=["dense"] + ["sparse"] * 3, n_routed_experts=6, num_experts_per_tok=2,
                          moe_intermediate_size=32, share_expert_dim=48, moe_router_scaling_factor=1.5,
                          swiglu_limits=[0.0, 0.0, 0.2, 0.1], swiglu_limits_shared=[0.3, 0.0, 0.2, 0.0],
                          query_pre_attn_scalar=16,
                          rope_parameters={
                              "full_attention": {"rope_type": "default", "rope_theta": 5e6, "partial_rotary_factor": 0.5},
                              "sliding_attention": {"rope_type": "default", "rope_theta": 1e4,
                                                    "partial_rotary_factor": 1.0}}),
                     lambda c: {"attention.head_count": [4, 6, 6, 4], "attention.head_count_kv": [2] * 4,
                                "attention.key_length": 16, "attention.value_length": 16,
                                "attention.sliding_window": 8,
                                "attention.sliding_window_pattern": [False, True, True, False], "rope.freq_base": 5e6,
                                "rope.freq_base_swa": 1e4, "rope.dimension_count": 16, "expert_count": 6,
                                "expert_used_count": 2, "expert_feed_forward_length": 32,
                                "expert_shared_feed_forward_length": 48, "expert_weights_scale": 1.5,
                                "expert_weights_norm": True, "leading_dense_block_count": 1,
                                "swiglu_clamp_exp": c.swiglu_limits, "swiglu_clamp_shexp": c.swiglu_limits_shared},
                     layer=EXPERTS | SHARED | {"self_attn.g_proj": "attn_gate"}, change=split_experts, offset=1.0,
                     source=own_references, named=False),
    "grovemoe": Family("grovemoe", "GroveMoe",
                       dict(num_experts=6, num_experts_per_tok=3, moe_intermediate_size=32, chunk_intermediate_size=24,
                            experts_per_group=2, chunk_scale=0.5, head_dim=16, rope="halves"),
                       lambda c: {"expert_count": 6, "expert_used_count": 3, "expert_feed_forward_length": 32,
                                  "expert_chunk_feed_forward_length": 24, "experts_per_group": 2,
                                  "expert_group_scale": 0.5, "attention.key_length": 16, "attention.value_length": 16},
                       source=own_references),
    "plamo": Family("plamo", "Plamo", dict(rope="halves"), source=own_references),
    "jais": Family("jais", "Jais", dict(num_key_value_heads=4, rms_norm_eps=None, layer_norm_eps=1e-5),
                   lambda c: {"attention.max_alibi_bias": 8.0}, change=fuse_qkv, source=own_references),
    "grok": Family("grok", "Grok",
                   dict(num_experts=6, num_experts_per_tok=2, moe_intermediate_size=96, intermediate_size=0, rope="halves",
                        rms_norm_eps=1e-5, norm_behind="layer_output_norm", embedding_scale=78.38367176906169,
                        logit_scale=0.5773502691896257, attention_scale=0.08838834764831845, router_softcap=0.0,
                        logit_softcap=0.0),
                   lambda c: {"feed_forward_length": 96, "expert_count": 6, "expert_used_count": 2}, source=own_references),
    "grok2": Family("grok", "Grok",
                    dict(num_experts=6, num_experts_per_tok=2, moe_intermediate_size=48, rope="halves", rms_norm_eps=1e-5,
                         norm_behind="post_ffw_norm", embedding_scale=6.0, logit_scale=0.5, attention_scale=0.2,
                         router_softcap=1.5, logit_softcap=3.0),
                    lambda c: {"expert_feed_forward_length": 48, "expert_count": 6, "expert_used_count": 2,
                               "embedding_scale": 6.0, "logit_scale": 0.5, "attention.output_scale": 0.2,
                               "attn_logit_softcapping": 30.0, "router_logit_softcapping": 1.5,
                               "final_logit_softcapping": 3.0}, source=own_references),
    "rwkv6": Family("rwkv6", "Rwkv6", dict(num_hidden_layers=3, n_per_halving=2),
                    lambda c: RWKV6 | {"attention.layer_norm_epsilon": 1e-5, "rescale_every_n_layers": 2},
                    change=lambda name, data, c: halved_outputs(name, data, c), source=rwkv_reference, n_tokens=48),
    "rwkv6-fused": Family("rwkv6", "Rwkv6", dict(fused=True), lambda c: RWKV6 | {"attention.layer_norm_epsilon": 1e-5},
                          source=rwkv_reference),
    "rwkv6qwen2": Family("rwkv6qwen2", "Rwkv6Qwen2", dict(fused=True, num_key_value_heads=1, rms_norm_eps=1e-6),
                         lambda c: RWKV6 | {"attention.head_count_kv": 1, "token_shift_count": 1}, source=rwkv_reference,
                         n_tokens=48),
}


def turned_head_norms(name, data):
    """Weights of heads' norms turn with the rows that they multiply."""
    if re.search(r"attn_[qk]_norm", name):
        data = interleave(data.reshape(-1), len(data)).reshape(data.shape)
    return [(name, data)]


def plamo2(name, data, config):
    """Files name some norms without an ending, and have gate and up in one matrix."""
    name, data = scan_tensors(name, data)
    name = re.sub(r"(post_attention_norm|post_ffw_norm|ssm_(?:dt|b|c)_norm)\.weight$", r"\1", name)
    return fuse_qkv(re.sub(r"ffn_(gate|up)\.weight$", "ffn_up.weight+", name), data, config)


def halved_outputs(name, data, config):
    """The outputs that layers add to rows, halved as often as the rows were before."""
    layer = re.match(r"blk\.(\d+)\.(time_mix_output|channel_mix_value)", name)
    return [(name, data / 2 ** (int(layer[1]) // config.n_per_halving) if layer else data)]


def first_values(name, data):
    """Files have what the first layer would mix its values by, of which it has no use."""
    unused = [(name.replace("mix_a", "mix_v"), data)] if name.startswith("blk.0.time_mix_a") else []
    return [(name, data)] + unused


def part_of_rope(name, pairs, turned):
    """Factors that leave only the first pairs of a head turning, once for the model."""
    factors = np.array([1.0] * turned + [1e30] * (pairs - turned), np.float32)
    return [("rope_freqs.weight", factors)] if name == "output_norm.weight" else []


def long_rope_factors(name, config):
    """LongRope's factors, once for the model."""
    if name != "output_norm.weight":
        return []
    return [(f"rope_factors_{part}.weight", np.array(config.rope_parameters[f"{part}_factor"], np.float32))
            for part in ("long", "short")]


def llama3_factors(name, config):
    """What Llama 3's scaling divides frequencies by, once for the model."""
    if name != "output_norm.weight":
        return []
    plain = config.rope_parameters["rope_theta"] ** (-np.arange(0, config.head_dim, 2) / config.head_dim)
    scaled, _ = transformers.modeling_rope_utils.ROPE_INIT_FUNCTIONS["llama3"](config, "cpu")
    return [("rope_freqs.weight", (plain / scaled.numpy()).astype(np.float32))]


def stacked_experts(name, data, n_experts):
    """Experts concatenated by rows; the down projection has the layout of the up projection."""
    if name.endswith("_exps.weight"):
        data = data.reshape(n_experts, -1, data.shape[-1])
        if "down" in name:
            data = data.swapaxes(1, 2)
    return [(name, data)]


def kimi_linear(name, data, config):
    """Convolutions of q, k and v apart, with the sizes of 1 that the family's files have."""
    name, data = scan_tensors(name, data)
    if "ssm_conv1d" not in name:
        return split_latent(name, data, config)
    parts = np.split(data, 3)
    return [(name.replace("conv1d", f"conv1d_{part}"), rows.reshape(1, rows.shape[0], 1, -1))
            for part, rows in zip("qkv", parts)]


def scan_tensors(name, data):
    """Tensors of recurrent layers that are not matrices: decays are stored, not their logarithms."""
    if "ssm_conv1d.weight" in name:
        data = data.squeeze(1)
    if name.endswith("ssm_a.weight"):
        data = -np.exp(data)
    return re.sub(r"ssm_([ad])\.weight$", r"ssm_\1", name), data


def scan_heads(name, data, groups):
    """For Mamba-2, whose heads have one number of each kind."""
    name, data = scan_tensors(name, data)
    if re.search(r"ssm_[ad]$", name):
        data = data.reshape(-1, 1)
    if name.endswith("ssm_norm.weight"):
        data = data.reshape(groups, -1)
    return name, data


def granite_hybrid(name, data, config):
    """Without experts, the shared expert is a dense feed-forward part."""
    name, data = scan_heads(name, data, config.mamba_n_groups)
    if "ffn_gate_up_shexp" in name:
        half = data.shape[0] // 2
        parts = [(name.replace("gate_up", "gate"), data[:half]), (name.replace("gate_up", "up"), data[half:])]
    else:
        parts = split_experts(name, data, config)
    return parts if config.num_local_experts else [(n.replace("_shexp", ""), part) for n, part in parts]


def nemotron_h(name, data, config):
    return [scan_heads(name, data, config.n_groups)]


def falcon_h1(name, data, config):
    """The model's factors are multiplied into its weights."""
    name, data = scan_heads(name, data, config.mamba_n_groups)
    c = config
    stem = name.split(".")[-2]
    factors = {"attn_q": c.attention_in_multiplier, "attn_k": c.attention_in_multiplier * c.key_multiplier,
               "attn_v": c.attention_in_multiplier, "attn_output": c.attention_out_multiplier,
               "ssm_out": c.ssm_out_multiplier, "ffn_gate": c.mlp_multipliers[0], "ffn_down": c.mlp_multipliers[1],
               "token_embd": c.embedding_multiplier, "output": c.lm_head_multiplier}
    if stem == "ssm_in":
        n = c.mamba_n_groups * c.mamba_d_state
        rows = np.repeat(c.ssm_multipliers, [c.mamba_d_ssm, c.mamba_d_ssm, n, n, c.mamba_n_heads])
        data = data * (rows[:, None] * c.ssm_in_multiplier).astype(np.float32)
    return [(name, data * np.float32(factors.get(stem, 1.0)))]


def delta_net(name, data, config):
    """The joined projection of q, k, v and the gate stands group by group in transformers."""
    name, data = scan_tensors(name, data)
    if not name.endswith("attn_qkvz.weight"):
        return split_experts(name, data, config)
    groups, keys = config.linear_num_key_heads, config.linear_key_head_dim
    values = config.linear_num_value_heads // groups * config.linear_value_head_dim
    parts = np.split(data.reshape(groups, -1, data.shape[1]), np.cumsum([keys, keys, values]), axis=1)
    q, k, v, gate = (part.reshape(-1, data.shape[1]) for part in parts)
    return [(name.replace("qkvz", "qkv"), np.concatenate([q, k, v])), (name.replace("qkvz", "gate"), gate)]


def tiled_delta_net(name, data, config):
    """Heads of values that share a key lie apart: the first ones of all groups, then the second ones."""
    name, data = scan_tensors(name, data)
    groups, heads, dim = config.linear_num_key_heads, config.linear_num_value_heads, config.linear_value_head_dim

    def tiled(rows):
        return rows.reshape(groups, heads // groups, -1, *rows.shape[1:]).swapaxes(0, 1).reshape(rows.shape)

    n = heads * dim
    if re.search(r"attn_qkv|ssm_conv1d", name):
        data = np.concatenate([data[:-n], tiled(data[-n:])])
    elif re.search(r"attn_gate|ssm_(beta|alpha|dt|a)\b", name):
        data = tiled(data)
    elif "ssm_out" in name:
        data = tiled(data.T).T
    return split_experts(name, data, config)


def fused_qkv_by_groups(name, data, config):
    """Q, K and V of each group of heads with the same K and V, group after group."""
    if ".attn_qkv." not in name:
        return [(name, data)]
    groups, heads = config.num_kv_heads, config.num_attention_heads // config.num_kv_heads
    dim = data.shape[0] // groups // (heads + 2)
    parts = data.reshape(groups, heads + 2, dim, -1)
    rows = [parts[:, :heads], parts[:, heads:heads + 1], parts[:, heads + 1:]]
    return [(name, np.concatenate([part.reshape(-1, data.shape[1]) for part in rows]))]


def turned_experts(name, data):
    """Experts of gpt-oss: outputs are columns, gate and up alternate."""
    if name.endswith("_exps.weight"):
        data = data.swapaxes(1, 2)
    if "gate_up" not in name:
        return [(name, data)]
    return [(name.replace("gate_up", "gate"), data[:, ::2]), (name.replace("gate_up", "up"), data[:, 1::2])]


def split_latent(name, data, config):
    """What unfolds latent rows: keys, to be multiplied into queries, and values, head by head."""
    if not name.endswith("attn_kv_b.weight"):
        return split_experts(name, data, config)
    keys, values = config.qk_nope_head_dim, config.v_head_dim
    parts = data.reshape(config.num_attention_heads, keys + values, -1)
    return [(name.replace("kv_b", "k_b"), parts[:, :keys].swapaxes(1, 2)), (name.replace("kv_b", "v_b"), parts[:, keys:])]


def stack_head_norms(name, data):
    """Norms of heads: their weights head by head, as rows of one tensor."""
    match = re.match(r"(blk\.\d+\.attn_[qk]_norm)\.norms\.(\d+)\.weight", name)
    return [(f"{match[1]}.weight#{match[2]}", data)] if match else [(name, data)]


def weights(model):
    yield from model.named_parameters()
    yield from ((name, buffer) for name, buffer in model.named_buffers() if name.endswith(("e_score_correction_bias", "expert_bias", "layer_scalar")))


def spread(name, weight, tied):
    """The standard deviation of a matrix of KEPT: each part of a layer matters, and so do the differences of scores.

    Embeddings that are also the head are small in the sum of the layers. Otherwise a token mostly predicts itself.
    """
    n_in = weight.shape[0] if re.search(r"\.c_(attn|proj|fc)", name) else weight.shape[-1]
    if re.search("embed|wte|wpe", name):
        return 0.5 * n_in ** -0.5 if tied else 1.0
    return (1.5 if re.search("q_proj|k_proj|qkv|c_attn", name) else 2.0 if "lm_head" in name else 1.0) * n_in ** -0.5


def make_model(family):
    torch.manual_seed(family.seed)
    kind = getattr(family.source, family.kind)
    config = kind(**(SIZES | family.config), attn_implementation="eager", initializer_range=0.1)
    model = getattr(family.source, family.model + family.head)(config).eval().float()
    with torch.no_grad():
        for name, weight in weights(model):
            if family.kept and weight.dim() > 1:
                if "A_log" in name:
                    weight.add_(0.3 * torch.randn_like(weight))
                else:
                    weight.copy_(spread(name, weight, config.tie_word_embeddings) * torch.randn_like(weight))
                weight.copy_(coarse(weight))
                continue
            if family.kept and re.search(r"\.(dt_proj\.|dt_)bias", name):
                weight.copy_(weight.half().float())  # A state that lasts.
                continue
            # What starts as a constant gets values of its own, so that none can be left out unseen.
            if weight.dim() == 1:
                base = 1.0 - family.offset if name.endswith(("weight", "layer_scalar")) else 0.0
                if family.kept and config.tie_word_embeddings and re.search(r"(norm_f|ln_f|model\.(embedding_)?norm)\.weight", name):
                    base += 4.0
                weight.copy_(base + (0.1 if re.search("correction|expert_bias", name) else 0.3) * torch.randn_like(weight))
            elif name.endswith("_bias"):
                weight.copy_(0.3 * torch.randn_like(weight))
            elif "norm" in name:
                weight.copy_(1.0 + 0.3 * torch.randn_like(weight))
            elif weight.dim() == 3:
                weight.copy_(0.1 * torch.randn_like(weight))
            weight.copy_(coarse(weight))
    return model


def tensors(family, model):
    config = model.config
    rows = {}
    tied = getattr(config, "tie_word_embeddings", False)
    for name, weight in weights(model):
        data = weight.detach().numpy().astype(np.float32)
        if (tied and name == "lm_head.weight") or name.startswith(family.unused):
            continue
        if name.startswith(family.prefix):
            layer, rest = name.removeprefix(family.prefix).split(".", 1)
            stem = max((key for key in family.layer if rest == key or rest.startswith(key + ".")), key=len, default=None)
            if family.named:
                new = f"blk.{layer}.{rest}" + ("" if rest.endswith((".weight", ".bias")) else ".weight")
            elif stem is None:
                raise ValueError(f"no name for {name}")
            else:
                tail = rest[len(stem):] or ("" if family.layer[stem].endswith((".bias", ".scale")) else ".weight")
                new = f"blk.{layer}.{family.layer[stem]}{tail}"
        else:
            stem, tail = name.rsplit(".", 1)
            new = name if family.named else f"{family.whole[stem]}.{tail}"
        if family.offset and "norm" in new and "ssm_norm" not in new and new.endswith("weight"):
            data = data + np.float32(family.offset)
        if family.permute and re.search(r"\.attn_[qk]\.", new):
            heads = config.num_attention_heads if ".attn_q." in new else config.num_key_value_heads
            data = interleave(data, heads)
        for new_name, part in family.change(new, data, config) if family.change else [(new, data)]:
            rows.setdefault(new_name.split("#")[0], []).append(part)
    for name, parts in rows.items():
        data = np.concatenate(parts) if name.endswith("+") else parts[0] if len(parts) == 1 else np.stack(parts)
        yield name.removesuffix("+"), np.ascontiguousarray(data)


def metadata(family, config):
    def known(name):
        try:
            return getattr(config, name, None)
        except RuntimeError:  # It differs from layer to layer.
            return None

    def first(*names, otherwise=None):
        return next((known(n) for n in names if known(n) is not None), otherwise)

    keys = {"context_length": N_CTX, "embedding_length": config.hidden_size, "block_count": config.num_hidden_layers,
            "feed_forward_length": first("intermediate_size", "ffn_dim", otherwise=0),
            "attention.head_count": first("num_attention_heads", otherwise=0),
            "attention.head_count_kv": first("num_key_value_heads", "num_attention_heads", otherwise=0)}
    theta = getattr(config, "rope_parameters", None) or {}
    keys["rope.freq_base"] = float(theta.get("rope_theta", 10000.0))
    rms = first("rms_norm_eps")
    if rms is not None:
        keys["attention.layer_norm_rms_epsilon"] = float(rms)
    else:
        keys["attention.layer_norm_epsilon"] = float(first("layer_norm_eps", "norm_epsilon", "layer_norm_epsilon",
                                                           otherwise=1e-5))
    return keys | (family.meta(config) if family.meta else {})


def all_metadata(family, model):
    return metadata(family, model.config) | (family.learned(model) if family.learned else {})


def without_rope(config):
    """Positions that turn nothing, and a mask that takes from scores what ALiBi does."""
    heads = config.num_attention_heads
    slopes = torch.tensor([2.0 ** (-8.0 * (head + 1) / heads) for head in range(heads)])
    distances = torch.arange(N_TOKENS)[:, None] - torch.arange(N_TOKENS)[None, :]
    mask = torch.where(distances < 0, torch.finfo(torch.float32).min, -slopes[:, None, None] * distances)
    return {"attention_mask": mask[None], "position_ids": torch.zeros(1, N_TOKENS, dtype=torch.long)}


def add_metadata(writer, family, model, name):
    writer.add_name(f"golden-{name}")
    for key, value in all_metadata(family, model).items():
        key = f"{family.arch}.{key}"
        if isinstance(value, bool):
            writer.add_bool(key, value)
        elif isinstance(value, float):
            writer.add_float32(key, value)
        elif isinstance(value, str):
            writer.add_string(key, value)
        elif isinstance(value, list):
            writer.add_array(key, value)
        else:
            writer.add_uint32(key, value)


def copy_metadata(writer, path, wanted):
    """Metadata of another file, or of an older one of the same model."""
    for field in GGUFReader(path).fields.values():
        if wanted(field.name):
            sub_type = field.types[-1] if field.types[0] == GGUFValueType.ARRAY else None
            writer.add_key_value(field.name, field.contents(), field.types[0], sub_type)


def write(family, target, name):
    model = make_model(family)
    scratch = target / "made.gguf"  # The older file is read in the meantime.
    writer = GGUFWriter(scratch, family.arch)
    if family.kept:
        copy_metadata(writer, target / "model.gguf",
                      lambda key: not key.startswith("GGUF.") and key != "general.architecture")
        ids = json.loads((target / "tokens.json").read_text())
    else:
        add_metadata(writer, family, model, name)
        copy_metadata(writer, GOLDEN / "mamba/model.gguf", lambda key: key.startswith("tokenizer."))
        ids = json.loads((GOLDEN / "mamba/tokens.json").read_text())[:family.n_tokens]
        (target / "tokens.json").write_text(json.dumps(ids) + "\n")
    for tensor, data in tensors(family, model):
        vector = data.ndim == 1 or re.search(r"norm|bias|ssm_[ad]$|lerp", tensor)
        writer.add_tensor(tensor, data if vector else data.astype(np.float16))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    scratch.replace(target / "model.gguf")

    with torch.no_grad():
        logits = model(torch.tensor([ids]), **(without_rope(model.config) if family.alibi else {})).logits[0]
    (target / "logits.f32").write_bytes(reference_bytes(logits.numpy()))
    packed_data.pack_folder(target)
    print(f"{name}: {sum(p.numel() for p in model.parameters())} weights, logits {logits.std():.3f}")


def main():
    packed_data.unpack()
    for name in sys.argv[1:] or [*KEPT, *FAMILIES]:
        target = GOLDEN / name
        target.mkdir(parents=True, exist_ok=True)
        write((KEPT | FAMILIES)[name], target, name)


if __name__ == "__main__":
    main()
