#!/usr/bin/env python3
"""Makes tests/data/tokenizers/character-bpe and word-bpe, .gguf and .json, by the tokenizers package. One is BPE on
characters like Gemma 4's, the other on words in lower case like the BPE of Jina's Chinese embeddings.

With a number, compares COUNT random strings with these vocabularies in weft: make_character_bpe_vectors.py [COUNT WEFT
[SEED]], where WEFT is the program. Needs the packages tokenizers and gguf.
"""
import json
import random
import subprocess
import sys
from pathlib import Path

from gguf import GGUFWriter, TokenType
from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers, trainers

from tokenizer_texts import ODD, SENTENCES, random_bytes, random_text, scratch

FOLDER = Path(__file__).parent.parent / "tests/data/tokenizers"
SPECIAL = ["<pad>", "<eos>", "<bos>", "<unk>"]
BYTES = [f"<0x{b:02X}>" for b in range(256)]


def without_special(tokenizer: Tokenizer, **changes) -> Tokenizer:
    """The trained tokenizer finds special tokens in strings; the model alone does not."""
    return Tokenizer.from_str(json.dumps(json.loads(tokenizer.to_str()) | {"added_tokens": []} | changes))


def train(tokenizer: Tokenizer, special: list[str]) -> None:
    trainer = trainers.BpeTrainer(vocab_size=1100, special_tokens=special, show_progress=False, limit_alphabet=400)
    tokenizer.train_from_iterator(SENTENCES * 3 + ["  ", "   a", "\n\n\n"] * 5, trainer)


def characters() -> Tokenizer:
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    tokenizer.normalizer = normalizers.Replace(" ", "▁")
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex("\n+"), "isolated")
    train(tokenizer, SPECIAL + BYTES)
    return without_special(tokenizer, pre_tokenizer={"type": "Split", "pattern": {"String": " "}, "behavior": "MergedWithPrevious",
                                                     "invert": False})


def words() -> Tokenizer:
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>"))
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    train(tokenizer, SPECIAL)
    return without_special(tokenizer)


def write_gguf(name: str, tokenizer: Tokenizer, target: Path) -> None:
    model = json.loads(tokenizer.to_str())["model"]
    tokens = sorted(model["vocab"], key=model["vocab"].get)
    kinds = [TokenType.UNKNOWN if token == "<unk>" else TokenType.CONTROL if token in SPECIAL else TokenType.BYTE if token in BYTES
             else TokenType.NORMAL for token in tokens]
    writer = GGUFWriter(target, "gemma4")
    if name == "word-bpe":
        writer.add_tokenizer_model("gpt2")
        writer.add_tokenizer_pre("whitespace")
        writer.add_bool("tokenizer.ggml.normalizer.lowercase", True)
    else:
        writer.add_tokenizer_model("gemma4")
    writer.add_token_list(tokens)
    writer.add_token_types(kinds)
    writer.add_token_merges([" ".join(merge) for merge in model["merges"]])
    writer.add_bos_token_id(2)
    writer.add_eos_token_id(1)
    writer.add_unk_token_id(3)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()


def try_random(name: str, tokenizer: Tokenizer, count: int, weft: str, seed: int) -> None:
    source = random.Random(seed)
    texts = [random_text(source) for _ in range(count)] + random_bytes(seed, count)
    model = scratch(f"{name}.gguf")
    write_gguf(name, tokenizer, model)
    answer = subprocess.run([weft, "tokenize", "-m", model, "--null", "--json", "--no-bos", "--no-special"],
                            input="".join(text + "\0" for text in texts).encode(), capture_output=True, check=True)
    found = [json.loads(line) for line in answer.stdout.splitlines()]
    wrong = [(text, tokenizer.encode(text).ids, ids) for text, ids in zip(texts, found, strict=True) if tokenizer.encode(text).ids != ids]
    print(f"{name}: {len(texts)} texts, {len(wrong)} differ", *map(ascii, wrong[:3]))


def main() -> None:
    for name, tokenizer in (("character-bpe", characters()), ("word-bpe", words())):
        if len(sys.argv) > 1:
            try_random(name, tokenizer, int(sys.argv[1]), sys.argv[2], int(sys.argv[3]) if len(sys.argv) > 3 else 1)
            continue
        write_gguf(name, tokenizer, FOLDER / f"{name}.gguf")
        texts = SENTENCES + ODD + random_bytes(1, 20)
        lines = ",\n".join(json.dumps({"text": text, "ids": tokenizer.encode(text).ids}, ensure_ascii=False, separators=(",", ":")) for text in texts)
        (FOLDER / f"{name}.json").write_text(f"[\n{lines}\n]\n")


if __name__ == "__main__":
    main()
