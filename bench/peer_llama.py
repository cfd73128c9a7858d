"""llama.cpp through its C API, for workers in the peer's Python: a quiet library, models, contexts, and batches that
need no Python while they are computed."""
import ctypes
import time

import llama_cpp as L
import numpy as np
from peer import CACHE_TYPES

L.llama_backend_init()
_silent = L.llama_log_callback(lambda level, text, data: None)
L.llama_log_set(_silent, ctypes.c_void_p(0))


def load(path: str):
    params = L.llama_model_default_params()
    params.n_gpu_layers = 999  # Of a build that knows no GPU, none.
    model = L.llama_model_load_from_file(path.encode(), params)
    assert model, f"llama.cpp cannot load {path}"
    return model


def n_vocab(model) -> int:
    return L.llama_vocab_n_tokens(L.llama_model_get_vocab(model))


def open_context(model, threads: int, cells: int, *, batch=512, sequences=1, flash=True, unified=True, cache="auto"):
    p = L.llama_context_default_params()
    p.n_ctx = cells
    p.n_batch, p.n_ubatch = max(batch, 512), 512
    p.n_seq_max = sequences
    p.n_threads = p.n_threads_batch = threads
    p.flash_attn_type = int(flash)  # LLAMA_FLASH_ATTN_TYPE_DISABLED, _ENABLED
    p.kv_unified = unified
    p.type_k = p.type_v = CACHE_TYPES[cache]
    context = L.llama_init_from_model(model, p)
    assert context, "llama.cpp made no context"
    return context


class Batch:
    """One llama_batch for all steps, filled through numpy views of its arrays."""

    def __init__(self, n_max: int):
        self.c = L.llama_batch_init(n_max, 0, 1)
        self.token, self.pos, self.logits = (
            np.ctypeslib.as_array(p, shape=(n_max,)) for p in (self.c.token, self.c.pos, self.c.logits)
        )
        np.ctypeslib.as_array(self.c.n_seq_id, shape=(n_max,))[:] = 1
        # Each token belongs to one sequence. Its id is in a separate array, which this object owns.
        self.seq = np.zeros(n_max, dtype=np.int32)
        for i in range(n_max):
            self.c.seq_id[i] = ctypes.cast(self.seq.ctypes.data + 4 * i, ctypes.POINTER(L.llama_seq_id))
        self.n = 0

    def add(self, tokens, pos, seq, logits_at_end: bool) -> None:
        end = self.n + len(tokens)
        self.token[self.n : end] = tokens
        self.pos[self.n : end] = np.arange(pos, pos + len(tokens))
        self.seq[self.n : end] = seq
        self.logits[self.n : end] = 0
        self.logits[end - 1] = logits_at_end
        self.n = end

    def add_each(self, tokens, positions, seqs) -> None:
        """A token of each of these sequences, all with logits."""
        end = self.n + len(tokens)
        self.token[self.n : end] = tokens
        self.pos[self.n : end] = positions
        self.seq[self.n : end] = seqs
        self.logits[self.n : end] = 1
        self.n = end


class Clock:
    """Adds up the time in llama_decode, and the processor's time of all threads in it."""

    def __init__(self):
        self.seconds = self.cpu_seconds = 0.0
        self.steps = 0

    def decode(self, context, batch: Batch) -> None:
        start, cpu_start = time.perf_counter(), time.process_time()
        batch.c.n_tokens = batch.n
        status = L.llama_decode(context, batch.c)
        L.llama_synchronize(context)
        self.seconds += time.perf_counter() - start
        self.cpu_seconds += time.process_time() - cpu_start
        self.steps += 1
        assert status == 0, f"llama_decode: {status}"
