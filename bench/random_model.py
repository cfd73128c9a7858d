"""Models of random weights in the shape of a 1B Llama, for sizes of which no small real model exists.

Runs in the peer's Python (numpy and the gguf package): random_model.py TYPE FILE, with TYPE one of q4_k_m, q4_0, q8_0.
The blocks of the quantised types are drawn as they are, with scales that give weights a mean of 0 and a deviation of
1/sqrt(inputs), so that logits are finite; the same file each time. q4_k_m mixes Q4_K and Q6_K as llama.cpp's quantiser
does.
"""
import os
import sys
from pathlib import Path

import numpy as np

import gguf
from gguf import GGMLQuantizationType as Type

LAYERS, WIDTH, FFN, HEADS, KV_HEADS, VOCAB = 16, 2048, 8192, 32, 8, 32000
TYPES = {"q4_k_m": Type.Q4_K, "q4_0": Type.Q4_0, "q8_0": Type.Q8_0}
# Where the float16 scales of a block are.
SCALES_AT = {Type.Q4_0: [0], Type.Q8_0: [0], Type.Q4_K: [0, 2], Type.Q6_K: [208]}


def set_scales(blocks: np.ndarray, type_: Type, scales: list[float]) -> None:
    for at, scale in zip(SCALES_AT[type_], scales):
        blocks[:, at : at + 2] = np.array([scale], dtype=np.float16).view(np.uint8)


def calibrate(type_: Type, random: np.random.Generator) -> list[float]:
    """Scales for random blocks of mean 0 and deviation 1."""
    blocks = random.integers(0, 256, (4096, gguf.GGML_QUANT_SIZES[type_][1]), dtype=np.uint8)

    def values(scales: list[float]) -> np.ndarray:
        set_scales(blocks, type_, scales)
        return gguf.quants.dequantize(blocks, type_).astype(np.float64)

    if type_ != Type.Q4_K:  # A scale, and codes around 0.
        return [1.0 / values([1.0]).std()]
    # d * scale * code - dmin * min: dmin makes the mean 0.
    min_scale = values([1.0, 0.0]).mean() / -values([0.0, 1.0]).mean()
    d = 1.0 / values([1.0, min_scale]).std()
    return [d, d * min_scale]


class Writer:
    def __init__(self, path: Path, name: str):
        self.random = np.random.default_rng(1)
        self.units: dict[Type, list[float]] = {}
        self.gguf = gguf.GGUFWriter(path, "llama")
        self.gguf.add_name(f"random 1B {name}")

    def matrix(self, name: str, rows: int, columns: int, type_: Type) -> None:
        if type_ not in self.units:
            self.units[type_] = calibrate(type_, self.random)
        elements, size = gguf.GGML_QUANT_SIZES[type_]
        n = rows * columns // elements
        blocks = np.frombuffer(self.random.bytes(n * size), dtype=np.uint8).reshape(n, size).copy()
        set_scales(blocks, type_, [unit / columns**0.5 for unit in self.units[type_]])
        self.gguf.add_tensor(name, blocks.reshape(rows, -1), raw_dtype=type_)

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


def write(name: str, path: Path) -> None:
    base = TYPES[name]
    mixed = name == "q4_k_m"
    w = Writer(path, name)
    w.gguf.add_context_length(8192)
    w.gguf.add_embedding_length(WIDTH)
    w.gguf.add_block_count(LAYERS)
    w.gguf.add_feed_forward_length(FFN)
    w.gguf.add_head_count(HEADS)
    w.gguf.add_head_count_kv(KV_HEADS)
    w.gguf.add_layer_norm_rms_eps(1e-5)
    w.gguf.add_rope_freq_base(10000.0)
    w.gguf.add_rope_dimension_count(WIDTH // HEADS)
    w.gguf.add_vocab_size(VOCAB)
    w.vocabulary()
    kv = KV_HEADS * WIDTH // HEADS
    w.matrix("token_embd.weight", VOCAB, WIDTH, base)
    for layer in range(LAYERS):
        block = f"blk.{layer}."
        better = Type.Q6_K if mixed and more_bits(layer) else base
        w.ones(block + "attn_norm.weight", WIDTH)
        w.matrix(block + "attn_q.weight", WIDTH, WIDTH, base)
        w.matrix(block + "attn_k.weight", kv, WIDTH, base)
        w.matrix(block + "attn_v.weight", kv, WIDTH, better)
        w.matrix(block + "attn_output.weight", WIDTH, WIDTH, base)
        w.ones(block + "ffn_norm.weight", WIDTH)
        w.matrix(block + "ffn_gate.weight", FFN, WIDTH, base)
        w.matrix(block + "ffn_up.weight", FFN, WIDTH, base)
        w.matrix(block + "ffn_down.weight", WIDTH, FFN, better)
    w.ones("output_norm.weight", WIDTH)
    w.matrix("output.weight", VOCAB, WIDTH, Type.Q6_K if mixed else base)
    w.close()


def main() -> None:
    name, path = sys.argv[1], Path(sys.argv[2])
    part = path.with_suffix(".part")
    write(name, part)
    os.replace(part, path)  # So that a file which is there is whole.


if __name__ == "__main__":
    main()
