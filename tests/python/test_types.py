"""The package's types, as mypy reads them in programs that use it."""
import re

import pytest
from mypy import api

GOOD = '''
import asyncio
import numpy as np
import weft

model = weft.Model("model.gguf", n_ctx=4096, adapters=["a.gguf"], use_adapters=[(0, 0.5)])
one: weft.Completion = model.generate("hi", max_tokens=3, stop=["a"], logit_bias={"5": 1.0}, seed=-1, samplers=["top_k"])
many: list[weft.Completion] = model.generate(["a", "b"], max_tokens=3)
tokens: weft.Completion = model.generate([1, 2, 3])
answer: weft.ChatResponse = model.chat("hi", tools=[{"type": "function"}], tool_choice={"type": "function"}, logprobs=2)
answers: list[weft.ChatResponse] = model.chat(["a", [{"role": "user", "content": "b"}]])
prompt: weft.ChatPrompt = model.apply_chat_template([{"role": "user", "content": "b"}])
batch = weft.Batch()
batch.add(np.array([1, 2, 3]), seq=0, logits=True)
batch.add([1, 2], seq=[0, 1])
with model.context(n_ctx=64) as context:
    context.decode(batch)
    token: int = model.sampler(top_k=3).sample(context.logits(0), model.grammar(regex="a").constraint().allowed())
vectors = weft.Embedder("m.gguf", n_tokens=5, repack=False).embed(["a"])

async def main() -> None:
    completion: weft.Completion = await model.generate_async("hi")
    async for event in model.chat_stream("hi"):
        print(event.text)

asyncio.run(main())
'''
BAD = '''
import weft
model = weft.Model("model.gguf")
model.generate("hi", temprature=1)
model.chat("hi", max_tokns=1)
model.chat("hi", special=True)
model.generate("hi", temperature="1")
model.context(n_running=4)
weft.Embedder("x", n_running=4)
weft.Model("x", k_type="banana")
'''


@pytest.fixture
def check(tmp_path):
    def run(program):
        path = tmp_path / "program.py"
        path.write_text(program)
        told, _, _ = api.run(["--strict", "--cache-dir", str(tmp_path / "cache"), str(path)])
        return {int(line) for line in re.findall(r"program\.py:(\d+): error", told)}, told

    return run


def test_a_program_has_no_false_errors(check):
    lines, told = check(GOOD)
    assert not lines, told


def test_wrong_options_are_errors(check):
    lines, told = check(BAD)
    assert lines == set(range(4, BAD.count("\n") + 1)), told
