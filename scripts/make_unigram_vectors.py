#!/usr/bin/env python3
"""Makes tests/data/tokenizers/unigram*.gguf, .model and .json, and sentencepiece-bpe.*: small vocabularies trained and
applied by SentencePiece.

With a number, compares COUNT random strings with these in weft: make_unigram_vectors.py [COUNT WEFT [SEED]], where WEFT
is the program. SentencePiece sums scores as floats. So it takes any of several equally good splits; such strings are
counted separately. Needs the packages sentencepiece, protobuf, gguf.
"""
import io
import json
import random
import subprocess
import sys
import unicodedata
from pathlib import Path

import sentencepiece as spm
from gguf import GGUFWriter, TokenType

from tokenizer_texts import ODD, SENTENCES, random_bytes, random_text, scratch

FOLDER = Path(__file__).parent.parent / "tests/data/tokenizers"

# Name: what differs from SentencePiece's defaults.
MODELS = {
    "unigram": {},
    "unigram-bytes": {"byte_fallback": True, "vocab_size": 1000},
    "unigram-plain": {"remove_extra_whitespaces": False, "add_dummy_prefix": False},
    "unigram-identity": {"normalization_rule_name": "identity", "remove_extra_whitespaces": False},
    "unigram-nfkc": {"normalization_rule_name": "nmt_nfkc"},
    "sentencepiece-bpe": {"model_type": "bpe", "byte_fallback": True, "vocab_size": 800},
}
# Its charsmap, the one of T5, has a quarter of a megabyte: for random strings only.
LARGE = {"unigram-nfkc"}
# Merges have one result.
MERGED = {"sentencepiece-bpe"}


def rules() -> str:
    """A part of NFKC as SentencePiece's rules: code points in hexadecimal, a tab, their replacement."""
    def hexes(text: str) -> str:
        return " ".join(f"{ord(c):X}" for c in text)
    found = {}
    for first, last in [(0xA0, 0x180), (0xFB00, 0xFB07), (0xFF01, 0xFF9F), (0x2460, 0x2474), (0x2000, 0x200B), (0x3300, 0x33FF),
                        (0xFDF0, 0xFDFC), (0x3000, 0x3001), (0x2026, 0x2027), (0x210A, 0x212F)]:
        for code in range(first, last):
            changed = unicodedata.normalize("NFKC", chr(code))
            if changed != chr(code):
                found[chr(code)] = changed
    for base in "aeiounAEIOUNyc":
        for mark in "\u0300\u0301\u0302\u0303\u0308\u0327\u0323":
            for more in ["", "\u0301", "\u0302"]:
                text = base + mark + more
                if unicodedata.normalize("NFKC", text) != text:
                    found[text] = unicodedata.normalize("NFKC", text)
    for base in range(0xFF76, 0xFF85):
        found[chr(base) + "\uff9e"] = unicodedata.normalize("NFKC", chr(base) + "\uff9e")
    for control in [*range(1, 9), 0xE, 0xF, 0x7F, 0x200B, 0xFEFF]:
        found[chr(control)] = ""
    for space in "\t\n\r\u0085\u2028\u2029":
        found[space] = " "
    return "".join(f"{hexes(text)}\t{hexes(changed)}\n" for text, changed in sorted(found.items()))


def train(changes: dict) -> spm.SentencePieceProcessor:
    rule_file = scratch("unigram_rules.tsv")
    rule_file.write_text(rules())
    normalisation = {} if "normalization_rule_name" in changes else {"normalization_rule_tsv": str(rule_file)}
    model = io.BytesIO()
    spm.SentencePieceTrainer.train(
        sentence_iterator=iter([line for text in SENTENCES for line in text.splitlines()] * 8), model_writer=model,
        character_coverage=0.98, minloglevel=2, hard_vocab_limit=False, num_threads=1,
        user_defined_symbols=["<user>"], control_symbols=["<ctl>"],
        **({"model_type": "unigram", "vocab_size": 900} | normalisation | changes))
    return spm.SentencePieceProcessor(model_proto=model.getvalue())


def write_gguf(processor: spm.SentencePieceProcessor, target: Path) -> None:
    from sentencepiece import sentencepiece_model_pb2
    proto = sentencepiece_model_pb2.ModelProto.FromString(processor.serialized_model_proto())
    kinds = {1: TokenType.NORMAL, 2: TokenType.UNKNOWN, 3: TokenType.CONTROL, 4: TokenType.USER_DEFINED, 5: TokenType.UNUSED, 6: TokenType.BYTE}
    model = "t5" if proto.trainer_spec.model_type == 1 else "llama"
    writer = GGUFWriter(target, model)
    writer.add_tokenizer_model(model)
    writer.add_tokenizer_pre("default")
    writer.add_token_list([piece.piece for piece in proto.pieces])
    writer.add_token_scores([piece.score for piece in proto.pieces])
    writer.add_token_types([kinds[piece.type] for piece in proto.pieces])
    writer.add_add_space_prefix(proto.normalizer_spec.add_dummy_prefix)
    writer.add_remove_extra_whitespaces(proto.normalizer_spec.remove_extra_whitespaces)
    if proto.normalizer_spec.precompiled_charsmap:
        writer.add_precompiled_charsmap(proto.normalizer_spec.precompiled_charsmap)
    writer.add_bos_token_id(proto.trainer_spec.bos_id)
    writer.add_eos_token_id(proto.trainer_spec.eos_id)
    writer.add_unk_token_id(proto.trainer_spec.unk_id)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()


def score(processor: spm.SentencePieceProcessor, ids: list[int]) -> float:
    return sum(processor.get_score(i) for i in ids)


def has_one_best(processor: spm.SentencePieceProcessor, text: str) -> bool:
    best = processor.nbest_encode_as_ids(text, nbest_size=2)
    return len(best) < 2 or abs(score(processor, best[0]) - score(processor, best[1])) > 1e-3


def main() -> None:
    if len(sys.argv) > 1:
        count, weft, seed = int(sys.argv[1]), sys.argv[2], int(sys.argv[3]) if len(sys.argv) > 3 else 1
        source = random.Random(seed)
        texts = [random_text(source) for _ in range(count)] + random_bytes(seed, count)
    else:
        texts = SENTENCES + ODD + random_bytes(1, 20)
    for name, changes in MODELS.items():
        processor = train(changes)
        ids = processor.encode(texts)
        if len(sys.argv) == 1:
            if name in LARGE:
                continue
            FOLDER.mkdir(parents=True, exist_ok=True)
            write_gguf(processor, FOLDER / f"{name}.gguf")
            (FOLDER / f"{name}.model").write_bytes(processor.serialized_model_proto())
            lines = ",\n".join(json.dumps({"text": text, "ids": found}, ensure_ascii=False, separators=(",", ":"))
                               for text, found in zip(texts, ids) if name in MERGED or has_one_best(processor, text))
            (FOLDER / f"{name}.json").write_text(f"[\n{lines}\n]\n")
            continue
        model = scratch(f"{name}.gguf")
        write_gguf(processor, model)
        answer = subprocess.run([weft, "tokenize", "-m", model, "--null", "--json", "--no-bos", "--no-special"],
                                input="".join(text + "\0" for text in texts).encode(), capture_output=True, check=True)
        found = [json.loads(line) for line in answer.stdout.splitlines()]
        wrong = [(text, a, b) for text, a, b in zip(texts, ids, found, strict=True) if a != b]
        as_good = [w for w in wrong if sorted(w[1]) == sorted(w[2]) or abs(score(processor, w[1]) - score(processor, w[2])) < 1e-4]
        for text, a, b in [w for w in wrong if w not in as_good][:5]:
            print(f"{name}: {text!r}: SentencePiece {a}, weft {b}")
        print(f"{name}: {len(texts)} texts, {len(wrong) - len(as_good)} differ, {len(as_good)} are as good")


if __name__ == "__main__":
    main()
