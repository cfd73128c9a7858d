#!/usr/bin/env python3
"""Makes tests/data/convert/NAME from golden models: usage make_convert_data.py [--check WEFT] [--out FOLDER] [NAME...]

Each is the folder that transformers saves for the model of make_golden_families.py. The weights are F16, and
tokenizer.json has the vocabulary of the golden models. The conversion by weft must give the golden model. Without names
it makes the folders that are kept. Needs the packages of make_golden_families.py, and that script next to it.

--check makes the folders of all golden models whose class the program WEFT converts, in a temporary folder. These are
decoders, encoders with the modules of sentence-transformers, and models with an encoder and a decoder. It converts the
folders and compares metadata and tensors with the golden models. Differences are reported and are an error.
"""
import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import torch
from gguf import GGUFReader
from safetensors.torch import save_file

import make_golden_encoders as encoders
import make_golden_families as golden
import make_golden_sources as sources
import packed_data
from coarse import coarse

KEPT = ["mixtral", "gemma2", "gptneox", "qwen2moe", "falcon-40b", "phi2", "gpt-oss", "qwen35",
        "gemma-embedding", "flan-t5", "gemma4", "kimi-linear"]
# Golden models of classes that are published under other names, and with other tensors.
OF_OTHER_CLASSES = {"minicpm", "internlm2", "exaone", "xverse", "orion", "codeshell", "qwen", "bailingmoe", "bailingmoe2",
                    "baichuan", "baichuan-13b", "refact", "qwen2vl", "qwen3vl", "qwen3vlmoe", "maincoder",
                    "pangu-embedded", "qwen3next-old", "bitnet", "llama-embed", "neo-bert"}
# Metadata that golden models have set for their tests, which their folders do not say.
MEANS = ["attention.layer_norm_epsilon"]  # Beside that of RMS norms, which is what counts.
NOT_OF_FILES = {"olmo3": ["rope.scaling.attn_factor"], "mellum": ["rope.scaling.attn_factor"],
                "phimoe": ["rope.scaling.original_context_length"],
                "lfm2moe": MEANS, "nemotron_h": MEANS, "nemotron_h_moe": MEANS,
                "bloom": ["context_length"], "phi3-short": ["context_length"], "phi3-long": ["context_length"],
                "qwen35moe": ["feed_forward_length"],
                "apertus": ["xielu.eps"],  # The folder has it in F16.
                # Its golden model is read as vectors are, and the folder says that it is a classifier.
                "modern-bert-rank": ["pooling_type"],
                "t5": MEANS, "flan-t5": MEANS, "umt5": MEANS, "t5encoder": MEANS + ["context_length"],
                "t5encoder-umt5": MEANS + ["context_length"],
                "falcon-mamba": MEANS + ["context_length", "attention.head_count", "attention.head_count_kv", "rope.freq_base"]}
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


def write_modules(encoder, model, target):
    """What sentence-transformers lays around an encoder."""
    if "ForSequence" in encoder.model:
        return
    modules = [("Transformer", ""), ("Pooling", "1_Pooling")]
    way = encoder.pooling.name.lower()
    (target / "1_Pooling").mkdir(exist_ok=True)
    flags = {"mean": "mean_tokens", "cls": "cls_token", "last": "lasttoken"}
    (target / "1_Pooling/config.json").write_text(json.dumps(
        {f"pooling_mode_{flag}": name == way for name, flag in flags.items()} | {"pooling_mode_max_tokens": False}) + "\n")
    width = model.config.hidden_size
    for i, out in enumerate(encoder.dense):
        folder = target / f"{i + 2}_Dense"
        folder.mkdir(exist_ok=True)
        modules.append(("Dense", folder.name))
        (folder / "config.json").write_text(json.dumps(
            {"in_features": width, "out_features": out, "bias": False,
             "activation_function": "torch.nn.modules.linear.Identity"}) + "\n")
        # As make_golden_encoders.py draws it, after the model.
        save_file({"linear.weight": coarse(0.1 * torch.randn(out, width)).half()}, folder / "model.safetensors")
        width = out
    (target / "modules.json").write_text(json.dumps(
        [{"idx": i, "name": str(i), "path": path, "type": f"sentence_transformers.models.{kind}"}
         for i, (kind, path) in enumerate(modules)]) + "\n")


def write(name, target):
    if name in encoders.ENCODERS:
        model = encoders.make_model(encoders.ENCODERS[name])
        write_modules(encoders.ENCODERS[name], model, target)
    elif name in sources.MODELS:
        model = sources.make_model(sources.MODELS[name])
    else:
        model = golden.make_model(golden.FAMILIES[name])
    save(model.to(torch.float16), target)


def save(model, target):
    """The folder that transformers makes of a model, with a vocabulary."""
    model.save_pretrained(target)
    (target / "generation_config.json").unlink(missing_ok=True)
    # What the class has no use for is in no published file.
    config = json.loads((target / "config.json").read_text())
    known = set(type(model.config)().to_dict()) | set(getattr(model.config, "attribute_map", {}))
    config = {key: value for key, value in config.items() if key not in golden.SIZES or key in known}
    (target / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    tokenizer, config = tokenizer_files()
    (target / "tokenizer.json").write_text(json.dumps(tokenizer, ensure_ascii=False) + "\n")
    (target / "tokenizer_config.json").write_text(json.dumps(config, indent=2) + "\n")


def differences(name, made, golden_model):
    """What of the golden model the other has not."""
    ours, theirs = GGUFReader(made), GGUFReader(golden_model)
    for key, field in theirs.fields.items():
        short = key.partition(".")[2]
        if key.startswith(("GGUF.", "general.")) or key == "tokenizer.ggml.pre":
            continue
        if short in NOT_OF_FILES.get(name, ()):
            continue
        wanted = field.contents()
        if key not in ours.fields:
            yield f"{key} is missing, expected {wanted}"
        elif not np.array_equal(found := ours.fields[key].contents(), wanted) and not (
                isinstance(wanted, float) and np.isclose(found, wanted, rtol=1e-6)) and not (
                isinstance(wanted, list) and isinstance(wanted[0], float) and np.allclose(found, wanted, rtol=1e-5)):
            yield f"{key} is {found}, expected {wanted}"
    tensors = {tensor.name: tensor for tensor in ours.tensors}
    expected = {tensor.name: tensor for tensor in theirs.tensors}
    if extra := sorted(set(tensors) - set(expected)):
        yield f"tensors too many: {extra}"
    for tensor_name, tensor in expected.items():
        if tensor_name not in tensors:
            yield f"{tensor_name} is missing"
            continue
        found = tensors[tensor_name]
        if list(found.shape) != list(tensor.shape):
            yield f"{tensor_name} has the shape {found.shape}, expected {tensor.shape}"
        elif not np.allclose(found.data.astype(np.float32), tensor.data.astype(np.float32), rtol=1e-6, atol=0,
                             equal_nan=True):
            yield f"{tensor_name} has other values"


def cases():
    """The name, class and file of each golden model that transformers made."""
    for name, family in golden.FAMILIES.items():
        if family.source.__name__ == "transformers" and name not in OF_OTHER_CLASSES:
            yield name, family.model + family.head, golden.GOLDEN / name
    for name, encoder in encoders.ENCODERS.items():
        if encoder.source.__name__ == "transformers" and name not in OF_OTHER_CLASSES:
            yield name, encoder.model, encoders.ROOT / "golden_encoders" / name
    for name, both in sources.MODELS.items():
        yield name, both.model, sources.ROOT / "golden_sources" / name


def check(weft, names, keep):
    known = subprocess.run([weft, "convert", "--list"], capture_output=True, text=True, check=True).stdout.split()
    failed = n_checked = 0
    for name, model, made_once in cases():
        if model not in known or (names and name not in names):
            continue
        with tempfile.TemporaryDirectory() as scratch:
            folder = Path(keep or scratch) / name
            if not (folder / "config.json").exists():
                folder.mkdir(parents=True, exist_ok=True)
                write(name, folder)
            made = folder / "model.gguf"
            run = subprocess.run([weft, "convert", folder, "-o", made, "--type", "f16"], capture_output=True, text=True)
            found = [run.stderr.strip()] if run.returncode else list(differences(name, made, made_once / "model.gguf"))
        n_checked += 1
        failed += bool(found)
        print(f"{name}: {'differs' if found else 'ok'}", *found[:8], sep="\n  ")
    print(f"{n_checked} models, {failed} differ")
    return failed == 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", metavar="WEFT", help="the program that converts")
    parser.add_argument("--out", type=Path, help="with --check: keeps the folders there, and takes those that are")
    parser.add_argument("names", nargs="*")
    args = parser.parse_args()
    packed_data.unpack()
    if args.check:
        sys.exit(not check(args.check, args.names, args.out))
    args.out = args.out or OUT
    for name in args.names or KEPT:
        target = args.out / name
        target.mkdir(parents=True, exist_ok=True)
        write(name, target)
        if args.out == OUT:
            packed_data.pack_folder(target)


if __name__ == "__main__":
    main()
