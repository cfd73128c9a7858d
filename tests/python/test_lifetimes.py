"""Nothing is leaked, for any order of destruction. nanobind reports leaked objects at the end of the process."""
import gc
import os
import subprocess
import sys
import textwrap

import pytest
import weft
from conftest import ENCODERS

PROGRAMS = {
    "all of it, left to the end": """
import asyncio, numpy as np, weft
from weft import ops
model = weft.Model(PATH, pack_cache="")
text = model.generate("hello", max_tokens=8)
stream = model.stream("hello", max_tokens=8, logprobs=2, ignore_end=True)
next(stream)
async def main():
    return [piece async for piece in model.stream("hello", max_tokens=8, regex="[a-z]+")]
asyncio.run(main())
answer = model.chat("hello", max_tokens=8)
context = model.context(n_ctx=64)
batch = weft.Batch()
batch.add(model.tokenize("hello"), logits=True)
context.decode(batch)
row = context.logits(len(batch) - 1)
graph = weft.Graph()
n = graph.symbol("n", 1, 8)
y = ops.relu(graph.input("x", (n, 4)))
graph.output("y", y)
plan = weft.Plan(graph, devices=["cpu"])
z = plan.run({"x": np.ones((2, 4))})
""",
    "children outlive their model": """
import weft
model = weft.Model(PATH, pack_cache="")
stream = model.stream("hello", max_tokens=8, ignore_end=True)
context, sampler = model.context(n_ctx=64), model.sampler(seed=1)
del model
batch = weft.Batch()
batch.add([300], logits=True)
context.decode(batch)
row = context.logits(0)
del context
sampler.sample(row)
list(stream)
assert stream.completion.stop == "length", stream.completion
pieces = list(weft.Model(PATH, pack_cache="").stream("hello", max_tokens=8, ignore_end=True))
assert pieces
""",
    "an end in the middle of everything": """
import threading, weft
model = weft.Model(PATH, pack_cache="")
streams = [model.stream("hello", ignore_end=True, context_shift=True) for _ in range(4)]
for stream in streams:
    next(stream)
thread = threading.Thread(target=lambda: list(streams[0]))
thread.start()
model.close()
thread.join()
assert streams[0].completion.stop == "cancelled", streams[0].completion
""",
    "errors": """
import weft
model = weft.Model(PATH, pack_cache="")
for wrong in (dict(top_p=3.0), dict(nothing=1), dict(regex="(")):
    try:
        model.generate("hello", **wrong)
    except (weft.Error, TypeError) as error:
        kept = error
try:
    weft.Model(PATH + ".none")
except weft.Error as error:
    kept = error
""",
}


# In the child of a fork, which has the parent's objects and none of its threads.
CHILDREN = {
    "an engine of its own": """
own = weft.Model(PATH, pack_cache="")
assert own.generate([1, 2], **asked).tokens == expected
async def main():
    return [piece async for piece in own.stream([1, 2], **asked)]
assert "".join(asyncio.run(main())) == own.generate([1, 2], **asked).text
""",
    "an engine of a model that the parent only loaded": """
assert loaded.generate([1, 2], **asked).tokens == expected
""",
    "what runs in the parent is refused": """
for use in (lambda: model.generate([1, 2]), lambda: next(stream), lambda: context.decode(batch), lambda: embedder.embed("hello"),
            lambda: plan.run({"x": np.ones((2, 4))})):
    try:
        use()
    except weft.InvalidArgumentError as error:
        assert "forked from" in str(error), error
    else:
        raise AssertionError("was used")
assert model.tokenize("hello")
""",
    "what runs in the parent may be closed": """
stream.close()
model.close()
""",
    "what runs in the parent may be dropped": """
del model, stream, context, batch, loaded, plan, embedder
gc.collect()
""",
}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no forks")
@pytest.mark.parametrize("name", sorted(CHILDREN))
def test_children_of_forks(name, chat_file):
    program = f"""
import asyncio, gc, os, signal, sys, numpy as np, weft
PATH, ENCODER = {str(chat_file)!r}, {str(ENCODERS / "bert/model.gguf")!r}
asked = dict(max_tokens=4, temperature=0)
loaded = weft.Model(PATH, pack_cache="")
model = weft.Model(PATH, pack_cache="")
expected = model.generate([1, 2], **asked).tokens
stream = model.stream("hello", ignore_end=True, context_shift=True)
next(stream)
context, batch = model.context(n_ctx=64, n_threads=2), weft.Batch()
batch.add([1, 2], logits=True)
context.decode(batch)
embedder = weft.Embedder(ENCODER, pack_cache="", n_threads=2)
embedder.embed("hello")
graph = weft.Graph()
graph.output("y", weft.ops.relu(graph.input("x", (2, 4))))
plan = weft.Plan(graph, devices=["cpu"], n_threads=2)
plan.run({{"x": np.ones((2, 4))}})
child = os.fork()
if child == 0:
    signal.alarm(60)  # What waits for threads that are not there ends, too.
{textwrap.indent(CHILDREN[name].strip(), "    ")}
    sys.exit(3)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3
next(stream)
stream.close()
assert model.generate([1, 2], **asked).tokens == expected
"""
    result = subprocess.run([sys.executable, "-W", "ignore", "-c", program], capture_output=True, text=True, timeout=300)
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_processes_end_clean(name, chat_file):
    program = f"import weft\nweft._weft.warn_of_leaks()\nPATH = {str(chat_file)!r}\n{PROGRAMS[name]}"
    result = subprocess.run([sys.executable, "-W", "error", "-c", program], capture_output=True, text=True,
                            timeout=300)
    assert result.returncode == 0 and result.stderr == "", result.stderr


def test_unjoined_threads_end_with_the_process(chat_file):
    program = f"PATH = {str(chat_file)!r}" + """
import threading, time, weft
model = weft.Model(PATH, pack_cache="", n_ctx=8192)
begun = threading.Semaphore(0)
def write():
    for piece in model.stream("hello", max_tokens=8000, ignore_end=True):
        begun.release()
def load():
    begun.release()
    while True:
        weft.Model(PATH, pack_cache="", progress=lambda done: True)
for task in (write, write, load):
    threading.Thread(target=task, daemon=True).start()
for _ in range(12):
    begun.acquire()
"""
    for _ in range(3):
        result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300)
        assert result.returncode == 0, result.stderr


def test_a_leak_would_be_seen():
    program = """
import ctypes, weft
weft._weft.warn_of_leaks()
graph = weft.Graph()
ctypes.pythonapi.Py_IncRef(ctypes.py_object(graph))
"""
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300)
    assert "nanobind: leaked" in result.stderr


def test_reference_counts(model):
    """Repeated calls do not change the reference counts of their arguments and of permanent objects."""
    prompt, tokens, stop = "hello" + " world", model.tokenize("hello"), ["x" * 3]
    context, batch = model.context(n_ctx=64), weft.Batch()
    held = [prompt, tokens, stop, context, batch, None, True, weft.Error]

    def work():
        model.generate(prompt, max_tokens=2, stop=stop)
        list(model.stream(tokens, max_tokens=2, logprobs=1))
        context.clear()
        batch.clear()
        batch.add(tokens, logits=True)
        context.decode(batch)
        with pytest.raises(weft.Error):
            model.generate(prompt, top_p=3.0)

    work()
    # An interpreter that is built for debugging counts all references (NumPy's own are not, so none is used meanwhile).
    total = getattr(sys, "gettotalrefcount", int)
    gc.collect()
    references = total()
    for _ in range(50):
        work()
    gc.collect()
    assert total() - references < 50
    context.logits(len(batch) - 1).sum()
    gc.collect()
    immortal = sys.version_info >= (3, 12)
    before = [sys.getrefcount(one) for one in held]
    blocks = sys.getallocatedblocks()
    for _ in range(50):
        work()
        context.logits(len(batch) - 1).sum()
    gc.collect()
    assert sys.getallocatedblocks() - blocks < 50
    after = [sys.getrefcount(one) for one in held]
    for one, was, now in zip(held, before, after):
        assert immortal or abs(now - was) < 25, f"{one!r}: {was} references, then {now}"
