"""weft.ray on a cluster of several workers on this machine. Ray starts slowly, so time limits suit a busy machine."""
import asyncio
import json
import os
import signal
import socket
import threading
import time
import urllib.error
import urllib.request
from collections import Counter

import pytest
import weft

ray = pytest.importorskip("ray")
psutil = pytest.importorskip("psutil")

# Before Ray starts: it would give up processes that start slowly, or end them where others take the machine's memory.
os.environ.update({
    "RAY_AUTH_MODE": "disabled", "RAY_USAGE_STATS_ENABLED": "0", "RAY_memory_monitor_refresh_ms": "0",
    "RAY_worker_niceness": "0", "RAY_agent_register_timeout_ms": "600000", "RAY_worker_register_timeout_seconds": "600",
    "RAY_SERVE_PROXY_READY_CHECK_TIMEOUT_S": "300", "RAY_SERVE_PROXY_HEALTH_CHECK_TIMEOUT_S": "300",
    "RAY_SERVE_QUEUE_LENGTH_RESPONSE_DEADLINE_S": "20", "RAY_SERVE_MAX_QUEUE_LENGTH_RESPONSE_DEADLINE_S": "60",
})  # fmt: skip

from conftest import GOLDEN  # noqa: E402

from weft.ray.prefixes import PrefixMemory  # noqa: E402
from weft.ray.serving import text_of  # noqa: E402

MODEL = GOLDEN / "llama" / "model.gguf"
LOAD = {"n_ctx": 4096, "pack_cache": ""}
OPTIONS = {"max_tokens": 6, "temperature": 0}


class TestPrefixes:
    LOADS = {"a": 0, "b": 0, "c": 0}

    def test_texts_that_begin_alike_go_where_the_first_went(self):
        memory = PrefixMemory()
        beginnings = [letter * 300 for letter in "xyz"]
        chosen = [memory.choose(beginning + "1", self.LOADS) for beginning in beginnings]
        assert sorted(chosen) == ["a", "b", "c"]  # Each is new, so it goes to who knows least.
        for end in range(5):
            assert [memory.choose(beginning + str(end) * 100, self.LOADS) for beginning in beginnings] == chosen

    def test_a_busy_one_is_left_alone(self):
        memory = PrefixMemory()
        first = memory.choose("x" * 300, self.LOADS)
        second = memory.choose("x" * 300, self.LOADS | {first: 100})
        assert second != first
        # From now on both know it, and the one with less to do is asked.
        assert memory.choose("x" * 300, self.LOADS | {first: 2}) == second
        assert memory.choose("x" * 300, self.LOADS | {second: 2}) == first

    def test_a_small_common_part_does_not_bind(self):
        memory = PrefixMemory()
        chosen = {memory.choose("x" * 64 + letter * 640, self.LOADS) for letter in "abc"}
        assert chosen == set(self.LOADS)

    def test_those_that_are_gone_are_not_chosen(self):
        memory = PrefixMemory()
        gone = memory.choose("x" * 300, self.LOADS)
        rest = {name: load for name, load in self.LOADS.items() if name != gone}
        assert memory.choose("x" * 300, rest) in rest
        memory.forget(gone)
        assert memory.choose("x" * 300, self.LOADS) in rest

    def test_it_forgets_the_oldest(self):
        memory = PrefixMemory(most=8)
        for letter in "abcdefgh":
            memory.choose(letter * 128, self.LOADS)
        assert len(memory._readers) == 8
        assert sum(memory._n_blocks.values()) == 8

    def test_the_text_of_requests(self):
        chat = {"messages": [{"role": "user", "content": "é"}], "model": "m", "temperature": 1}
        assert text_of(json.dumps(chat).encode()) == '"m"[{"role": "user", "content": "é"}]'
        assert text_of(json.dumps({"prompt": "x", "system": "y"}).encode()) == '"y""x"'
        for nothing in (b"", b"[1]", b"\xff", b'{"stream": true}'):
            assert text_of(nothing) == ""


@pytest.fixture(scope="module")
def cluster():
    ray.init(num_cpus=4, include_dashboard=False, logging_level="ERROR", log_to_driver=False)
    yield
    ray.shutdown()


def processes(part: str) -> list:
    return [one for one in psutil.Process().children(recursive=True)
            if one.status() != psutil.STATUS_ZOMBIE and any(part in word for word in one.cmdline())]  # fmt: skip


def servers() -> set[int]:
    """The processes of `weft serve`."""
    return {one.pid for one in processes("/weft") if one.cmdline()[1:2] == ["serve"]}


def wait_for(what, limit: float = 300):
    deadline = time.monotonic() + limit
    while not (result := what()):
        assert time.monotonic() < deadline, "it takes too long"
        time.sleep(0.1)
    return result


def serve(application) -> str:
    """Its address, at a free port."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    ray.serve.start(http_options={"host": "127.0.0.1", "port": port})
    ray.serve.run(application)
    return f"http://127.0.0.1:{port}"


class TestBatches:
    def test_a_thousand_prompts_are_answered_once_though_a_replica_is_killed(self, cluster):
        rows = [{"id": i, "prompt": f"Number {i}:"} for i in range(1000)]
        dataset = ray.data.from_items(rows, override_num_blocks=40)
        answers = weft.ray.map_batches(dataset, MODEL, n_replicas=2, batch_size=25, load=LOAD, **OPTIONS)
        done, killed = [], []
        for row in answers.iter_rows():
            done.append(row)
            if not killed:
                killed = processes("MapWorker")
                assert len(killed) == 2
                os.kill(killed[0].pid, signal.SIGKILL)
        assert Counter(Counter(row["id"] for row in done).values()) == {1: 1000}
        with weft.Model(MODEL, **LOAD) as model:
            for row in done[::50]:
                assert row["text"] == model.generate(row["prompt"], **OPTIONS).text

    def test_conversations_and_errors(self, cluster, chat_file):
        rows = [{"talk": "hello"}, {"talk": "x" * 5000}, {"talk": "world"}]
        with weft.Model(chat_file, **LOAD) as model:
            expected = [model.chat(word, **OPTIONS).content for word in ("hello", "world")]
        answers = weft.ray.map_batches(ray.data.from_items(rows), chat_file, column="talk", into="answer", errors="error",
                                       chat=True, load=LOAD, **OPTIONS).take_all()  # fmt: skip
        assert [row["answer"] for row in answers if row["error"] is None] == expected
        (failed,) = [row for row in answers if row["error"] is not None]
        assert failed["answer"] is None and failed["talk"] == rows[1]["talk"]

    def test_a_job_goes_on_where_it_was(self, cluster, tmp_path):
        from ray.data.checkpoint import CheckpointConfig

        source, target = tmp_path / "in", tmp_path / "out"
        ray.data.from_items([{"id": i, "prompt": f"Number {i}:"} for i in range(60)], override_num_blocks=6).write_parquet(str(source))
        context = ray.data.DataContext.get_current()
        before = context.checkpoint_config
        context.checkpoint_config = CheckpointConfig("id", str(tmp_path / "done"), delete_checkpoint_on_success=False)
        try:
            # As far as it came, and then all of it.
            for files in (sorted(map(str, source.iterdir()))[:2], str(source)):
                prompts = ray.data.read_parquet(files)
                weft.ray.map_batches(prompts, MODEL, batch_size=10, load=LOAD, **OPTIONS).write_parquet(str(target))
        finally:
            context.checkpoint_config = before
        assert sorted(row["id"] for row in ray.data.read_parquet(str(target)).take_all()) == list(range(60))


class TestServing:
    N_GROUPS, N_EACH = 20, 10

    @pytest.fixture(scope="class")
    def address(self, cluster):
        application = weft.ray.app(MODEL, n_replicas=2, n_parallel=16, arguments=["-c", "16384", "--no-pack-cache"],
                                   program=os.environ["WEFT_PROGRAM"])  # fmt: skip
        yield serve(application)
        ray.serve.shutdown()
        wait_for(lambda: not servers())

    @staticmethod
    def ask(url: str, body=None) -> bytes:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(url, data, {"Content-Type": "application/json"})
        return urllib.request.urlopen(request, timeout=300).read()

    def test_it_speaks_the_api(self, address):
        body = {"prompt": "hello", "max_tokens": 6, "temperature": 0}
        answer = json.loads(self.ask(address + "/v1/completions", body))
        with weft.Model(MODEL, **LOAD) as model:
            assert answer["choices"][0]["text"] == model.generate("hello", **OPTIONS).text
        assert json.loads(self.ask(address + "/v1/models"))["data"]
        stream = self.ask(address + "/v1/completions", body | {"stream": True}).decode()
        pieces = [json.loads(line[6:]) for line in stream.splitlines() if line.startswith("data: {")]
        assert "".join(piece["choices"][0]["text"] for piece in pieces if piece["choices"]) == answer["choices"][0]["text"]
        with pytest.raises(urllib.error.HTTPError) as refused:
            self.ask(address + "/v1/completions", {"prompt": 3.5})
        assert refused.value.code == 400 and b"prompt" in refused.value.read()

    def test_shared_beginnings_meet_their_cache(self, address):
        def computed_of(prompt: str) -> int:
            """How many tokens of the prompt were computed."""
            usage = json.loads(self.ask(address + "/v1/completions", {"prompt": prompt, "max_tokens": 1}))["usage"]
            return usage["prompt_tokens"] - usage["prompt_tokens_details"]["cached_tokens"]

        # Each group's beginning is longer than a block of the router's. The first of a group finds nothing.
        beginnings = [f"{group:02d} " + "a question about " * 8 for group in range(self.N_GROUPS)]

        async def ask_all(prompts: list) -> list:
            free = asyncio.Semaphore(8)

            async def one(prompt: str) -> int:
                async with free:
                    return await asyncio.to_thread(computed_of, prompt)

            return await asyncio.gather(*map(one, prompts))

        assert min(asyncio.run(ask_all([beginning + "first" for beginning in beginnings]))) > 16
        computed = asyncio.run(ask_all([beginning + f"{i}" for i in range(self.N_EACH) for beginning in beginnings]))
        met = [n <= 16 for n in computed]
        print(f"{sum(met)} of {len(met)} met their cache")
        assert sum(met) >= 0.95 * len(met)

    def test_a_replica_that_is_killed_takes_no_request_with_it(self, address):
        answers, stop = [], threading.Event()

        def ask_on():
            while not stop.is_set():
                body = {"prompt": f"{len(answers)} is a number", "max_tokens": 32, "ignore_eos": True}
                answers.append(self.response_to(address, body))

        threads = [threading.Thread(target=ask_on, daemon=True) for _ in range(4)]
        for thread in threads:
            thread.start()
        try:
            wait_for(lambda: len(answers) >= 4)
            before = servers()
            assert len(before) == 2
            (replica, _) = processes("ServeReplica:default:Replica")
            os.kill(replica.pid, signal.SIGKILL)
            n = len(answers)
            wait_for(lambda: len(answers) >= n + 8)
            # Its server went with it, and another one comes.
            wait_for(lambda: len(servers() & before) == 1)
            wait_for(lambda: len(servers() - before) == 1)
        finally:
            stop.set()
        for thread in threads:
            thread.join(300)
        assert set(answers) == {32}

    @staticmethod
    def response_to(address: str, body: dict) -> object:
        """How many tokens came, or what went wrong."""
        try:
            return json.loads(TestServing.ask(address + "/v1/completions", body))["usage"]["completion_tokens"]
        except urllib.error.HTTPError as error:
            return f"{error.code} {error.read()!r}"
        except Exception as error:  # Whatever it is, it is in the list of answers.
            return repr(error)


class TestScaling:
    def test_the_queue_decides_how_many_there_are(self, cluster, monkeypatch):
        deployment = ray.serve.deployment

        def impatient(*arguments, **options):
            """As Ray's, but it makes up its mind at once."""
            if "autoscaling_config" in options:
                options["autoscaling_config"] |= {"upscale_delay_s": 1, "downscale_delay_s": 3}
            return deployment(*arguments, **options)

        monkeypatch.setattr(ray.serve, "deployment", impatient)
        application = weft.ray.app(MODEL, n_replicas=(1, 2), n_parallel=4, arguments=["-c", "16384", "--no-pack-cache"],
                                   program=os.environ["WEFT_PROGRAM"])  # fmt: skip
        url = serve(application)
        answers, stop = [], threading.Event()

        def ask_on():
            while not stop.is_set():
                body = {"prompt": f"{len(answers)} is a number", "max_tokens": 200, "ignore_eos": True}
                answers.append(TestServing.response_to(url, body))

        threads = [threading.Thread(target=ask_on, daemon=True) for _ in range(8)]
        try:
            wait_for(lambda: len(servers()) == 1)
            for thread in threads:
                thread.start()
            wait_for(lambda: len(servers()) == 2)
            stop.set()
            for thread in threads:
                thread.join(300)
            wait_for(lambda: len(servers()) == 1)
            assert set(answers) == {200}
            assert TestServing.response_to(url, {"prompt": "x", "max_tokens": 3, "ignore_eos": True}) == 3
        finally:
            stop.set()
            ray.serve.shutdown()
        wait_for(lambda: not servers())


def test_a_program_that_is_missing_is_named():
    from weft.ray.serving import Replica

    with pytest.raises(weft.NotFoundError, match="program="):
        asyncio.run(_started(Replica, [], "/nowhere/weft"))


async def _started(what, *arguments):
    one = what.__new__(what)
    await one.__init__(*arguments)
