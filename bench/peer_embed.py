"""A worker in the peer's Python: llama.cpp's vectors of sentences, without a server. Arguments: a GGUF file and
threads. Each input line is a JSON list of sentences; the output line has their normalised vectors, as base64 of f32."""
import base64
import ctypes
import json
import sys

import llama_cpp as L
import numpy as np
import peer_llama

MAX_TOKENS, MAX_SEQUENCES = 4096, 64


class Embedder:
    def __init__(self, path: str, threads: int):
        self.model = peer_llama.load(path)
        self.vocab = L.llama_model_get_vocab(self.model)
        self.n_embd = L.llama_model_n_embd(self.model)
        p = L.llama_context_default_params()
        p.n_ctx, p.n_batch, p.n_ubatch, p.n_seq_max = 4 * MAX_TOKENS, MAX_TOKENS, MAX_TOKENS, MAX_SEQUENCES
        p.n_threads = p.n_threads_batch = threads
        p.embeddings = True
        self.context = L.llama_init_from_model(self.model, p)
        assert self.context, "llama.cpp made no context"
        self.batch = peer_llama.Batch(MAX_TOKENS)
        self.buffer = (L.llama_token * MAX_TOKENS)()

    def tokens(self, text: str) -> list[int]:
        raw = text.encode()
        n = L.llama_tokenize(self.vocab, raw, len(raw), self.buffer, MAX_TOKENS, True, True)
        return list(self.buffer[: min(n, 256)])

    def encode(self, texts: list[str]) -> np.ndarray:
        vectors = []
        waiting = [self.tokens(text) for text in texts]
        while waiting:
            self.batch.n = n = 0
            while waiting and n < MAX_SEQUENCES and self.batch.n + len(waiting[0]) <= MAX_TOKENS:
                row = waiting.pop(0)
                begin = self.batch.n
                self.batch.add(row, 0, n, True)
                self.batch.logits[begin : self.batch.n] = 1
                n += 1
            self.batch.c.n_tokens = self.batch.n
            assert L.llama_encode(self.context, self.batch.c) == 0
            for seq in range(n):
                found = L.llama_get_embeddings_seq(self.context, seq)
                vectors.append(np.ctypeslib.as_array(found, shape=(self.n_embd,)).copy())
        vectors = np.array(vectors)
        return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def main() -> None:
    embedder = Embedder(sys.argv[1], int(sys.argv[2]))
    print("ready", flush=True)
    for line in sys.stdin:
        vectors = embedder.encode(json.loads(line))
        print(base64.b64encode(vectors.astype("<f4").tobytes()).decode(), flush=True)


if __name__ == "__main__":
    main()
