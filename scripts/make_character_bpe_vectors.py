#!/usr/bin/env python3
"""Makes tests/data/tokenizers/character-bpe.gguf and .json: BPE on characters as Gemma 4's, by the tokenizers package.

With a number, tries so many random texts with that vocabulary and weft instead: usage
make_character_bpe_vectors.py [COUNT WEFT [SEED]], where WEFT is the program. Needs the packages tokenizers and gguf.
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


def train() -> Tokenizer:
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    tokenizer.normalizer = normalizers.Replace(" ", "▁")
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex("\n+"), "isolated")
    trainer = trainers.BpeTrainer(vocab_size=1100, special_tokens=SPECIAL + BYTES, show_progress=False, limit_alphabet=400)
    tokenizer.train_from_iterator(SENTENCES * 3 + ["  ", "   a", "\n\n\n"] * 5, trainer)
    # The trained one knows special tokens in texts; the model alone does not.
    state = json.loads(tokenizer.to_str())
    state["added_tokens"] = []
    state["pre_tokenizer"] = {"type": "Split", "pattern": {"String": " "}, "behavior": "MergedWithPrevious", "invert": False}
    return Tokenizer.from_str(json.dumps(state))


def write_gguf(tokenizer: Tokenizer, target: Path) -> None:
    model = json.loads(tokenizer.to_str())["model"]
    tokens = sorted(model["vocab"], key=model["vocab"].get)
    kinds = [TokenType.UNKNOWN if token == "<unk>" else TokenType.CONTROL if token in SPECIAL else TokenType.BYTE if token in BYTES
             else TokenType.NORMAL for token in tokens]
    writer = GGUFWriter(target, "gemma4")
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


def main() -> None:
    tokenizer = train()
    if len(sys.argv) == 1:
        write_gguf(tokenizer, FOLDER / "character-bpe.gguf")
        texts = SENTENCES + ODD + random_bytes(1, 20)
        lines = ",\n".join(json.dumps({"text": text, "ids": tokenizer.encode(text).ids}, ensure_ascii=False, separators=(",", ":")) for text in texts)
        (FOLDER / "character-bpe.json").write_text(f"[\n{lines}\n]\n")
        return
    count, weft, seed = int(sys.argv[1]), sys.argv[2], int(sys.argv[3]) if len(sys.argv) > 3 else 1
    source = random.Random(seed)
    texts = [random_text(source) for _ in range(count)] + random_bytes(seed, count)
    model = scratch("character_bpe.gguf")
    write_gguf(tokenizer, model)
    answer = subprocess.run([weft, "tokenize", "-m", model, "--null", "--json", "--no-bos", "--no-special"],
                            input="".join(text + "\0" for text in texts).encode(), capture_output=True, check=True)
    found = [json.loads(line) for line in answer.stdout.splitlines()]
    wrong = [(text, tokenizer.encode(text).ids, ids) for text, ids in zip(texts, found, strict=True) if tokenizer.encode(text).ids != ids]
    print(f"{len(texts)} texts, {len(wrong)} differ", *map(ascii, wrong[:3]))


if __name__ == "__main__":
    main()
