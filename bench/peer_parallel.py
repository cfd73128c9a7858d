"""Many streams on llama.cpp, as its own parallel example serves them. `versus.py parallel` runs this in the peer's
Python.

One unified cache. A system prompt is computed once, as sequence 0, and shared with each client (a copy that moves no
bytes). One batch has the next work of all clients: one token of each client that generates, and the whole prompt of
each new client (continuous batching). Sampling is greedy. A line on standard input starts a round; its times are the
output, as a line of JSON. The time of Python between two calls of llama_decode is measured separately, so that it can
be excluded.
"""
import json
import random
import sys
import time

import llama_cpp as L
import numpy as np
from peer_llama import Batch, Clock, load, n_vocab, open_context


class Server:
    def __init__(self, o: dict):
        self.streams, self.n_sequences, self.n_tokens = o["streams"], o["sequences"], o["tokens"]
        n_batch = max(2048, o["system"], self.streams * (o["prompt"] + 1))
        self.model = load(o["model"])
        self.context = open_context(
            self.model, o["threads"], o["cells"], batch=n_batch, sequences=self.streams + 1, unified=True
        )
        self.memory = L.llama_get_memory(self.context)
        self.n_vocab = n_vocab(self.model)
        self.batch = Batch(n_batch)
        ids = random.Random(1)
        self.system = [ids.randrange(self.n_vocab) for _ in range(o["system"])]
        self.prompts = [[ids.randrange(self.n_vocab) for _ in range(o["prompt"])] for _ in range(self.n_sequences)]

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
        clock = Clock()
        n_generated = n_begun = 0
        # By client; `left` is 0 where the client is free.
        token, pos, left = (np.zeros(self.streams, dtype=np.int32) for _ in range(3))

        start = time.perf_counter()
        batch.n = 0
        batch.add(self.system, 0, 0, False)
        clock.decode(self.context, batch)
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
            clock.decode(self.context, batch)
            token[rows] = self.best(len(rows))
            left[rows] -= 1
            n_generated += len(rows)
            for client in rows[left[rows] == 0]:
                self.restart(client)
        seconds = time.perf_counter() - start
        return {
            "seconds": seconds,
            "decode_seconds": clock.seconds,
            "cpu_seconds": clock.cpu_seconds,  # Of all threads, in llama_decode.
            "steps": clock.steps,
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
