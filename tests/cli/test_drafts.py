#!/usr/bin/env python3
"""Speculative decoding of weft run, chat and serve: the same output with and without drafts.

Needs WEFT_PROGRAM and WEFT_TEST_DATA in the environment.
"""
import http.client
import json
import os
import re
import signal
import subprocess
import tempfile
import unittest
from pathlib import Path

WEFT = os.environ["WEFT_PROGRAM"]
GOLDEN = Path(os.environ["WEFT_TEST_DATA"]) / "golden"
LLAMA = GOLDEN / "llama" / "model.gguf"
GEMMA = GOLDEN / "gemma3" / "model.gguf"
MAMBA = GOLDEN / "mamba2" / "model.gguf"
RECURRENT = [GOLDEN / family / "model.gguf" for family in ("mamba2", "qwen35", "lfm2")]

# The tokens of a golden model repeat themselves.
REPEATED = "one two three four one two three four one two three four one two"


def environment() -> dict[str, str]:
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("WEFT_", "LLAMA_", "XDG_"))}
    return kept | {"WEFT_CACHE": "/nosuch", "WEFT_CONFIG": "", "NO_COLOR": "1"}


def weft(*words, stdin: bytes = b"") -> subprocess.CompletedProcess:
    return subprocess.run([WEFT, *map(str, words)], input=stdin, capture_output=True, env=environment(), timeout=300, check=False)


def run(*words, model: Path = LLAMA) -> dict:
    result = weft("run", "-m", model, "-c", "256", "-t", "2", "-n", "60", "--ignore-eos", "--json", "-p", REPEATED, *words)
    assert result.returncode == 0, result.stderr.decode()
    return json.loads(result.stdout)


class Run(unittest.TestCase):
    SAMPLING = (["--temp", "0"], ["--temp", "0.7", "-s", "3"], ["--temp", "0.7", "-s", "3", "--repeat-penalty", "1.2", "--presence-penalty", "0.3"],
                ["--temp", "0.6", "-s", "5", "--mirostat", "2"], ["--temp", "0", "--grammar", 'root ::= ([a-z]+ " ")+'],
                ["--temp", "0.9", "-s", "7", "-j", '{"type": "object", "properties": {"a long key": {"type": "integer"}}, "required": ["a long key"]}'])  # fmt: skip

    def test_drafts_change_no_token(self):
        # Seeds, penalties, grammars and schemas (vllm-project/vllm#6038, #22987, #40875).
        for sampling in self.SAMPLING:
            plain = run("--spec-type", "none", *sampling)
            with self.subTest(sampling=sampling):
                for drafts in (["--spec-type", "ngram"], ["--spec-type", "ngram-mod", "--draft", "3"], ["-md", LLAMA], ["-md", LLAMA, "-cd", "64", "--draft-max", "4"]):
                    drafted = run(*drafts, *sampling)
                    self.assertEqual(drafted["tokens"], plain["tokens"], drafts)
                    self.assertEqual((drafted["text"], drafted["stop_reason"]), (plain["text"], plain["stop_reason"]), drafts)

    def test_drafts_of_adapted_models(self):
        # vllm-project/vllm#20284
        adapters = ["--lora", GOLDEN.parent / "adapters" / "one.gguf", "--temp", "0.5", "-s", "2"]
        plain = run("--spec-type", "none", *adapters)
        for drafts in (["--spec-type", "ngram"], ["-md", LLAMA]):
            self.assertEqual(run(*drafts, *adapters)["tokens"], plain["tokens"], drafts)

    def test_drafts_are_counted(self):
        # The model agrees with itself.
        timings = run("-md", LLAMA, "--temp", "0")["timings"]
        self.assertGreater(timings["draft_n_accepted"], 0)
        self.assertGreaterEqual(timings["draft_n"], timings["draft_n_accepted"])
        for words in (["--spec-type", "none"], ["--draft-max", "0"], ["-md", LLAMA, "--spec-type", "none"]):
            self.assertEqual(run(*words)["timings"]["draft_n"], 0, words)

    def test_llama_cpps_spellings(self):
        for words in (["-md", LLAMA, "--draft-min", "2", "--draft-p-min", "0.8"], ["--model-draft", LLAMA, "-ngld", "0", "-devd", "cpu"],
                      ["--spec-draft-model", LLAMA, "--spec-draft-n-max", "3", "--spec-draft-n-min", "1", "-td", "2"],
                      ["--spec-type", "draft-simple,ngram-mod", "-md", LLAMA, "-ctkd", "q8_0"],
                      ["--spec-type", "ngram-map-k", "--spec-ngram-size-n", "8"]):  # fmt: skip
            with self.subTest(words=words):
                self.assertEqual(len(run(*words)["tokens"]), 60)

    def test_contradictions_are_refused(self):
        for words, why in ((["--spec-type", "draft"], "--model-draft"), (["--spec-type", "draft-mtp"], "no draft heads"),
                           (["--spec-type", "nonsense"], "none, ngram, draft"), (["--draft-max", "65"], "65"),
                           (["-md", "a.gguf", "-hfd", "b/c"], "give one of them"), (["-hfd", "nonsense"], "USER/REPO"),
                           (["-md", LLAMA, "-ngld", "x"], "--gpu-layers-draft: 'x' is not a number of layers"),
                           (["--speculative-config", "{}"], "--spec-type ngram")):  # fmt: skip
            result = weft("run", "-m", LLAMA, "-p", "x", *words)
            self.assertEqual(result.returncode, 2, words)
            self.assertIn(why, result.stderr.decode(), words)
        result = weft("run", "-m", LLAMA, "-p", "x", "-md", GEMMA)
        self.assertEqual(result.returncode, 1)
        self.assertIn("use a draft model of the same family", result.stderr.decode())
        self.assertIn("leave the option out", weft("bench", "-md", LLAMA).stderr.decode())

    def test_the_draft_model_has_its_own_devices(self):
        devices = json.loads(weft("devices", "--json").stdout)
        gpus = [device["name"] for device in devices if device["name"] != "cpu"]
        if not gpus:
            self.skipTest("no device but the CPU")
        plain = run("--spec-type", "none", "--temp", "0")
        drafted = run("-ngl", "0", "-md", LLAMA, "-devd", gpus[0], "--temp", "0")
        self.assertEqual(drafted["tokens"], plain["tokens"])
        self.assertGreater(drafted["timings"]["draft_n"], 0)

    def test_a_draft_model_without_use_is_noted(self):
        for words, why in ((["--spec-type", "ngram"], "--spec-type is ngram"), (["--spec-type", "none"], "--spec-type is none"),
                           (["--draft-max", "0"], "--draft-max is 0")):  # fmt: skip
            result = weft("run", "-m", LLAMA, "-p", "x", "-n", "2", "-md", LLAMA, *words)
            self.assertEqual(result.returncode, 0, words)
            self.assertIn(f"--model-draft has no effect: {why}", result.stderr.decode(), words)
        self.assertNotIn("no effect", weft("run", "-m", LLAMA, "-p", "x", "-n", "2", "-md", LLAMA).stderr.decode())

    def test_recurrent_models_go_back_after_wrong_drafts(self):
        for model in RECURRENT:
            for sampling in (["--temp", "0"], ["--temp", "0.7", "-s", "3"], ["--temp", "0", "--grammar", 'root ::= ("one two three four " [a-z])+']):
                plain = run("--spec-type", "none", *sampling, model=model)
                self.assertEqual(plain["timings"]["draft_n"], 0)
                with self.subTest(model=model.parent.name, sampling=sampling):
                    for drafts in (["--spec-type", "ngram"], ["--spec-type", "ngram-mod", "--draft", "3"], ["-md", model], ["-md", model, "--draft-max", "1"]):
                        drafted = run(*drafts, *sampling, model=model)
                        self.assertEqual(drafted["tokens"], plain["tokens"], drafts)
                        if sampling[1] == "0" and ("-md" in drafts or "--grammar" in sampling):
                            self.assertGreater(drafted["timings"]["draft_n_accepted"], 0, drafts)


class Chat(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        template = self.folder / "template.jinja"
        template.write_text("{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}assistant:")
        self.base = ["chat", "--chat-template-file", template, "-c", "512", "-t", "2", "-n", "24", "-v"]

    def turns(self, model: Path, *words) -> tuple[list[dict], list[int]]:
        """The conversation, and the reused tokens of each turn."""
        saved = self.folder / "saved.json"
        script = f"{REPEATED}\nAnd then?\n/regen\nMore\n/save {saved}\n"
        result = weft(*self.base, "-m", model, *words, stdin=script.encode())
        self.assertEqual(result.returncode, 0, result.stderr.decode())
        reused = re.findall(r"^\(prompt: \d+ tokens? and (\d+) reused", result.stderr.decode(), re.MULTILINE)
        return json.loads(saved.read_text())["messages"], list(map(int, reused))

    def test_drafts_change_no_response(self):
        for model in (LLAMA, MAMBA):
            for sampling in (["--temp", "0"], ["--temp", "0.8", "-s", "4"]):
                plain, _ = self.turns(model, "--spec-type", "none", *sampling)
                for drafts in ([], ["--spec-type", "ngram"], ["-md", model]):
                    self.assertEqual(self.turns(model, *drafts, *sampling)[0], plain, (model, sampling, drafts))

    def test_recurrent_and_windowed_models_reuse_earlier_turns(self):
        for model in (LLAMA, GEMMA, MAMBA):
            with self.subTest(model=model.parent.name):
                _, reused = self.turns(model, "--temp", "0")
                self.assertEqual(len(reused), 4)
                self.assertEqual(reused[0], 0)
                # The same question once more: a recurrent state cannot go back to it.
                if model != MAMBA:
                    self.assertGreater(reused[2], 20)

    def test_a_later_chat_reuses_prefixes_of_files(self):
        words = ["--temp", "0", "--cache-disk", self.folder / "prefixes"]
        first, reused = self.turns(LLAMA, *words)
        self.assertEqual(reused[0], 0)
        again, reused = self.turns(LLAMA, *words)
        self.assertGreater(reused[0], 32)
        self.assertEqual(again, first)


class Interrupted(unittest.TestCase):
    def test_an_interrupt_ends_the_completion(self):
        words = ["run", "-m", LLAMA, "-c", "8k", "-p", "Hello", "-n", "-1", "--ignore-eos", "--temp", "0", "-t", "1"]
        process = subprocess.Popen([WEFT, *map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment())
        self.assertTrue(process.stdout.read(1))
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
        self.assertEqual(process.returncode, 130)


class Serve(unittest.TestCase):
    def start(self, *words, model: Path = LLAMA):
        process = subprocess.Popen([WEFT, "serve", "-m", str(model), "--port", "0", "-t", "1", *map(str, words)], stderr=subprocess.PIPE, text=True, env=environment())
        log = ""
        for line in process.stderr:
            log += line
            if found := re.search(r"ready.*http://([\w.:]+)", line):
                self.address = found.group(1)
                break
        else:
            self.fail(log)
        self.log = log
        self.addCleanup(lambda: process.poll() is None and (process.terminate(), process.communicate(timeout=60)))
        return process

    def log_of(self, *words, model: Path) -> str:
        """The whole log of a server that computes one request."""
        process = self.start(*words, model=model)
        self.ask("/v1/completions", {**self.BODY, "max_tokens": 2})
        process.terminate()
        return self.log + process.communicate(timeout=60)[1]

    def ask(self, path: str, body: dict | None = None):
        connection = http.client.HTTPConnection(self.address, timeout=60)
        connection.request("GET" if body is None else "POST", path, None if body is None else json.dumps(body))
        response = connection.getresponse()
        text = response.read().decode()
        connection.close()
        self.assertEqual(response.status, 200, text)
        return json.loads(text) if text.startswith("{") else text

    BODY = {"prompt": REPEATED, "max_tokens": 60, "temperature": 0.4, "seed": 3, "ignore_eos": True, "repeat_penalty": 1.1, "logprobs": 2}

    def test_requests_get_the_same_with_and_without(self):
        for model in (LLAMA, MAMBA):
            with self.subTest(model=model.parent.name):
                self.compare(model)

    def compare(self, model: Path):
        self.start("-md", model, "--draft-max", "4", model=model)
        self.assertTrue(self.ask("/props")["default_generation_settings"]["speculative"])
        drafted = self.ask("/v1/completions", self.BODY)
        self.assertGreater(drafted["timings"]["draft_n"], 0)
        self.assertGreater(drafted["timings"]["draft_n_accepted"], 0)
        metrics = self.ask("/metrics")
        found = re.search(r"spec_decode_num_draft_tokens_total\S* ([\d.e+]+)", metrics)
        self.assertEqual(float(found.group(1)), drafted["timings"]["draft_n"])
        plain = self.ask("/v1/completions", {**self.BODY, "speculate": False, "cache_prompt": False})
        self.assertEqual(plain["timings"]["draft_n"], 0)
        self.assertEqual(plain["choices"], drafted["choices"])

    def test_requests_turn_drafts_off(self):
        self.start()
        # Forced tokens are drafted whatever was measured.
        body = {"prompt": "one", "max_tokens": 60, "temperature": 0, "grammar": 'root ::= "one two three four five six seven eight"'}
        for off in ({"speculate": False}, {"speculative.n_max": 0}, {"speculative.types": "none"}):
            drafted = self.ask("/v1/completions", body)
            self.assertGreater(drafted["timings"]["draft_n"], 0)
            plain = self.ask("/v1/completions", {**body, **off})
            self.assertEqual(plain["timings"]["draft_n"], 0, off)
            self.assertEqual(plain["choices"], drafted["choices"])

    def test_the_log_says_why_there_are_no_drafts(self):
        self.assertIn("--model-draft has no effect", self.log_of("-md", LLAMA, "--spec-type", "ngram", model=LLAMA))

    def test_a_server_without_drafts(self):
        self.start("--spec-type", "none")
        self.assertFalse(self.ask("/props")["default_generation_settings"]["speculative"])
        self.assertEqual(self.ask("/v1/completions", self.BODY)["timings"]["draft_n"], 0)

    def test_a_stopped_response_leaves_its_prompt_in_the_cache(self):
        self.start()
        body = json.dumps({**self.BODY, "stream": True, "max_tokens": 100000})
        connection = http.client.HTTPConnection(self.address, timeout=60)
        connection.request("POST", "/v1/completions", body)
        response = connection.getresponse()
        self.assertTrue(response.read(20))
        response.close()
        connection.close()
        again = self.ask("/v1/completions", self.BODY)
        self.assertEqual(again["timings"]["prompt_n"], 1)
        self.assertGreater(again["timings"]["cache_n"], 10)


if __name__ == "__main__":
    unittest.main()
