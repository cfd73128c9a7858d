#!/usr/bin/env python3
"""compare_conversion.py --converter FILE [--weft WEFT] [FOLDER...]: compares weft convert with convert_hf_to_gguf.py.

Both convert each folder to F16 (default: the folders of tests/data/convert), and the two files are compared: tensors by
name, shape, type and bytes, metadata key by key. Differences are printed. Different tensors are an error, except sums
that the converter rounds to F16; so are different keys that are not in EXPECTED. FILE is llama.cpp's script. Runs in a
Python with the converter's packages. With -O it takes some folders that its assertions refuse as too small.

The converter identifies vocabularies by hashes of split strings, which tiny vocabularies do not match. For some
families it needs SentencePiece's file, which the folders have in tokenizer.json's form. So this script sets the usual
split and makes it read tokenizer.json. Tokens, their kinds and merges are compared, but not the names of the vocabulary
and the split.
"""
import argparse
import contextlib
import io
import json
import logging
import runpy
import shutil
import subprocess
import sys
import tempfile
import traceback
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
# What may differ; docs/convert.md has the reasons. Keys that weft alone writes may always be there.
EXPECTED = {"tokenizer.ggml.pre", "tokenizer.ggml.model", "tokenizer.ggml.token_type", "tokenizer.ggml.add_space_prefix",
            "general.name", "general.basename", "general.finetune", "general.size_label", "general.type",
            "general.quantization_version", "falcon.context_length", "falcon.tensor_data_layout",
            "phi2.feed_forward_length"}  # fmt: skip


def prepare(converter: Path):
    """The class that reads files."""
    sys.path[:0] = [str(converter.parent / "gguf-py"), str(converter.parent)]  # Before an installed one, which may be older.
    import gguf
    import torch

    # Named by the converter for files that have them; an older PyTorch has not.
    for name in ("float8_e4m3fn", "float8_e5m2"):
        if not hasattr(torch, name):
            setattr(torch, name, object())
    from conversion.base import TextModel

    TextModel.get_vocab_base_pre = lambda self, tokenizer: "default"
    for name in ("_set_vocab_sentencepiece", "_set_vocab_llama_hf"):
        setattr(TextModel, name, lambda self, *words, **more: self._set_vocab_gpt2())
    return gguf.GGUFReader


def convert(converter: Path, folder: Path, out: Path) -> str:
    """What went wrong, or nothing."""
    sys.argv = [str(converter), str(folder), "--outfile", str(out), "--outtype", "f16"]
    if (folder / "2_Dense").exists():
        sys.argv.append("--sentence-transformers-dense-modules")
    try:
        runpy.run_path(str(converter), run_name="__main__")
    except SystemExit as error:
        return "" if error.code in (0, None) else f"it ends with {error.code}"
    except Exception as error:  # Whatever it does not take.
        place = traceback.extract_tb(error.__traceback__)[-1]
        return f"{type(error).__name__}: {error} ({Path(place.filename).name}: {place.line})"
    return ""


def completed(folder: Path, to: Path) -> Path:
    """The folder with what the tokenizers package wants to be told, and ours leave out."""
    shutil.copytree(folder, to)
    file = to / "tokenizer.json"
    if file.exists():
        tokenizer = json.loads(file.read_text())
        for token in tokenizer["added_tokens"]:
            for flag in ("single_word", "lstrip", "rstrip", "normalized"):
                token.setdefault(flag, False)
        for part in ("pre_tokenizer", "decoder"):
            tokenizer[part] = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
        file.write_text(json.dumps(tokenizer, ensure_ascii=False))
    return to


def shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 70 else text[:67] + "..."


def differing_keys(ours, theirs) -> list[tuple[str, str]]:
    result = []
    for key in sorted(set(ours.fields) | set(theirs.fields)):
        if key.startswith("GGUF."):
            continue
        a, b = (reader.fields[key].contents() if key in reader.fields else None for reader in (ours, theirs))
        kinds = [reader.fields[key].types for reader in (ours, theirs) if key in reader.fields]
        if a is None or b is None:
            result.append((key, f"{shown(a if b is None else b)} in {'weft' if b is None else 'the converter'}'s alone"))
        elif a != b or kinds[0] != kinds[1]:
            result.append((key, f"{shown(a)} / {shown(b)}" if a != b else f"types {kinds[0]} / {kinds[1]}"))
    return result


def differing_tensors(ours, theirs) -> list[str]:
    a, b = ({tensor.name: tensor for tensor in reader.tensors} for reader in (ours, theirs))
    result = [f"{name} in {'weft' if name in a else 'the converter'}'s alone" for name in sorted(set(a) ^ set(b))]
    for name in sorted(set(a) & set(b)):
        x, y = a[name], b[name]
        if x.shape.tolist() != y.shape.tolist() or x.tensor_type != y.tensor_type:
            result.append(f"{name}: {x.shape.tolist()} {x.tensor_type.name} / {y.shape.tolist()} {y.tensor_type.name}")
        elif x.data.tobytes() != y.data.tobytes() and not np.array_equal(x.data.astype(np.float16), y.data):
            apart = np.abs(x.data.astype(np.float64) - y.data.astype(np.float64)).max()
            result.append(f"{name}: other bytes, {apart:.1e} apart at most")
    return result


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--converter", type=Path, required=True, help="llama.cpp's convert_hf_to_gguf.py")
    parser.add_argument("--weft", type=Path, default=ROOT / "build" / "release" / "weft")
    parser.add_argument("folders", nargs="*", type=Path)
    args = parser.parse_args()
    folders = args.folders or sorted((ROOT / "tests" / "data" / "convert").iterdir())
    converter = args.converter.resolve()
    reader = prepare(converter)
    logging.disable(logging.CRITICAL)
    n_taken = n_failed = 0
    for folder in folders:
        with tempfile.TemporaryDirectory(prefix="weft-") as scratch:
            ours, theirs = Path(scratch) / "weft.gguf", Path(scratch) / "converter.gguf"
            with contextlib.redirect_stderr(io.StringIO()):
                refused = convert(converter, completed(folder, Path(scratch) / folder.name), theirs)
            if refused:
                print(f"{folder.name}: the converter does not take it: {refused.splitlines()[0][:150]}", flush=True)
                continue
            subprocess.run([args.weft, "convert", folder, "-o", ours, "--type", "f16", "-q"], check=True,
                           stdout=subprocess.DEVNULL)
            a, b = reader(ours), reader(theirs)
            tensors, keys = differing_tensors(a, b), differing_keys(a, b)
            n_tensors = len(a.tensors)
        unexpected = [key for key, _ in keys if key not in EXPECTED and key in b.fields]
        n_failed += bool(tensors or unexpected)
        n_taken += 1
        print(f"{folder.name}: {n_tensors} tensors, {len(tensors)} differ; {len(keys)} keys differ", flush=True)
        for line in [*tensors[:8], *(f"{key}: {how}" for key, how in keys)]:
            print(f"  {line}", flush=True)
    print(f"{n_taken} of {len(folders)} compared, {n_failed} with something that is not expected")
    return 1 if n_failed else 0


if __name__ == "__main__":
    sys.exit(main())
