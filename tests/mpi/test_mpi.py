#!/usr/bin/env python3
"""weft under mpirun: several processes on this machine, each with its CPU, run one model together.

Their output must be the output of one process. A process that dies or hangs must end as an error that names it, in
bounded time, and no process may be left.
"""
import itertools
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import urllib.error
import urllib.request
from collections import Counter
from pathlib import Path

PROGRAM = os.environ["WEFT_PROGRAM"]
REQUESTS_PROGRAM = os.environ["WEFT_REQUESTS_PROGRAM"]
N_REQUESTS = int(os.environ.get("WEFT_REQUESTS", "300"))
N_KILLS = int(os.environ.get("WEFT_KILLS", "3"))
MPIRUN = os.environ.get("WEFT_MPIRUN") or shutil.which("mpirun")
GOLDEN = Path(os.environ["WEFT_TEST_DATA"]) / "golden"
# A few families on 2 and 3 processes, or all on 2, 3 and 4.
ALL_FAMILIES = "WEFT_ALL_FAMILIES" in os.environ
MODELS = (sorted(path.parent.name for path in GOLDEN.glob("*/model.gguf"))
          if ALL_FAMILIES else ["llama", "gemma3", "qwen2moe", "mamba2"])  # fmt: skip
PROMPT = ["-p", "once upon a time", "-n", "12", "--temp", "0", "--ignore-eos", "--json", "-t", "1", "-c", "128"]


# Open MPI refuses root and more processes than cores by default; the network is not used.
LAUNCH = [MPIRUN, "--allow-run-as-root", "--oversubscribe", "--mca", "btl", "self,vader"]
# A dying process does not end the others.
SURVIVE = ["--mca", "orte_abort_on_non_zero_status", "0"]


def under_mpirun(n: int, *arguments: str) -> list[str]:
    return [*LAUNCH, "-np", str(n), PROGRAM, *arguments]


def run(command: list[str]) -> str:
    result = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    if result.returncode != 0:
        raise AssertionError(f"{' '.join(command)}\n{result.stdout}\n{result.stderr}")
    return result.stdout


def followers_of(pid: int) -> list[int]:
    """Its children, which are the processes of weft."""
    tasks = Path(f"/proc/{pid}/task/{pid}/children")
    return [int(child) for child in tasks.read_text().split()] if tasks.exists() else []


def ranks_of(pid: int) -> dict[int, int]:
    """The processes of an mpirun by their ranks."""
    found = {}
    for child in followers_of(pid):
        if rank := re.search(rb"OMPI_COMM_WORLD_RANK=(\d+)", Path(f"/proc/{child}/environ").read_bytes()):
            found[int(rank.group(1))] = child
    return found


def is_gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def wait_until(what: str, done, seconds: float = 120.0):
    """What `done` returns once that is true."""
    deadline = time.monotonic() + seconds
    while not (result := done()):
        if time.monotonic() > deadline:
            raise AssertionError(f"waited in vain: {what}")
        time.sleep(0.02)
    return result


def wait_for_all(job: subprocess.Popen, processes) -> None:
    """Until all processes of an mpirun have ended. It stays itself now and then, with none of them left: that is not
    ours."""
    wait_until("the end of all processes", lambda: all(map(is_gone, processes)))
    try:
        job.communicate(timeout=30)
    except subprocess.TimeoutExpired:
        job.kill()
        job.communicate()


class Answers(unittest.TestCase):
    def test_devices_of_all_processes_are_listed(self) -> None:
        listed = json.loads(run(under_mpirun(3, "devices", "--json")))
        names = [device["name"] for device in listed]
        self.assertEqual([n for n in names if n == "cpu" or n.endswith(".cpu")], ["cpu", "rank1.cpu", "rank2.cpu"])

    def test_the_text_is_that_of_one_process(self) -> None:
        for name in MODELS:
            model = ["-m", str(GOLDEN / name / "model.gguf")]
            alone = json.loads(run([PROGRAM, "run", *model, *PROMPT]))
            for n in (2, 3, 4) if ALL_FAMILIES else (2, 3):
                spread = json.loads(run(under_mpirun(n, "run", *model, *PROMPT)))
                self.assertEqual(spread["text"], alone["text"], f"{name} on {n} processes")

    def test_unasked_each_process_gets_its_part(self) -> None:
        tiny = ["inspect", str(GOLDEN / "llama" / "model.gguf"), "--plan"]
        plan = run(under_mpirun(2, *tiny))
        for device in ("cpu", "rank1.cpu"):
            cache = re.search(rf"^ *{device} +\S+ \S+ +(\S+) ", plan, re.MULTILINE)
            self.assertNotEqual(cache and cache.group(1), "0", plan)
        self.assertNotIn("CPUs", plan)
        # Of so small a model no part is worth a message.
        chosen = run(under_mpirun(2, *tiny, "--split-mode", "auto"))
        self.assertIn("each layer runs on one of 2 CPUs: with sharded layers a token would take", chosen)
        shared = run(under_mpirun(2, *tiny, "--split-mode", "tensor"))
        self.assertNotIn("CPUs", shared)
        self.assertIn("#", shared)  # Pieces of a layer's results.

    def test_requests_have_the_texts_of_one_process(self) -> None:
        command = [*LAUNCH, "-np", "3", REQUESTS_PROGRAM]
        result = subprocess.run(command, capture_output=True, text=True, timeout=3600, check=False,
                                env=os.environ | {"WEFT_REQUESTS": str(N_REQUESTS)})  # fmt: skip
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.assertIn(f"right {N_REQUESTS} failed 0 of", result.stdout)

    def test_who_cannot_join_says_so(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            alone = shutil.copy(PROGRAM, folder)  # Without the module beside it.
            self.assertIn("weft", run([*LAUNCH, "-np", "1", alone, "version"]))
            result = subprocess.run([*LAUNCH, "-np", "2", alone, "version"], capture_output=True, text=True,
                                    timeout=120, check=False)  # fmt: skip
            self.assertNotEqual(result.returncode, 0)
            self.assertIn("cannot join them", result.stderr)

    def test_it_joins_where_the_shell_finds_it_too(self) -> None:
        program = Path(PROGRAM)
        with tempfile.TemporaryDirectory() as folder:
            result = subprocess.run([*LAUNCH, "-np", "2", program.name, "devices", "--json"], cwd=folder, capture_output=True,
                                    text=True, timeout=120, check=False,
                                    env=os.environ | {"PATH": f"{program.parent}:{os.environ['PATH']}"})  # fmt: skip
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("rank1.cpu", [device["name"] for device in json.loads(result.stdout)])

    def test_a_command_without_a_model_ends_too(self) -> None:
        self.assertIn("weft", run(under_mpirun(2, "version")))


class Faults(unittest.TestCase):
    def test_a_process_that_dies_ends_the_job(self) -> None:
        model = str(GOLDEN / "llama" / "model.gguf")
        # Long enough to be killed in the middle; the generation is endless.
        command = under_mpirun(3, "run", "-m", model, "-p", "once", "-n", "2000000", "--temp", "0", "--ignore-eos",
                               "-t", "1", "-c", "128", "--context-shift")  # fmt: skip
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as job:
            while len(processes := followers_of(job.pid)) < 3 or not os.read(job.stdout.fileno(), 64):
                time.sleep(0.05)
            os.kill(processes[-1], signal.SIGKILL)
            wait_for_all(job, processes)
            self.assertNotEqual(job.returncode, 0)

    def test_a_process_is_killed_at_any_moment(self) -> None:
        """Under a batcher, with requests that never stop coming."""
        choice = random.Random(N_KILLS)
        environment = os.environ | {"WEFT_REQUESTS": "1000000", "WEFT_MAY_FAIL": "1", "WEFT_RANK_TIMEOUT": "2"}
        command = [*LAUNCH, *SURVIVE, "-np", "3", REQUESTS_PROGRAM, "--gtest_color=no"]
        for i in range(N_KILLS):
            with tempfile.TemporaryFile("a+") as log:
                job = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, env=environment)

                def text(log=log) -> str:
                    log.seek(0)
                    return log.read()

                wait_until("the first request", lambda: "begun" in text())
                ranks = ranks_of(job.pid)
                time.sleep(choice.uniform(0.0, 1.0))
                # One that hangs is as bad as one that is gone.
                end = signal.SIGSTOP if i % 3 == 2 else signal.SIGKILL
                rank = choice.choice([1, 2])
                os.kill(ranks[rank], end)
                wait_for_all(job, ranks.values())
                self.assertRegex(text(), r"right \d+ failed [1-9]")
                self.assertIn("[  PASSED  ]", text())

    def test_followers_end_without_their_leader(self) -> None:
        model = str(GOLDEN / "llama" / "model.gguf")
        command = [*LAUNCH, *SURVIVE, "-np", "3", PROGRAM, "run", "-m", model, "-p", "once", "-n", "2000000",
                   "--temp", "0", "--ignore-eos", "-t", "1", "-c", "128", "--context-shift"]  # fmt: skip
        job = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               env=os.environ | {"WEFT_RANK_TIMEOUT": "1"})  # fmt: skip
        with job:
            os.read(job.stdout.fileno(), 64)
            ranks = ranks_of(job.pid)
            os.kill(ranks[0], signal.SIGKILL)
            wait_for_all(job, ranks.values())

    def test_a_server_finishes_what_is_under_way(self) -> None:
        """After the loss of any process at any time, each client gets its completion, every piece of it once."""
        choice = random.Random(N_KILLS + 1)
        with Server([PROGRAM, "serve"]) as server:
            expected = {body: server.stream(body) for body in BODIES}
        for i in range(N_KILLS):
            command = [*LAUNCH, *SURVIVE, "-np", "3", PROGRAM, "serve"]
            with Server(command) as server, self.subTest(i=i):
                wrong, n_right, stop = [], Counter(), threading.Event()

                def client(first: int, server=server, wrong=wrong, n_right=n_right, stop=stop) -> None:
                    for at in itertools.count(first):
                        if stop.is_set():
                            return
                        body = BODIES[at % len(BODIES)]
                        try:
                            got = server.stream(body)
                        except (OSError, AssertionError) as error:
                            got = repr(error)
                        if got != expected[body]:
                            wrong.append((body, got))
                        n_right[first] += 1

                clients = [threading.Thread(target=client, args=(first,)) for first in range(6)]
                for thread in clients:
                    thread.start()
                try:
                    time.sleep(choice.uniform(0.0, 2.0))
                    # One that hangs is as bad as one that is gone.
                    end = signal.SIGSTOP if i % 3 == 2 else signal.SIGKILL
                    os.kill(server.ranks[choice.choice([1, 2])], end)
                    wait_until("that it is missed", lambda server=server: "continues: its weights" in server.text() or wrong)
                    before = Counter(n_right)
                    wait_until("an answer to each", lambda n_right=n_right, before=before: wrong or all(
                        n_right[c] > before[c] + 1 for c in range(6)))  # fmt: skip
                finally:
                    stop.set()
                    for thread in clients:
                        thread.join()
                self.assertEqual(wrong, [])
                server.end(self)

    def test_a_loss_behind_sigterm_is_survived_too(self) -> None:
        """Running responses end first; for that a lost process is replaced."""
        body = json.dumps({"prompt": "once upon a time", "max_tokens": 1500, "temperature": 0, "ignore_eos": True, "stream": True})
        with Server([PROGRAM, "serve"]) as server:
            expected = server.stream(body)
        with Server([*LAUNCH, *SURVIVE, "-np", "3", PROGRAM, "serve"]) as server:
            got = []
            client = threading.Thread(target=lambda: got.append(server.stream(body)))
            client.start()
            wait_until("the request", lambda: re.search(r"num_requests_running\S* 1", server.error_of("/metrics")[1]))
            os.kill(server.ranks[1], signal.SIGKILL)
            server.end(self)
            client.join()
            self.assertEqual(got, [expected])
            self.assertIn("continues: its weights", server.text())

    def test_a_file_that_was_written_to_is_not_loaded_anew(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            model = Path(shutil.copy(GOLDEN / "llama" / "model.gguf", folder))
            with Server([*LAUNCH, *SURVIVE, "-np", "2", PROGRAM, "serve"], model) as server:
                with model.open("r+b") as file:
                    file.seek(-4096, os.SEEK_END)
                    file.write(bytes(4096))
                os.kill(server.ranks[1], signal.SIGKILL)
                wait_until("that it is missed", lambda: "was modified after it was opened" in server.text())
                server.end(self)

    def test_options_hold_for_what_is_left(self) -> None:
        for options in (["--device", "rank1.cpu"], ["--device", "rank1.cpu,cpu", "--tensor-split", "1,1"],
                        ["--tensor-split", "1,1"], ["--pin", "blk.0=rank1.cpu"]):  # fmt: skip
            with self.subTest(options=options), Server([*LAUNCH, *SURVIVE, "-np", "2", PROGRAM, "serve", *options]) as server:
                expected = server.stream(BODIES[0])
                os.kill(server.ranks[1], signal.SIGKILL)
                wait_until("that it continues", lambda server=server: "continues: its weights" in server.text())
                self.assertIn("lost: rank1.cpu; ", server.text())
                self.assertEqual(server.stream(BODIES[0]), expected)
                server.end(self)

    def test_a_server_that_cannot_go_on_says_so(self) -> None:
        """For all clients, and none of them gets a client error."""
        with tempfile.TemporaryDirectory() as folder:
            model = Path(shutil.copy(GOLDEN / "llama" / "model.gguf", folder))
            # The spread of the model is chosen again, from the file, which was deleted.
            command = [*LAUNCH, *SURVIVE, "-np", "3", PROGRAM, "serve", "--split-mode", "auto"]
            with Server(command, model) as server:
                expected = server.stream(BODIES[0])
                bytes_of_it = model.read_bytes()
                model.unlink()
                os.kill(server.ranks[1], signal.SIGKILL)
                wait_until("that it is missed", lambda: "could not be loaded" in server.text())
                for path, body in (("/v1/completions", BODIES[0]), ("/ready", None), ("/v1/completions", BODIES[2])):
                    status, text = server.error_of(path, body)
                    self.assertEqual(status, 503, text)
                    self.assertIn("could not be loaded", json.loads(text)["error"]["message"])
                    self.assertNotIn(folder, text)
                self.assertIn("model.gguf", server.error_of("/health")[1])
                # It is loaded as soon as it can be, without a request for it.
                model.write_bytes(bytes_of_it)
                wait_until("that it is loaded", lambda: server.error_of("/ready")[0] == 200)
                self.assertEqual(server.stream(BODIES[0]), expected)
                server.end(self)


# Of several lengths and samplers; the long one is under way when anything happens.
BODIES = [json.dumps({"prompt": "once upon a time " * n_words, "max_tokens": n, "temperature": temperature, "seed": 7,
                      "ignore_eos": True, "stream": True})
          for n_words, n, temperature in ((1, 12, 0), (1, 300, 0.9), (20, 60, 0.9), (3, 100, 0))]  # fmt: skip


class Server:
    """`weft serve`, alone or under mpirun."""

    def __init__(self, command: list[str], model: Path = GOLDEN / "llama" / "model.gguf") -> None:
        self.log = tempfile.TemporaryFile("a+")
        self.job = subprocess.Popen([*command, "-m", str(model), "--port", "0", "-np", "4", "-t", "1", "-c", "2048"],
                                    stdout=subprocess.DEVNULL, stderr=self.log,
                                    env=os.environ | {"WEFT_RANK_TIMEOUT": "2"})  # fmt: skip
        wait_until("the server", lambda: "ready model=" in self.text() or self.job.poll() is not None)
        self.url = re.search(r"ready model=\S+ address=(http://\S+)", self.text()).group(1)
        self.ranks = ranks_of(self.job.pid) or {0: self.job.pid}

    def text(self) -> str:
        self.log.seek(0)
        return self.log.read()

    def stream(self, body: str) -> str:
        """The whole completion; an error if the response has none."""
        request = urllib.request.Request(self.url + "/v1/completions", body.encode(),
                                         {"Content-Type": "application/json"})  # fmt: skip
        pieces = []
        with urllib.request.urlopen(request, timeout=120) as answer:
            for line in answer:
                if line.startswith(b"data: ") and line != b"data: [DONE]\n":
                    event = json.loads(line[6:])
                    if "error" in event:
                        raise AssertionError(event["error"])
                    pieces += [choice["text"] for choice in event["choices"]]
        return "".join(pieces)

    def error_of(self, path: str, body: str | None = None) -> tuple[int, str]:
        """The status and the body of a response."""
        request = urllib.request.Request(self.url + path, body and body.encode(), {"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=120) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def end(self, test: unittest.TestCase) -> None:
        if not is_gone(self.ranks[0]):
            os.kill(self.ranks[0], signal.SIGTERM)
        wait_for_all(self.job, self.ranks.values())
        test.assertIn("stopped", self.text())

    def __enter__(self) -> "Server":
        return self

    def __exit__(self, *error) -> None:
        for pid in (self.job.pid, *self.ranks.values()):
            if not is_gone(pid):
                os.kill(pid, signal.SIGKILL)
        self.job.wait()
        self.log.close()


if __name__ == "__main__":
    if not MPIRUN:
        sys.exit(77)
    unittest.main(verbosity=2)
