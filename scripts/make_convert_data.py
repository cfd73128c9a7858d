#!/usr/bin/env python3
"""Makes tests/data/convert/NAME from golden models: usage make_convert_data.py [--out FOLDER] [NAME...]

Each is the folder that transformers saves of the model of make_golden_families.py, with the weights in F16, and the
vocabulary of the golden models as a tokenizer.json. What weft makes of it must be the golden model. Without names those
that are kept are made. Needs what make_golden_families.py needs, and that beside it.
"""
import argparse
import json
from pathlib import Path

import torch
from gguf import GGUFReader

import make_golden_families as golden

KEPT = ["mixtral", "gemma2", "gptneox", "qwen2moe", "falcon-40b", "phi2"]
OUT = Path(__file__).parent.parent / "tests/data/convert"


def tokenizer_files():
    """The vocabulary of the golden models as transformers would save it."""
    fields = GGUFReader(golden.GOLDEN / "mamba" / "model.gguf").fields
    value = {name.removeprefix("tokenizer.ggml."): field.contents() for name, field in fields.items()}
    tokens, kinds = value["tokens"], value["token_type"]
    added = [{"id": i, "content": tokens[i], "special": kind == 3} for i, kind in enumerate(kinds) if kind in (3, 4)]
    tokenizer = {"version": "1.0", "added_tokens": added,
                 "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "use_regex": True},
                 "model": {"type": "BPE", "vocab": {token: i for i, token in enumerate(tokens)},
                           "merges": value["merges"]}}
    names = {"bos": "bos", "eos": "eos", "unknown": "unk", "padding": "pad"}
    config = {f"{short}_token": tokens[value[f"{name}_token_id"]] for name, short in names.items()
              if f"{name}_token_id" in value}
    return tokenizer, config | {"add_bos_token": bool(value.get("add_bos_token", False))}


def write(name, target):
    family = golden.FAMILIES[name]
    model = golden.make_model(family).to(torch.float16)
    model.save_pretrained(target)
    (target / "generation_config.json").unlink(missing_ok=True)
    tokenizer, config = tokenizer_files()
    (target / "tokenizer.json").write_text(json.dumps(tokenizer, ensure_ascii=False) + "\n")
    (target / "tokenizer_config.json").write_text(json.dumps(config, indent=2) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("names", nargs="*", default=KEPT)
    args = parser.parse_args()
    for name in args.names:
        target = args.out / name
        target.mkdir(parents=True, exist_ok=True)
        write(name, target)


if __name__ == "__main__":
    main()
