#!/usr/bin/env python3
"""The program weft, run as users run it: exit codes, messages, output, signals. One class is one CTest test.

Needs WEFT_PROGRAM and WEFT_TEST_DATA in the environment.
"""
import array
import contextlib
import csv
import fcntl
import itertools
import json
import os
import pty
import re
import resource
import select
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import termios
import threading
import time
import unittest
from datetime import datetime, timezone
from pathlib import Path

WEFT = os.environ["WEFT_PROGRAM"]
GOLDEN = Path(os.environ["WEFT_TEST_DATA"]) / "golden"
LLAMA = GOLDEN / "llama" / "model.gguf"
TEMPLATE = "{{ bos_token }}{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}assistant:"
LINE_OF_ERROR = "weft: error: "


def clean_environment(**extra: str) -> dict[str, str]:
    """Nothing that changes what the program does, and a model cache that is not there."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("WEFT_", "LLAMA_", "XDG_", "OMP_"))}
    nothing = {"WEFT_CACHE": "/dev/null/none", "WEFT_CONFIG": ""}
    return kept | nothing | {"XDG_STATE_HOME": tempfile.gettempdir() + "/weft-test-state"} | extra


def weft(*words, stdin: bytes = b"", env: dict[str, str] | None = None) -> subprocess.CompletedProcess:
    command = [WEFT, *[str(w) for w in words]]
    return subprocess.run(command, input=stdin, capture_output=True, env=clean_environment(**(env or {})), timeout=120)


class Case(unittest.TestCase):
    def succeed(self, *words, **options) -> str:
        result = weft(*words, **options)
        self.assertEqual(result.returncode, 0, result.stderr.decode(errors="replace"))
        return result.stdout.decode()  # also a check that it is UTF-8

    def fail_with(self, code: int, *words, **options) -> str:
        """The message, which must be one line and the only output."""
        result = weft(*words, **options)
        message = result.stderr.decode()
        self.assertEqual(result.returncode, code, message)
        self.assertEqual(result.stdout, b"")
        self.assertTrue(message.startswith(LINE_OF_ERROR), message)
        self.assertEqual(message.count("\n"), 1, message)
        return message


class Usage(Case):
    COMMANDS = ["run", "chat", "serve", "embed", "rerank", "transcribe", "tokenize", "inspect", "convert", "quantize", "imatrix", "perplexity", "split", "merge", "lora-merge", "bench", "pull", "models", "devices", "test-backend", "health",
                "completion", "man", "version"]  # fmt: skip

    def test_help(self):
        overview = self.succeed("--help")
        self.assertEqual(overview, self.succeed("help"))
        self.assertEqual(re.findall(r"^  ([\w-]+)  .*", overview.split("Commands:")[1].split("\n\n")[0], re.M), [*self.COMMANDS, "help"])
        for command in self.COMMANDS:
            self.assertIn(f"  {command} ", overview)
            text = self.succeed("help", command)
            self.assertEqual(text, self.succeed(command, "--help"))
            self.assertEqual(text, self.succeed(command, "-h"))
            for part in (f"Usage: weft {command} ", "Example", "Exit codes: 0 ", "--help", "WEFT_ARG_"):
                self.assertIn(part, text)
            self.assertLessEqual(max(map(len, text.splitlines())), 110)
            self.assertNotIn("\033", text)
        self.assertIn("-ctk, --cache-type-k", self.succeed("help", "run"))
        self.assertIn("--isa", self.succeed("help", "run"))

    def test_nothing(self):
        result = weft()
        self.assertEqual(result.returncode, 2)
        self.assertIn(b"Usage", result.stderr)

    def test_unknown_words_get_suggestions(self):
        self.assertIn("did you mean run?", self.fail_with(2, "rnu"))
        self.assertIn("did you mean tokenize?", self.fail_with(2, "help", "tokenise"))
        self.assertIn("did you mean --temp?", self.fail_with(2, "run", "--tmep", "1", "-p", "x"))
        self.assertIn("did you mean --cache-type-k?", self.fail_with(2, "run", "--cache-typ-k=f16", "-p", "x"))
        self.assertNotIn("did you mean", self.fail_with(2, "run", "--xyzzyplugh", "-p", "x"))
        self.assertIn("'world'", self.fail_with(2, "run", "-p", "hello", "world"))

    def test_short_options_are_whole_words(self):
        """-fa is not -f a, nor -hf the help."""
        for words, part in (
            (["-hf", "user/model"], "both name a model"),
            (["-otd", "x=cpu"], "--device-draft"),
            (["--rpc", "host:1"], "through MPI"),
            (["-mg", "1"], "--device"),
            (["-ncmoe", "-1"], "--n-cpu-moe"),
            (["-nkvo"], "--pin"),
            (["-bf", "file"], "each set the prompt"),
            (["-i"], "'weft chat'"),
            (["-t4"], "did you mean -t 4?"),
            (["-temp", "1"], "did you mean --temp?"),
            (["-xy"], "unknown option -xy"),
            (["-st"], "-st is an option of 'weft chat', not of 'weft run'"),
            (["--system-prompt", "x"], "--system-prompt is an option of 'weft chat'"),
            (["--shared-prompt"], "'weft bench'"),
            (["-p"], "-p needs a value"),
            (["--json=maybe"], "'maybe'"),
        ):
            self.assertIn(part, self.fail_with(2, "run", "-m", LLAMA, "-p", "x", "-n", "1", *words), words)
        self.assertIn("'weft run'", self.fail_with(2, "chat", "--context-shift"))

    def test_harmless_options_of_llama_cpp_are_taken_with_a_note(self):
        plain = ["run", "-m", LLAMA, "-p", "x", "-n", "2", "--temp", "0", "-t", "1", "-c", "64"]
        expected = self.succeed(*plain)
        flags = ["-fa", "on", "-fa", "--flash-attn=auto", "--jinja", "--no-mmap", "--mlock", "--no-warmup", "--perf"]
        flags += ["--no-perf", "-no-cnv", "--simple-io", "--log-disable", "-tb", "2", "--numa", "distribute"]
        result = weft(*plain, *flags)
        self.assertEqual((result.returncode, result.stdout.decode()), (0, expected), result.stderr)
        notes = result.stderr.decode().splitlines()
        for flag in flags:
            if flag.startswith("-"):
                self.assertTrue(any(f"{flag.split('=')[0]} has no effect: " in line for line in notes), flag)
        self.assertEqual(weft(*plain, *flags, "-q").stderr, b"")

    def test_environment(self):
        command = ["run", "-m", LLAMA, "-p", "Hello", "--ignore-eos", "--json", "-t", "1"]
        def generated(*words, **env) -> int:
            return json.loads(self.succeed(*command, *words, env=env))["generated_tokens"]

        self.assertEqual(generated(LLAMA_ARG_N_PREDICT="3", LLAMA_ARG_CTX_SIZE="64"), 3)
        self.assertEqual(generated(LLAMA_ARG_N_PREDICT="3", WEFT_ARG_PREDICT="2"), 2)
        self.assertEqual(generated("-n", "4", LLAMA_ARG_N_PREDICT="3", WEFT_ARG_PREDICT="2"), 4)
        self.assertEqual(generated("-n", "1", WEFT_ARG_JSON="off", LLAMA_ARG_SOMETHING="x"), 1)
        noted = weft(*command, "-n", "1", env={"LLAMA_ARG_SOMETHING": "x", "LLAMA_ARG_PORT": "1"}).stderr
        self.assertIn(b"LLAMA_ARG_SOMETHING has no effect", noted)
        self.assertNotIn(b"LLAMA_ARG_PORT", noted)
        self.assertIn(b"LLAMA_ARG_N_PREDICT", weft(*command, env={"LLAMA_ARG_N_PREDICT": "1"}).stderr)
        slip = self.fail_with(2, *command, env={"WEFT_ARG_TMEP": "1"})
        self.assertIn("did you mean WEFT_ARG_TEMP?", slip)
        self.assertIn("from WEFT_ARG_TEMP", self.fail_with(2, *command, env={"WEFT_ARG_TEMP": "hot"}))
        self.assertIn("WEFT_ARG_CPU_MOE", self.fail_with(2, *command, env={"WEFT_ARG_CPU_MOE": "perhaps"}))

    def test_bad_values(self):
        for words in (
            ["-c", "8q"],
            ["-c", "99999999999"],
            ["-c", "-1"],
            ["-n", "x"],
            ["--top-k", "many"],
            ["-ctk", "q9"],
            ["--top-p", "1.5"],
            ["--temp", "nan"],
            ["--logit-bias", "12"],
            ["--samplers", "top_k;nothing"],
            ["--sampler-seq", "kq"],
            ["--seed", "x"],
            ["--color", "red"],
            ["--isa", "mmx"],
            ["-f", "file"],
            ["-n", "-5"],
            ["--temp", "-1"],
            ["--temp", ""],
            ["--keep", "-3"],
            ["--chunk", "0"],
            ["--stop", ""],
            ["-t", "4096"],
            ["-t", "40000"],
            ["-t", "-5"],
            ["-b", "-1"],
            ["--pack-cache-size", "-1"],
            ["--window-rewind", "-1"],
            ["--repeat-penalty", "0"],
            ["--mirostat", "3"],
        ):
            message = self.fail_with(2, "run", "-m", LLAMA, "-p", "x", *words)
            self.assertNotIn("000000", message)
        for words in (["--samplers", "top_k;nothing"], ["--sampler-seq", "kq"]):
            message = self.fail_with(2, "run", "-m", LLAMA, "-p", "x", *words)
            self.assertIn(f"{words[0]} '{words[1]}': unknown sampler", message)
        self.assertIn("--temp: 'abc' is not a number", self.fail_with(2, "run", "-p", "x", "--temp", "abc"))
        message = self.fail_with(2, "run", "-p", "x", "--temp", "-1")
        self.assertIn("0 always takes the most probable token", message)
        self.assertIn("from 0 to 1024", self.fail_with(2, "bench", "-t", "1,4096"))
        self.fail_with(2, "inspect", LLAMA, "-c", "-5")
        self.fail_with(2, "run", "-m", LLAMA)
        self.fail_with(2, "run", "-m", LLAMA, "--tokens", "1,2,x")
        self.fail_with(2, "run", "-m", LLAMA, "--tokens", "1,2,512000")

    def test_missing_files(self):
        self.assertIn("'nothing.gguf'", self.fail_with(1, "run", "-m", "nothing.gguf", "-p", "x"))
        self.assertIn("make models", self.fail_with(1, "run", "-p", "x"))
        self.assertIn("'nothing.txt'", self.fail_with(1, "run", "-m", LLAMA, "-f", "nothing.txt"))
        with tempfile.NamedTemporaryFile(suffix=".gguf") as file:
            file.write(b"GGUF\x1b[31mno\n")
            file.flush()
            for command in (["run", "-p", "x", "-m"], ["inspect"], ["tokenize", "-m"]):
                self.assertNotIn("\033", self.fail_with(1, *command, file.name))

    def test_full_disk(self):
        if not os.path.exists("/dev/full"):
            self.skipTest("no /dev/full")
        with open("/dev/full", "wb") as full:
            result = subprocess.run([WEFT, "version"], stdout=full, stderr=subprocess.PIPE)
        self.assertEqual(result.returncode, 1)
        self.assertTrue(result.stderr.startswith(LINE_OF_ERROR.encode()))

    def test_version_and_devices(self):
        self.assertRegex(self.succeed("version"), r"^weft \d+\.\d+\.\d+ ")
        self.assertEqual(self.succeed("--version"), self.succeed("version"))
        self.assertIn("version", json.loads(self.succeed("version", "--json")))
        devices = json.loads(self.succeed("devices", "--json"))
        self.assertIn("cpu", [d["name"] for d in devices])
        self.assertGreater(next(d for d in devices if d["name"] == "cpu")["memory_total"], 0)

    def test_test_backend(self):
        table = self.succeed("test-backend", "--op", "norm")
        self.assertRegex(table, r"\nnorm +\d+ +0 +0 ")
        self.assertRegex(table, r"\ncpu: (\d+) of \1 cases passed\n$")
        report = json.loads(self.succeed("test-backend", "cpu", "--op", "top_k", "--json"))
        self.assertTrue(report["passed"])
        self.assertEqual([row["op"] for row in report["ops"]], ["top_k"])
        self.assertGreater(report["ops"][0]["cases"], 5)
        self.assertIn("known are get_rows", self.fail_with(1, "test-backend", "--op", "nothing"))
        self.assertIn("known are cpu", self.fail_with(1, "test-backend", "gpu9"))

    def test_error_names_the_missing_vulkan_module(self):
        with tempfile.TemporaryDirectory() as folder:
            alone = Path(folder) / "weft"  # Beside it are no modules.
            alone.write_bytes(Path(WEFT).read_bytes())
            alone.chmod(0o755)
            run = lambda *words: subprocess.run([alone, *words], capture_output=True, text=True, env=clean_environment())
            for words in (["test-backend", "vulkan0"], ["run", "-m", LLAMA, "-p", "x", "--device", "vulkan0"]):
                result = run(*words)
                self.assertEqual(result.returncode, 1)
                self.assertIn("weft_backend_vulkan.so is missing", result.stderr)
            result = run("run", "-m", LLAMA, "-p", "x", "-n", "1", "-ngl", "99")
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertIn("no GPU was found", result.stderr)

    def test_a_circle_of_links_is_named(self):
        with tempfile.TemporaryDirectory() as folder:
            loop = Path(folder) / "loop"
            loop.symlink_to("loop")
            for words in (["run", "-m", loop, "-p", "x"], ["inspect", loop], ["convert", loop], ["quantize", loop, "Q8_0"],
                          ["run", "-m", LLAMA, "-p", "x", "--lora", loop], ["run", "-m", loop / "model.gguf", "-p", "x"],
                          ["run", "-m", LLAMA, "-p", "x", "--prompt-cache", loop]):  # fmt: skip
                error = self.fail_with(1, *words)
                self.assertIn("Too many levels of symbolic links", error, words)
                self.assertIn(str(loop), error, words)
                self.assertNotIn("unexpected", error, words)

    def test_a_folder_with_one_model_is_that_model(self):
        words = ["-p", "x", "-n", "4", "--temp", "0", "-c", "64"]
        expected = self.succeed("run", "-m", LLAMA, *words)
        with tempfile.TemporaryDirectory() as folder:
            folder = Path(folder)
            self.assertIn("has no model", self.fail_with(1, "run", "-m", folder, *words))
            model = folder / "tiny.gguf"
            model.write_bytes(LLAMA.read_bytes())
            self.assertEqual(self.succeed("run", "-m", folder, *words), expected)
            # Files that belong to a model, and a config.json without weights.
            (folder / "mmproj-tiny.gguf").symlink_to(GOLDEN.parent / "vision/gemma3/mmproj.gguf")
            (folder / "encoder.gguf").symlink_to(GOLDEN.parent / "vision/gemma3/mmproj.gguf")
            (folder / "lora.gguf").symlink_to(GOLDEN.parent / "adapters/one.gguf")
            (folder / "config.json").write_text("{}")
            self.assertEqual(self.succeed("run", "-m", f"{folder}/", *words), expected)
            (folder / "other.gguf").symlink_to(LLAMA)
            error = self.fail_with(1, "run", "-m", folder, *words)
            self.assertIn("has several models: other.gguf, tiny.gguf;", error)
        with tempfile.TemporaryDirectory() as folder:
            self.succeed("split", "--split-max-tensors", "9", LLAMA, Path(folder) / "part")
            self.assertEqual(self.succeed("run", "-m", folder, *words), expected)
            (Path(folder) / "whole.gguf").symlink_to(LLAMA)
            self.assertIn("part-00001-of-", self.fail_with(1, "run", "-m", folder, *words))

    def test_a_file_may_lack_the_lengths(self):
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "short.gguf"
            # A key of another name is ignored.
            data = LLAMA.read_bytes()
            file.write_bytes(data.replace(b"llama.context_length", b"llama.context_lengtX")
                             .replace(b"llama.feed_forward_length", b"llama.feed_forward_lengtX"))  # fmt: skip
            self.assertIn("unknown", self.succeed("inspect", file))
            for words in (["run", "-p", "x", "-n", "1"], ["serve", "--port", "0"]):
                result = weft(*words, "-m", file)
                self.assertEqual(result.returncode, 1, result.stderr)
                error = result.stderr.decode()
                self.assertIn("llama.context_length", error)
                self.assertIn("-c", error)
            number = data.index(b"llama.context_length") + len(b"llama.context_length") + 4
            zero = Path(folder) / "zero.gguf"
            zero.write_bytes(data[:number] + bytes(4) + data[number + 4 :])
            result = weft("run", "-m", zero, "-p", "x")
            self.assertEqual(result.returncode, 1)
            self.assertIn("set the length (n_ctx, -c of the program)", result.stderr.decode())
            self.assertIn("llama.context_length: found 0", weft("run", "-m", zero, "-p", "x", "-n", "1", "-c", "64").stderr.decode())
            expected = self.succeed("run", "-m", LLAMA, "-p", "x", "-n", "4", "--temp", "0", "-c", "64")
            for path in (file, zero):
                self.assertEqual(self.succeed("run", "-m", path, "-p", "x", "-n", "4", "--temp", "0", "-c", "64"), expected)

    def test_models(self):
        self.assertEqual(json.loads(self.succeed("models", "--json")), [])
        self.assertIn("weft pull", self.succeed("models"))
        with tempfile.TemporaryDirectory() as cache:
            folder = Path(cache) / "models"
            folder.mkdir()
            (folder / "Tiny-Llama.gguf").symlink_to(LLAMA)
            (folder / "damaged.gguf").write_bytes(b"GGUF")
            (folder / "big-00002-of-00003.gguf").write_bytes(b"")  # a later part is no model
            env = {"WEFT_CACHE": cache}
            models = {m["name"]: m for m in json.loads(self.succeed("models", "--json", env=env))}
            self.assertEqual(sorted(models), ["Tiny-Llama", "damaged"])
            self.assertEqual(models["Tiny-Llama"]["architecture"], "llama")
            self.assertIn("problem", models["damaged"])
            # By name, by part of a name, and what neither finds.
            for name in ("Tiny-Llama", "Tiny-Llama.gguf", "llama"):
                self.assertIn("tensors", self.succeed("inspect", name, "--json", env=env))
            self.assertIn("could be any of", self.fail_with(1, "inspect", "a", env=env))
            self.assertIn("no default model", self.fail_with(1, "run", "-p", "x", env=env))


class Config(Case):
    """Options from files. What is written is what the program is asked: tokens generated, tables or JSON."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def write(self, text: str, name: str = "config.toml") -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def generated(self, *words, **env) -> int:
        return json.loads(self.succeed("run", "-p", "Hello", *words, env=env))["generated_tokens"]

    def test_order(self):
        file = self.write(f"""
            model = "{LLAMA}"
            predict = 2      # for all commands
            threads = 1
            ignore-eos = true
            shared-prompt = true  # of another command
            [run]
            json = true
            n-predict = 3
            [bench]
            parallel = 2
        """)
        self.assertEqual(self.generated("--config", file), 3)
        self.assertEqual(self.generated(WEFT_CONFIG=str(file)), 3)
        self.assertEqual(self.generated(WEFT_CONFIG=str(file), LLAMA_ARG_N_PREDICT="4"), 4)
        self.assertEqual(self.generated(WEFT_CONFIG=str(file), LLAMA_ARG_N_PREDICT="4", WEFT_ARG_PREDICT="5"), 5)
        self.assertEqual(self.generated("-n", "6", WEFT_CONFIG=str(file), WEFT_ARG_PREDICT="5"), 6)
        other = self.write("json = true", "other.toml")
        self.assertEqual(self.generated("-m", LLAMA, "-n", "1", "--config", other, WEFT_CONFIG="/none"), 1)

    def test_the_files_of_users(self):
        environment = clean_environment(HOME=str(self.folder))
        del environment["WEFT_CONFIG"]
        def lines(**env) -> int:
            result = subprocess.run([WEFT, "version"], env=environment | env, capture_output=True, text=True, check=True)
            return len(result.stdout.splitlines())

        self.assertEqual(lines(), 1)
        self.write("json = true", ".config/weft/config.toml")
        self.assertGreater(lines(), 1)
        self.assertEqual(lines(WEFT_CONFIG=""), 1)
        self.assertEqual(lines(XDG_CONFIG_HOME=str(self.folder / "elsewhere")), 1)
        self.write("[version]\njson = true", "elsewhere/weft/config.toml")
        self.assertGreater(lines(XDG_CONFIG_HOME=str(self.folder / "elsewhere")), 1)

    def test_values(self):
        for text, is_json in (("json = true", True), ("json = false", False), ("json = 'on'", True), ("json = 1", True),
                              ("no-json = true", False), ("no-json = false", True), ("[version]\njson = true", True),
                              ("json = false\n[version]\njson = true", True), ("version.json = true", True),
                              ("version = { json = true }", True), ("[run]\njson = true", False)):  # fmt: skip
            out = self.succeed("version", "--config", self.write(text))
            self.assertEqual(out.startswith("{"), is_json, text)
        base = ["run", "-m", LLAMA, "-t", "1", "-p", "Hello", "-n", "8", "--ignore-eos", "--temp", "0"]
        text = self.succeed(*base)
        for stop in (text[2:4], [text[2:4]], ["never", text[2:4]]):
            shorter = self.succeed(*base, "--config", self.write(f"stop = {json.dumps(stop)}"))
            self.assertEqual(shorter.rstrip("\n"), text[: text.index(text[2:4])])
        for number in ("temp = 0", "temp = 0.0", "temp = 0e0", "temp = '0'", "predict = '8'", "ctx-size = '1k'", "stop = []"):
            self.assertTrue(self.succeed(*base, "--config", self.write(number)), number)

    def test_mistakes_are_named_with_their_line(self):
        for text, line, *parts in (
            ("ctx-sise = 3", 1, "did you mean ctx-size?"),
            ("\n[rnu]\nx = 1", 2, "[rnu]", "did you mean run?"),
            ("[run]\n\nshared-prompt = true", 3, "not an option of 'weft run'"),
            ("[bench]\nparalel = 1", 2, "did you mean parallel?"),
            ("config = 'x'", 1, "config is not an option"),
            ("help = true", 1, "help is not an option"),
            ("\ntemp = 'hot'", 2, "'hot' is not a number"),
            ("temp = [1, 2]", 1, "not a list"),
            ("stop = [\n1979-05-27]", 2, "a string, a number"),
            ("fit = 3", 1, "'3'"),
            ("[run]\npredict = 1\nn-predict = 2", 3, "line 2"),
            ("temp = 1\ntemp = 2", 2, "temp"),
            ("temp = = 1", 1, ""),
            ("predict = 10000000000", 1, "too large"),
            ("cache-type-k = true", 1, "not one of"),
            ("run.temp.x = 1", 1, "a string, a number"),
            ("x = " + "[" * 10000, 1, "depth"),
        ):
            file = self.write(text)
            message = self.fail_with(2, "run", "-m", LLAMA, "-p", "x", "--config", file)
            for part in (f"{file}:{line}", *parts):
                self.assertIn(part, message)
        for words in (("-n", "9" * 20), ("-n", "9" * 20 + "k"), ("-c", "4000m")):
            self.assertIn("too large", self.fail_with(2, "run", "-m", LLAMA, *words))
        self.assertIn("from 0 to 1000000000", self.fail_with(2, "run", "-m", LLAMA, "--temp", "1e30"))
        self.assertIn("'/none'", self.fail_with(1, "version", "--config", "/none"))
        self.assertIn("'/none'", self.fail_with(1, "version", env={"WEFT_CONFIG": "/none"}))
        self.assertIn("directory", self.fail_with(1, "version", "--config", self.folder))
        self.assertIn("large", self.fail_with(1, "version", "--config", self.write("#" * (2 << 20))))
        # Help is to be had whatever the file says.
        self.assertIn("Usage", self.succeed("run", "--help", "--config", self.write("x = 1")))


def options_of_help(text: str) -> list[str]:
    """All option names in the first column of a command's help."""
    columns = re.findall(r"^  (-.*?)(?:  |$)", text, re.MULTILINE)
    return sorted({name for column in columns for name in re.findall(r"(?<![\w-])--?[a-zA-Z][\w-]*", column)})


class Manual(Case):
    """Manual pages and completions, by the programs that read them as far as they are there."""

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.share = Path(folder.name)
        subprocess.run([WEFT, "man", "--install", cls.share], check=True, env=clean_environment())
        cls.bash = cls.share / "bash-completion/completions/weft"
        cls.zsh = cls.share / "zsh/site-functions/_weft"
        cls.fish = cls.share / "fish/vendor_completions.d/weft.fish"

    def tool(self, *command, **options) -> str:
        if shutil.which(command[0]) is None:
            self.skipTest(f"no {command[0]}")
        result = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=120, **options)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        return result.stdout

    def options(self):
        for command in Usage.COMMANDS:
            names = options_of_help(self.succeed("help", command))
            self.assertIn("--help", names)
            yield command, names

    def test_what_is_installed_is_what_is_printed(self):
        for shell, path in (("bash", self.bash), ("zsh", self.zsh), ("fish", self.fish)):
            self.assertEqual(self.succeed("completion", shell), path.read_text())
        pages = {path.name: path.read_text() for path in (self.share / "man/man1").iterdir()}
        self.assertEqual(sorted(pages), sorted(["weft.1", *(f"weft-{c}.1" for c in Usage.COMMANDS)]))
        self.assertEqual(pages.pop("weft.1"), self.succeed("man"))
        for name, text in pages.items():
            self.assertEqual(text, self.succeed("man", name.removeprefix("weft-").removesuffix(".1")))
        self.fail_with(2, "man", "nothing")
        self.fail_with(2, "completion")
        self.fail_with(2, "completion", "tcsh")
        self.fail_with(1, "man", "--install", "/dev/null/x")

    def test_manuals_have_every_option(self):
        for command, names in self.options():
            page = (self.share / f"man/man1/weft-{command}.1").read_text()
            for name in names:
                self.assertIn("\\fB" + name.replace("-", "\\-") + "\\fR", page, command)
            for part in ("SYNOPSIS", "OPTIONS", "EXIT STATUS", "EXAMPLES"):
                self.assertIn(f".SH {part}\n", page, command)
            # mandoc wants short lines; the name's cannot be broken.
            self.assertLessEqual(len(page.split(".SH NAME\n")[1].split("\n")[0]), 80, command)

    def test_short_form_of_negated_switch_is_listed_with_negation(self):
        text = self.succeed("help", "run")
        self.assertNotIn("-nr", options_of_help(text))
        self.assertIn("--no-repack (-nr)", text)
        page = (self.share / "man/man1/weft-run.1").read_text().replace("\\-", "-")
        self.assertIn("\\fB--repack\\fR, \\fB-nr\\fR, \\fB--no-repack\\fR\n", page)
        self.assertIn(" -l repack -o nr -l no-repack ", self.fish.read_text())
        self.assertIn("(--repack -nr --no-repack)-nr[", self.zsh.read_text())
        self.assertIn(" --repack -nr --no-repack ", self.bash.read_text())

    def test_manuals_are_clean(self):
        self.assertEqual(self.tool("mandoc", "-Tlint", *sorted((self.share / "man/man1").iterdir())), "")

    def complete_in_bash(self, *words: str) -> list[str]:
        script = """source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($#-1)); compopt() { :; }
                    _weft && printf '%s\\n' "${COMPREPLY[@]}" """
        return self.tool("bash", "-c", script, "bash", self.bash, *words).split()

    def only_model(self) -> str:
        """A model whose path begins no other path."""
        model = self.share / "only.gguf"
        if not model.exists():
            model.symlink_to(LLAMA)
        return str(model)

    def test_bash(self):
        self.tool("bash", "-n", self.bash)
        self.assertEqual(sorted(self.complete_in_bash("weft", "")), sorted([*Usage.COMMANDS, "help"]))
        self.assertEqual(self.complete_in_bash("weft", "help", "tok"), ["tokenize"])
        for command, names in self.options():
            self.assertLessEqual(set(names), set(self.complete_in_bash("weft", command, "-")), command)
        self.assertEqual(self.complete_in_bash("weft", "run", "--cache-type-k", "q"), ["q4_0", "q4_1", "q5_0", "q5_1", "q8_0"])
        self.assertEqual(self.complete_in_bash("weft", "run", "-ctk", "=", "q"), ["q4_0", "q4_1", "q5_0", "q5_1", "q8_0"])
        self.assertEqual(self.complete_in_bash("weft", "run", "--no-rep"), ["--no-repack"])
        model = self.only_model()
        self.assertEqual(self.complete_in_bash("weft", "run", "-m", model[:-2]), [model])
        self.assertEqual(self.complete_in_bash("weft", "inspect", model[:-2]), [model])
        self.assertEqual(self.complete_in_bash("weft", "bench", "--parallel", "--str"), ["--streams"])
        self.assertEqual(self.complete_in_bash("weft", "run", "--predict", ""), [])
        self.assertEqual(sorted(self.complete_in_bash("weft", "completion", "")), ["bash", "fish", "zsh"])

    def test_fish(self):
        self.tool("fish", "-n", self.fish)

        def complete(line: str) -> list[str]:
            out = self.tool("fish", "-c", "source $argv[1]; complete -C $argv[2]", self.fish, line)
            return [entry.split("\t")[0] for entry in out.splitlines()]

        self.assertEqual(sorted(complete("weft ")), sorted([*Usage.COMMANDS, "help"]))
        for command, names in self.options():
            self.assertLessEqual(set(names), set(complete(f"weft {command} -") + complete(f"weft {command} --")), command)
        self.assertEqual(complete("weft run --cache-type-k q"), ["q4_0", "q4_1", "q5_0", "q5_1", "q8_0"])
        self.assertEqual(complete("weft run --no-rep"), ["--no-repack"])
        model = self.only_model()
        self.assertEqual(complete(f"weft run -m {model[:-2]}"), [model])
        self.assertEqual(complete("weft help tok"), ["tokenize"])

    def test_zsh(self):
        self.tool("zsh", "-n", self.zsh)
        # Replaces _arguments by a function that prints its specifications.
        script = """_arguments() { print -rl -- "$@" }; _describe() { print -rl -- "${(@P)2}" }; typeset -a words
                    words=(weft "$2" x); CURRENT=$3; source "$1" """
        listed = lambda command, current: self.tool("zsh", "-fc", script, "zsh", self.zsh, command, current).splitlines()
        self.assertEqual([line.split(":")[0] for line in listed("", "2")], [*Usage.COMMANDS, "help"])
        for command, names in self.options():
            found = {re.match(r"(?:\*|\([^)]*\))?(-[\w-]+)", line)[1] for line in listed(command, "3") if "-" in line[:80]
                     and not line.startswith("::")}  # fmt: skip
            self.assertLessEqual(set(names), found, command)


class Health(Case):
    """Health checks against servers with valid and invalid responses."""

    def serve(self, answer: bytes, family=socket.AF_INET, address=("127.0.0.1", 0)) -> socket.socket:
        listener = socket.socket(family, socket.SOCK_STREAM)
        self.addCleanup(listener.close)
        listener.bind(address)
        listener.listen()
        self.requests = []

        def run():
            with contextlib.suppress(OSError):
                while True:
                    connection, _ = listener.accept()
                    with connection, contextlib.suppress(OSError):
                        self.requests.append(connection.recv(4096))
                        connection.sendall(answer)

        threading.Thread(target=run, daemon=True).start()
        return listener

    def url(self, answer: bytes) -> str:
        return "http://127.0.0.1:%d" % self.serve(answer).getsockname()[1]

    @staticmethod
    def http(status: str, body: str) -> bytes:
        return f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode()

    def test_answers(self):
        url = self.url(self.http("200 OK", '{"status": "ok"}'))
        self.assertEqual(self.succeed("health", url), f"{url}/health: 200 ok\n")
        self.assertTrue(self.requests[0].startswith(b"GET /health HTTP/1.1\r\nHost: 127.0.0.1:"))
        self.assertIn("/ready: 200", self.succeed("health", url + "/ready"))
        url = self.url(self.http("503 Service Unavailable", '{"status": "loading"}'))
        self.assertIn("503 loading", self.fail_with(1, "health", url))
        self.assertIn(": 200\n", self.succeed("health", self.url(self.http("200 OK", "<html>"))))
        self.assertNotIn("\033", self.succeed("health", self.url(self.http("200 OK", '{"status": "\\u001b[31m"}'))))

    def test_where_the_server_is(self):
        url = self.url(self.http("200 OK", "{}"))
        port = url.rsplit(":", 1)[1]
        self.succeed("health", "--port", port)
        self.succeed("health", env={"WEFT_ARG_PORT": port, "WEFT_ARG_HOST": "0.0.0.0"})
        self.succeed("health", "--host", "localhost", env={"LLAMA_ARG_PORT": port})
        with tempfile.TemporaryDirectory() as folder:
            path = folder + "/weft.sock"
            self.serve(self.http("200 OK", "{}"), socket.AF_UNIX, path)
            self.assertEqual(self.succeed("health", "unix:" + path), f"unix:{path}: 200\n")
            self.succeed("health", "--host", path)
            for hosts in (path + ",127.0.0.1", f" unix:{path}, 127.0.0.1", f"unix://{path}"):
                self.succeed("health", env={"WEFT_ARG_HOST": hosts})
            self.fail_with(1, "health", "--host", path, "--ssl-cert-file", "server.pem")
            self.assertEqual(self.requests[-1][:1], b"\x16")  # A handshake of TLS.
            self.fail_with(1, "health", "unix:/" + "x" * 200)
        self.fail_with(2, "health", "--port", "0")

    def test_trouble(self):
        for answer in (b"", b"SSH-2.0-x\r\n", b"HTTP/1.1 2", b"HTTP/1.1 abc", b"HTTP/1.1 -20 x", b"\0" * 4096):
            self.fail_with(1, "health", self.url(answer))
        # An endless response body.
        self.succeed("health", self.url(b"HTTP/1.1 200 OK\r\n\r\n" + b"[" * (4 << 20)))
        with socket.socket() as silent:
            silent.bind(("127.0.0.1", 0))
            port = silent.getsockname()[1]
            self.assertIn("refused", self.fail_with(1, "health", "--port", port))
            silent.listen()
            self.assertIn("in time", self.fail_with(1, "health", "--port", port, "--max-time", "1"))


class Tokenize(Case):
    def test_known_ids(self):
        for family in ("llama", "gpt2", "qwen2"):
            for case in json.loads((GOLDEN / family / "tokenize.json").read_text())[:8]:
                out = self.succeed("tokenize", "-m", GOLDEN / family / "model.gguf", "--json", "--no-bos", "--no-special",
                                   stdin=case["text"].encode())  # fmt: skip
                self.assertEqual(json.loads(out), case["ids"], case["text"])

    def test_bytes_are_taken_as_they_are(self):
        # A final newline counts, and so do bytes that are not UTF-8.
        with_newline = json.loads(self.succeed("tokenize", "-m", LLAMA, "--json", stdin=b"a\n"))
        without = json.loads(self.succeed("tokenize", "-m", LLAMA, "--json", stdin=b"a"))
        self.assertEqual(with_newline[:-1], without)
        self.assertTrue(json.loads(self.succeed("tokenize", "-m", LLAMA, "--json", stdin=b"\xff\xfe\x00\x80")))
        self.assertEqual(self.succeed("tokenize", "-m", LLAMA, "--json", "--no-bos", stdin=b""), "[]\n")

    def test_listing_shows_pieces(self):
        lines = self.succeed("tokenize", "-m", LLAMA, "--no-bos", stdin="naïve ☃".encode()).splitlines()
        ids = json.loads(self.succeed("tokenize", "-m", LLAMA, "--no-bos", "--json", stdin="naïve ☃".encode()))
        self.assertEqual([int(line.split()[0]) for line in lines], ids)
        for line in lines:
            json.loads(line.split(maxsplit=1)[1])


ENCODERS = GOLDEN.parent / "golden_encoders"
BERT = ENCODERS / "bert" / "model.gguf"
RERANKER = ENCODERS / "bert-rank" / "model.gguf"


class Embed(Case):
    TEXTS = ["A cat sits.", "The engine needs oil, and so does the other one.", "x"]

    def vectors(self, *words, **options) -> list:
        answer = json.loads(self.succeed("embed", "--json", "-m", *words, **options))
        self.assertEqual([entry["index"] for entry in answer["data"]], list(range(len(answer["data"]))))
        return [entry["embedding"] for entry in answer["data"]]

    def assert_near(self, a, b, within=1e-6):
        self.assertEqual(len(a), len(b))
        self.assertLess(max(abs(x - y) for x, y in zip(a, b)), within)

    def test_texts_come_from_anywhere(self):
        expected = self.vectors(BERT, *self.TEXTS)
        self.assertEqual(len(expected), 3)
        lines = "\n".join(self.TEXTS) + "\n"
        self.assertEqual(self.vectors(BERT, stdin=lines.encode()), expected)
        self.assertEqual(self.vectors(BERT, stdin=lines.rstrip().encode()), expected)
        with tempfile.NamedTemporaryFile("w") as file:
            file.write(lines.replace("\n", "\r\n"))
            file.flush()
            self.assertEqual(self.vectors(BERT, "-f", file.name), expected)
        self.assertEqual([self.vectors(BERT, text)[0] for text in self.TEXTS], expected)
        self.assertEqual(self.vectors(BERT, "-b", "1", *self.TEXTS), expected)
        rows = self.succeed("embed", "-m", BERT, *self.TEXTS).splitlines()
        for row, vector in zip(rows, expected, strict=True):
            self.assert_near([float(x) for x in row.split()], vector)

    def test_empty_texts_have_vectors_of_their_own(self):
        [empty] = self.vectors(BERT, "")
        [first, _, last] = self.vectors(BERT, *self.TEXTS)
        blank = f"{self.TEXTS[0]}\n\n{self.TEXTS[2]}\n\n"
        self.assertEqual(self.vectors(BERT, stdin=blank.encode()), [first, empty, last, empty])
        self.assertEqual(len(self.vectors(LLAMA, "", "-t", "1")), 1)

    def test_adapters_are_read_with(self):
        one = GOLDEN.parent / "adapters" / "one.gguf"
        text = "Hello world"
        plain, adapted, half = (self.vectors(LLAMA, text, "-t", "1", *words) for words in
                                ([], ["--lora", one], ["--lora-scaled", one, "0.5"]))
        self.assertEqual(len({json.dumps(vectors) for vectors in (plain, adapted, half)}), 3)
        self.assertEqual(self.vectors(LLAMA, text, "-t", "1", "--lora-scaled", one, "0"), plain)
        self.assertIn("a million", self.fail_with(1, "embed", "-m", LLAMA, "x", "--lora-scaled", one, "1e12"))

    def test_vectors_are_pooled_cut_and_scaled(self):
        def length(vector):
            return sum(x * x for x in vector) ** 0.5

        text = self.TEXTS[1]
        ids = json.loads(self.succeed("tokenize", "-m", BERT, "--json", "--no-special", stdin=text.encode()))
        [tokens] = self.vectors(BERT, "--pooling", "none", "--no-normalize", text)
        self.assertEqual(len(tokens), len(ids))
        [mean] = self.vectors(BERT, "--no-normalize", text)
        self.assert_near(mean, [sum(column) / len(tokens) for column in zip(*tokens)])
        self.assertEqual(self.vectors(BERT, "--pooling", "cls", "--no-normalize", text), [tokens[0]])
        self.assertEqual(self.vectors(BERT, "--pooling", "last", "--no-normalize", text), [tokens[-1]])
        [whole] = self.vectors(BERT, text)
        self.assertAlmostEqual(length(whole), 1.0, places=5)
        self.assert_near(whole, [x / length(mean) for x in mean])
        [cut] = self.vectors(BERT, "--dimensions", "16", text)
        self.assert_near(cut, [x / length(mean[:16]) for x in mean[:16]])
        self.assertEqual(self.vectors(BERT, "--dimensions", "16", "--no-normalize", text), [mean[:16]])

    def test_decoders_have_vectors_too(self):
        [first, last] = self.vectors(LLAMA, "Hello", "Hello world", "-t", "1")
        self.assertEqual(len(first), len(last))
        self.assertNotEqual(first, last)

    def test_errors_name_the_wrong_input(self):
        long = "a b " * 100
        wrong = self.fail_with(1, "embed", "-m", BERT, "x", long)
        self.assertIn("--truncate", wrong)
        self.assertIn("input 1 (counting from 0)", wrong)
        self.assertEqual(len(self.vectors(BERT, "--truncate", "x", long)), 2)
        self.assertIn("64", self.fail_with(2, "embed", "-m", BERT, "x", "--dimensions", "65"))
        self.assertIn("no input", self.fail_with(2, "embed", "-m", BERT))
        self.assertIn("as words or with -f", self.fail_with(2, "embed", "-m", BERT, "x", "-f", "y"))
        self.assertIn("mean", self.fail_with(2, "embed", "-m", BERT, "x", "--pooling", "max"))
        for command in (["run", "-p", "x"], ["bench"]):
            self.assertIn("is an encoder", self.fail_with(1, *command, "-m", BERT))

    def test_an_encoder_can_be_inspected(self):
        info = json.loads(self.succeed("inspect", BERT, "--json"))
        self.assertEqual(info["model"]["architecture"], "bert")


class Rerank(Case):
    DOCUMENTS = ["Bamboo, mostly.", "It rains today.", "Pandas eat what they find in the woods."]

    def test_documents_are_in_the_order_of_their_scores(self):
        words = ["rerank", "-m", RERANKER, "-p", "What do pandas eat?"]
        answer = json.loads(self.succeed(*words, "--json", *self.DOCUMENTS))
        results = answer["results"]
        self.assertEqual(sorted(one["index"] for one in results), [0, 1, 2])
        scores = [one["relevance_score"] for one in results]
        self.assertEqual(scores, sorted(scores, reverse=True))
        self.assertTrue(all(0 < score < 1 for score in scores))
        self.assertEqual(len(set(scores)), 3)
        for one in results:
            self.assertEqual(one["document"]["text"], self.DOCUMENTS[one["index"]])
            [alone] = json.loads(self.succeed(*words, "--json", one["document"]["text"]))["results"]
            self.assertEqual(alone["relevance_score"], one["relevance_score"])
        lines = self.succeed(*words, "--top-n", "2", stdin="\n".join(self.DOCUMENTS).encode()).splitlines()
        self.assertEqual([int(line.split()[1]) for line in lines], [one["index"] for one in results][:2])
        [line] = self.succeed(*words, "two\nlines").splitlines()  # A document is a line, whatever it holds.
        self.assertTrue(line.endswith("  two lines"), line)

    def test_errors_name_the_wrong_input(self):
        self.assertIn("classifier", self.fail_with(1, "rerank", "-m", BERT, "-p", "x", "y"))
        self.assertIn("3 scores", self.fail_with(1, "rerank", "-m", ENCODERS / "xlm-roberta-rank" / "model.gguf", "-p", "x", "y"))
        self.assertIn("no query", self.fail_with(2, "rerank", "-m", RERANKER, "y"))
        self.assertIn("leaves none", self.fail_with(1, "rerank", "-m", RERANKER, "-p", "a b " * 100, "y"))


SPEECH = Path(os.environ["WEFT_TEST_DATA"]) / "speech"


class Transcribe(Case):
    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.TemporaryDirectory()
        cls.folder = Path(cls.scratch.name)
        cls.model = cls.folder / "whisper.gguf"
        converted = weft("convert", "-o", cls.model, SPEECH / "model")
        assert converted.returncode == 0, converted.stderr
        cls.sound = cls.folder / "talk.wav"
        shutil.copy(SPEECH / "sound.wav", cls.sound)

    @classmethod
    def tearDownClass(cls):
        cls.scratch.cleanup()

    def test_transcripts_are_printed_or_written(self):
        words = ["transcribe", "-m", self.model, self.sound, "--language", "german"]
        printed = self.succeed(*words)
        self.assertEqual(self.succeed(*words, self.sound), printed * 2)
        self.assertEqual(self.succeed(*words, "--output", "txt,srt,vtt,json"), "")
        written = {ending: self.sound.with_suffix("." + ending).read_text() for ending in ("txt", "srt", "vtt", "json")}
        self.assertEqual(written["txt"], printed)
        self.assertTrue(written["srt"].startswith("1\n00:00:0"))
        self.assertTrue(written["vtt"].startswith("WEBVTT\n\n00:00:0"))
        verbose = json.loads(written["json"])
        self.assertEqual((verbose["task"], verbose["language"], verbose["text"] + "\n"), ("transcribe", "german", printed))
        self.assertTrue(verbose["words"] and verbose["segments"])
        (self.folder / "out").mkdir()
        self.succeed(*words, "--output", "srt", "--output-dir", self.folder / "out")
        self.assertEqual((self.folder / "out" / "talk.srt").read_text(), written["srt"])

    def test_errors_name_the_wrong_input(self):
        self.fail_with(2, "transcribe", "-m", self.model)
        self.assertIn("nosuch.wav", self.fail_with(1, "transcribe", "-m", self.model, "nosuch.wav"))
        self.assertIn("klingon", self.fail_with(1, "transcribe", "-m", self.model, self.sound, "--language", "klingon"))
        self.assertIn("txt", self.fail_with(2, "transcribe", "-m", self.model, self.sound, "--output", "pdf"))
        self.assertIn("would both write", self.fail_with(2, "transcribe", "-m", self.model, "--output", "txt", "a.wav", "a.flac"))
        # A file that cannot be read does not end the others.
        several = weft("transcribe", "-m", self.model, "nosuch.wav", self.sound)
        self.assertEqual((several.returncode, bool(several.stdout)), (1, True))
        self.assertIn("nosuch.wav", several.stderr.decode())
        self.assertIn("not a Whisper model", self.fail_with(1, "transcribe", "-m", LLAMA, self.sound))
        self.assertIn("unknown audio format", self.fail_with(1, "transcribe", "-m", self.model, LLAMA))


class Inspect(Case):
    def test_json(self):
        info = json.loads(self.succeed("inspect", LLAMA, "--json"))
        self.assertEqual(info["model"]["architecture"], "llama")
        self.assertEqual(info["file_bytes"], LLAMA.stat().st_size)
        self.assertEqual(sum(t["tensors"] for t in info["types"].values()), len(info["tensors"]))
        self.assertIn("general.architecture", [entry["key"] for entry in info["metadata"]])
        self.assertGreater(info["memory"]["weight_bytes"], 0)
        self.assertGreater(info["memory"]["cache_bytes_per_token"], 0)
        twice = json.loads(self.succeed("inspect", LLAMA, "--json", "-c", "2k"))
        self.assertEqual(twice["memory"]["context"], 2048)
        self.assertEqual(twice["memory"]["cache_bytes"], 2048 * info["memory"]["cache_bytes_per_token"])
        wide = json.loads(self.succeed("inspect", LLAMA, "--json", "-c", "2k", "-ctk", "f32", "-ctv", "f32"))
        self.assertEqual(wide["memory"]["cache_bytes"], 2 * twice["memory"]["cache_bytes"])
        self.assertEqual(wide["memory"]["cache_type"], "f32")

    def test_memory_of_windows(self):
        file = GOLDEN / "gemma3" / "model.gguf"
        short, long = (json.loads(self.succeed("inspect", file, "--json", "-c", c))["memory"] for c in ("8k", "16k"))
        # Only the layers without a window grow.
        self.assertEqual(long["cache_bytes"] - short["cache_bytes"], 8192 * short["cache_bytes_per_token"])
        self.assertIn(f"in {short['cache_type']}", self.succeed("inspect", file))

    def test_drawing_without_graphviz(self):
        with tempfile.TemporaryDirectory() as folder:
            drawing = Path(folder) / "plan.svg"
            result = weft("inspect", LLAMA, "--plan", "-ngl", "0", "--svg", drawing, env={"PATH": folder})
            self.assertEqual(result.returncode, 1)
            self.assertIn("apt-get install graphviz", result.stderr.decode())
            self.assertIn("split 0 on cpu", Path(f"{drawing}.dot").read_text())

    def test_report(self):
        text = self.succeed("inspect", LLAMA, "--tensors")
        for part in ("Memory", "Tensors", "Metadata", "token_embd.weight", "general.architecture"):
            self.assertIn(part, text)


    def test_plan(self):
        devices = ["--device", "cpu1=cpu", "-ngl", "1", "-c", "256"]
        with tempfile.TemporaryDirectory() as folder:
            drawing = Path(folder) / "plan.svg"
            text = self.succeed("inspect", LLAMA, "--plan", *devices)
            for part in ("Memory", "cpu1", "Splits"):
                self.assertIn(part, text)
            if shutil.which("dot"):
                self.succeed("inspect", LLAMA, "--plan", *devices, "--svg", drawing)
                self.assertIn("split 0 on cpu", drawing.read_text())
                self.assertEqual(os.listdir(folder), [drawing.name])
        plan = json.loads(self.succeed("inspect", LLAMA, "--plan", "--json", *devices))
        self.assertEqual({split["device"] for split in plan["splits"]}, {"cpu", "cpu1"})
        self.assertTrue(all(copy["from"] != copy["to"] for copy in plan["copies"]))
        self.assertGreater(next(d for d in plan["devices"] if d["name"] == "cpu1")["weights"], 0)
        # Without --device, -ngl also uses the first other device.
        others = [d["name"] for d in json.loads(self.succeed("devices", "--json")) if d["name"] != "cpu"]
        plan = json.loads(self.succeed("inspect", LLAMA, "--plan", "--json", "-c", "256", "-ngl", "1"))
        self.assertEqual({split["device"] for split in plan["splits"]}, {"cpu", *others[:1]})
        plan = json.loads(self.succeed("inspect", LLAMA, "--plan", "--json", "-c", "256", "-ngl", "0"))
        self.assertEqual([device["name"] for device in plan["devices"]], ["cpu"])
        self.fail_with(2, "inspect", LLAMA, "--plan", "--pin", "nothing")
        self.assertIn("known are cpu", self.fail_with(1, "inspect", LLAMA, "--plan", "--device", "gpu9"))

    def test_plan_of_a_cluster(self):
        node = {"name": "node", "count": 4, "memory_bytes": 1e9, "bytes_per_second": 1e10, "flops": 1e12}
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "cluster.json"
            words = ["inspect", LLAMA, "--plan", "--nodes", file]
            file.write_text(json.dumps({"nodes": [node], "link": {"seconds": 1e-5, "bytes_per_second": 1e9}}))
            plan = json.loads(self.succeed(*words, "--json"))
            n_layers = json.loads(self.succeed("inspect", LLAMA, "--json"))["model"]["layers"]
            self.assertEqual(plan["nodes"], 4)
            for way in plan["ways"]:
                self.assertEqual(sum(group["layers"] for group in way["groups"]), n_layers)
                self.assertGreater(way["token_seconds"], 0)
            self.assertIn("pipeline of 4", self.succeed(*words))
            file.write_text(json.dumps({"nodes": [node | {"memory_bytes": 10}], "link": {"bytes_per_second": 1}}))
            self.assertIn("does not fit", self.succeed(*words))
            file.write_text('{"nodes": []}')
            self.assertRegex(self.fail_with(1, *words), "cluster.json: .*at least one")
            file.write_text("{")
            self.assertIn("cluster.json: invalid JSON", self.fail_with(1, *words))
            self.assertIn("--plan", self.fail_with(2, "inspect", LLAMA, "--nodes", file))
        self.assertIn("cluster.json", self.fail_with(1, *words))


class Run(Case):
    BASE = ["run", "-m", LLAMA, "-t", "2", "-c", "256"]

    def generate(self, *words, **options) -> dict:
        return json.loads(self.succeed(*self.BASE, "-p", "Hello world", "--ignore-eos", "--json", *words, **options))

    def test_without_standard_input_nothing_is_read(self):
        """The first file that is opened would get its number."""
        words = [WEFT, *map(str, self.BASE), "-n", "3", "--temp", "0", "-f"]
        closed = subprocess.run(["sh", "-c", 'exec "$0" "$@" <&-', *words, "-"], capture_output=True, text=True, timeout=120)
        nothing = subprocess.run([*words, "/dev/null"], capture_output=True, text=True, timeout=120)
        self.assertEqual((closed.returncode, closed.stdout), (nothing.returncode, nothing.stdout), closed.stderr + nothing.stderr)

    def test_a_model_that_does_not_fit_names_the_limit(self):
        def limited(command, *words):
            limit = lambda: resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))  # noqa: E731
            return subprocess.run([WEFT, command, "-m", LLAMA, "-t", "1", *words], stdin=subprocess.DEVNULL, capture_output=True,
                                  text=True, env=clean_environment(), preexec_fn=limit, timeout=120)
        if limited("run", "-p", "x", "-n", "1").returncode != 0:
            self.skipTest("this build needs more addresses")
        for command in ("run", "chat", "serve"):
            with self.subTest(command=command):
                result = limited(command, "-c", "32M", *(["-p", "x"] if command == "run" else []))
                self.assertNotEqual(result.returncode, 0)
                self.assertRegex(result.stderr, r"cpu needs \d+ MiB, \d+ MiB are available \(ulimit -v\)")

    def test_the_table_of_memory_counts_states_of_drafts_for_recurrent_models_only(self):
        def cache(model, n_draft):
            log = weft("run", "-m", GOLDEN / model / "model.gguf", "-p", "x", "-n", "1", "-c", "256", "-v", "--draft-max", n_draft).stderr.decode()
            return re.search(r"^cpu +\S+ \S+ +(\S+ \S+)", log, re.MULTILINE)[1]
        self.assertEqual(cache("llama", 1), cache("llama", 64))
        self.assertNotEqual(cache("mamba2", 1), cache("mamba2", 64))

    def test_a_source_is_written_about(self):
        model = GOLDEN.parent / "golden_sources" / "flan-t5" / "model.gguf"
        about = ["-m", model, "-t", "1", "--temp", "0", "-n", "8", "--ignore-eos", "--json"]
        first = json.loads(self.succeed("run", *about, "--tokens", "5,9,300,4"))
        self.assertEqual(first["prompt_tokens"], 4)
        self.assertEqual(len(first["tokens"]), 8)
        self.assertEqual(first["plans"]["steps"], 9)  # the source, the first token, and all tokens but the last
        other = json.loads(self.succeed("run", *about, "--tokens", "77,3"))
        self.assertNotEqual(first["tokens"], other["tokens"])
        self.assertIn("--source-size", self.fail_with(1, "run", *about, "--source-size", "3", "--tokens", "5,9,300,4"))
        self.succeed("inspect", "-m", model)
        for words in (["perplexity", "-f", __file__], ["imatrix", "-f", __file__, "-o", "/dev/null"],
                      ["bench"], ["run", "--tokens", "1", "--logits", "/dev/null"], ["embed", "Hello"]):  # fmt: skip
            self.assertIn("encoder input", self.fail_with(1, words[0], "-m", model, *words[1:]), words)

    def test_each_question_is_a_source(self):
        model = GOLDEN.parent / "golden_sources" / "flan-t5" / "model.gguf"
        about = ["-m", model, "-t", "1", "--temp", "0", "-n", "8", "-q"]
        said = [self.succeed("chat", *about, *words, stdin=text.encode())
                for words, text in (([], "hello\n"), ([], "world\n"), ([], "hello\nworld\nhello\n"),
                                    (["--system-prompt", "hello"], "world\n"), ([], "hello world\n"))]  # fmt: skip
        answers = [text.strip() for text in said]
        self.assertNotEqual(answers[0], answers[1])
        self.assertEqual(answers[2].split(), f"{answers[0]} {answers[1]} {answers[0]}".split())
        self.assertEqual(answers[3], answers[4])
        run = self.succeed("run", *about, "-p", "hello<|endoftext|>", "--parse-special", "--special")
        self.assertEqual(answers[0].split(), run.split())

    def test_devices(self):
        alone = self.generate("-n", "12", "--temp", "0")
        for words in (["-ngl", "1"], ["-ngl", "all"], ["--pin", "ffn=cpu1", "-ngl", "0"], ["--split", "row"]):
            spread = self.generate("-n", "12", "--temp", "0", "--device", "cpu,cpu1=cpu", *words)
            self.assertEqual(spread["tokens"], alone["tokens"], words)

    def test_json(self):
        result = self.generate("-n", "12", "--temp", "0")
        self.assertEqual(
            list(result),
            ["text", "tokens", "prompt_tokens", "cached_tokens", "generated_tokens", "stop_reason", "timings", "plans"],
        )
        self.assertEqual(len(result["tokens"]), 12)
        self.assertEqual(result["generated_tokens"], 12)
        self.assertEqual(result["stop_reason"], "length")
        self.assertEqual(list(result["timings"]),
                         ["load_ms", "prefill_tokens_per_second", "decode_tokens_per_second", "draft_n", "draft_n_accepted"])  # fmt: skip
        self.assertTrue(all(value > 0 for value in list(result["timings"].values())[:3]), result)
        self.assertEqual(result["plans"]["compiled"], 1)
        self.assertEqual(result["plans"]["steps"], 12)  # the prompt, and all tokens but the last
        tokens = json.loads(self.succeed("tokenize", "-m", LLAMA, "--json", stdin=b"Hello world"))
        self.assertEqual(result["prompt_tokens"], len(tokens))

    def test_text_is_that_of_json(self):
        # A random model generates random bytes; the output is valid UTF-8 nevertheless (succeed() checks).
        for seed in ("1", "2", "3"):
            words = ["-n", "40", "--seed", seed, "--temp", "1.5"]
            text = self.succeed(*self.BASE, "-p", "Hello world", "--ignore-eos", "-q", *words)
            self.assertEqual(text.rstrip("\n"), self.generate(*words)["text"].rstrip("\n"))

    def test_same_answer_however_it_is_computed(self):
        expected = self.generate("-n", "24", "--temp", "0")["tokens"]
        for words in (["-t", "1"], ["--chunk", "3"], ["-b", "2"], ["-ub", "5"], ["-c", "64"]):
            self.assertEqual(self.generate("-n", "24", "--temp", "0", *words)["tokens"], expected, words)
        from_file = self.succeed(*self.BASE, "-f", "-", "-n", "24", "--temp", "0", "--ignore-eos", "--json",
                                 stdin=b"Hello world")  # fmt: skip
        self.assertEqual(json.loads(from_file)["tokens"], expected)
        from_environment = {"WEFT_ARG_TEMP": "0", "WEFT_ARG_PREDICT": "24"}
        self.assertEqual(self.generate(env=from_environment)["tokens"], expected)
        # The command line is stronger than the environment.
        self.assertEqual(self.generate("-n", "3", env=from_environment)["tokens"], expected[:3])

    def test_seeds(self):
        one, again, other = (self.generate("-n", "24", "--temp", "2", "--seed", s)["tokens"] for s in ("7", "7", "8"))
        self.assertEqual(one, again)
        self.assertNotEqual(one, other)

    def test_ends(self):
        full = weft(*self.BASE, "-p", "Hello", "--ignore-eos", "-c", "64")
        self.assertIn("the context of 64 tokens is full; -c makes it larger", full.stderr.decode())
        full = self.generate("-c", "64")
        self.assertEqual(full["stop_reason"], "context")
        text = self.generate("-n", "24", "--temp", "0")["text"]
        stop = next(c for c in text[4:] if c.isalnum() and c.isascii())
        stopped = self.generate("-n", "24", "--temp", "0", "--stop", stop)
        self.assertEqual(stopped["stop_reason"], "stop")
        self.assertEqual(stopped["text"], text[: text.index(stop)])
        message = self.fail_with(1, *self.BASE[:-1], "16", "-p", "word " * 100)
        self.assertIn("-c", message)

    def test_context_shift_goes_on_or_says_why_not(self):
        words = ["-p", "Hello", "-n", "200", "-c", "64", "--context-shift", "--ignore-eos", "--json", "-t", "1"]
        for family in ("llama", "mamba", "rwkv7", "lfm2", "jamba"):
            result = json.loads(self.succeed("run", "-m", GOLDEN / family / "model.gguf", *words))
            self.assertEqual((result["stop_reason"], result["generated_tokens"]), ("length", 200), family)
        gpt2 = GOLDEN / "gpt2" / "model.gguf"
        self.assertIn("learned positions", self.fail_with(1, "run", "-m", gpt2, *words))
        ended = weft("run", "-m", gpt2, "-p", "Hello", "--ignore-eos", "-c", "512").stderr.decode()
        self.assertIn("all 128 positions that the model was trained for", ended)
        self.assertNotIn("--context-shift", ended)
        self.assertIn("--keep keeps 63 tokens", self.fail_with(1, "run", "-m", LLAMA, *words, "--keep", "63"))

    def test_dry_breakers_are_strings(self):
        words = ["--logit-bias", "350+30", "--dry-multiplier", "100", "--dry-allowed-length", "1", "-n", "1", "--temp", "0", "--json"]
        for byte in (10, 58, 34, 42):  # Tokens of bytes begin at 3.
            text = f"300,301,{3 + byte},350,310,311,300,301,{3 + byte}"
            for extra, is_drawn in (([], True), (["--dry-sequence-breaker", "none"], False), (["--dry-sequence-breaker", chr(byte)], True),
                                    (["--dry-sequence-breaker", "never written"], False)):  # fmt: skip
                tokens = json.loads(self.succeed("run", "-m", LLAMA, "--tokens", text, *words, *extra))["tokens"]
                self.assertEqual(tokens == [350], is_drawn, (byte, extra))

    def test_models_that_generate_nothing_say_so(self):
        bert = GOLDEN.parent / "golden_encoders" / "bert" / "model.gguf"
        for command in (["run"], ["chat", "-st"]):
            self.assertIn("encoder", self.fail_with(1, *command, "-m", bert, "-p", "hi"))

    def test_logits(self):
        tokens = json.loads((GOLDEN / "llama" / "tokens.json").read_text())
        expected = array.array("f", (GOLDEN / "llama" / "logits.f32").read_bytes())
        cache = ["--cache-type-k", "f32", "-ctv", "f32"]
        written = []
        with tempfile.TemporaryDirectory() as folder:
            for words in ([], ["--chunk", "7"], ["--chunk", "1"], ["-t", "1"]):
                out = Path(folder) / "logits"
                ids = ",".join(map(str, tokens))
                text = self.succeed("run", "-m", LLAMA, "--tokens", ids, "--logits", out, "-t", "2", *cache, *words)
                self.assertEqual(text, "")
                written.append(out.read_bytes())
            ids_file = Path(folder) / "ids"
            ids_file.write_text(json.dumps(tokens))
            self.succeed("run", "-m", LLAMA, "--tokens", f"@{ids_file}", "--logits", out, *cache)
            written.append(out.read_bytes())
        self.assertEqual(len(written[0]), 4 * len(expected))
        for other in written[1:]:
            self.assertEqual(written[0], other)
        got = array.array("f", written[0])
        error = sum((a - b) ** 2 for a, b in zip(got, expected)) / sum(b * b for b in expected)
        self.assertLess(error, 1e-6)

    def test_options_that_need_others_are_noted(self):
        for words, name in ((["--keep", "9"], "--keep"), (["--mmproj", "nosuch.gguf"], "--mmproj")):
            result = weft("run", "-m", LLAMA, "--tokens", "1,2", "-n", "1", *words)
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertIn(f"note: {name} has no effect without".encode(), result.stderr)
            self.assertNotEqual(result.stdout, b"")

    def test_logits_need_a_place(self):
        self.fail_with(1, "run", "-m", LLAMA, "--tokens", "1,2", "--logits", "/nonexistent/out")

    def test_logits_that_cannot_be_written_leave_the_old_file(self):
        with tempfile.TemporaryDirectory() as folder:
            out = Path(folder) / "logits"
            out.write_text("old")
            # 4 KiB are allowed; each token's logits have 2 KiB.
            result = subprocess.run(
                ["bash", "-c", 'ulimit -f 4 && exec "$0" "$@"', WEFT, "run", "-m", LLAMA, "--tokens", "1,2,3,4,5,6",
                 "--logits", out],
                capture_output=True, text=True, check=False, env=clean_environment())  # fmt: skip
            self.assertEqual(result.returncode, 1, result.stderr)
            self.assertIn("cannot write", result.stderr)
            self.assertEqual(out.read_text(), "old")
            self.assertEqual([p.name for p in Path(folder).iterdir()], ["logits"])

    def test_interrupt(self):
        command = [WEFT, *map(str, self.BASE), "-c", "8k", "-p", "Hello", "--ignore-eos", "--context-shift", "-n", "-1",
                   "--temp", "0"]  # fmt: skip
        for output in ([], ["--json"]):
            with subprocess.Popen([*command, *output], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                  env=clean_environment()) as process:  # fmt: skip
                if output:  # Nothing is written until the end: as soon as the model is open, or later.
                    maps = Path(f"/proc/{process.pid}/maps")
                    while "model.gguf" not in maps.read_text():
                        time.sleep(0.01)
                else:
                    self.assertNotEqual(process.stdout.read(1), b"")
                process.send_signal(signal.SIGINT)
                out, err = process.communicate(timeout=60)
            self.assertEqual(process.returncode, 130, err)
            if output and out:  # interrupted while generating: what there is is complete
                self.assertEqual(json.loads(out)["stop_reason"], "cancelled")
            elif output:
                self.assertIn(b"interrupted", err)


class Terminal:
    """The program on a pseudo-terminal."""

    def __init__(self, case: Case, *words, **env: str):
        self.case, self.output, self.seen = case, b"", b""  # Not dropped yet, and all.
        environment = clean_environment(**env)
        self.pid, self.terminal = pty.fork()
        if self.pid == 0:
            os.execve(WEFT, [WEFT, *map(str, words)], environment)
        self.resize(24, 80)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.pid:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        os.close(self.terminal)

    def resize(self, rows: int, columns: int) -> None:
        fcntl.ioctl(self.terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def send(self, keys: bytes) -> None:
        os.write(self.terminal, keys)

    def expect(self, text: bytes) -> None:
        """Waits for `text` and drops the output up to its end."""
        end = time.monotonic() + 60
        while text not in self.output:
            ready, _, _ = select.select([self.terminal], [], [], max(0.0, end - time.monotonic()))
            self.case.assertTrue(ready, f"no {text!r} in {self.output!r}")
            try:
                piece = os.read(self.terminal, 65536)
            except OSError:  # closed
                self.case.fail(f"no {text!r} in {self.output!r}")
            self.output, self.seen = self.output + piece, self.seen + piece
        self.output = self.output[self.output.index(text) + len(text) :]

    def prompt(self) -> None:
        self.expect(b"\x1b[?2004h")  # Written once a line, when all keys reach the program.

    def exit_code(self) -> int:
        end = time.monotonic() + 60
        status = (0, 0)
        while status[0] == 0 and time.monotonic() < end:
            if select.select([self.terminal], [], [], 0.05)[0]:
                try:
                    os.read(self.terminal, 65536)
                except OSError:
                    pass
            status = os.waitpid(self.pid, os.WNOHANG)
        self.case.assertEqual(status[0], self.pid, "it did not end")
        self.pid = 0
        return os.waitstatus_to_exitcode(status[1])


class Texts(Case):
    """Escapes and files as prompts, checked by their number of tokens."""

    RUN = ["run", "-m", LLAMA, "-n", "1", "--temp", "0", "-t", "1"]

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def tokens(self, *words, **options) -> int:
        return json.loads(self.succeed(*self.RUN, "--json", *words, **options))["prompt_tokens"]

    def file(self, content: bytes, name: str = "file") -> Path:
        path = self.folder / name
        path.write_bytes(content)
        return path

    def test_escapes(self):
        plain = self.tokens("-p", "a\nb\tc")
        self.assertEqual(self.tokens("-p", r"a\nb\tc"), plain)
        self.assertEqual(self.tokens("-e", "-p", r"a\x0ab\x09c"), plain)
        self.assertGreater(self.tokens("--no-escape", "-p", r"a\nb\tc"), plain)
        self.assertGreater(self.tokens("-f", self.file(rb"a\nb\tc")), plain)
        self.assertEqual(self.tokens("-p", r"C:\Users"), self.tokens("--no-escape", "-p", r"C:\Users"))
        # An escaped stop string equals a literal one.
        text = self.succeed(*self.RUN, "-n", "16", "-p", "a")
        stop = text.strip()[3:5]
        escaped = "".join(f"\\x{byte:02x}" for byte in stop.encode())
        self.assertEqual(self.succeed(*self.RUN, "-n", "16", "-p", "a", "--stop", escaped),
                         self.succeed(*self.RUN, "-n", "16", "-p", "a", "--stop", stop, "--no-escape"))  # fmt: skip
        result = weft("embed", "-m", LLAMA, r"a\nb", "-e", "--no-escape")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn(b"does not process escapes", result.stderr)

    def test_files_of_prompts_lose_one_newline_at_their_end(self):
        for content, prompt in ((b"Hello\n", "Hello"), (b"Hello\n\n", r"Hello\n"), (b"Hello\r\n", r"Hello\r"), (b"Hello ", "Hello ")):
            self.assertEqual(self.tokens("-f", self.file(content)), self.tokens("-p", prompt))
            self.assertEqual(self.tokens("-f", "-", stdin=content), self.tokens("-p", prompt))
        chat = ["chat", "-m", LLAMA, "-p", "Hello", "-n", "8", "--temp", "0", "-t", "1", "-c", "256"]
        self.assertEqual(self.succeed(*chat, "--system-prompt-file", self.file(b"Be brief.\n")),
                         self.succeed(*chat, "--system-prompt", "Be brief."))  # fmt: skip

    def test_byte_order_marks(self):
        mark = b"\xef\xbb\xbf"
        self.assertEqual(self.tokens("-f", self.file(mark + b"Hello")), self.tokens("-p", "Hello"))
        self.assertEqual(self.tokens("-f", "-", stdin=mark + b"Hello"), self.tokens("-p", "Hello"))
        for option, content in (("--grammar-file", b'root ::= "a"\r\n'), ("--json-schema-file", b'{"enum": ["a"]}\r\n')):
            self.succeed(*self.RUN, "-p", "x", option, self.file(mark + content))
        config = self.file(mark + b"n-predict = 3\r\nignore-eos = true\r\n", "config.toml")
        result = json.loads(self.succeed("run", "-m", LLAMA, "-p", "x", "--json", "-t", "1", "--config", config))
        self.assertEqual(result["generated_tokens"], 3)
        for encoding in ("utf-16", "utf-16-be"):
            content = "\ufeffHello" if encoding == "utf-16-be" else "Hello"
            self.assertIn("is UTF-16", self.fail_with(1, *self.RUN, "-f", self.file(content.encode(encoding))))
        # Bytes are bytes to the tokenizer.
        self.assertGreater(len(self.succeed("tokenize", "-m", LLAMA, stdin=mark + b"a").splitlines()),
                           len(self.succeed("tokenize", "-m", LLAMA, stdin=b"a").splitlines()))  # fmt: skip

    def test_keep(self):
        base = [*self.RUN, "-p", "one two three four", "-n", "100", "-c", "32", "--context-shift", "--ignore-eos"]
        n = self.tokens("-p", "one two three four")
        self.assertEqual(self.succeed(*base, "--keep", "-1"), self.succeed(*base, "--keep", n))
        self.assertNotEqual(self.succeed(*base, "--keep", "-1"), self.succeed(*base, "--keep", "0"))
        self.assertIn("-1: the whole prompt", self.fail_with(2, *base, "--keep", "-2"))

    def test_second_bos_gets_a_note(self):
        words = [*self.RUN, "-p"]
        self.assertIn(b"begins with two <s> tokens", weft(*words, "<s>Hello").stderr)
        self.assertEqual(weft(*words, "<s>Hello", "-q").stderr, b"")
        self.assertNotIn(b"two", weft(*words, "Hello <s>").stderr)
        self.assertNotIn(b"two", weft(*self.RUN, "--no-parse-special", "-p", "<s>Hello").stderr)

    def test_files_that_are_no_models_are_named(self):
        pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\nsize 1\n"
        folder = self.folder / "adapter"
        folder.mkdir()
        (folder / "adapter_config.json").write_text("{}")
        cases = [(self.file(pointer, "lfs.gguf"), "git lfs pull"), (self.file(b"<!doctype html><html>" + b" " * 99, "page.gguf"), "HTML page"),
                 (self.file(b"\x10\0\0\0\0\0\0\0{}" + b" " * 99, "model.safetensors"), "safetensors"), (folder, "weft convert --base")]  # fmt: skip
        for path, part in cases:
            self.assertIn(part, self.fail_with(1, "run", "-p", "x", "-m", path))
            self.assertIn(part, self.fail_with(1, *self.RUN, "-p", "x", "--lora", path))
            self.assertIn(part, self.fail_with(1, *self.RUN, "-p", "x", "--mmproj", path, "--image", "x.png"))
            self.assertIn(part, self.fail_with(1, "quantize", path, self.folder / "out.gguf", "Q8_0"))

    def test_color_of_errors(self):
        self.assertTrue(weft("run", "-p", "x", "-m", "nosuch", "--color", "always").stderr.startswith(b"\x1b[31m"))
        self.assertNotIn(b"\x1b", weft("run", "-p", "x", "-m", "nosuch").stderr)


class Chat(Case):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.template = Path(self.folder.name) / "template.jinja"
        self.template.write_text(TEMPLATE)
        self.base = ["chat", "-m", LLAMA, "-c", "512", "--temp", "0", "-n", "6", "-t", "2"]
        self.base += ["--chat-template-file", self.template]

    def test_lines_from_a_pipe(self):
        saved = Path(self.folder.name) / "saved.json"
        script = f"Hello\nHow are \\\nyou\n/regen\n/save {saved}\n/regne\n/help\n/clear\nAgain\n/exit\nnever\n"
        result = weft(*self.base, "--system-prompt", "Be <s> brief", "-v", stdin=script.encode())
        messages = result.stderr.decode()
        self.assertEqual(result.returncode, 0, messages)
        conversation = json.loads(saved.read_text())
        self.assertEqual([m["role"] for m in conversation["messages"]],
                         ["system", "user", "assistant", "user", "assistant"])  # fmt: skip
        self.assertEqual(conversation["messages"][3]["content"], "How are \nyou")
        self.assertIn("did you mean /regen?", messages)
        self.assertIn("/regen ", result.stdout.decode())
        # Four answers. The second and the one again reuse what the cache has.
        turns = [line for line in messages.splitlines() if line.startswith("(prompt: ")]
        self.assertEqual(len(turns), 4, messages)
        reused = [int(line.split(" and ")[1].split()[0]) for line in turns]
        self.assertEqual(reused[0], 0)
        self.assertGreater(reused[1], 10)
        self.assertGreater(reused[2], reused[1])
        computed_again = int(turns[2].split()[1])
        self.assertEqual(computed_again, 1)  # the same question: its last token only

    def test_single_turn(self):
        out = self.succeed(*self.base, "-q", "-p", "Hello", "-st")
        self.assertEqual(out, self.succeed(*self.base, "-q", "-st", stdin=b"Hello\n"))

    def test_a_full_context_forgets(self):
        result = weft(*self.base, "-c", "128", stdin=b"a few more words for the cache\n" * 12)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn(b"dropped", result.stderr)
        self.assertNotIn(b"error", result.stderr)

    def conversation(self, script: str, *words) -> list[dict]:
        """The messages of what a script makes."""
        saved = Path(self.folder.name) / "conversation.json"
        result = weft(*self.base, *words, stdin=f"{script}\n/save {saved}\n".encode())
        self.assertEqual(result.returncode, 0, result.stderr.decode())
        return json.loads(saved.read_text())["messages"]

    def test_several_lines_are_one_question(self):
        messages = self.conversation('"""first\n  second\n\nthird"""\n"""\nalone\n"""')
        self.assertEqual([m["content"] for m in messages if m["role"] == "user"], ["first\n  second\n\nthird", "alone"])

    def test_commands_as_people_type_them(self):
        help_text = self.succeed(*self.base, stdin=b"/help\n")
        self.assertIn("/load FILE", help_text)
        self.assertEqual(self.succeed(*self.base, stdin=b"  /HELP \n"), help_text)
        messages = self.conversation("/etc/hosts is what?")
        self.assertEqual(messages[0]["content"], "/etc/hosts is what?")

    def test_saved_conversations_are_loaded(self):
        first = Path(self.folder.name) / "first.json"
        weft(*self.base, "--system-prompt", "Be brief", stdin=f"Hello\n/save {first}\n".encode())
        before = json.loads(first.read_text())["messages"]
        messages = self.conversation(f"other\n/load {first}\nAnd then?")
        self.assertEqual(messages[:3], before)
        self.assertEqual(messages[3]["content"], "And then?")
        # What stood there is replaced as a whole, not written over.
        other = Path(self.folder.name) / "other.json"
        os.link(first, other)
        weft(*self.base, stdin=f"Something else\n/save {first}\n".encode())
        self.assertEqual(json.loads(other.read_text())["messages"], before)
        self.assertEqual(json.loads(first.read_text())["messages"][0]["content"], "Something else")
        self.assertEqual(sorted(os.listdir(self.folder.name)),
                         ["conversation.json", "first.json", "other.json", "template.jinja"])  # fmt: skip
        for text, part in (("no JSON", "byte 2"), ("[1e999]", "out of range"),
                           ("[]", "expected a JSON object"), ('{"messages": [{"role": "user"}]}', "message 1"),
                           ('{"messages": [{"role": "king", "content": ""}]}', "'king'"),
                           ('{"messages": [{"role": "user", "content": "?"}]}', "no response")):  # fmt: skip
            other.write_text(text)
            result = weft(*self.base, stdin=f"/load {other}\n".encode())
            self.assertEqual(result.returncode, 1)
            self.assertIn(part, result.stderr.decode())

    def test_failures_have_an_exit_code(self):
        too_long = ["-p", "word " * 600]
        self.assertIn("512", self.fail_with(1, *self.base, *too_long, "-st"))
        self.template.write_text("{{ raise_exception('not like this') }}")
        self.assertIn("not like this", self.fail_with(1, *self.base, "-p", "Hello", "-st"))
        self.assertEqual(weft(*self.base, stdin=b"Hello\n").returncode, 1)
        self.assertEqual(weft(*self.base, stdin=b"/save /nonexistent/file\n").returncode, 1)

    def test_variables_of_templates(self):
        # What a template sees comes out as its error.
        self.template.write_text("{{ raise_exception('at ' ~ strftime_now('%Y-%m-%d') ~ ', '"
                                 " ~ (enable_thinking | default('?')) ~ ', ' ~ (reasoning_effort | default('?'))) }}")

        def seen(*words) -> str:
            return self.fail_with(1, *self.base, "-p", "Hello", "-st", *words)

        today = {time.strftime("%Y-%m-%d"), time.strftime("%Y-%m-%d", time.localtime(time.time() - 60))}
        self.assertTrue(any(f"at {day}, ?, ?" in seen() for day in today), today)
        self.assertIn(", False, high", seen("--reasoning", "off", "--reasoning-effort", "high"))
        self.assertIn(", True, ?", seen("-rea", "on"))
        self.assertIn("at 2001-02-03, False, low", seen("--chat-template-kwargs", json.dumps(
            {"now": "2001-02-03", "enable_thinking": False, "reasoning_effort": "low"})))  # fmt: skip
        for text in ("{", "[]", '{"messages": []}', "[" * 1000):
            self.assertIn("--chat-template-kwargs", self.fail_with(2, *self.base, "--chat-template-kwargs", text))
        self.assertIn("auto|off|on|template", self.fail_with(2, *self.base, "--reasoning", "maybe"))

    def test_terminal(self):
        """Line editing, Ctrl-C and Ctrl-D on a pseudo-terminal."""
        with Terminal(self, *self.base, TERM="xterm", XDG_STATE_HOME=self.folder.name) as chat:
            chat.expect(b"\x1b[1;32m")
            chat.expect(b"\x1b[0m")  # The prompt's colour ends with the prompt.
            chat.send(b"Hellx\x7fo w\xc3\xa9lt\n")  # a backspace, and a letter of two bytes
            chat.expect(b"\r\n")
            chat.prompt()
            chat.send(b"rubbish\x03")
            chat.expect(b"Ctrl-C again")
            chat.prompt()
            chat.send(f"/save {self.folder.name}/saved\n".encode())
            chat.expect(b"(saved 2 messages")
            chat.prompt()
            chat.send(b"\x04")
            self.assertEqual(chat.exit_code(), 0)
        messages = json.loads((Path(self.folder.name) / "saved").read_text())["messages"]
        self.assertEqual(messages[0]["content"], "Hello wélt")
        history = Path(self.folder.name) / "weft" / "history"
        self.assertEqual(history.stat().st_mode & 0o077, 0)
        self.assertIn("Hello", history.read_text())

    def test_terminal_pastes_searches_and_sizes(self):
        with Terminal(self, *self.base, TERM="xterm", XDG_STATE_HOME=self.folder.name) as chat:
            chat.prompt()
            chat.send(b"\x1b[200~first line\r  second\r\n\x1b[201~")
            chat.expect(b"second")
            chat.send(b"\n")
            chat.expect(b"\r\n")
            chat.prompt()
            chat.send(b"\x12first")  # A search, and Ctrl-C in it: the line is given up, the chat goes on.
            chat.expect(b"(search 'first')")
            chat.send(b"\x03")
            chat.expect(b"Ctrl-C again")
            chat.prompt()
            chat.send(b"abcdef")
            chat.expect(b"f")
            chat.resize(24, 40)
            chat.expect(b"abcdef")  # The line is drawn anew.
            chat.send(b"\x15" + f"/save {self.folder.name}/saved\n".encode())
            chat.expect(b"(saved 2 messages")
            chat.prompt()
            chat.send(b"\x04")
            self.assertEqual(chat.exit_code(), 0)
        messages = json.loads((Path(self.folder.name) / "saved").read_text())["messages"]
        self.assertEqual(messages[0]["content"], "first line\n  second")

    def typed(self, *keys: bytes) -> list[str]:
        """The questions of a chat in which these are typed, each after a prompt."""
        with Terminal(self, *self.base, TERM="xterm", XDG_STATE_HOME=self.folder.name) as chat:
            for key in (*keys, f"/save {self.folder.name}/saved\n".encode()):
                chat.prompt()
                chat.send(key)
            chat.expect(b"(saved ")
            chat.prompt()
            chat.send(b"\x04")
            self.assertEqual(chat.exit_code(), 0)
        messages = json.loads((Path(self.folder.name) / "saved").read_text())["messages"]
        return [message["content"] for message in messages if message["role"] == "user"]

    def test_terminal_edits_whole_characters(self):
        joined = ["\U0001f468\u200d\U0001f469\u200d\U0001f467", "\U0001f1f0\U0001f1f7", "e\u0301", "\u1112\u1161\u11ab",
                  "\U0001f44d\U0001f3fd", "\u2764\ufe0f", "\u6f22"]  # fmt: skip
        for cluster in joined:
            backspace, left, delete = b"\x7f", b"\x1b[D", b"\x1b[3~"
            keys = f"a{cluster}b{cluster}c".encode()
            questions = self.typed(keys + left + backspace + b"\r", keys + left * 2 + delete + b"\r",
                                   b"x" + cluster.encode() + backspace + b"y\r")  # fmt: skip
            self.assertEqual(questions, [f"a{cluster}bc", f"a{cluster}bc", "xy"], cluster)

    def test_terminal_keys(self):
        self.assertEqual(self.typed(b"b\x01a\x05c\r", b"\x1b[A\x7fd\r", b"one two\x17\x19!\r", b"x\x1b\ry\r", b"q\x12ne\x1b[F\r"),
                         ["abc", "abd", "one two!", "x\ny", "one two!"])  # fmt: skip

    def test_interrupt_clears_the_line_and_leaves_in_an_empty_one(self):
        with Terminal(self, *self.base, TERM="xterm", XDG_STATE_HOME=self.folder.name) as chat:
            for keys in (b"\x03", b"a question\x03", b"another\x03", b"continued \\\r\x03"):
                chat.prompt()
                chat.send(keys)
                if keys.startswith(b"continued"):
                    break
                chat.expect(b"Ctrl-C again")
            chat.expect(b"Ctrl-C again")
            chat.prompt()
            chat.send(b"\x03")
            self.assertEqual(chat.exit_code(), 130)

    def test_a_terminal_that_cannot_move_its_cursor(self):
        with Terminal(self, *self.base, TERM="dumb", XDG_STATE_HOME=self.folder.name) as chat:
            chat.expect(b"> ")
            chat.send(b"Hello\n")
            chat.expect(b"> ")
            self.assertNotIn(b"\x1b", chat.seen)
            chat.send(b"/exit\n")
            self.assertEqual(chat.exit_code(), 0)

    def test_windows_line_ends_and_marks(self):
        messages = self.conversation("\ufeffHello\r\nAgain\r")
        self.assertEqual([m["content"] for m in messages if m["role"] == "user"], ["Hello", "Again"])


class Weights(Case):
    def test_are_packed_once_and_mapped_afterwards(self):
        with tempfile.TemporaryDirectory() as cache:
            def how(*words) -> str:
                words = ("run", "-m", LLAMA, "-p", "x", "-n", "2", "-s", "1", "-v", *words)
                result = weft(*words, env={"WEFT_CACHE": cache})
                self.assertEqual(result.returncode, 0, result.stderr.decode())
                text = result.stderr.decode()
                return "mapped" if " mapped in " in text else "loaded" if " loaded in " in text else text

            packed = Path(cache) / "packed"
            self.assertEqual(how("--no-pack-cache"), "loaded")
            self.assertFalse(packed.exists())
            self.assertEqual(how("--no-repack"), "mapped")
            self.assertFalse(packed.exists())
            self.assertEqual(how("--pack-cache-size", "0"), "loaded")
            self.assertFalse(packed.exists())
            self.assertEqual(how(), "loaded")
            (file,) = packed.iterdir()
            self.assertEqual(how(), "mapped")
            file.write_bytes(file.read_bytes()[:-1])
            self.assertEqual(how(), "loaded")
            self.assertEqual(how(), "mapped")

    def test_are_listed_and_cleared(self):
        with tempfile.TemporaryDirectory() as cache:
            env = {"WEFT_CACHE": cache}
            self.assertIn("No packed weights", self.succeed("models", "--packed", env=env))
            self.assertEqual(json.loads(self.succeed("models", "--packed", "--json", env=env)), [])
            for family in ("llama", "gpt2"):
                named = Path(cache) / f"my-{family}.gguf"
                named.symlink_to(GOLDEN / family / "model.gguf")
                self.succeed("run", "-m", named, "-p", "x", "-n", "1", env=env)
            packed = json.loads(self.succeed("models", "--packed", "--json", env=env))
            self.assertEqual([entry["model"] for entry in packed], ["my-gpt2", "my-llama"])
            for entry in packed:
                self.assertEqual(entry["bytes"], Path(entry["path"]).stat().st_size)
            self.assertIn("my-llama", self.succeed("models", "--packed", env=env))
            for zone in ("UTC", "XYZ-9"):  # Times are in UTC wherever one is.
                for entry in json.loads(self.succeed("models", "--packed", "--json", env=env | {"TZ": zone})):
                    used = datetime.fromtimestamp(Path(entry["path"]).stat().st_mtime, timezone.utc)
                    self.assertEqual(entry["last_used"], used.strftime("%Y-%m-%dT%H:%M:%SZ"))
            self.fail_with(2, "models", "--packed", "--clear-packed", env=env)
            self.assertEqual(json.loads(self.succeed("models", "--json", env=env)), [])  # these are no models
            cleared = json.loads(self.succeed("models", "--clear-packed", "--json", env=env))
            self.assertEqual(cleared, {"files": 2, "bytes": sum(entry["bytes"] for entry in packed)})
            self.assertEqual(list((Path(cache) / "packed").iterdir()), [])
            self.assertIn("0 models", self.succeed("models", "--clear-packed", env=env))

    def test_without_a_home_nothing_is_kept(self):
        environment = {k: v for k, v in clean_environment().items() if k not in ("HOME", "WEFT_CACHE")}
        for home in ({}, {"HOME": ""}):
            with tempfile.TemporaryDirectory() as here:
                def program(*words, here=here, home=home) -> str:
                    result = subprocess.run([WEFT, *map(str, words)], capture_output=True, text=True, cwd=here,
                                            stdin=subprocess.DEVNULL, env=environment | home, timeout=120,
                                            check=False)  # fmt: skip
                    return result.stdout + result.stderr

                self.assertIn(" loaded in ", program("run", "-m", LLAMA, "-p", "x", "-n", "1", "-v"))
                self.assertEqual(os.listdir(here), [])
                self.assertIn("WEFT_CACHE", program("models"))
                self.assertIn("WEFT_CACHE", program("run", "-p", "x"))


class Adapters(Case):
    DATA = GOLDEN.parent / "adapters"

    def text(self, *words) -> str:
        return self.succeed("run", "-m", LLAMA, "-p", "one two", "-n", "12", "--ignore-eos", "--temp", "0", "-t", "1",
                            "-c", "64", *words)

    def test_they_are_added(self):
        one, two, control = (self.DATA / name for name in ("one.gguf", "two.gguf", "control.gguf"))
        plain = self.text()
        texts = [plain, self.text("--lora", one), self.text("--lora", two), self.text("--lora", one, "--lora", two),
                 self.text("--lora-scaled", one, "-0.5"), self.text("--control-vector-scaled", control, "4"),
                 self.text("--control-vector-scaled", f"{control}:4", "--control-vector-layer-range", "2", "2")]  # fmt: skip
        self.assertEqual(len(set(texts)), len(texts))
        self.assertEqual(self.text("--lora", f"name={one}"), texts[1])
        self.assertEqual(self.text("--lora", f"{one},{two}"), texts[3])
        self.assertEqual(self.text("--lora", f"a={one},b={two},"), texts[3])
        self.assertEqual(self.text("--lora-scaled", f"{one}:1,{two}:1"), texts[3])
        self.assertEqual(self.text("--control-vector-scaled", f"{control}:1,{control}:3"), texts[5])
        self.assertEqual(self.text(f"--lora-scaled={one}:1", "--lora-scaled", two, "1"), texts[3])
        self.assertEqual(self.text("--lora-scaled", one, "0"), plain)
        self.assertEqual(self.text("--lora", one, "--lora-init-without-apply"), plain)
        self.assertEqual(self.text("--control-vector-scaled", control, "4", "--control-vector-layer-range", "1:2"), texts[5])

    def test_a_file_with_commas_in_its_name_is_one(self):
        one, two = self.DATA / "one.gguf", self.DATA / "two.gguf"
        with tempfile.TemporaryDirectory() as folder:
            comma = Path(folder) / "a,b.gguf"
            comma.symlink_to(one)
            self.assertEqual(self.text("--lora", comma), self.text("--lora", one))
            both = self.text("--lora", one, "--lora", two)
            self.assertEqual(self.text("--lora", f"{comma},{two}"), both)
            self.assertEqual(self.text("--lora", f"{two},{comma}"), self.text("--lora", two, "--lora", one))
            self.assertEqual(self.text("--lora-scaled", f"{comma}:1,{two}:1"), both)

    def test_wrong_ones_are_refused(self):
        run = ["run", "-m", LLAMA, "-p", "x", "-n", "1"]
        one = self.DATA / "one.gguf"
        self.assertIn("nothing.gguf", self.fail_with(1, *run, "--lora", f"{one},nothing.gguf"))
        self.assertIn("general.type", self.fail_with(1, *run, "--lora", LLAMA))
        self.assertIn("nothing.gguf", self.fail_with(1, *run, "--lora", "nothing.gguf"))
        self.assertIn("--lora-scaled FILE 0.5", self.fail_with(2, *run, "--lora-scaled", one, "much"))
        self.assertIn("--lora-scaled FILE 0.5", self.fail_with(2, *run, "--lora-scaled", one))
        self.assertIn("the first layer and the last", self.fail_with(2, *run, "--control-vector-layer-range", "5"))
        self.assertIn("direction.N", self.fail_with(1, *run, "--control-vector", one))


class Bench(Case):
    BASE = ["bench", "-m", LLAMA, "-r", "2", "-t", "1"]

    def results(self, *words) -> list[dict]:
        report = json.loads(self.succeed(*self.BASE, *words, "--json"))
        for limits in report["limits"]:
            self.assertGreater(limits["read_bytes_per_second"], 0)
            self.assertGreater(limits["int8_multiply_adds_per_second"], 0)
        return report["results"]

    def test_formats(self):
        base = ["bench", "-m", LLAMA, "-p", "32,8", "-n", "4", "-r", "2", "-t"]
        report = json.loads(self.succeed(*base, "1,2", "--json"))
        self.assertEqual([m["architecture"] for m in report["models"]], ["llama"])
        self.assertEqual([limits["threads"] for limits in report["limits"]], [1, 2])
        for limits in report["limits"]:
            [(weights, speed)] = limits["product_multiply_adds_per_second"].items()
            self.assertEqual(weights, "f16")
            self.assertGreater(speed, 0)
        results = report["results"]
        self.assertEqual([(r["test"], r["threads"]) for r in results],
                         [(test, t) for t in (1, 2) for test in ("pp32", "pp8", "tg4")])  # fmt: skip
        for result in results:
            self.assertEqual(len(result["ms"]), 2)
            self.assertGreater(result["tokens_per_second"], 0)
        # Each run measures the machine's limits, for seconds: the other formats with one thread.
        table = self.succeed(*base, "1").splitlines()
        self.assertEqual(len([row for row in table if row.startswith("| llama")]), 3)
        self.assertIn("of roofline", table[0])
        rows = list(csv.DictReader(self.succeed(*base, "1", "-o", "csv").splitlines()))
        self.assertEqual([r["test"] for r in rows], [r["test"] for r in results[:3]])
        lines = self.succeed(*base, "1", "-o", "jsonl").splitlines()
        self.assertEqual([json.loads(row)["test"] for row in lines], [r["test"] for r in results[:3]])
        self.fail_with(2, "bench", "-m", LLAMA, "-p", "0", "-n", "0")
        self.fail_with(2, "bench", "-m", LLAMA, "-o", "xml")
        self.fail_with(2, "bench", "-m", LLAMA, "-pg", "5")
        self.fail_with(2, "bench", "-m", LLAMA, "-ctk", "f16,q9")

    def test_ops(self):
        report = json.loads(self.succeed("bench", "--ops", "-r", "1", "-t", "1", "--json"))
        self.assertGreater(report["limits"][0]["f32_multiply_adds_per_second"], 0)
        rows = report["results"]
        self.assertGreater(len(rows), 20)
        self.assertEqual(len({(r["op"], r["type"], r["shape"]) for r in rows}), len(rows))
        self.assertEqual({r["type"] for r in rows if r["op"] == "linear"}, {"f32", "f16", "q8_0", "q4_K"})
        for row in rows:
            self.assertGreater(row["min_ms"], 0)
            self.assertGreater(row["gbytes_per_second"], 0)
            self.assertGreater(row["roofline_fraction"], 0)
            self.assertIn(row["bound"], ("memory", "compute"))
        few = ["bench", "--ops", "--filter", "q4_K 1 x|softmax", "-r", "2", "-t"]
        lines = self.succeed(*few, "1").splitlines()
        self.assertIn("of roofline", lines[0])
        self.assertEqual(len([line for line in lines if re.match(r"\| (linear|softmax) ", line)]), 2)
        rows = list(csv.DictReader(self.succeed(*few, "1,2", "-o", "csv").splitlines()))
        self.assertEqual([(r["op"], r["threads"]) for r in rows], [(op, t) for t in "12" for op in ("linear", "softmax")])
        self.fail_with(2, "bench", "--ops", "--filter", "nothing like it")
        self.fail_with(2, "bench", "--ops", "--filter", "(")
        self.fail_with(2, "bench", "-m", LLAMA, "--filter", "linear")

    def test_combinations(self):
        rows = self.results("-p", "16", "-n", "2", "-pg", "8,3", "-pg", "4,1", "-d", "0,70")
        tests = ["pp16", "tg2", "pp8+tg3", "pp4+tg1"]
        self.assertEqual([r["test"] for r in rows], tests + [f"{t} @ d70" for t in tests])
        rows = self.results("-p", "16", "-n", "0", "-b", "8,16", "-ub", "4,64", "-ctk", "f16,f32", "-ctv", "bf16")
        self.assertEqual([(r["n_ubatch"], r["type_k"]) for r in rows],
                         [(n, k) for n in (4, 8, 4, 16) for k in ("f16", "f32")])  # fmt: skip
        self.assertEqual({r["type_v"] for r in rows}, {"bf16"})
        other = GOLDEN / "gpt2" / "model.gguf"
        two = json.loads(self.succeed("bench", "-m", LLAMA, "-m", other, "-p", "4", "-n", "0", "-r", "1", "--json"))
        self.assertEqual([m["architecture"] for m in two["models"]], ["llama", "gpt2"])
        self.assertEqual(len(two["results"]), 2)

    def test_says_what_it_measures_before_the_first_result(self):
        with Terminal(self, "bench", "-m", LLAMA, "-p", "8", "-n", "2", "-r", "1", "-t", "1", TERM="xterm") as terminal:
            for text in (b"measuring this machine", b"measuring pp8", b"measuring tg2", b"tokens/s"):
                terminal.expect(text)
            self.assertEqual(terminal.exit_code(), 0)

    def test_depth_of_recurrent_models(self):
        rows = json.loads(self.succeed("bench", "-m", GOLDEN / "lfm2" / "model.gguf", "-p", "4", "-n", "2", "-d", "9",
                                       "-r", "2", "-t", "1", "--json"))["results"]  # fmt: skip
        self.assertEqual([r["test"] for r in rows], ["pp4 @ d9", "tg2 @ d9"])

    def test_roofline_counts_the_work(self):
        """What is read and multiplied, from the roofline and the limits it was computed with."""
        with_limits = json.loads(self.succeed(*self.BASE, "-p", "64", "-n", "1", "-d", "0,640", "--json"))
        limits = with_limits["limits"][0]
        prefill, decode, deep_prefill, deep_decode = with_limits["results"]
        for row in with_limits["results"]:
            share = row["tokens_per_second"] / row["roofline_tokens_per_second"]
            self.assertAlmostEqual(row["roofline_fraction"], share, places=6)
        # One token reads each weight at most once; 64 tokens multiply each weight at least once a token.
        n = with_limits["models"][0]["parameters"]
        # What a busy machine measures decides which of both is the limit.
        seconds = 1 / decode["roofline_tokens_per_second"]
        if decode["bound"] == "memory":
            self.assertLess(seconds * limits["read_bytes_per_second"], 1.3 * 2 * n)
        self.assertGreater(seconds * limits["read_bytes_per_second"], 0.3 * 2 * n)
        if prefill["bound"] == "compute":
            products = 64 / prefill["roofline_tokens_per_second"] * limits["f32_multiply_adds_per_second"]
            self.assertGreater(products, 0.3 * 64 * n)
            self.assertLess(products, 1.5 * 64 * n)
        # Text that is in the cache is work.
        for deep, plain in ((deep_prefill, prefill), (deep_decode, decode)):
            self.assertLess(deep["roofline_tokens_per_second"], plain["roofline_tokens_per_second"])

    def test_plot_is_a_script(self):
        self.assertIn("bench/plot.py results.json", self.fail_with(2, *self.BASE, "--plot", "speeds.svg"))
        script = Path(__file__).resolve().parent.parent.parent / "bench" / "plot.py"
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "speeds.svg"
            results = self.succeed(*self.BASE, "-p", "8,16", "-n", "2", "-d", "0,8", "-o", "json")
            subprocess.run([sys.executable, "-B", script, "-", "-o", file], input=results, text=True, check=True)
            self.assertIn("tokens already in the cache", file.read_text())

    def test_ops_exclude_other_outputs(self):
        for words in (["--trace", "trace.json"], ["--profile"], ["--streams", "2"]):
            self.fail_with(2, "bench", "--ops", *words)

    def test_results_are_printed_before_a_trace_that_fails(self):
        self.fail_with(1, *self.BASE, "-p", "4", "-n", "0", "--trace", "/nonexistent/trace.json")
        result = weft(*self.BASE, "-p", "4", "-n", "0", "--trace", "/dev/full")
        self.assertEqual(result.returncode, 1)
        self.assertIn(b"pp4", result.stdout)

    def test_profile_and_trace(self):
        with tempfile.TemporaryDirectory() as folder:
            trace = Path(folder) / "trace.json"
            rows = self.results("-t", "2", "-p", "16", "-n", "3", "--profile", "--trace", trace)
            events = json.loads(trace.read_text())["traceEvents"]
            text = self.succeed(*self.BASE, "-p", "16", "-n", "0", "--profile")
        for row in rows:
            profile = {entry["work"]: entry for entry in row["profile"]}
            self.assertAlmostEqual(sum(entry["share"] for entry in profile.values()), 1.0, places=2)
            steps = row["n_prompt"] // 16 + row["n_generate"]
            layers = profile["attention"]["calls"] // steps
            self.assertGreater(layers, 0)
            self.assertEqual(profile["matmul attn_q"]["calls"], layers * steps)
            self.assertGreater(profile["matmul attn_q"]["gop_per_second"], 0)
            self.assertIn("matmul attn_q", text)
        # Profiles of the same test with other settings have other titles.
        text = self.succeed(*self.BASE, "-p", "16", "-n", "0", "--profile", "-ctk", "f16,q8_0", "-b", "8,16")
        titles = re.findall(r"^(.*): \d+ step", text, re.MULTILINE)
        self.assertEqual(len(titles), 4)
        self.assertEqual(len(set(titles)), 4, titles)
        self.assertIn("ubatch 16, keys q8_0, pp16", titles)
        spans = [e for e in events if e["ph"] == "X"]
        self.assertEqual({e["pid"] for e in spans}, {0, 1})
        self.assertEqual({e["args"]["step"] for e in spans if e["pid"] == 1}, {0, 1, 2})
        self.assertLessEqual({e["tid"] for e in spans}, {0, 1})
        for pid in (0, 1):
            for tid in (0, 1):  # A thread does one thing at a time.
                lane = sorted((e["ts"], e["ts"] + e["dur"]) for e in spans if (e["pid"], e["tid"]) == (pid, tid))
                for (_, end), (begin, _) in itertools.pairwise(lane):
                    self.assertLessEqual(end, begin + 1e-3)
        self.fail_with(1, *self.BASE, "-p", "4", "-n", "0", "--trace", "/nonexistent/trace.json")
        self.fail_with(2, *self.BASE, "--profile", "-o", "csv")

    def test_streams(self):
        rows = self.results("--parallel", "3", "-p", "20", "-n", "4")
        self.assertEqual([(r["streams"], r["shared"]) for r in rows],
                         [(1, False), (2, False), (2, True), (3, False), (3, True)])  # fmt: skip
        rows = self.results("--streams", "2,3", "-p", "20", "-n", "4")
        self.assertEqual([(r["streams"], r["shared"]) for r in rows], [(2, False), (3, False)])
        rows = self.results("-npl", "3", "-pps", "-p", "70", "-n", "4")
        self.assertEqual([(r["streams"], r["shared"]) for r in rows], [(3, True)])
        self.assertLess(rows[0]["cells_peak"], 3 * 70)
        self.assertGreater(rows[0]["decode_roofline_fraction"], 0)
        self.fail_with(2, *self.BASE, "--streams", "2", "-d", "64")
        self.fail_with(2, *self.BASE, "--streams", "0")
        self.fail_with(2, *self.BASE, "--shared-prompt")


if __name__ == "__main__":
    unittest.main(verbosity=1)
