#!/usr/bin/env python3
"""weft under mpirun: several processes on this machine, each with its CPU, run one model together.

What they write must be what one process writes, and a process that dies must end as an error, with none left behind.
"""
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import unittest
from pathlib import Path

PROGRAM = os.environ["WEFT_PROGRAM"]
MPIRUN = os.environ.get("WEFT_MPIRUN") or shutil.which("mpirun")
GOLDEN = Path(os.environ["WEFT_TEST_DATA"]) / "golden"
MODELS = ["llama", "gemma3", "qwen2moe", "mamba2"]
PROMPT = ["-p", "once upon a time", "-n", "12", "--temp", "0", "--ignore-eos", "--json", "-t", "1", "-c", "128"]


def under_mpirun(n: int, *arguments: str) -> list[str]:
    # Open MPI refuses root and more processes than cores unless told otherwise; the network is not used.
    return [MPIRUN, "--allow-run-as-root", "--oversubscribe", "--mca", "btl", "self,vader",
            "-np", str(n), PROGRAM, *arguments]  # fmt: skip


def run(command: list[str]) -> str:
    result = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    if result.returncode != 0:
        raise AssertionError(f"{' '.join(command)}\n{result.stdout}\n{result.stderr}")
    return result.stdout


def followers_of(pid: int) -> list[int]:
    """Its children, which are the processes of weft."""
    tasks = Path(f"/proc/{pid}/task/{pid}/children")
    return [int(child) for child in tasks.read_text().split()] if tasks.exists() else []


class Answers(unittest.TestCase):
    def test_devices_of_all_processes_are_listed(self) -> None:
        listed = json.loads(run(under_mpirun(3, "devices", "--json")))
        names = [device["name"] for device in listed]
        self.assertEqual([n for n in names if n == "cpu" or n.endswith(".cpu")], ["cpu", "rank1.cpu", "rank2.cpu"])

    def test_the_text_is_that_of_one_process(self) -> None:
        for name in MODELS:
            model = ["-m", str(GOLDEN / name / "model.gguf")]
            alone = json.loads(run([PROGRAM, "run", *model, *PROMPT]))
            for n in 2, 3:
                spread = json.loads(run(under_mpirun(n, "run", *model, *PROMPT)))
                self.assertEqual(spread["text"], alone["text"], f"{name} on {n} processes")

    def test_a_command_without_a_model_ends_too(self) -> None:
        self.assertIn("weft", run(under_mpirun(2, "version")))


class Faults(unittest.TestCase):
    def test_a_process_that_dies_ends_the_job(self) -> None:
        model = str(GOLDEN / "llama" / "model.gguf")
        # Long enough to be killed in the middle; the text is endless.
        command = under_mpirun(3, "run", "-m", model, "-p", "once", "-n", "2000000", "--temp", "0", "--ignore-eos",
                               "-t", "1", "-c", "128")  # fmt: skip
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as job:
            while len(processes := followers_of(job.pid)) < 3 or not os.read(job.stdout.fileno(), 64):
                time.sleep(0.05)
            os.kill(processes[-1], signal.SIGKILL)
            job.communicate(timeout=120)
            self.assertNotEqual(job.returncode, 0)
        # mpirun may end a moment before those that it has told to.
        deadline = time.monotonic() + 60
        while any(Path(f"/proc/{pid}").exists() for pid in processes):
            self.assertLess(time.monotonic(), deadline, "a process is left behind")
            time.sleep(0.1)


if __name__ == "__main__":
    if not MPIRUN:
        sys.exit(77)
    unittest.main(verbosity=2)
