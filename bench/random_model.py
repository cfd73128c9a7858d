"""Models of random weights in the shape of a 1B Llama, for sizes of which no small real model exists.

Runs in the peer's Python (numpy and the gguf package): random_model.py NAME FILE [LAYERS]. NAME is one of:

- q4_k_m or a type of TYPES; the prefix "8b-" selects the shape of an 8B Llama.
- one of SHAPES: a few layers of a larger model, in Q4_0.

LAYERS reduces the number of layers of a type. Blocks of the quantised types are drawn directly. Their scales give
weights a mean of 0 and a deviation of 1/sqrt(inputs), so that logits are finite. The file is the same each time. Floats
are normally distributed. q4_k_m mixes Q4_K and Q6_K as llama.cpp's quantiser does.
"""
import os
import sys
from pathlib import Path

import numpy as np

import gguf
from gguf import GGMLQuantizationType as Type

LAYERS, WIDTH, FFN, HEADS, KV_HEADS, VOCAB = 16, 2048, 8192, 32, 8, 32000
# Where the float16 scales of a block are. IQ1_M and the types with scales of eight bits have theirs set below.
SCALES_AT = {Type.Q4_0: [0], Type.Q4_1: [0, 2], Type.Q5_0: [0], Type.Q5_1: [0, 2], Type.Q8_0: [0], Type.Q2_K: [80, 82],
             Type.Q3_K: [108], Type.Q4_K: [0, 2], Type.Q5_K: [0, 2], Type.Q6_K: [208], Type.IQ4_NL: [0],
             Type.IQ4_XS: [0], Type.IQ1_S: [0], Type.IQ1_M: [], Type.IQ2_XXS: [0], Type.IQ2_XS: [0], Type.IQ2_S: [0],
             Type.IQ3_XXS: [0], Type.IQ3_S: [0], Type.TQ1_0: [52], Type.TQ2_0: [64], Type.MXFP4: [], Type.NVFP4: []}
FLOATS = [Type.BF16, Type.F16]
TYPES = {"q4_k_m": Type.Q4_K} | {type_.name.lower(): type_ for type_ in [*SCALES_AT, *FLOATS]}
WITH_MIN = [Type.Q4_1, Type.Q5_1, Type.Q2_K, Type.Q4_K, Type.Q5_K]


def set_scales(blocks: np.ndarray, type_: Type, scales: list[float]) -> None:
    for at, scale in zip(SCALES_AT[type_], scales):
        blocks[:, at : at + 2] = np.array([scale], dtype=np.float16).view(np.uint8)
    if type_ == Type.MXFP4:
        blocks[:, 0] = round(np.log2(scales[0])) + 128
    if type_ == Type.NVFP4:  # Three bits of mantissa below an exponent of bias 7.
        exponent = max(int(np.floor(np.log2(2 * scales[0]))), -6)
        blocks[:, :4] = min(round((2 * scales[0] / 2.0**exponent - 1) * 8), 7) + (exponent + 7) * 8
    if type_ == Type.IQ1_M:  # Four bits of it lie on top of each of the last four words.
        bits = int(np.array([scales[0]], dtype=np.float16).view(np.uint16)[0])
        for i in range(4):
            blocks[:, 49 + 2 * i] = blocks[:, 49 + 2 * i] & 0x0F | (bits >> 4 * i & 15) << 4


def random_blocks(random: np.random.Generator, type_: Type, n: int) -> np.ndarray:
    size = gguf.GGML_QUANT_SIZES[type_][1]
    blocks = np.frombuffer(random.bytes(n * size), dtype=np.uint8).reshape(n, size).copy()
    if type_ == Type.TQ2_0:  # Of its four codes three are in use: 3 becomes 1.
        blocks &= ~((blocks & blocks >> 1 & 0x55) << 1)
    return blocks


def calibrate(type_: Type, random: np.random.Generator) -> list[float]:
    """Scales for random blocks of mean 0 and deviation 1."""
    blocks = random_blocks(random, type_, 4096)

    def values(scales: list[float]) -> np.ndarray:
        set_scales(blocks, type_, scales)
        return gguf.quants.dequantize(blocks, type_).astype(np.float64)

    if type_ not in WITH_MIN:  # A scale, and codes around 0.
        return [1.0 / values([1.0]).std()]
    # d * scale * code - dmin * min (or + min): dmin makes the mean 0.
    min_scale = values([1.0, 0.0]).mean() / -values([0.0, 1.0]).mean()
    d = 1.0 / values([1.0, min_scale]).std()
    return [d, d * min_scale]


class Writer:
    def __init__(self, path: Path, name: str, architecture: str = "llama"):
        self.random = np.random.default_rng(1)
        self.units: dict[Type, list[float]] = {}
        self.gguf = gguf.GGUFWriter(path, architecture)
        self.gguf.add_name(f"random 1B {name}")

    def sizes(self, layers: int, width: int, ffn: int, heads: int, kv_heads: int) -> None:
        self.gguf.add_context_length(8192)
        self.gguf.add_embedding_length(width)
        self.gguf.add_block_count(layers)
        self.gguf.add_feed_forward_length(ffn)
        self.gguf.add_head_count(heads)
        self.gguf.add_head_count_kv(kv_heads)
        self.gguf.add_layer_norm_rms_eps(1e-5)
        self.gguf.add_rope_freq_base(10000.0)
        self.gguf.add_vocab_size(VOCAB)
        self.vocabulary()

    def matrix(self, name: str, rows: int, columns: int, type_: Type) -> None:
        if type_ in FLOATS:
            values = self.random.standard_normal((rows, columns), dtype=np.float32) / np.float32(columns**0.5)
            self.gguf.add_tensor(name, gguf.quants.quantize(values, type_).view(np.uint8), raw_dtype=type_)
            return
        if type_ not in self.units:
            self.units[type_] = calibrate(type_, self.random)
        blocks = random_blocks(self.random, type_, rows * columns // gguf.GGML_QUANT_SIZES[type_][0])
        set_scales(blocks, type_, [unit / columns**0.5 for unit in self.units[type_]])
        self.gguf.add_tensor(name, blocks.reshape(rows, -1), raw_dtype=type_)

    def matrices(self, name: str, n: int, rows: int, columns: int, type_: Type) -> None:
        """Concatenated matrices: of experts, or of heads."""
        self.matrix(name, n * rows, columns, type_)
        self.gguf.tensors[-1][name].shape = (n, rows, columns)

    def floats(self, name: str, *shape: int, deviation: float = 0.0) -> None:
        self.gguf.add_tensor(name, (self.random.standard_normal(shape) * deviation).astype(np.float32))

    def ones(self, name: str, n: int) -> None:
        self.gguf.add_tensor(name, np.ones(n, dtype=np.float32))

    def vocabulary(self) -> None:
        """A SentencePiece vocabulary: the special tokens, all bytes, and words that need no merging."""
        tokens = ["<unk>", "<s>", "</s>"] + [f"<0x{b:02X}>" for b in range(256)]
        kinds = [2, 3, 3] + [6] * 256
        tokens += [f"\u2581w{i}" for i in range(VOCAB - len(tokens))]
        kinds += [1] * (VOCAB - len(kinds))
        self.gguf.add_tokenizer_model("llama")
        self.gguf.add_token_list(tokens)
        self.gguf.add_token_scores([-float(i) for i in range(VOCAB)])
        self.gguf.add_token_types(kinds)
        self.gguf.add_bos_token_id(1)
        self.gguf.add_eos_token_id(2)

    def close(self) -> None:
        self.gguf.write_header_to_file()
        self.gguf.write_kv_data_to_file()
        self.gguf.write_tensors_to_file()
        self.gguf.close()


def more_bits(layer: int) -> bool:
    """The layers whose values and ffn_down are Q6_K in Q4_K_M: the first and last eighth, and each third between."""
    eighth = LAYERS // 8
    return layer < eighth or layer >= 7 * eighth or (layer - eighth) % 3 == 2


def write(name: str, path: Path, layers: int) -> None:
    width, ffn = (4096, 14336) if name.startswith("8b-") else (WIDTH, FFN)
    name = name.removeprefix("8b-")
    base = TYPES[name]
    mixed = name == "q4_k_m"
    w = Writer(path, name)
    w.sizes(layers, width, ffn, HEADS, KV_HEADS)
    w.gguf.add_rope_dimension_count(width // HEADS)
    kv = KV_HEADS * width // HEADS
    w.matrix("token_embd.weight", VOCAB, width, base)
    for layer in range(layers):
        block = f"blk.{layer}."
        better = Type.Q6_K if mixed and more_bits(layer) else base
        w.ones(block + "attn_norm.weight", width)
        w.matrix(block + "attn_q.weight", width, width, base)
        w.matrix(block + "attn_k.weight", kv, width, base)
        w.matrix(block + "attn_v.weight", kv, width, better)
        w.matrix(block + "attn_output.weight", width, width, base)
        w.ones(block + "ffn_norm.weight", width)
        w.matrix(block + "ffn_gate.weight", ffn, width, base)
        w.matrix(block + "ffn_up.weight", ffn, width, base)
        w.matrix(block + "ffn_down.weight", width, ffn, better)
    w.ones("output_norm.weight", width)
    w.matrix("output.weight", VOCAB, width, Type.Q6_K if mixed else base)
    w.close()


def gated_ffn(w: Writer, block: str, width: int, ffn: int) -> None:
    w.matrix(block + "ffn_gate.weight", ffn, width, Type.Q4_0)
    w.matrix(block + "ffn_up.weight", ffn, width, Type.Q4_0)
    w.matrix(block + "ffn_down.weight", width, ffn, Type.Q4_0)


def experts(w: Writer, block: str, n: int, width: int, ffn: int) -> None:
    w.floats(block + "ffn_gate_inp.weight", n, width, deviation=width**-0.5)
    w.matrices(block + "ffn_gate_exps.weight", n, ffn, width, Type.Q4_0)
    w.matrices(block + "ffn_up_exps.weight", n, ffn, width, Type.Q4_0)
    w.matrices(block + "ffn_down_exps.weight", n, width, ffn, Type.Q4_0)


def ends(w: Writer, width: int) -> None:
    w.matrix("token_embd.weight", VOCAB, width, Type.Q4_0)
    w.ones("output_norm.weight", width)
    w.matrix("output.weight", VOCAB, width, Type.Q4_0)
    w.close()


def write_moe(path: Path) -> None:
    """Layers of Qwen3 30B-A3B: 8 of 128 experts."""
    layers, width, n_experts, ffn, heads, kv_heads, head = 4, 2048, 128, 768, 32, 4, 128
    w = Writer(path, "moe", "qwen3moe")
    w.sizes(layers, width, 6144, heads, kv_heads)
    w.gguf.add_key_length(head)
    w.gguf.add_value_length(head)
    w.gguf.add_expert_count(n_experts)
    w.gguf.add_expert_used_count(8)
    w.gguf.add_expert_feed_forward_length(ffn)
    for layer in range(layers):
        block = f"blk.{layer}."
        w.ones(block + "attn_norm.weight", width)
        w.matrix(block + "attn_q.weight", heads * head, width, Type.Q4_0)
        w.matrix(block + "attn_k.weight", kv_heads * head, width, Type.Q4_0)
        w.matrix(block + "attn_v.weight", kv_heads * head, width, Type.Q4_0)
        w.ones(block + "attn_q_norm.weight", head)
        w.ones(block + "attn_k_norm.weight", head)
        w.matrix(block + "attn_output.weight", width, heads * head, Type.Q4_0)
        w.ones(block + "ffn_norm.weight", width)
        experts(w, block, n_experts, width, ffn)
    ends(w, width)


def write_mla(path: Path) -> None:
    """DeepSeek V2 Lite with dense layers, but for the last one, as its files must have experts."""
    layers, heads, latent, turned, straight, n_experts, ffn = 27, 16, 512, 64, 128, 4, 4096
    w = Writer(path, "mla", "deepseek2")
    w.sizes(layers, WIDTH, ffn, heads, 1)
    w.gguf.add_rope_dimension_count(turned)
    w.gguf.add_kv_lora_rank(latent)
    w.gguf.add_key_length(latent + turned)
    w.gguf.add_value_length(latent)
    w.gguf.add_key_length_mla(straight + turned)
    w.gguf.add_value_length_mla(straight)
    w.gguf.add_leading_dense_block_count(layers - 1)
    w.gguf.add_expert_count(n_experts)
    w.gguf.add_expert_used_count(1)
    w.gguf.add_expert_shared_count(1)
    w.gguf.add_expert_feed_forward_length(ffn // 2)
    w.gguf.add_expert_weights_scale(1.0)
    for layer in range(layers):
        block = f"blk.{layer}."
        w.ones(block + "attn_norm.weight", WIDTH)
        w.matrix(block + "attn_q.weight", heads * (straight + turned), WIDTH, Type.Q4_0)
        w.matrix(block + "attn_kv_a_mqa.weight", latent + turned, WIDTH, Type.Q4_0)
        w.ones(block + "attn_kv_a_norm.weight", latent)
        w.matrices(block + "attn_k_b.weight", heads, latent, straight, Type.Q8_0)
        w.matrices(block + "attn_v_b.weight", heads, straight, latent, Type.Q8_0)
        w.matrix(block + "attn_output.weight", WIDTH, heads * straight, Type.Q4_0)
        w.ones(block + "ffn_norm.weight", WIDTH)
        if layer < layers - 1:
            gated_ffn(w, block, WIDTH, ffn)
            continue
        experts(w, block, n_experts, WIDTH, ffn // 2)
        w.matrix(block + "ffn_gate_shexp.weight", ffn // 2, WIDTH, Type.Q4_0)
        w.matrix(block + "ffn_up_shexp.weight", ffn // 2, WIDTH, Type.Q4_0)
        w.matrix(block + "ffn_down_shexp.weight", WIDTH, ffn // 2, Type.Q4_0)
    ends(w, WIDTH)


def write_sinks(path: Path) -> None:
    """Layers of gpt-oss 20B: sinks, every second layer slides, 4 of 32 experts with biases."""
    layers, width, n_experts, heads, kv_heads, head = 4, 2880, 32, 64, 8, 64
    w = Writer(path, "sinks", "gpt-oss")
    w.sizes(layers, width, width, heads, kv_heads)
    w.gguf.add_key_length(head)
    w.gguf.add_value_length(head)
    w.gguf.add_sliding_window(128)
    w.gguf.add_expert_count(n_experts)
    w.gguf.add_expert_used_count(4)
    w.gguf.add_expert_feed_forward_length(width)
    for layer in range(layers):
        block = f"blk.{layer}."
        w.ones(block + "attn_norm.weight", width)
        for part, rows in (("attn_q", heads * head), ("attn_k", kv_heads * head), ("attn_v", kv_heads * head)):
            w.matrix(f"{block}{part}.weight", rows, width, Type.Q4_0)
            w.floats(f"{block}{part}.bias", rows)
        w.matrix(block + "attn_output.weight", width, heads * head, Type.Q4_0)
        w.floats(block + "attn_output.bias", width)
        w.floats(block + "attn_sinks.weight", heads, deviation=1.0)
        w.ones(block + "post_attention_norm.weight", width)
        experts(w, block, n_experts, width, width)
        w.floats(block + "ffn_gate_inp.bias", n_experts)
        w.floats(block + "ffn_gate_exps.bias", n_experts, width)
        w.floats(block + "ffn_up_exps.bias", n_experts, width)
        w.floats(block + "ffn_down_exps.bias", n_experts, width)
    ends(w, width)


def write_delta(path: Path) -> None:
    """Qwen 3.5: gated delta nets, every fourth layer attends."""
    layers, ffn, heads, kv_heads, head = 16, 6144, 8, 2, 256
    state, key_heads, value_heads = 128, 16, 32
    inner = state * value_heads
    w = Writer(path, "delta", "qwen35")
    w.sizes(layers, WIDTH, ffn, heads, kv_heads)
    w.gguf.add_key_length(head)
    w.gguf.add_value_length(head)
    w.gguf.add_rope_dimension_count(head // 4)
    w.gguf.add_rope_dimension_sections([11, 11, 10, 0])
    w.gguf.add_ssm_conv_kernel(4)
    w.gguf.add_ssm_state_size(state)
    w.gguf.add_ssm_group_count(key_heads)
    w.gguf.add_ssm_time_step_rank(value_heads)
    w.gguf.add_ssm_inner_size(inner)
    w.gguf.add_uint32("qwen35.full_attention_interval", 4)
    for layer in range(layers):
        block = f"blk.{layer}."
        w.ones(block + "attn_norm.weight", WIDTH)
        w.ones(block + "post_attention_norm.weight", WIDTH)
        if layer % 4 == 3:
            w.matrix(block + "attn_q.weight", 2 * heads * head, WIDTH, Type.Q4_0)  # With the gate.
            w.matrix(block + "attn_k.weight", kv_heads * head, WIDTH, Type.Q4_0)
            w.matrix(block + "attn_v.weight", kv_heads * head, WIDTH, Type.Q4_0)
            w.matrix(block + "attn_output.weight", WIDTH, heads * head, Type.Q4_0)
            w.ones(block + "attn_q_norm.weight", head)
            w.ones(block + "attn_k_norm.weight", head)
        else:
            mixed = inner + 2 * state * key_heads
            w.matrix(block + "attn_qkv.weight", mixed, WIDTH, Type.Q4_0)
            w.matrix(block + "attn_gate.weight", inner, WIDTH, Type.Q4_0)
            w.matrix(block + "ssm_beta.weight", value_heads, WIDTH, Type.Q4_0)
            w.matrix(block + "ssm_alpha.weight", value_heads, WIDTH, Type.Q4_0)
            w.floats(block + "ssm_conv1d.weight", mixed, 4, deviation=0.5)
            w.floats(block + "ssm_dt.bias", value_heads)
            w.gguf.add_tensor(block + "ssm_a", -np.ones(value_heads, dtype=np.float32))
            w.ones(block + "ssm_norm.weight", state)
            w.matrix(block + "ssm_out.weight", WIDTH, inner, Type.Q4_0)
        gated_ffn(w, block, WIDTH, ffn)
    ends(w, WIDTH)


SHAPES = {"moe": write_moe, "mla": write_mla, "sinks": write_sinks, "delta": write_delta}


def main() -> None:
    name, path = sys.argv[1], Path(sys.argv[2])
    part = path.with_suffix(".part")
    if name in SHAPES:
        SHAPES[name](part)
    else:
        write(name, part, int(sys.argv[3]) if len(sys.argv) > 3 else 2 * LAYERS if name.startswith("8b-") else LAYERS)
    os.replace(part, path)  # So that a file which is there is whole.


if __name__ == "__main__":
    main()
