"""Many streams on llama.cpp, as its own parallel example serves them. `versus.py parallel` runs this in the peer's
Python.

One unified cache. A system prompt is computed once, as sequence 0, and shared with each client (a copy that moves no
bytes). All that the clients want next goes into one batch: one token of each client that generates, and the whole
prompt of each that begins (continuous batching). Greedy. A line on standard input asks for a round, whose times come
back as a line of JSON; what Python does between two calls of llama_decode is measured apart, so that it can be left
out.
"""
import ctypes
import json
import random
import sys
import time

import llama_cpp as L
import numpy as np


class Batch:
    """One llama_batch for all steps, filled through numpy views of its arrays."""

    def __init__(self, n_max: int):
        self.c = L.llama_batch_init(n_max, 0, 1)
        self.token, self.pos, self.logits = (
            np.ctypeslib.as_array(p, shape=(n_max,)) for p in (self.c.token, self.c.pos, self.c.logits)
        )
        np.ctypeslib.as_array(self.c.n_seq_id, shape=(n_max,))[:] = 1
        # Each token belongs to one sequence, whose id stands in an array of its own: here in ours.
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


class Server:
    def __init__(self, o: dict):
        self.streams, self.n_sequences, self.n_tokens = o["streams"], o["sequences"], o["tokens"]
        n_batch = max(2048, o["system"], self.streams * (o["prompt"] + 1))
        L.llama_backend_init()
        self.silent = L.llama_log_callback(lambda level, text, data: None)
        L.llama_log_set(self.silent, ctypes.c_void_p(0))
        self.model = L.llama_model_load_from_file(o["model"].encode(), L.llama_model_default_params())
        p = L.llama_context_default_params()
        p.n_ctx = o["cells"]
        p.n_batch, p.n_ubatch = n_batch, 512
        p.n_seq_max = self.streams + 1
        p.n_threads = p.n_threads_batch = o["threads"]
        p.flash_attn_type = 1  # LLAMA_FLASH_ATTN_TYPE_ENABLED
        p.kv_unified = True
        self.context = L.llama_init_from_model(self.model, p)
        assert self.context, "llama.cpp made no context"
        self.memory = L.llama_get_memory(self.context)
        self.n_vocab = L.llama_vocab_n_tokens(L.llama_model_get_vocab(self.model))
        self.batch = Batch(n_batch)
        ids = random.Random(1)
        self.system = [ids.randrange(self.n_vocab) for _ in range(o["system"])]
        self.prompts = [[ids.randrange(self.n_vocab) for _ in range(o["prompt"])] for _ in range(self.n_sequences)]

    def decode(self) -> None:
        start, cpu_start = time.perf_counter(), time.process_time()
        self.batch.c.n_tokens = self.batch.n
        status = L.llama_decode(self.context, self.batch.c)
        L.llama_synchronize(self.context)
        self.decode_seconds += time.perf_counter() - start
        self.cpu_seconds += time.process_time() - cpu_start
        self.steps += 1
        assert status == 0, f"llama_decode: {status}"

    def best(self, n_rows: int) -> np.ndarray:
        rows = np.ctypeslib.as_array(L.llama_get_logits(self.context), shape=(n_rows, self.n_vocab))
        return rows.argmax(axis=1)

    def restart(self, client: int) -> None:
        """The client's sequence holds the system prompt and nothing else."""
        L.llama_memory_seq_rm(self.memory, client + 1, -1, -1)
        L.llama_memory_seq_cp(self.memory, 0, client + 1, -1, -1)

    def round(self) -> dict:
        batch = self.batch
        L.llama_memory_clear(self.memory, True)
        self.decode_seconds, self.cpu_seconds, self.steps = 0.0, 0.0, 0
        n_generated = n_begun = 0
        # By client; `left` is 0 where the client is free.
        token, pos, left = (np.zeros(self.streams, dtype=np.int32) for _ in range(3))

        start = time.perf_counter()
        batch.n = 0
        batch.add(self.system, 0, 0, False)
        self.decode()
        for client in range(self.streams):
            self.restart(client)
        while True:
            batch.n = 0
            rows = np.flatnonzero(left)
            batch.add_each(token[rows], pos[rows], rows + 1)
            pos[rows] += 1
            for client in np.flatnonzero(left == 0)[: self.n_sequences - n_begun]:
                batch.add(self.prompts[n_begun], len(self.system), client + 1, True)
                pos[client] = len(self.system) + len(self.prompts[n_begun])
                left[client] = self.n_tokens
                n_begun += 1
                rows = np.append(rows, client)
            if batch.n == 0:
                break
            self.decode()
            token[rows] = self.best(len(rows))
            left[rows] -= 1
            n_generated += len(rows)
            for client in rows[left[rows] == 0]:
                self.restart(client)
        seconds = time.perf_counter() - start
        return {
            "seconds": seconds,
            "decode_seconds": self.decode_seconds,
            "cpu_seconds": self.cpu_seconds,  # Of all threads, in llama_decode.
            "steps": self.steps,
            "prompt_tokens": len(self.system) + sum(map(len, self.prompts)),
            "generated_tokens": n_generated,
        }


def main() -> None:
    server = Server(json.loads(sys.argv[1]))
    print("ready", flush=True)
    for _ in sys.stdin:
        print(json.dumps(server.round()), flush=True)


if __name__ == "__main__":
    main()
