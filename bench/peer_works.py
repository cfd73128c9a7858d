"""The works of versus.py on llama.cpp, in the peer's Python: peer_works.py MODEL THREADS. A line of JSON on standard
input is a request, a line of JSON on standard output its tokens, seconds and seconds of the processor.

Only llama_decode is timed: batches are filled before, and no token is drawn (which ones come next does not matter to
the speed)."""
import json
import random
import sys

import llama_cpp as L
from peer_llama import Batch, Clock, load, n_vocab, open_context

CHUNK = 512


def round_up(cells: int) -> int:
    return (cells + 255) // 256 * 256


class Works:
    def __init__(self, path: str, threads: int):
        self.threads = threads
        self.model = load(path)
        ids = random.Random(1)
        self.ids = [ids.randrange(n_vocab(self.model)) for _ in range(8192)]
        self.batch = Batch(CHUNK)
        self.contexts = {}

    def context(self, cells: int, *, what="", **options):
        """One for each shape and content, and whether it is new: what rounds begin with is computed once."""
        key = (cells, what, *sorted(options.items()))
        new = key not in self.contexts
        if new:
            self.contexts[key] = open_context(self.model, self.threads, cells, **options)
        return self.contexts[key], new

    def read(self, clock: Clock, context, n: int, seq: int, at: int = 0) -> None:
        for begin in range(0, n, CHUNK):
            end = min(begin + CHUNK, n)
            self.batch.n = 0
            self.batch.add(self.ids[begin:end], at + begin, seq, end == n)
            clock.decode(context, self.batch)

    def prefill(self, tokens: int, **options) -> Clock:
        context, _ = self.context(tokens, **options)
        L.llama_memory_clear(L.llama_get_memory(context), True)
        clock = Clock()
        self.read(clock, context, tokens, 0)
        return clock

    def decode(self, tokens: int, depth: int, **options) -> Clock:
        context, new = self.context(depth + tokens, **options)
        if new:
            self.read(Clock(), context, depth, 0)
        L.llama_memory_seq_rm(L.llama_get_memory(context), 0, depth, -1)
        clock = Clock()
        for i in range(tokens):
            self.batch.n = 0
            self.batch.add(self.ids[i : i + 1], depth + i, 0, True)
            clock.decode(context, self.batch)
        return clock

    def streams(self, streams: int, prompt: int, shared: bool, tokens: int, unified: bool, **options) -> Clock:
        cells = streams * round_up(prompt + tokens)
        if unified and shared:
            cells = round_up(prompt + streams * tokens)
        context, new = self.context(cells, what=(prompt, shared), sequences=streams, unified=unified, **options)
        memory = L.llama_get_memory(context)
        for seq in range(streams if new else 0):
            if shared and seq > 0:
                L.llama_memory_seq_cp(memory, 0, seq, -1, -1)
            else:
                self.read(Clock(), context, prompt, seq)
        L.llama_memory_seq_rm(memory, -1, prompt, -1)
        clock = Clock()
        # The first token is drawn from the prompt's logits.
        for i in range(tokens - 1):
            self.batch.n = 0
            self.batch.add_each(self.ids[:streams], prompt + i, range(streams))
            clock.decode(context, self.batch)
        return clock

    def round(self, request: dict) -> dict:
        work = request.pop("work")
        clock = getattr(self, work)(**request)
        tokens = (request["tokens"] - 1) * request["streams"] if work == "streams" else request["tokens"]
        return {"tokens": tokens, "seconds": clock.seconds, "cpu_seconds": clock.cpu_seconds}


def main() -> None:
    works = Works(sys.argv[1], int(sys.argv[2]))
    print("ready", flush=True)
    for line in sys.stdin:
        print(json.dumps(works.round(json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
