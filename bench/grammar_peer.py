#!/usr/bin/env python3
"""The measurements of bench_grammar for xgrammar: compiling schemas for a vocabulary, and masks along random strings.

    pip install --no-deps xgrammar apache-tvm-ffi && pip install numpy pydantic gguf
    bench/grammar_peer.py VOCABULARY.gguf [SCHEMA.json...]

For vocabularies of byte-level BPE. One thread, nothing cached; times are processor time. xgrammar makes its masks while
it compiles. It imports torch only to pass tensors through. Where torch is missing, NumPy arrays replace its tensors,
and empty classes replace those classes of transformers that xgrammar imports.
"""
import argparse
import json
import random
import sys
import time
import types
from pathlib import Path

import numpy as np


def stand_in_for_transformers():
    try:
        import transformers  # noqa: F401
    except ImportError:
        transformers = types.ModuleType("transformers")
        transformers.PreTrainedTokenizerBase = type("PreTrainedTokenizerBase", (), {})
        transformers.PreTrainedTokenizerFast = type("PreTrainedTokenizerFast", (), {})
        transformers.LogitsProcessor = type("LogitsProcessor", (), {})
        sys.modules["transformers"] = transformers


def stand_in_for_torch():
    try:
        import torch  # noqa: F401
    except ImportError:
        torch = types.ModuleType("torch")
        torch.int32 = np.int32
        torch.Tensor = torch.LongTensor = torch.FloatTensor = np.ndarray
        torch.tensor = lambda value, dtype=None: np.array(value, dtype=dtype)
        torch.full = lambda shape, value, dtype=None: np.full(shape, value, dtype=dtype)
        sys.modules["torch"] = torch


import tvm_ffi  # noqa: E402,F401  Asks for torch itself, before the stand-in is there.

stand_in_for_torch()
stand_in_for_transformers()
import xgrammar  # noqa: E402

SCHEMAS = {
    "object": {"type": "object"},
    "flat": {"type": "object", "properties": {"name": {"type": "string"}, "age": {"type": "integer"},
             "email": {"type": "string", "format": "email"}, "active": {"type": "boolean"}},
             "required": ["name", "age", "email", "active"]},
    "optional": {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "number"},
                 "c": {"type": "array", "items": {"type": "string"}}, "d": {"enum": ["red", "green", "blue"]},
                 "e": {"type": "null"}}},
    "lengths": {"type": "object", "properties": {"title": {"type": "string", "maxLength": 140},
                "body": {"type": "string", "minLength": 10, "maxLength": 5000}}, "required": ["title", "body"]},
    "recursive": {"$ref": "#/$defs/node", "$defs": {"node": {"type": "object", "properties": {"value": {"type": "string"},
                  "children": {"type": "array", "items": {"$ref": "#/$defs/node"}}}, "required": ["value", "children"]}}},
    "union": {"anyOf": [{"type": "object", "properties": {"kind": {"const": "circle"}, "radius": {"type": "number"}},
              "required": ["kind", "radius"]}, {"type": "object", "properties": {"kind": {"const": "square"},
              "side": {"type": "number"}}, "required": ["kind", "side"]}, {"type": "array", "items": {"type": "integer"}},
              {"type": "string"}]},
    "dates": {"type": "array", "items": {"type": "string", "format": "date-time"}, "minItems": 3},
}


def read_vocabulary(path):
    from gguf import GGUFReader
    reader = GGUFReader(path)
    field = reader.fields["tokenizer.ggml.tokens"]
    tokens = [bytes(field.parts[i]).decode("utf-8") for i in field.data]
    eos = int(reader.fields["tokenizer.ggml.eos_token_id"].parts[-1][0])
    return tokens, eos


def walk(compiled, n_vocab, eos, rng, times):
    bitmask = np.zeros((1, (n_vocab + 31) // 32), dtype=np.int32)
    for _ in range(5):
        matcher = xgrammar.GrammarMatcher(compiled)
        for _ in range(200):
            begin = time.thread_time()
            free = not matcher.fill_next_token_bitmask(bitmask)
            times.append((time.thread_time() - begin) * 1e6)
            bits = np.unpackbits(bitmask.view(np.uint8), bitorder="little")[:n_vocab]
            allowed = np.arange(n_vocab) if free else np.flatnonzero(bits)
            token = int(allowed[rng.randrange(len(allowed))])
            if token == eos or not matcher.accept_token(token) or matcher.is_terminated():
                break


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("vocabulary")
    parser.add_argument("schemas", nargs="*")
    args = parser.parse_args()
    tokens, eos = read_vocabulary(args.vocabulary)
    begin = time.thread_time()
    info = xgrammar.TokenizerInfo(tokens, vocab_type=xgrammar.VocabType.BYTE_LEVEL, stop_token_ids=[eos])
    print(f"vocabulary of {len(tokens)} tokens, prepared in {(time.thread_time() - begin) * 1e3:.1f} ms")
    print(f"{'grammar':32} {'compile':>9} {'tokens':>7} {'median':>9} {'p99':>9} {'max':>9}")
    rng = random.Random(1)
    schemas = {path: json.loads(Path(path).read_text()) for path in args.schemas} or SCHEMAS
    for name, schema in schemas.items():
        compiler = xgrammar.GrammarCompiler(info, max_threads=1, cache_enabled=False)
        begin = time.process_time()
        compiled = compiler.compile_json_schema(json.dumps(schema), any_whitespace=False, strict_mode=True)
        compile_ms = (time.process_time() - begin) * 1e3
        times = []
        walk(compiled, len(tokens), eos, rng, times)
        times.sort()
        at = lambda share: times[int(share * (len(times) - 1))]  # noqa: E731
        print(f"{name:32} {compile_ms:9.2f} {len(times):7} {at(.5):9.1f} {at(.99):9.1f} {at(1):9.1f}", flush=True)


if __name__ == "__main__":
    main()
