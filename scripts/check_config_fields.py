#!/usr/bin/env python3
"""What becomes of each field of each class's configuration: usage check_config_fields.py BUILD [NAME...]

For each golden model whose class the program BUILD/weft converts, every field of the configuration gets another value.
If that changes transformers' logits (for encoders, the mean of their rows), the folder is converted. Then weft must
compute the same logits, or refuse the folder or the file. A silent difference is reported and is an error. BUILD is a
folder of a build with weft and weft_c. Takes about ten seconds for each model. Needs the packages of
make_convert_data.py.
"""
import argparse
import copy
import ctypes
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import torch
import transformers

import make_convert_data as folders
import make_golden_encoders as encoders
import make_golden_families as golden

N_CTX, TOLERANCE, NO_EFFECT = 64, 3e-3, 1e-4
MASKED = 1e30  # Logits of tokens that are never to be chosen lie far below.
# Sizes and ids, which differ between the golden models, and fields for training or output alone.
SKIPPED = set("""vocab_size hidden_size intermediate_size num_hidden_layers moe_intermediate_size num_local_experts
num_experts n_routed_experts moe_num_experts ffn_hidden_size vocab_size_per_layer_input tie_word_embeddings
pad_token_id bos_token_id eos_token_id sep_token_id cls_token_id decoder_start_token_id image_token_id use_cache dtype
torch_dtype architectures model_type transformers_version initializer_range id2label label2id num_labels problem_type
return_dict is_decoder is_encoder_decoder chunk_size_feed_forward text_config vision_config vq_config vocabulary_map
per_layer_config""".split())
# Known, with the reason.
ACCEPTED = {
    ("nemotron_h", "time_step_min"): "only transformers reads it so; the published program takes time_step_limit",
    ("nemotron_h_moe", "time_step_min"): "the same",
    ("falcon-mamba", "mixer_rms_eps"): "files have one epsilon; the published 1e-6 and 1e-5 differ in the last digits",
    ("phi3-long", "original_max_position_embeddings"): "which factors hold follows from the length of weft's context",
}
ACTIVATIONS = ["relu", "gelu", "silu", "relu2"]
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64}
LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 32}
ROPES = [{"rope_theta": 777.0}, {"rope_type": "linear", "factor": 2.0}, LLAMA3, YARN, YARN | {"attention_factor": 0.7},
         YARN | {"beta_fast": 20.0, "beta_slow": 2.0}, YARN | {"mscale": 0.5, "mscale_all_dim": 0.8},
         YARN | {"mscale_all_dim": 0.7}, YARN | {"truncate": False},
         {"rope_type": "longrope", "original_max_position_embeddings": N_CTX, "attention_factor": 1.3}]


class Library:
    """As much of libweft_c as is needed."""

    class ContextParams(ctypes.Structure):
        _fields_ = ([("struct_size", ctypes.c_size_t)] +
                    [(name, ctypes.c_int32) for name in ("n_ctx", "n_sequences", "n_ubatch", "n_outputs", "n_threads",
                                                         "n_best", "k_type", "v_type")] +
                    [("adapters", ctypes.c_void_p), ("n_adapters", ctypes.c_size_t), ("window_rewind", ctypes.c_int32),
                     ("state_rewind", ctypes.c_int64)])

    class Tokens(ctypes.Structure):
        _fields_ = [("tokens", ctypes.c_void_p), ("n_tokens", ctypes.c_size_t)]

    def __init__(self, path):
        self.library = ctypes.CDLL(str(path))
        for name in ("model_load", "context_create", "batch_create", "embedder_create"):
            getattr(self.library, f"weft_{name}").restype = ctypes.c_void_p
        self.library.weft_context_logits.restype = ctypes.POINTER(ctypes.c_float)
        self.library.weft_error_message.restype = ctypes.c_char_p

    def call(self, name, *args):
        """A function that says last what went wrong. Python's numbers and handles become C's."""
        error = ctypes.c_void_p()
        args = [ctypes.c_void_p(a) if isinstance(a, int) and a >= 1 << 31 else a for a in args]
        result = getattr(self.library, f"weft_{name}")(*args, ctypes.byref(error))
        if error.value:
            raise RuntimeError(self.library.weft_error_message(error).decode())
        return result

    def free(self, kind, handle):
        getattr(self.library, f"weft_{kind}_free")(ctypes.c_void_p(handle))

    def logits(self, path, ids):
        model = self.call("model_load", str(path).encode(), None)
        params = self.ContextParams()
        self.library.weft_context_params_init(ctypes.byref(params), ctypes.c_size_t(ctypes.sizeof(params)))
        params.n_ctx, params.n_outputs, params.n_threads = N_CTX, len(ids), 1
        params.k_type = params.v_type = 1  # F32
        try:
            context = self.call("context_create", model, ctypes.byref(params))
        finally:
            self.free("model", model)
        batch = self.call("batch_create")
        try:
            for i, token in enumerate(ids):
                self.call("batch_add", batch, token, 0, i, ctypes.c_bool(True))
            self.call("context_decode", context, batch)
            n = ctypes.c_size_t()
            rows = [self.call("context_logits", context, i, ctypes.byref(n)) for i in range(len(ids))]
            return np.stack([np.ctypeslib.as_array(row, (n.value,)).copy() for row in rows])
        finally:
            self.free("batch", batch)
            self.free("context", context)

    def mean(self, path, ids):
        model = self.call("model_load", str(path).encode(), None)
        try:
            embedder = self.call("embedder_create", model, None)
        finally:
            self.free("model", model)
        try:
            vector = np.zeros(self.library.weft_embedder_dimensions(ctypes.c_void_p(embedder)), np.float32)
            array = (ctypes.c_int32 * len(ids))(*ids)
            tokens = self.Tokens(ctypes.addressof(array), len(ids))
            mean = 1  # WEFT_POOLING_MEAN
            self.call("embedder_embed_tokens", embedder, ctypes.byref(tokens), ctypes.c_size_t(1), mean,
                      ctypes.c_bool(False), ctypes.c_void_p(vector.ctypes.data), ctypes.c_size_t(vector.size))
            return vector
        finally:
            self.free("embedder", embedder)


def rope_values(config, rope):
    """Rope of other kinds; where there are several, one after the other."""
    nested = [name for name, part in rope.items() if isinstance(part, dict)]
    if nested:
        for name in nested:
            for value in rope_values(config, rope[name]):
                yield rope | {name: value}
        return
    try:
        dim = getattr(config, "qk_rope_head_dim", None) or getattr(config, "head_dim", None) or (
            config.hidden_size // config.num_attention_heads)
    except RuntimeError:  # It differs from layer to layer.
        dim = 32
    pairs = int(dim * rope.get("partial_rotary_factor", 1.0)) // 2
    kept = {name: rope[name] for name in ("rope_theta", "partial_rotary_factor", "mrope_section") if name in rope}
    for change in ROPES:
        if change.get("rope_type") == "longrope":
            change = change | {f"{length}_factor": [1.0 + step * i for i in range(pairs)]
                               for length, step in (("long", 0.1), ("short", 0.3))}
        yield kept | change
    for name, number in rope.items():
        if name != "rope_theta":
            yield from (rope | {name: other} for other in other_values(name, number, config))


def other_values(name, value, config):
    """Other values for a field. The first that makes a difference counts; for lists and strings each is tried."""
    if name in ("rope_parameters", "rope_scaling"):
        yield from rope_values(config, value or {"rope_theta": 10000.0})
    elif isinstance(value, bool):
        yield not value
    elif isinstance(value, int):
        yield from (n for n in (2 * value, value // 2, value + 1, value - 1) if n != value and n > 0)
    elif isinstance(value, float):
        yield 2.0 * value + 0.3 if value >= 1e-3 else 1000.0 * value + 1e-3
    elif isinstance(value, str) and "act" in name:
        # Which approximation of GELU is a matter of digits.
        yield from (other for other in ACTIVATIONS if not value.startswith(other))
    elif isinstance(value, (list, tuple)) and value:
        numbers = isinstance(value[0], (int, float))
        yield value[::-1]
        yield [2 * v for v in value] if numbers else value[1:] + value[:1]
        yield from () if numbers else ([kind] * len(value) for kind in sorted(set(value)))
    elif isinstance(value, dict) and name in ("attn_config", "ffn_config"):
        for key, inner in value.items():
            for other in other_values(key, inner, config):
                yield {k: v for k, v in (value | {key: other}).items() if k != "model_type"}
    elif value is None:
        yield from (8, 0.5, True, 2)


class Decoders:
    ids = json.loads((golden.GOLDEN / "mamba" / "tokens.json").read_text())[:32]

    def models(self, known):
        for name, family in golden.FAMILIES.items():
            if family.source.__name__ == "transformers" and family.model + family.head in known:
                yield name, family

    def make(self, family):
        return golden.make_model(family)

    def truth(self, model):
        return model(torch.tensor([self.ids])).logits[0].numpy()

    def answer(self, library, path):
        return library.logits(path, self.ids)


class Encoders:
    ids = np.random.default_rng(7).integers(4, encoders.N_VOCAB, 50).tolist()

    def models(self, known):
        for name, encoder in encoders.ENCODERS.items():
            if encoder.source.__name__ == "transformers" and encoder.model in known and (
                    name not in folders.OF_OTHER_CLASSES and "ForSequence" not in encoder.model):
                yield name, encoder

    def make(self, encoder):
        return encoders.make_model(encoder)

    def truth(self, model):
        return model(torch.tensor([self.ids])).last_hidden_state[0].numpy().mean(0)

    def answer(self, library, path):
        return library.mean(path, self.ids)


def difference(found, wanted):
    """The largest, by how far the wanted numbers lie apart."""
    if found.shape != wanted.shape:
        return np.inf
    seen = np.abs(wanted) < MASKED
    return np.abs(found - wanted)[seen].max() / max(wanted[seen].std(), 1e-6)


def make(kind, of, config):
    """The model and its reference output; None where the class refuses the configuration."""
    changed = copy.copy(of)
    changed.config = config
    try:
        model = kind.make(changed)
        with torch.no_grad():
            truth = kind.truth(model)
    except Exception:  # Whatever the class makes of it.
        return None, None
    return (model, truth) if np.isfinite(truth).all() else (None, None)


def verdict(kind, library, weft, model, wanted):
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        folders.save(model, folder)
        made = folder / "model.gguf"
        run = subprocess.run([weft, "convert", folder, "-o", made, "--type", "f32"], capture_output=True, text=True)
        if run.returncode:
            return "refused: " + run.stderr.strip()
        try:
            found = kind.answer(library, made)
        except RuntimeError as error:
            return f"refused as a file: {error}"
    apart = difference(found, wanted)
    return "the same" if apart < TOLERANCE else f"DIFFERS by {apart:.2g}"


def check(kind, name, of, library, weft, tell):
    model, plain = make(kind, of, of.config)
    tell(name, "as it is", verdict(kind, library, weft, model, plain))
    for field, value in model.config.to_dict().items():
        if field in SKIPPED or field.startswith("_") or "dropout" in field or field.endswith(("pdrop", "_drop")):
            continue
        for other in other_values(field, value, model.config):
            changed, wanted = make(kind, of, of.config | {field: other})
            if changed is None or difference(plain, wanted) < NO_EFFECT:
                continue
            tell(name, f"{field} = {json.dumps(other)}", verdict(kind, library, weft, changed, wanted))
            if isinstance(value, (int, float, type(None))):
                break


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=Path)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--all", action="store_true", help="also tell what is the same, or refused")
    args = parser.parse_intermixed_args()
    transformers.logging.set_verbosity_error()
    library, weft = Library(args.build / "c/libweft_c.so"), args.build / "weft"
    known = subprocess.run([weft, "convert", "--list"], capture_output=True, text=True, check=True).stdout.split()
    n = {"fields": 0, "differ": 0}

    def tell(name, what, found):
        differs = found.startswith("DIFFERS") and (name, what.split(" =")[0]) not in ACCEPTED
        n["fields"] += 1
        n["differ"] += differs
        if differs or args.all:
            print(f"{name}: {what}: {found}", flush=True)

    for kind in (Decoders(), Encoders()):
        for name, of in kind.models(known):
            if not args.names or name in args.names:
                check(kind, name, of, library, weft, tell)
    print(f"{n['fields']} configurations, {n['differ']} differ without a word")
    sys.exit(n["differ"] > 0)


if __name__ == "__main__":
    main()
