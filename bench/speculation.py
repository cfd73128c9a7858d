#!/usr/bin/env python3
"""speculation.py WEFT [-m MODEL] [--repetitions N]: decoding with and without n-gram drafts, in turns.

Prints medians of tokens per second, of the CPU time of the whole process, and the accepted and all draft tokens. The
tokens must be the same. On a busy machine CPU time is the steadier figure.
"""
import argparse
import json
import resource
import statistics
import subprocess

CODE = """Rewrite this code with type hints. Keep everything else the same.

class Account:
    def __init__(self, owner, balance=0):
        self.owner = owner
        self.balance = balance
        self.history = []

    def deposit(self, amount):
        if amount <= 0:
            raise ValueError("amount must be positive")
        self.balance += amount
        self.history.append(("deposit", amount))
        return self.balance

    def withdraw(self, amount):
        if amount <= 0:
            raise ValueError("amount must be positive")
        if amount > self.balance:
            raise ValueError("insufficient funds")
        self.balance -= amount
        self.history.append(("withdraw", amount))
        return self.balance
"""
QUOTE = """Summarize this article and quote its most important sentences word by word.

The old lighthouse on the northern cape was built in 1871 by engineers who had never seen the sea. "We measured the rocks
from the cliff above, and we trusted the numbers," the chief engineer wrote in his diary. For more than a century the
lighthouse guided ships through the narrow strait between the cape and the island of Varn. "Without the light, nobody would
have dared to sail the strait in winter," says Maria Holt, whose family kept the light for four generations. In 1989 the
light was automated, and the keepers left. A group of volunteers has now raised the money to restore it. "We want our
children to see what their ancestors built with their own hands," says the leader of the group.
"""
STORY = "Tell me a story about a girl who finds an old map in her grandmother's attic. Make it exciting and original.\n"
GREEDY, USUAL = ["--temp", "0"], ["--seed", "1"]
WILD = ["--seed", "2", "--temp", "1.3", "--top-p", "1", "--min-p", "0"]  # No completion repeats itself.
CASES = [("code", CODE, GREEDY), ("code", CODE, USUAL), ("quotes", QUOTE, GREEDY), ("quotes", QUOTE, USUAL),
         ("story", STORY, GREEDY), ("story", STORY, USUAL), ("story", STORY, WILD)]  # fmt: skip


def run(weft: str, prompt: str, words: list[str]) -> dict:
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    text = f"<|im_start|>user\n{prompt}<|im_end|>\n<|im_start|>assistant\n"
    command = [weft, "run", "-q", "-f", "-", "-n", "220", "--json", *words]
    result = json.loads(subprocess.run(command, input=text.encode(), stdout=subprocess.PIPE, check=True).stdout)
    return result | {"cpu": resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("weft")
    parser.add_argument("-m", "--model", help="as of weft run (default: its default model)")
    parser.add_argument("--repetitions", type=int, default=7)
    options = parser.parse_args()
    model = ["-m", options.model] if options.model else []
    for name, prompt, sampling in CASES:
        runs = {"none": [], "ngram": []}
        for i in range(options.repetitions):
            for kind in sorted(runs, reverse=i % 2 == 0):
                runs[kind].append(run(options.weft, prompt, [*model, "--spec-type", kind, *sampling]))
        assert len({tuple(r["tokens"]) for each in runs.values() for r in each}) == 1, "drafts have changed tokens"
        speed, cpu = ({kind: statistics.median(of(r) for r in each) for kind, each in runs.items()}
                      for of in (lambda r: r["timings"]["decode_tokens_per_second"], lambda r: r["cpu"]))  # fmt: skip
        timings = runs["ngram"][-1]["timings"]
        print(f"{name} {' '.join(sampling)}: {speed['none']:.0f} -> {speed['ngram']:.0f} tokens/s, {speed['ngram'] / speed['none']:.2f}x; "
              f"CPU time {cpu['ngram'] / cpu['none']:.2f}x; accepted {timings['draft_n_accepted']} of {timings['draft_n']}", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
