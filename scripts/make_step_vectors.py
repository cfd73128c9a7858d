#!/usr/bin/env python3
"""Makes tests/data/tokenizers/steps.json: small models of four kinds in many pipelines of normalizers, pre-tokenizers and added
tokens. Each has the ids that Hugging Face's tokenizers gives strings of many scripts (LONG: 20 scripts).

Usage: make_step_vectors.py [COUNT COMMAND [SEED]]. With arguments, compares COUNT random strings for each pipeline instead.
COMMAND FOLDER reads a JSON list of strings and writes the list of their ids. Needs the package tokenizers.
"""
import json
import random
import subprocess
import sys
import tempfile
import unicodedata
from pathlib import Path

from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

from tokenizer_texts import ODD, SENTENCES, random_text

TARGET = Path(__file__).parent.parent / "tests/data/tokenizers/steps.json"
SPACE = "\u2581"
LINES = [line for text in SENTENCES for line in text.splitlines()]

TEXTS = [
    "hello", " hello", "  hello  world ", "<s>hello", "<s> hello", "a</s>b", "a </s> b", "<s>[INST] hi there [/INST] yes</s><s>[INST] go",
    "hello<|im_end|>\nworld", " <|im_start|>user\n hello<|im_end|> ", "x <mask> y <mask>z", "x\t<strip>\u00a0\n y", "  <strip>  ", "wordword word aword word_ (word)",
    "Hello WORLD hello World", "CAF\u00c9 cafe\u0301 e\u0301", "\u1112\u1161\u11ab\u1100\u1173\u11af \ud55c\uae00", "\uff21\uff22\uff43 \ufb01 \u2460 \u00bd", "\u0130stanbul \u03a3\u0391\u03a3",
    "\u0928\u093c\u0940 \u0929", "\u0e01\u0e33", "<unk> " + SPACE + "a" + SPACE, "", " ", "\n", "a\u200bb\ufeffc\u00add", "12ab 3.4\u0664", "\u4e2d\u6587abc\u4e2d", "don't -- stop!",
    "A\u030a \u212b \u00c5", "</s></s> <s>", "e\u0301<|im_end|>\u0301e",
]
SHORT = TEXTS
LONG = TEXTS + [text[:40] for text in SENTENCES[:27]]


def steps(kind, *items):
    if not items:
        return None
    return items[0] if len(items) == 1 else {"type": "Sequence", kind: list(items)}


def norm(*items):
    return steps("normalizers", *items)


def pre(*items):
    return steps("pretokenizers", *items)


def metaspace(scheme, split):
    return {"type": "Metaspace", "replacement": SPACE, "prepend_scheme": scheme, "split": split}


PREPEND = {"type": "Prepend", "prepend": SPACE}
SPACES = {"type": "Replace", "pattern": {"String": " "}, "content": SPACE}
NFC, NFD, NFKC, NFKD = ({"type": name} for name in ("NFC", "NFD", "NFKC", "NFKD"))
LOWER, ACCENTS, NMT = ({"type": name} for name in ("Lowercase", "StripAccents", "Nmt"))
STRIP = {"type": "Strip", "strip_left": False, "strip_right": True}
STRIP_BOTH = {"type": "Strip", "strip_left": True, "strip_right": True}
MANY = {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": SPACE}
WHITE = {"type": "Replace", "pattern": {"Regex": "\\s+"}, "content": " "}
BYTES = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
BYTES_PREFIXED = {**BYTES, "add_prefix_space": True}
WORDS = {"type": "WhitespaceSplit"}
BERT = {"type": "BertPreTokenizer"}


def bert(**changes):
    return {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True, "strip_accents": None, "lowercase": True, **changes}


def token(content, special=True, **flags):
    return {"content": content, "single_word": False, "lstrip": False, "rstrip": False, "normalized": not special, "special": special, **flags}


ADDED = [token("<|im_start|>"), token("<|im_end|>"), token("<mask>", lstrip=True), token("<strip>", lstrip=True, rstrip=True),
         token("word", special=False, single_word=True), token("[INST]", special=False, normalized=False), token("[/INST]", special=False)]
# Matched after normalising.
NORMALIZED = [token("<|im_start|>", normalized=True), token("World", special=False), token("CAF\u00c9", special=False, lstrip=True),
              token("hello", special=False, single_word=True), token("<mask>", special=False, rstrip=True)]

# Model, normalizer, pre-tokenizer, added tokens, strings.
CASES = {
    "first": ("bpe", None, metaspace("first", False), ADDED, LONG),
    "first-split": ("bpe", None, metaspace("first", True), ADDED, SHORT),
    "always": ("bpe", None, metaspace("always", False), ADDED, LONG),
    "always-split": ("bpe", None, metaspace("always", True), ADDED, SHORT),
    "never": ("bpe", None, metaspace("never", False), ADDED, LONG),
    "prepend": ("bpe", norm(PREPEND, SPACES), None, ADDED, LONG),
    "prepend-normalized": ("bpe", norm(PREPEND, SPACES), None, NORMALIZED, SHORT),
    "replace": ("bpe", norm(SPACES), {"type": "Split", "pattern": {"String": " "}, "behavior": "MergedWithPrevious", "invert": False}, ADDED, SHORT),
    "nfkc-first": ("bpe", norm(NFKC), metaspace("first", False), NORMALIZED, SHORT),
    "nfkc-split": ("bpe", norm(NFKC), pre({"type": "Split", "pattern": {"Regex": "\\p{N}|\\p{P}+"}, "behavior": "Isolated", "invert": False},
                                          metaspace("never", False)), ADDED, SHORT),
    "digits": ("bpe", None, pre({"type": "Digits", "individual_digits": True}, metaspace("first", True)), ADDED, SHORT),
    "bytes": ("bytes", None, BYTES, ADDED, SHORT),
    "bytes-nfc": ("bytes", norm(NFC), BYTES, ADDED, LONG),
    "bytes-nfd": ("bytes", norm(NFD), BYTES, NORMALIZED, SHORT),
    "bytes-nfkd": ("bytes", norm(NFKD, LOWER), BYTES, NORMALIZED, SHORT),
    "bytes-prefix": ("bytes", None, BYTES_PREFIXED, ADDED, SHORT),
    "bytes-clip": ("bytes", norm(NFC, WHITE, LOWER), BYTES, NORMALIZED, SHORT),
    "bytes-accents": ("bytes", norm(NFD, ACCENTS, STRIP_BOTH), BYTES, ADDED, SHORT),
    "unigram-always": ("unigram", norm(STRIP, MANY), pre(metaspace("always", True)), ADDED, SHORT),
    "unigram-first": ("unigram", norm(NMT, NFKC), metaspace("first", True), NORMALIZED, SHORT),
    "unigram-words": ("unigram", None, pre(WORDS, metaspace("always", True)), ADDED, SHORT),
    "unigram-punctuation": ("unigram", norm({"type": "Replace", "pattern": {"String": "--"}, "content": "\""}, LOWER),
                            pre({"type": "Punctuation", "behavior": "Contiguous"}, metaspace("always", True)), ADDED, SHORT),
    "wordpiece": ("wordpiece", bert(), BERT, ADDED, SHORT),
    "wordpiece-cased": ("wordpiece", bert(lowercase=False, handle_chinese_chars=False, clean_text=False), BERT, ADDED, SHORT),
    "wordpiece-accents": ("wordpiece", bert(strip_accents=False), BERT, NORMALIZED, SHORT),
    "wordpiece-sequence": ("wordpiece", norm(NFD, LOWER, ACCENTS), pre({"type": "Whitespace"}), ADDED, SHORT),
}


def train():
    """The four models, as tokenizer.json has them."""
    found = {}
    special = ["<unk>", "<s>", "</s>"]
    byte_tokens = [f"<0x{i:02X}>" for i in range(256)]
    bpe = Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=True))
    bpe.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always")
    bpe.train_from_iterator(LINES * 2, trainers.BpeTrainer(vocab_size=520, special_tokens=special + byte_tokens, limit_alphabet=120, show_progress=False))
    found["bpe"] = json.loads(bpe.to_str())["model"]
    level = Tokenizer(models.BPE())
    level.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    level.train_from_iterator(LINES, trainers.BpeTrainer(vocab_size=420, special_tokens=["<s>", "</s>"], show_progress=False,
                                                         initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    found["bytes"] = json.loads(level.to_str())["model"]
    unigram = Tokenizer(models.Unigram())
    unigram.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always")
    unigram.train_from_iterator(LINES[:12], trainers.UnigramTrainer(vocab_size=220, special_tokens=special, unk_token="<unk>", show_progress=False))
    found["unigram"] = json.loads(unigram.to_str())["model"]
    words = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    words.normalizer = normalizers.BertNormalizer(lowercase=False, strip_accents=False)
    words.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    words.train_from_iterator(LINES[:9] + ["e \u0301 \u00e9 CAF\u00c9 cafe \u4e2d \u6587"], trainers.WordPieceTrainer(
        vocab_size=330, special_tokens=["[UNK]", "[CLS]", "[SEP]"], show_progress=False))
    found["wordpiece"] = json.loads(words.to_str())["model"]
    return found


def tokenizer_json(trained, model, normalizer, pre_tokenizer, added):
    model = trained[model]
    vocabulary = model["vocab"]
    texts = list(vocabulary) if isinstance(vocabulary, dict) else [piece for piece, _ in vocabulary]
    ids = {text: i for i, text in enumerate(texts)} if isinstance(vocabulary, list) else dict(vocabulary)
    tokens = []
    for entry in [token(text) for text in ("<unk>", "<s>", "</s>", "[UNK]", "[CLS]", "[SEP]") if text in ids] + added:
        tokens.append({"id": ids.setdefault(entry["content"], len(ids)), **entry})
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": sorted(tokens, key=lambda entry: entry["id"]),
            "normalizer": normalizer, "pre_tokenizer": pre_tokenizer, "post_processor": None, "decoder": None, "model": model}


def encode(description, texts):
    tokenizer = Tokenizer.from_str(json.dumps(description))
    return [tokenizer.encode(text, add_special_tokens=False).ids for text in texts]


def check(command, description, texts):
    with tempfile.TemporaryDirectory(prefix="weft-") as folder:
        (Path(folder) / "tokenizer.json").write_text(json.dumps(description))
        ran = subprocess.run([command, folder], input=json.dumps(texts), capture_output=True, text=True)
        assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


def random_steps_text(source):
    parts = [source.choice([random_text(source), *TEXTS, *ODD, *[t["content"] for t in ADDED + NORMALIZED], " ", "  ", "\u0301", "word"])
             for _ in range(source.randint(1, 5))]
    return source.choice(["", " "]).join(parts)


def compare(count, command, seed):
    trained = train()
    source = random.Random(seed)
    wrong = total = 0
    for name, (model, normalizer, pre_tokenizer, added, texts) in CASES.items():
        description = tokenizer_json(trained, model, normalizer, pre_tokenizer, added)
        tried = list(texts) + [random_steps_text(source) for _ in range(count)]
        expected = encode(description, tried)
        found = check(command, description, tried)
        bad = [i for i in range(len(tried)) if expected[i] != found[i]]
        wrong += len(bad)
        total += len(tried)
        print(f"{name}: {len(tried) - len(bad)} of {len(tried)} equal")
        for i in bad[:3]:
            back = Tokenizer.from_str(json.dumps(description))
            print("   ", repr(tried[i]), [back.id_to_token(t) for t in expected[i]], [back.id_to_token(t) for t in found[i]])
    print(f"{total - wrong} of {total} equal")
    sys.exit(1 if wrong else 0)


def main():
    if len(sys.argv) > 1:
        compare(int(sys.argv[1]), sys.argv[2], int(sys.argv[3]) if len(sys.argv) > 3 else 1)
    trained = train()
    cases = []
    for name, (model, normalizer, pre_tokenizer, added, texts) in CASES.items():
        description = tokenizer_json(trained, model, normalizer, pre_tokenizer, added)
        cases.append({"name": name, "model": model, "normalizer": normalizer, "pre_tokenizer": pre_tokenizer,
                      "added_tokens": description["added_tokens"], "texts": len(texts), "ids": encode(description, texts)})
    data = {"texts": LONG, "models": trained, "cases": cases}
    TARGET.write_text(json.dumps(data, ensure_ascii=False, separators=(",", ":")) + "\n")
    print(f"{TARGET.name}: {len(cases)} pipelines, {TARGET.stat().st_size} bytes")


if __name__ == "__main__":
    main()
