"""The engine in event loops."""
import asyncio
import contextlib
import gc
import os
import threading
import time

import pytest
import weft

ENDLESS = {"ignore_end": True, "context_shift": True, "n_keep": 0}


async def text(model, prompt, n=24):
    return "".join([piece async for piece in model.stream(prompt, max_tokens=n, temperature=0)])


async def idle(model):
    deadline = time.time() + 60
    while model.stats()["n_running"] + model.stats()["n_waiting"] and time.time() < deadline:
        await asyncio.sleep(0.01)
    stats = model.stats()
    return stats["n_running"] == 0 and stats["n_waiting"] == 0


def test_32_streams_are_as_they_are_alone(model):
    prompts = [f"hello {i}" for i in range(32)]
    alone = [model.generate(prompt, max_tokens=24, temperature=0).text for prompt in prompts]

    async def main():
        return await asyncio.gather(*[text(model, prompt) for prompt in prompts])

    before = model.stats()["n_steps"]
    assert asyncio.run(main()) == alone
    # Steps in common: far fewer than the streams have alone.
    assert model.stats()["n_steps"] - before < 32 * 24 / 2


def test_a_cancelled_task_frees_its_request(model):
    async def endless():
        async for _ in model.stream("hello", **ENDLESS):
            pass

    async def main():
        tasks = [asyncio.create_task(endless()) for _ in range(8)]
        other = asyncio.create_task(text(model, "hello"))
        while model.stats()["n_running"] < 8:
            await asyncio.sleep(0.01)
        for task in tasks:
            task.cancel()
        results = await asyncio.gather(*tasks, return_exceptions=True)
        assert all(isinstance(result, asyncio.CancelledError) for result in results)
        assert await other == model.generate("hello", max_tokens=24, temperature=0).text
        return await idle(model)

    assert asyncio.run(main())


def test_timeouts_and_breaks_free_requests_too(model):
    async def main():
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(model.stream("hello", **ENDLESS).read_async(), 0.2)
        async with model.stream("hello", **ENDLESS) as stream:
            async for _ in stream:
                break
        assert stream.completion.stop == "cancelled"
        async for _ in model.stream("hello", **ENDLESS):
            break
        gc.collect()
        return await idle(model)

    assert asyncio.run(main())


def test_an_error_reaches_the_task_that_asked(model):
    async def main():
        results = await asyncio.gather(text(model, "hello"), text(model, [10**6]), text(model, "world"),
                                       return_exceptions=True)
        assert isinstance(results[1], weft.Error)
        return results[0], results[2]

    assert asyncio.run(main()) == tuple(model.generate(prompt, max_tokens=24, temperature=0).text
                                        for prompt in ("hello", "world"))


def test_chats_in_event_loops(model):
    async def main():
        answers = await asyncio.gather(*[model.chat_stream(f"hello {i}", max_tokens=8, temperature=0).read_async()
                                         for i in range(4)])
        return [answer.content for answer in answers]

    assert asyncio.run(main()) == [model.chat(f"hello {i}", max_tokens=8, temperature=0).content for i in range(4)]


def test_loops_leave_nothing_open(model):
    def descriptors():
        gc.collect()
        return len(os.listdir("/proc/self/fd"))

    asyncio.run(text(model, "hello"))
    before = descriptors()
    for _ in range(20):
        asyncio.run(text(model, "hello", 4))
    assert descriptors() <= before


def test_a_slow_reader_delays_no_other_stream(model):
    async def main():
        slow = model.stream("hello", max_tokens=400, ignore_end=True)
        first = await anext(slow)
        fast = await asyncio.gather(*[text(model, f"hello {i}") for i in range(4)])
        rest = await slow.read_async()
        return first, rest, fast

    first, rest, fast = asyncio.run(main())
    assert first and len(rest.tokens) == 400 and all(fast)


@pytest.mark.parametrize("tokens", [1, 200])
def test_a_stream_stays_with_its_event_loop(model, tokens):
    async def begin():
        stream = model.stream("hello", max_tokens=tokens, ignore_end=True)
        await anext(stream, "")
        return stream

    async def go_on(stream):
        await stream.read_async()

    stream = asyncio.run(begin())
    with pytest.raises(weft.InvalidArgumentError, match="another event loop"):
        asyncio.run(go_on(stream))
    stream.close()


def test_an_event_loop_does_not_end_a_thread_s_stream(model):
    stream = model.stream("hello", max_tokens=400, ignore_end=True)
    begun, read = threading.Event(), []

    def read_all():
        begun.set()
        while not read:
            try:
                read.append(stream.read())
            except weft.InvalidArgumentError:  # The event loop was there for a moment.
                pass

    async def intrude():
        with contextlib.suppress(weft.InvalidArgumentError):
            await anext(stream, "")

    thread = threading.Thread(target=read_all)
    thread.start()
    begun.wait()
    while thread.is_alive() and not model.stats()["n_running"]:
        time.sleep(0.001)
    asyncio.run(intrude())
    thread.join()
    assert read[0].stop == "length"


def test_a_second_thread_does_not_end_the_first_one_s_stream(model):
    stream = model.stream("hello", max_tokens=60, ignore_end=True)
    refused, read = [], threading.Event()

    def intrude():
        while not read.is_set():
            try:
                next(stream)
            except weft.InvalidArgumentError as error:
                refused.append(error)
                return
            except StopIteration:
                return

    thread = threading.Thread(target=intrude)
    thread.start()
    with contextlib.suppress(weft.InvalidArgumentError):  # Which of them is refused is a matter of time.
        stream.read()
    read.set()
    thread.join()
    stream.read()
    assert stream.completion.stop == "length" and len(stream.completion.tokens) == 60


def test_a_stream_has_one_reader(model):
    async def main():
        stream = model.stream("hello", **ENDLESS)
        reader = asyncio.ensure_future(stream.read_async())
        await asyncio.sleep(0)  # It waits.
        with pytest.raises(weft.InvalidArgumentError, match="one at a time"):
            await anext(stream)
        assert not reader.done()
        stream.close()
        await reader
        # Closed by another task, or thread, it ends for the one that reads it.
        for close in (lambda s: s.close(), lambda s: threading.Thread(target=s.close).start()):
            stream = model.stream("hello", **ENDLESS)
            reader = asyncio.ensure_future(stream.read_async())
            while not model.stats()["n_running"]:
                await asyncio.sleep(0.01)
            close(stream)
            assert (await reader).stop == "cancelled"

    asyncio.run(asyncio.wait_for(main(), 60))
