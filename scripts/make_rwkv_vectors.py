#!/usr/bin/env python3
"""Makes tests/data/tokenizers/rwkv.gguf and .json: a small vocabulary of RWKV's kind, applied by the rwkv package.

With a number, compares COUNT random strings with the whole vocabulary of that package in weft: make_rwkv_vectors.py
[COUNT WEFT [SEED]], where WEFT is the program. Needs the packages rwkv and gguf.
"""
import ast
import collections
import json
import random
import subprocess
import sys
from pathlib import Path

import rwkv
from gguf import GGUFWriter, TokenType
from rwkv.rwkv_tokenizer import TRIE_TOKENIZER

from tokenizer_texts import ODD, SENTENCES, random_bytes, random_text, scratch

FOLDER = Path(__file__).parent.parent / "tests/data/tokenizers"
REAL = Path(rwkv.__path__[0]) / "rwkv_vocab_v20230424.txt"


def write_small(target: Path) -> None:
    """All bytes, and the most frequent runs of 2 to 8 bytes of the sentences, as the package's file writes them."""
    counts: collections.Counter[bytes] = collections.Counter()
    for sentence in SENTENCES:
        data = sentence.encode()
        counts.update(data[i:i + size] for size in range(2, 9) for i in range(len(data) - size + 1))
    tokens = [bytes([b]) for b in range(256)] + [run for run, _ in counts.most_common(600)]
    lines = []
    for number, token in enumerate(tokens, 1):
        try:
            written = repr(token.decode())
        except UnicodeDecodeError:
            written = repr(token)
        lines.append(f"{number} {written} {len(token)}\n")
    target.write_text("".join(lines))


def write_gguf(vocabulary: Path, target: Path) -> None:
    tokens, kinds = ["<s>"], [TokenType.CONTROL]
    for line in vocabulary.read_text().splitlines():
        token = ast.literal_eval(line[line.index(" "):line.rindex(" ")].strip())
        tokens.append(repr(token if isinstance(token, bytes) else token.encode())[2:-1])
        kinds.append(TokenType.NORMAL)
    writer = GGUFWriter(target, "rwkv7")
    writer.add_tokenizer_model("rwkv")
    writer.add_token_list(tokens)
    writer.add_token_types(kinds)
    writer.add_bos_token_id(0)
    writer.add_eos_token_id(0)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()


def main() -> None:
    if len(sys.argv) == 1:
        vocabulary = scratch("rwkv.txt")
        write_small(vocabulary)
        tokenizer = TRIE_TOKENIZER(str(vocabulary))
        write_gguf(vocabulary, FOLDER / "rwkv.gguf")
        texts = [text for text in SENTENCES + ODD + random_bytes(1, 20) if text]
        lines = ",\n".join(json.dumps({"text": text, "ids": tokenizer.encode(text)}, ensure_ascii=False, separators=(",", ":")) for text in texts)
        (FOLDER / "rwkv.json").write_text(f"[\n{lines}\n]\n")
        return
    count, weft, seed = int(sys.argv[1]), sys.argv[2], int(sys.argv[3]) if len(sys.argv) > 3 else 1
    source = random.Random(seed)
    texts = [random_text(source) for _ in range(count)] + random_bytes(seed, count)
    tokenizer, model = TRIE_TOKENIZER(str(REAL)), scratch("rwkv.gguf")
    write_gguf(REAL, model)
    answer = subprocess.run([weft, "tokenize", "-m", model, "--null", "--json", "--no-bos", "--no-special"],
                            input="".join(text + "\0" for text in texts).encode(), capture_output=True, check=True)
    found = [json.loads(line) for line in answer.stdout.splitlines()]
    wrong = [text for text, ids in zip(texts, found, strict=True) if tokenizer.encode(text) != ids]
    print(f"{len(texts)} texts, {len(wrong)} differ", *map(ascii, wrong[:3]))


if __name__ == "__main__":
    main()
