#!/usr/bin/env python3
"""Makes tests/data/tokenizers/splits.json: strings as split by the pre-tokenizers of models, by the tokenizers package.

The regular expressions come from the tokenizer.json that the models publish. With a number, compares COUNT random
strings with each of them in weft: make_split_vectors.py [COUNT WEFT [SEED [NAME]]], where WEFT is the program. For this
it trains a byte-level vocabulary across all borders, so that each cut shows in the ids. Needs the packages tokenizers
and gguf.
"""
import json
import random
import subprocess
import sys
import unicodedata
from pathlib import Path

from gguf import GGUFWriter
from tokenizers import Regex, Tokenizer, models, pre_tokenizers, trainers

from tokenizer_texts import ODD, SENTENCES, random_bytes, random_text, scratch

TARGET = Path(__file__).parent.parent / "tests/data/tokenizers/splits.json"

GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
WORDS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|"
REST = r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
REST_SLASH = r" ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
UPPER, LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
ENDING = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
FRONT = r"[^\r\n\p{L}\p{N}]?"
CASED = f"{FRONT}{UPPER}*{LOWER}+{ENDING}|{FRONT}{UPPER}+{LOWER}*{ENDING}|"
KIMI_UPPER, KIMI_LOWER = UPPER[:-1] + r"&&[^\p{Han}]]", LOWER[:-1] + r"&&[^\p{Han}]]"
KIMI_CASED = rf"[\p{{Han}}]+|{FRONT}{KIMI_UPPER}*{KIMI_LOWER}+{ENDING}|{FRONT}{KIMI_UPPER}+{KIMI_LOWER}*{ENDING}|"
DEEPSEEK3 = (r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+|"
             r" ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
CJK = "[一-龥\u3040-ゟ゠-ヿ]+"
BLOOM = " ?[^(\\s|.,!?…。，、।۔،)]+"
FALCON = "[\\p{P}\\$\\+<=>\\^~\\|`]+"
LLAMA3 = WORDS + r"\p{N}{1,3}|" + REST
QWEN2 = WORDS + r"\p{N}|" + REST
GPT4O = CASED + r"\p{N}{1,3}|" + REST_SLASH

# The name in GGUF: patterns, each of which cuts the pieces of the one before.
PUBLISHED = {
    "gpt-2": [GPT2],
    "starcoder": [r"\p{N}", GPT2],
    "falcon": [FALCON, GPT2, "[0-9][0-9][0-9]"],
    "llama-bpe": [LLAMA3],
    "qwen2": [QWEN2],
    "qwen35": [r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"],
    "deepseek-coder": ["[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", "[一-龥ࠀ-一가-\ud7ff]+", r"\p{N}"],
    "deepseek-v3": [r"\p{N}{1,3}", CJK, DEEPSEEK3],
    "gpt-4o": [GPT4O],
    "tekken": [f"{FRONT}{UPPER}*{LOWER}+|{FRONT}{UPPER}+{LOWER}*|" + r"\p{N}|" + REST_SLASH],
    "kimi-k2": [KIMI_CASED + r"\p{N}{1,3}|" + REST],
    "bailingmoe": [r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+"],
    "seed-coder": [WORDS + r"\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+|\s*[\r\n]+|\s+(?!\S)|\s+"],
    "bloom": [BLOOM],
    "viking": [BLOOM, r"\p{N}"],
    "minicpm5": [r"\p{N}{1,3}", WORDS + r"\p{N}+|" + REST],
    "jais-2": [WORDS + r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|" + "".join(rf"\s{{{2**n}}}(?!\S)|" for n in range(9, 1, -1)) +
               r"\s{1,2}(?!\S)|\s{1}"],
    "exaone-moe": [r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]?|"
                   r"\s*[\r\n]|\s+(?!\S)|\s+"],
    "laguna": ["[^\\n]+|[\\n]+", QWEN2],
    "ufakzeka": [FRONT + r"\p{L}+|\p{N}|" + REST],
    "spark2_5": [r"\p{N}{1,3}", CJK, DEEPSEEK3.replace(r" ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+", r" ?[\p{P}\p{S}]+|[\r\n]"), r"\p{N}"],
    "tiny_aya": [r"\d{1,3}(?=(?:\d{3})*\b)", GPT4O],
    "superbpe": [r"\p{N}+", r"(?=(\d{3})+(?!\d))"],
    "afmoe": [r"\p{N}{1,3}(?=(?:\p{N}{3})*(?!\p{N}))", "[一-鿿㐀-䶿\uf900-\ufaff\u3040-ゟ゠-ヿ･-ﾟ⼀-\u2fdf\u0e00-\u0e7f\u0e80-\u0eff"
              "\u1780-\u17ff\u1000-\u109f\uaa60-\uaa7f\ua9e0-\ua9ff\uac00-\ud7af\u1100-\u11ff]+", DEEPSEEK3],
    "youtu": ["[가-힣ㄱ-ㆎ]+|[！…“”‘’—：；，、-〿︰-﹏]+|[ㄅ-ㄯ]+|[一-龥\u3040-ゟ゠-ヿ]+", CASED + r"\p{N}|" + REST_SLASH],
    "chameleon": ["<sentinel:[0-9]+>", "(IMGIMG)((A|B|C|D|E|F|G|H|I){1,4})Z", "([\\t\\n]|    |  )", r"\p{N}", r"[\p{P}!-/:-@\[-`{-~]", GPT2],
}


def pre_tokenizer(name: str) -> pre_tokenizers.PreTokenizer:
    return pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(pattern), "isolated") for pattern in PUBLISHED[name]])


def is_assigned(text: str) -> bool:
    return all(unicodedata.category(c) != "Cn" for c in text)


def pieces(name: str, text: str) -> str:
    """The pieces' bytes, as numbers with spaces between."""
    return " ".join(str(len(text[begin:end].encode())) for _, (begin, end) in pre_tokenizer(name).pre_tokenize_str(text))


def write_vectors() -> None:
    texts = [text for text in SENTENCES + ODD + random_bytes(1, 20) if text and is_assigned(text)]
    texts += [text for text in (random_text(random.Random(seed)) for seed in range(150)) if text and is_assigned(text)][:100]
    rows = [f"{json.dumps(name)}: [\n" + ",\n".join(json.dumps(pieces(name, text)) for text in texts) + "]" for name in PUBLISHED]
    TARGET.write_text('{"texts": ' + json.dumps(texts, ensure_ascii=False, indent=0) + ',\n"pieces": {\n' + ",\n".join(rows) + "}}\n")


def try_random(count: int, weft: str, seed: int, only: str | None) -> None:
    source = random.Random(seed)
    texts = [text for text in [random_text(source) for _ in range(count)] + random_bytes(seed, count // 4) if is_assigned(text)]
    tokenizer = Tokenizer(models.BPE())
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.pre_tokenizer = byte_level
    trainer = trainers.BpeTrainer(vocab_size=6000, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False, min_frequency=2)
    tokenizer.train_from_iterator(SENTENCES * 2 + ODD * 2 + texts[:4000], trainer)
    model = json.loads(tokenizer.to_str())["model"]
    for name in [only] if only else PUBLISHED:
        path = scratch("splits.gguf")
        writer = GGUFWriter(path, "gpt2")
        writer.add_tokenizer_model("gpt2")
        writer.add_tokenizer_pre(name)
        writer.add_token_list(sorted(model["vocab"], key=model["vocab"].get))
        writer.add_token_merges([" ".join(merge) for merge in model["merges"]])
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.close()
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizer(name), byte_level])
        expected = [encoding.ids for encoding in tokenizer.encode_batch(texts)]
        answer = subprocess.run([weft, "tokenize", "-m", path, "--null", "--json", "--no-bos", "--no-special"],
                                input="".join(text + "\0" for text in texts).encode(), capture_output=True, check=True)
        found = [json.loads(line) for line in answer.stdout.splitlines()]
        wrong = [text for text, a, b in zip(texts, expected, found, strict=True) if a != b]
        print(f"{name}: {len(texts)} texts, {len(wrong)} differ", *map(ascii, wrong[:3]))


def main() -> None:
    if len(sys.argv) > 2:
        try_random(int(sys.argv[1]), sys.argv[2], int(sys.argv[3]) if len(sys.argv) > 3 else 1, sys.argv[4] if len(sys.argv) > 4 else None)
    else:
        write_vectors()


if __name__ == "__main__":
    main()
