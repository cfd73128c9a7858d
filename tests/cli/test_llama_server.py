#!/usr/bin/env python3
"""`weft serve` as a replacement for llama.cpp's server: its flags, endpoints, fields and responses.

Needs WEFT_PROGRAM and WEFT_TEST_DATA in the environment.
"""
import http.client
import json
import os
import re
import subprocess
import tempfile
import unittest
from pathlib import Path

WEFT = os.environ["WEFT_PROGRAM"]
DATA = Path(os.environ["WEFT_TEST_DATA"])
LLAMA = DATA / "golden" / "llama" / "model.gguf"
BERT = DATA / "golden_encoders" / "bert" / "model.gguf"
RERANKER = DATA / "golden_encoders" / "bert-rank" / "model.gguf"
HELLO = {"messages": [{"role": "user", "content": "Hello"}]}
# Off where the variable is missing, as in the templates of DeepSeek V3.1 and Gemma 4.
SWITCH = "{{ messages[0].content }}{{ '<think>' if enable_thinking else '</think>' }}{{ extra }}"
THINKS = "{{ messages[0].content }}{% if add_generation_prompt %}<think>\n{% endif %}"


def environment(**more: str) -> dict[str, str]:
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("WEFT_", "LLAMA_", "XDG_"))}
    return kept | {"WEFT_CACHE": "/nosuch", "WEFT_CONFIG": "", "NO_COLOR": "1"} | more


class Server:
    def __init__(self, *words: object, **variables: str):
        self.process = subprocess.Popen([WEFT, "serve", "--port", "0", "-t", "1", *map(str, words)], stderr=subprocess.PIPE,
                                        text=True, env=environment(**variables))
        self.log = ""
        self.address = None
        for line in self.process.stderr:
            self.log += line
            if found := re.search(r"ready.*http://([\w.:]+)", line):
                self.address = found.group(1)
                break

    def __enter__(self):
        assert self.address is not None, self.log
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.communicate(timeout=60)

    def ask(self, path: str, body: object = None) -> tuple[int, str]:
        connection = http.client.HTTPConnection(self.address, timeout=60)
        connection.request("GET" if body is None else "POST", path, None if body is None else json.dumps(body))
        try:
            answer = connection.getresponse()
            return answer.status, answer.read().decode(errors="replace")
        finally:
            connection.close()

    def json(self, path: str, body: object = None):
        status, text = self.ask(path, body)
        assert status == 200, (path, status, text)
        return json.loads(text)


def refusal(*words: object, **variables: str) -> str:
    run = subprocess.run([WEFT, "serve", "-m", str(LLAMA), "--port", "0", *map(str, words)], capture_output=True, text=True,
                         timeout=60, env=environment(**variables), check=False)
    assert run.returncode in (1, 2), run
    return run.stderr


class Flags(unittest.TestCase):
    """Flags of llama-server's help. What they mean is in cli/options/llama_cpp.cpp."""

    # As scripts and compose files of public reports write them.
    TAKEN = [
        ["--embedding"], ["--embeddings"], ["--rerank"], ["--reranking"], ["--slots"], ["--ui"], ["--webui"], ["--jinja"],
        ["--no-jinja"], ["--props"], ["--metrics"], ["-cb"], ["-nocb"], ["--no-cont-batching"], ["-fa"], ["-fa", "on"],
        ["--flash-attn", "auto"], ["--mlock"], ["--no-mmap"], ["--mmap"], ["--no-warmup"],
        ["--cache-reuse", "256"], ["--no-cache-prompt"], ["--slot-prompt-similarity", "0.5"],
        ["-sps", "0.1"], ["--ctx-checkpoints", "8"], ["--swa-checkpoints", "3"], ["--kv-unified"], ["--no-kv-unified"],
        ["--context-shift"], ["--no-context-shift"], ["--keep", "8"], ["--reasoning", "off"], ["--reasoning-format", "deepseek"],
        ["--reasoning-format", "auto"], ["--reasoning-budget", "0"], ["--reasoning-budget", "-1"], ["--reasoning-budget", "512"], ["--reasoning-budget-message", "Enough."], ["--no-mmproj"],
        ["--no-mmproj-auto"], ["--mmproj-auto"], ["--no-mmproj-offload"], ["--cors-origins", "*"],
        ["--cors-origins", "localhost"], ["--cors-origins", "https://a.example,https://b.example"], ["--alias", "a,b"],
        ["--tags", "small,fast"], ["--timeout", "60"], ["-to", "60"], ["--threads-http", "4"], ["--threads-http", "-1"],
        ["--chat-template-kwargs", '{"enable_thinking": false}'], ["--chat-template", "chatml"], ["--chat-template", "llama3"],
        ["--main-gpu", "0"], ["-mg=0"], ["--rope-scaling", "none"], ["--spec-type", "none"], ["--sleep-idle-seconds", "-1"],
        ["--draft", "0"], ["--draft-max", "16"], ["--spec-default"], ["--spec-type", "ngram-simple"], ["--draft-min", "2"],
        ["--draft-p-min", "0.8"], ["-td", "4"], ["-ctkd", "q8_0"], ["--lookup-cache-dynamic", "x"], ["-kvo"], ["--op-offload"], ["-fit", "on"], ["--fit", "off"], ["-fitt", "512"], ["-nr"],
        ["--fit-ctx", "4096"], ["--no-host"], ["-dt", "0.1"], ["--load-mode", "mmap"], ["--no-log-prefix"], ["--log-jsonl"],
        ["--cpu-range", "0-1"], ["--prio-batch", "2"], ["--backend-sampling"], ["--sse-ping-interval", "30"],
        ["--models-autoload"], ["--no-agent"], ["--no-ui-mcp-proxy"], ["--webui-config", "{}"], ["--spm-infill"],
        ["--embd-normalize", "2"], ["--pooling", "last"], ["--pooling", "rank"], ["--ignore-eos"], ["--reasoning-effort", "high"],
        ["--no-prefill-assistant"], ["--reasoning-preserve"], ["--samplers", "top_k;temperature"], ["--sampler-seq", "kt"],
    ]  # fmt: skip
    REFUSED = [
        ["--models-dir", "x"], ["--models-preset", "x.ini"], ["--no-models-autoload"], ["--tools", "all"],
        ["--tools-runtime", "docker:x"], ["--mcp-servers-config", "x.json"], ["--mcp-servers-json", "{}"], ["--agent"],
        ["--spec-type", "draft"], ["--spec-type", "draft-mtp"], ["--cpu-moe-draft"], ["-otd", "x=y"],
        ["--hf-repo-draft", "a"], ["--speculative-config", "{}"], ["--rope-scaling", "yarn"], ["--rope-scale", "4"], ["--yarn-orig-ctx", "32768"],
        ["--main-gpu", "1"], ["--path", "www"], ["--media-path", "pictures"], ["--mmproj-url", "http://x"],
        ["--image-min-tokens", "64"], ["--video-fps", "2"], ["--reuse-port"], ["--reasoning-budget", "-2"],
        ["--reasoning-format", "none"], ["--skip-chat-parsing"], ["--log-prompts-dir", "x"], ["--hf-token", "x"],
        ["--docker-repo", "x"], ["--fim-qwen-7b-default"], ["--gpt-oss-20b-default"], ["--cache-list"], ["--adaptive-target", "0.5"],
        ["--pooling", "none"], ["--chat-template", "nosuch"], ["--chat-template-kwargs", "[]"], ["--threads-http", "0x"],
        ["--cors-origins", "a b"], ["--kv-unified-per-slot", "4096"], ["--rpc", "host:1"], ["--list-devices"],
    ]  # fmt: skip

    def test_a_budget_that_is_no_number_names_the_option(self):
        self.assertIn("--reasoning-budget: 'much' is not a number", refusal("--reasoning-budget", "much"))

    def test_home_folders_are_expanded(self):
        """Shells expand ~ only at the beginning of a word."""
        with tempfile.TemporaryDirectory() as home:
            with Server("-m", LLAMA, "--files=~/files", "--cache-disk=~/prefixes", HOME=home):
                self.assertEqual({"files", "prefixes"} - set(os.listdir(home)), set())

    def test_flags_that_are_taken_start_a_server(self):
        # One server for all that do not contradict each other: each flag is parsed by itself first.
        for words in self.TAKEN:
            with self.subTest(words=words):
                message = refusal(*words, "--port", "99999")
                self.assertIn("--port: 99999 is out of range", message)
        with Server("-m", LLAMA, *[word for words in self.TAKEN for word in words if words[0] not in ("--log-jsonl", "--sampler-seq")]) as server:
            self.assertEqual(server.ask("/health")[0], 200)
            self.assertIn("weft: note: --reranking has no effect: ", server.log)

    def test_flags_that_are_refused_say_what_to_do(self):
        for words in self.REFUSED:
            with self.subTest(words=words):
                message = refusal(*words)
                self.assertTrue(message.startswith("weft: error: "), message)
                self.assertIn(words[0].split("=")[0], message)
                self.assertNotIn("unknown option", message)
                self.assertGreater(len(message), 50, message)

    def test_unknown_flags_are_refused(self):
        self.assertIn("unknown option --embeding", refusal("--embeding"))

    def test_variables_of_llama_server(self):
        with Server("-m", LLAMA, LLAMA_ARG_ALIAS="one,two", LLAMA_ARG_ENDPOINT_SLOTS="disabled", LLAMA_ARG_TEMPERATURE="0.25",
                    LLAMA_ARG_CONTEXT_SHIFT="enabled", LLAMA_ARG_THINK_BUDGET="0") as server:
            self.assertEqual(server.ask("/slots")[0], 501)
            props = server.json("/props")
            self.assertEqual(props["model_alias"], "one")
            self.assertEqual(props["default_generation_settings"]["params"]["temperature"], 0.25)
            self.assertIs(props["default_generation_settings"]["params"]["reasoning"], False)


    def test_variables_of_keys(self):
        for name in ("WEFT_API_KEY", "LLAMA_API_KEY", "LLAMA_ARG_API_KEY", "VLLM_API_KEY"):
            with self.subTest(name=name), Server("-m", LLAMA, **{name: "K"}) as server:
                self.assertEqual(server.ask("/v1/models")[0], 401)

    def test_empty_variables_set_no_key(self):
        with Server("-m", LLAMA, VLLM_API_KEY="", LLAMA_ARG_API_KEY_FILE="") as server:
            self.assertEqual(server.ask("/v1/models")[0], 200)
            self.assertIn("weft: note: VLLM_API_KEY is empty, so it sets no API key", server.log)
            self.assertIn("LLAMA_ARG_API_KEY_FILE is empty", server.log)
        with Server("-m", LLAMA, WEFT_ARG_API_KEY="", VLLM_API_KEY="K") as server:
            self.assertEqual(server.ask("/v1/models")[0], 401)
        with Server("-m", LLAMA, "--host", "0.0.0.0", LLAMA_API_KEY="") as server:
            self.assertIn("without an API key", server.log)
        self.assertIn("the key is empty", refusal("--api-key", ""))

    def test_a_wrong_line_of_the_key_file_is_named(self):
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "keys.txt"
            file.write_text("# keys\n\nsk-1 alice\nsk-2 bob smith\n")
            message = refusal("--api-key-file", str(file))
        self.assertIn(f"--api-key-file: '{file}', line 4: the name after the key", message)
        self.assertNotIn("sk-2", message)


class Defaults(unittest.TestCase):
    def test_a_seed_holds_for_each_request_of_all_apis(self):
        with Server("-m", LLAMA, "--seed", "7", "--temp", "1.5") as server:
            asks = [
                ("/v1/completions", {"prompt": "I believe", "max_tokens": 8}, lambda a: a["choices"][0]["text"]),
                ("/v1/chat/completions", {**HELLO, "max_tokens": 8}, lambda a: a["choices"][0]["message"]["content"]),
                ("/v1/messages", {**HELLO, "max_tokens": 8}, lambda a: a["content"]),
                ("/v1/responses", {"input": "Hello", "max_output_tokens": 8}, lambda a: a["output"][0]["content"][0]["text"]),
            ]
            for path, body, text_of in asks:
                with self.subTest(path=path):
                    texts = [json.dumps(text_of(server.json(path, body))) for _ in range(3)]
                    self.assertEqual(len(set(texts)), 1, texts)
            own = {json.dumps(server.json(*asks[0][:1], {**asks[0][1], "seed": seed})["choices"]) for seed in range(4)}
            self.assertGreater(len(own), 1, "a request's own seed holds")

    def test_settings_are_shown(self):
        with Server("-m", LLAMA, "--seed", "7", "--top-k", "3", "--samplers", "top_k;temperature", "--dry-multiplier", "0.5",
                    "--dry-sequence-breaker", "x", "-n", "5", "--ignore-eos", "--keep", "6") as server:
            params = server.json("/props")["default_generation_settings"]["params"]
            for name, value in {"seed": 7, "top_k": 3, "samplers": ["top_k", "temperature"], "dry_multiplier": 0.5,
                                "dry_sequence_breakers": ["x"], "n_predict": 5, "max_tokens": 5, "ignore_eos": True,
                                "n_keep": 6}.items():
                self.assertEqual(params[name], value, name)
            answer = server.json("/v1/completions", {"prompt": "a", "seed": 1})
            self.assertEqual(answer["usage"]["completion_tokens"], 5)

    def test_biases_of_tokens_that_are_not_there_are_refused(self):
        self.assertIn("99999", refusal("--logit-bias", "99999+1"))

    def test_context_shift_goes_on(self):
        body = {"prompt": "one two", "max_tokens": 100, "ignore_eos": True, "seed": 1}
        with Server("-m", LLAMA, "-c", "64") as server:
            self.assertLess(server.json("/v1/completions", body)["usage"]["completion_tokens"], 64)
        with Server("-m", LLAMA, "-c", "64", "--context-shift", "--keep", "2") as server:
            self.assertEqual(server.json("/v1/completions", body)["usage"]["completion_tokens"], 100)
            self.assertEqual(len(server.json("/v1/embeddings", {"input": "a"})["data"]), 1)


class Templates(unittest.TestCase):
    def test_chatml_stands_in_for_a_template(self):
        with Server("-m", LLAMA) as server:
            self.assertIn("no chat template; chats use ChatML", server.log)
            prompt = server.json("/apply-template", HELLO)["prompt"]
            self.assertEqual(prompt, "<|im_start|>user\nHello<|im_end|>\n<|im_start|>assistant\n")
            props = server.json("/props")
            self.assertIn("<|im_start|>", props["chat_template"])
            self.assertIs(props["chat_template_is_fallback"], True)
            for path, body in (("/v1/chat/completions", HELLO), ("/v1/messages", HELLO), ("/v1/responses", {"input": "Hello"})):
                limit = {"/v1/responses": "max_output_tokens"}.get(path, "max_tokens")
                self.assertEqual(server.ask(path, {**body, limit: 2})[0], 200, path)

    def test_families_have_names(self):
        with Server("-m", LLAMA, "--chat-template", "llama3") as server:
            self.assertIn("<|start_header_id|>user<|end_header_id|>\n\nHello<|eot_id|>",
                          server.json("/apply-template", HELLO)["prompt"])
            self.assertIs(server.json("/props")["chat_template_is_fallback"], False)
        self.assertIn("chatml, command-r", refusal("--chat-template", "nosuch"))

    def prompts(self, server: Server, **more: object) -> str:
        """The prompt of /apply-template, once the chat APIs have the same number of tokens."""
        prompt = server.json("/apply-template", {**HELLO, **more})
        n = len(prompt["tokens"])
        counts = {server.json("/v1/messages/count_tokens", {**HELLO, **more})["input_tokens"],
                  server.json("/v1/chat/completions/input_tokens", {**HELLO, **more})["input_tokens"],
                  server.json("/v1/responses/input_tokens", {"input": "Hello", **more})["input_tokens"]}
        self.assertEqual(counts, {n}, prompt)
        return prompt["prompt"]

    def test_reasoning_is_on_where_the_template_has_a_switch(self):
        off = {"chat_template_kwargs": {"enable_thinking": False}}
        with Server("-m", LLAMA, "--chat-template", SWITCH) as server:
            self.assertEqual(self.prompts(server), "Hello<think>")
            self.assertEqual(self.prompts(server, **off), "Hello</think>")
        for words, expected in ((["--reasoning", "off"], "Hello</think>"), (["--reasoning", "template"], "Hello</think>"),
                                (["--reasoning-budget", "0"], "Hello</think>"), (["--reasoning", "on"], "Hello<think>"),
                                (["--chat-template-kwargs", '{"enable_thinking": false, "extra": 5}'], "Hello</think>5")):
            with self.subTest(words=words), Server("-m", LLAMA, "--chat-template", SWITCH, *words) as server:
                self.assertEqual(self.prompts(server), expected)
                on = self.prompts(server, chat_template_kwargs={"enable_thinking": True})
                self.assertIn("<think>", on)

    def test_a_request_comes_before_the_server(self):
        with Server("-m", LLAMA, "--chat-template", SWITCH, "--chat-template-kwargs", '{"enable_thinking": true}') as server:
            self.assertEqual(server.json("/apply-template", {**HELLO, "reasoning_effort": "none"})["prompt"], "Hello</think>")

    def test_all_apis_turn_reasoning_on_and_off(self):
        for server_has, type, expected in (("off", "enabled", "Hello<think>"), ("on", "disabled", "Hello</think>"), ("off", "adaptive", "Hello</think>")):
            with Server("-m", LLAMA, "--chat-template", SWITCH, "--reasoning", server_has) as server:
                self.assertEqual(self.prompts(server, thinking={"type": type}), expected)

    def chat(self, server, **fields):
        body = {**HELLO, "max_tokens": 40, "ignore_eos": True, "temperature": 0, **fields}
        return server.json("/v1/chat/completions", body)

    def test_reasoning_is_closed_at_the_budget(self):
        with Server("-m", LLAMA, "--chat-template", THINKS, "--reasoning-budget", "6", "--reasoning-budget-message", " Enough.") as server:
            self.assertEqual(server.json("/props")["default_generation_settings"]["params"]["reasoning_budget"], 6)
            answer = self.chat(server)
            message = answer["choices"][0]["message"]
            self.assertTrue(message["reasoning_content"].endswith(" Enough."), message)
            self.assertNotIn("think>", message["content"])
            self.assertNotIn("Enough", message["content"])
            self.assertTrue(message["content"])
            n_reasoning = answer["usage"]["completion_tokens_details"]["reasoning_tokens"]
            self.assertTrue(6 <= n_reasoning < 25, n_reasoning)
            # A request comes before the server, and none of it depends on drafts or on other choices.
            self.assertNotIn("content", {k: v for k, v in self.chat(server, reasoning_budget=-1)["choices"][0]["message"].items() if v})
            for choice in self.chat(server, n=2, thinking_budget_tokens=2, reasoning_budget_message="!")["choices"]:
                self.assertTrue(choice["message"]["reasoning_content"].endswith("!"))
            self.assertEqual(self.chat(server, speculate=False)["choices"][0]["message"], message)
            off = self.chat(server, reasoning_effort="none", reasoning_budget_message="")["choices"][0]["message"]
            self.assertFalse(off.get("reasoning_content", "").strip(" Enough."), off)
            status, text = server.ask("/v1/chat/completions", {**HELLO, "thinking_budget": 2, "reasoning_budget_message": "</think>"})
            self.assertEqual(status, 400, text)

    def test_streams_have_the_same_reasoning(self):
        with Server("-m", LLAMA, "--chat-template", THINKS) as server:
            fields = {"thinking_budget": 5, "reasoning_budget_message": " Enough."}
            message = self.chat(server, **fields)["choices"][0]["message"]
            _, text = server.ask("/v1/chat/completions", {**HELLO, "max_tokens": 40, "ignore_eos": True, "temperature": 0, "stream": True, **fields})
            deltas = [json.loads(line[6:])["choices"][0]["delta"] for line in text.splitlines() if line.startswith("data: {")]
            self.assertEqual("".join(delta.get("reasoning_content") or "" for delta in deltas), message["reasoning_content"])
            self.assertEqual("".join(delta.get("content") or "" for delta in deltas), message["content"])

    def test_budgets_hold_with_grammars_and_in_other_apis(self):
        with Server("-m", LLAMA, "--chat-template", THINKS) as server:
            schema = {"type": "json_schema", "json_schema": {"name": "x", "strict": True, "schema": {"enum": ["yes", "no"]}}}
            message = self.chat(server, response_format=schema, thinking_token_budget=4)["choices"][0]["message"]
            self.assertIn(message["content"], ('"yes"', '"no"'))
            body = {**HELLO, "max_tokens": 30, "temperature": 0, "thinking": {"type": "enabled", "budget_tokens": 3}}
            blocks = server.json("/v1/messages", body)["content"]
            self.assertEqual([block["type"] for block in blocks][0], "thinking")
            self.assertIn("text", [block["type"] for block in blocks])
            output = server.json("/v1/responses", {"input": "Hello", "max_output_tokens": 30, "temperature": 0, "reasoning": {"max_tokens": 3}})["output"]
            self.assertEqual([item["type"] for item in output], ["reasoning", "message"])
            # A ban of the closing tag is named.
            status, text = server.ask("/v1/chat/completions", {**HELLO, "thinking_budget": 2, "max_tokens": 20,
                                                               "logit_bias": [["</think>", False], ["\n", False]]})
            self.assertEqual(status, 400, text)
            self.assertIn("no token is left to generate", text)

    def test_banned_strings_are_drawn_again(self):
        with Server("-m", LLAMA, "--chat-template", "{{ messages[0].content }}") as server:
            body = {"prompt": "Hello", "max_tokens": 24, "temperature": 1, "seed": 5, "ignore_eos": True}
            free = server.json("/v1/completions", body)["choices"][0]["text"]
            plain = re.findall(r"[ -~]{3,}", free)
            banned = [plain[0][:3].upper()]
            answer = server.json("/v1/completions", {**body, "banned_strings": banned})
            text = answer["choices"][0]["text"]
            self.assertNotIn(banned[0].lower(), text.lower())
            self.assertNotEqual(text, free)
            self.assertEqual(answer["usage"]["completion_tokens"], 24)
            self.assertEqual(server.json("/v1/completions", {**body, "banned_strings": banned})["choices"][0]["text"], text)
            _, stream = server.ask("/v1/completions", {**body, "banned_strings": banned, "stream": True})
            parts = [json.loads(line[6:])["choices"][0]["text"] for line in stream.splitlines() if line.startswith("data: {")]
            self.assertEqual("".join(parts), text)
            status, _ = server.ask("/v1/completions", {**body, "banned_strings": ["x" * 513]})
            self.assertEqual(status, 400)
        with Server("-m", DATA / "golden" / "mamba" / "model.gguf") as server:
            status, text = server.ask("/v1/completions", {"prompt": "a", "max_tokens": 2, "banned_strings": ["b"]})
            self.assertEqual(status, 400, text)
            self.assertIn("banned_strings need a cache that can drop any tokens", text)

    def test_templates_know_the_date(self):
        with Server("-m", LLAMA, "--chat-template", "{{ messages[0].content }} {{ date_string }}, {{ datetime }}") as server:
            self.assertRegex(server.json("/apply-template", HELLO)["prompt"],
                             r"^Hello \d\d [A-Z][a-z]{2} \d{4}, [A-Z][a-z]{2} \d\d \d{4} 00:00:00 GMT$")

    def test_chat_talks_with_the_same_templates(self):
        run = subprocess.run([WEFT, "chat", "-m", str(LLAMA), "-n", "2", "-t", "1", "-p", "Hello", "-st"], capture_output=True,
                             text=True, timeout=60, env=environment(), check=False)
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertIn("no chat template; chats use ChatML", run.stderr)


class Snapshots(unittest.TestCase):
    """Models whose cached sequences cannot be cut: conversations continue where their prompts diverge."""

    SYSTEM = {"role": "system", "content": "You know all about looms, their parts, their makers and the cloth that they weave."}

    @staticmethod
    def user(text: str) -> dict:
        return {"role": "user", "content": text}

    def turns(self) -> list[list[dict]]:
        first = [self.SYSTEM, self.user("What is the weft of a cloth, and how is it different from the warp?")]
        return [first,
                [self.SYSTEM, self.user("Describe the first loom.")],  # Another user, or an edited message.
                first,  # A regenerated response.
                [*first, {"role": "assistant", "content": "It crosses the warp."}, self.user("And the selvage?")]]

    def cached(self, server: Server, messages: list[dict]) -> tuple[list[int], int]:
        prompt = server.json("/apply-template", {"messages": messages})["tokens"]
        answer = server.json("/v1/chat/completions", {"messages": messages, "max_tokens": 60, "temperature": 0,
                                                      "ignore_eos": True})
        self.assertEqual(answer["usage"]["prompt_tokens"], len(prompt))
        return prompt, answer["usage"]["prompt_tokens_details"]["cached_tokens"]

    def test_prompts_continue_where_they_diverge(self):
        template = DATA / "templates" / "families" / "qwen35.jinja"
        for family in ("lfm2", "qwen35"):
            with self.subTest(family=family), Server("-m", DATA / "golden" / family / "model.gguf", "-c", "4096",
                                                     "--chat-template-file", template) as server:
                first, *others = self.turns()
                prompt, n = self.cached(server, first)
                self.assertEqual(n, 0)
                for messages in others:
                    other, n = self.cached(server, messages)
                    alike = next((i for i, (a, b) in enumerate(zip(prompt, other)) if a != b), None)
                    if alike is None:  # The same prompt continues at its last message.
                        self.assertGreater(n, 64)
                    else:
                        self.assertGreater(alike, 64)
                        self.assertIn(n, range(alike - 1, alike + 1), messages)

    def test_none_are_kept_where_that_is_wished(self):
        with Server("-m", DATA / "golden" / "lfm2" / "model.gguf", "-c", "4096", "-ctxcp", "0") as server:
            first, other, *_ = self.turns()
            self.assertEqual([self.cached(server, messages)[1] for messages in (first, other)], [0, 0])
        self.assertIn("--ctx-checkpoints", refusal("--swa-checkpoints", "-1"))


class Status(unittest.TestCase):
    def test_props(self):
        with Server("-m", LLAMA, "-np", "2") as server:
            props = server.json("/props")
            self.assertEqual(props["total_slots"], 2)
            self.assertEqual(props["default_generation_settings"]["n_ctx"], props["n_ctx"])
            self.assertRegex(props["build_info"], r"^weft-\d")
            self.assertIs(props["is_sleeping"], False)
            self.assertEqual(props["modalities"], {"vision": False, "audio": False})
            self.assertEqual((props["bos_token"], props["eos_token"]), ("<s>", "</s>"))
            self.assertEqual(props["default_generation_settings"]["params"]["seed"], 2**32 - 1)

    def test_slots_are_there_when_nothing_runs(self):
        with Server("-m", LLAMA, "-np", "3") as server:
            slots = server.json("/slots")
            self.assertEqual([slot["id"] for slot in slots], [0, 1, 2])
            for slot in slots:
                self.assertIs(slot["is_processing"], False)
                self.assertEqual(slot["next_token"][0]["n_decoded"], 0)
                self.assertIn("temperature", slot["params"])
            self.assertEqual(server.ask("/slots?fail_on_no_slot=1")[0], 200)

    def test_a_slot_that_works_says_so(self):
        with Server("-m", LLAMA, "-np", "1", "-c", "256") as server:
            connection = http.client.HTTPConnection(server.address, timeout=60)
            connection.request("POST", "/v1/completions", json.dumps({"prompt": "a", "stream": True, "ignore_eos": True,
                                                                      "max_tokens": 200}))
            answer = connection.getresponse()
            answer.readline()
            seen = server.json("/slots")[0]
            answer.read()
            connection.close()
            self.assertEqual(seen["id"], 0)
            if seen["is_processing"]:  # It may be over already.
                self.assertEqual(seen["n_prompt_tokens"], 2)
                self.assertGreaterEqual(seen["id_task"], 0)

    def test_endpoints_can_be_switched_off(self):
        with Server("-m", LLAMA, "--no-slots", "--no-ui", "--no-metrics") as server:
            self.assertEqual([server.ask(path)[0] for path in ("/slots", "/ui/main.js", "/metrics", "/health")], [501, 404, 501, 200])
            self.assertEqual(server.ask("/"), (200, "Ollama is running"))

    def test_models(self):
        with Server("-m", LLAMA, "--alias", "a,b", "--tags", "small,fast") as server:
            for path in ("/v1/models", "/models"):
                listed = server.json(path)
                self.assertEqual(listed["data"][0]["id"], "a")
                self.assertEqual(sorted(listed["data"][0]["aliases"]), ["b", "model"])
                self.assertEqual(listed["data"][0]["tags"], ["small", "fast"])
                self.assertLessEqual({"n_ctx_train", "n_params", "size", "n_vocab", "n_embd", "n_ctx"}, set(listed["data"][0]["meta"]))
                self.assertEqual(listed["models"][0]["name"], "a")
                self.assertEqual(listed["models"][0]["capabilities"], ["completion", "embedding"])
            for name in ("a", "b", "model"):
                self.assertEqual(server.ask("/v1/completions", {"model": name, "prompt": "x", "max_tokens": 1})[0], 200)

    def test_metrics_have_llama_cpps_names(self):
        with Server("-m", LLAMA) as server:
            server.json("/v1/completions", {"prompt": "x", "max_tokens": 3, "ignore_eos": True})
            text = server.ask("/metrics")[1]
            self.assertRegex(text, r'(?m)^llamacpp:tokens_predicted_total\{.*\} 3$')
            self.assertRegex(text, r'(?m)^llamacpp:prompt_tokens_total\{.*\} [1-9]')
            for name in ("requests_processing", "requests_deferred", "n_decode_total"):
                self.assertIn(f"llamacpp:{name}", text)

    def test_timings(self):
        with Server("-m", LLAMA) as server:
            timings = server.json("/v1/completions", {"prompt": "x y z", "max_tokens": 3})["timings"]
            self.assertLessEqual({"cache_n", "prompt_n", "prompt_ms", "prompt_per_token_ms", "prompt_per_second", "predicted_n",
                                  "predicted_ms", "predicted_per_token_ms", "predicted_per_second"}, set(timings))


def infill_model(folder: Path, **ids: int) -> Path:
    """The golden model whose file names tokens for infill."""
    path = folder / "infill.gguf"
    words = [word for key, id in ids.items() for word in ("--override-kv", f"tokenizer.ggml.{key}_token_id=int:{id}")]
    subprocess.run([WEFT, "quantize", "-q", str(LLAMA), str(path), "COPY", *words], check=True, capture_output=True,
                   env=environment())
    return path


class Infill(unittest.TestCase):
    # What llama.vim and llama.vscode send.
    EDITOR = {"input_prefix": "def f():\n    ", "input_suffix": "\n\nf()\n", "prompt": "re", "n_predict": 12, "top_k": 40, "top_p": 0.9,
              "input_extra": [{"text": "import os\n", "time": [1733, 250], "filename": "a.py"}, {"text": "x = 1\n", "filename": "b.py"}],
              "stream": False, "samplers": ["top_k", "top_p", "infill"], "cache_prompt": True, "id_slot": 0, "stop": [],
              "n_indent": 0, "t_max_prompt_ms": 500, "t_max_predict_ms": 60000}  # fmt: skip

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        folder = Path(cls.folder.name)
        cls.model = infill_model(folder, fim_pre=500, fim_suf=501, fim_mid=502, fim_rep=503, fim_sep=504)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def ids(self, server: Server, text: str) -> list[int]:
        return server.json("/tokenize", {"content": text, "parse_special": False})["tokens"]

    def test_what_editors_read(self):
        with Server("-m", self.model, "--seed", "1") as server:
            answer = server.json("/infill", self.EDITOR)
            self.assertIsInstance(answer["content"], str)
            self.assertEqual(answer["content"], answer["choices"][0]["text"])
            self.assertEqual(answer["tokens_predicted"], answer["usage"]["completion_tokens"])
            self.assertEqual(answer["tokens_evaluated"], answer["usage"]["prompt_tokens"])
            self.assertIn(answer["stop_type"], ("limit", "eos"))
            self.assertIs(answer["truncated"], False)
            self.assertIs(answer["stop"], True)
            self.assertEqual(answer["generation_settings"]["samplers"], ["top_k", "top_p"])
            letters = server.json("/infill", {**self.EDITOR, "samplers": "kpi"})["generation_settings"]
            self.assertEqual(letters["samplers"], ["top_k", "top_p"])
            self.assertEqual(answer["generation_settings"]["n_predict"], 12)
            self.assertEqual(answer["id_slot"], 0)

    def test_the_settings_are_those_in_use(self):
        with Server("-m", self.model) as server:
            answer = server.json("/infill", {"input_prefix": "a", "input_suffix": "b", "n_probs": 2, "max_completion_tokens": 3, "n_indent": 1})
            settings = answer["generation_settings"]
            self.assertEqual([settings[name] for name in ("n_probs", "n_predict", "max_tokens", "n_indent")], [2, 3, 3, 1])
            self.assertEqual(settings["n_ctx"], server.json("/props")["default_generation_settings"]["n_ctx"])

    def test_other_members_of_files_are_ignored(self):
        with Server("-m", self.model) as server:
            body = {"input_prefix": "a", "input_suffix": "b", "n_predict": 1, "input_extra": [{"text": "x", "uri": "f"}]}
            self.assertEqual(server.ask("/infill", body)[0], 200)

    def test_only_the_fields_that_are_asked_for(self):
        with Server("-m", self.model) as server:
            fields = ["content", "timings/prompt_n", "timings/predicted_ms", "truncated", "nosuch", "timings/nosuch"]
            answer = server.json("/infill", {**self.EDITOR, "response_fields": fields})
            self.assertEqual(set(answer), {"content", "timings/prompt_n", "timings/predicted_ms", "truncated"})
            self.assertEqual(server.json("/infill", {**self.EDITOR, "response_fields": [""]}), {})

    def test_reading_ahead_writes_nothing(self):
        body = {"input_prefix": "", "input_suffix": "", "input_extra": self.EDITOR["input_extra"], "prompt": "", "n_predict": 0,
                "samplers": [], "cache_prompt": True, "t_max_prompt_ms": 1, "t_max_predict_ms": 1, "response_fields": ["content"]}
        with Server("-m", self.model) as server:
            self.assertEqual(server.json("/infill", body)["content"], "")

    def test_files_come_first_with_their_marks(self):
        with Server("-m", self.model) as server:
            answer = server.json("/infill", {**self.EDITOR, "n_predict": 1})
            pieces = {name: server.json("/detokenize", {"tokens": [id]})["content"]
                      for name, id in (("pre", 500), ("suf", 501), ("mid", 502), ("rep", 503), ("sep", 504))}
            expected = (pieces["rep"] + "myproject\n" + pieces["sep"] + "a.py\nimport os\n" + pieces["sep"] + "b.py\nx = 1\n" +
                        pieces["sep"] + "filename\n" + pieces["pre"] + "def f():\n    re" + pieces["suf"] + "\n\nf()\n" + pieces["mid"])
            self.assertEqual(re.sub(r"^<s>", "", answer["prompt"]).replace(" ", ""), expected.replace(" ", ""))

    def test_the_suffix_can_come_first(self):
        with Server("-m", self.model, "--spm-infill") as server:
            prompt = server.json("/infill", {"input_prefix": "PPP", "input_suffix": "SSS", "n_predict": 1})["prompt"]
            self.assertLess(prompt.index("SSS"), prompt.index("PPP"))

    def test_a_text_that_is_too_long_is_cut_around_the_cursor(self):
        with Server("-m", self.model, "-c", "128") as server:
            body = {"input_prefix": "first " + "p " * 400 + "LAST", "input_suffix": "NEXT " + "s " * 400, "n_predict": 16,
                    "input_extra": [{"filename": "x", "text": "e " * 400}]}
            answer = server.json("/infill", body)
            self.assertIs(answer["truncated"], True)
            self.assertIn("LAST", answer["prompt"])
            self.assertIn("NEXT", answer["prompt"])
            self.assertNotIn("first", answer["prompt"])
            self.assertLessEqual(answer["tokens_evaluated"], 128 - 16)
            body = {name: value for name, value in body.items() if name != "n_predict"}
            answer = server.json("/infill", {**body, "max_completion_tokens": 60})
            self.assertLessEqual(answer["tokens_evaluated"], 128 - 60)
            status, text = server.ask("/v1/completions", {"prompt": body["input_prefix"], "suffix": body["input_suffix"]})
            self.assertEqual((status, json.loads(text)["error"]["code"]), (400, "context_length_exceeded"))

    def test_a_line_with_less_indentation_ends_the_answer(self):
        newline = self.newline_bias()
        with Server("-m", self.model, "--seed", "1") as server:
            body = {**self.EDITOR, "n_predict": 40, "n_indent": 8, "logit_bias": newline, "samplers": ["temperature"]}
            answer = server.json("/infill", body)
            self.assertIs(answer["has_new_line"], True)
            self.assertEqual(answer["content"].count("\n"), 1)
            self.assertEqual(answer["stop_type"], "limit")
            self.assertGreater(answer["usage"]["completion_tokens"], 0)
            self.assertEqual(answer["usage"]["completion_tokens"], answer["tokens_predicted"])
            self.assertEqual(answer["usage"]["prompt_tokens"], answer["tokens_evaluated"])
            status, stream = server.ask("/infill", {**body, "stream": True})
            events = [json.loads(line[6:]) for line in stream.splitlines() if line.startswith("data: {")]
            self.assertEqual("".join(event["content"] for event in events), answer["content"])
            self.assertEqual([event["stop"] for event in events][-1], True)
            # A client after the one that was cut off is served as before.
            self.assertEqual(server.json("/infill", {**body, "n_indent": 0})["tokens_predicted"], 40)

    def test_one_suffix_for_several_prompts(self):
        with Server("-m", self.model, "--seed", "1") as server:
            body = {"suffix": "NEXT", "max_tokens": 1, "return_tokens": True}
            answer = server.json("/v1/completions", {"prompt": ["a", "b c"], **body})
            single = [server.json("/v1/completions", {"prompt": prompt, **body}) for prompt in ("a", "b c")]
            self.assertEqual([choice["token_ids"] for choice in answer["choices"]],
                             [one["choices"][0]["token_ids"] for one in single])
            self.assertEqual(answer["usage"]["prompt_tokens"], sum(one["usage"]["prompt_tokens"] for one in single))
            # The long one is refused for its length, wherever it is.
            status, text = server.ask("/v1/completions", {"prompt": ["a", "p " * 400], **body})
            self.assertEqual((status, json.loads(text)["error"]["code"]), (400, "context_length_exceeded"))

    def test_the_access_log_counts_what_a_cut_wrote(self):
        newline = self.newline_bias()
        log = Path(self.folder.name) / "access.log"
        with Server("-m", self.model, "--seed", "1", "--access-log", log) as server:
            body = {**self.EDITOR, "n_predict": 40, "n_indent": 8, "logit_bias": newline, "samplers": ["temperature"]}
            answer = server.json("/infill", body)
        line = json.loads(log.read_text().splitlines()[-1])
        self.assertEqual(line["completion_tokens"], answer["tokens_predicted"])

    def newline_bias(self) -> list:
        with Server("-m", self.model) as server:
            return [[id, 8.0] for id in self.ids(server, "\n")[-1:]]

    def test_older_names_of_the_tokens(self):
        folder = Path(self.folder.name) / "old"
        folder.mkdir(exist_ok=True)
        model = infill_model(folder, prefix=500, suffix=501, middle=502)
        with Server("-m", model) as server:
            answer = server.json("/infill", {**self.EDITOR, "n_predict": 1})
            self.assertIn("--- snippet ---", answer["prompt"])

    def test_a_model_without_such_tokens_says_so(self):
        with Server("-m", LLAMA) as server:
            status, text = server.ask("/infill", self.EDITOR)
            self.assertEqual(status, 400)
            self.assertIn("infill", json.loads(text)["error"]["message"])


class Bans(unittest.TestCase):
    """Tokens that requests ban, with and without grammars."""

    @classmethod
    def setUpClass(cls):
        cls.server = Server("-m", LLAMA, "--seed", "1").__enter__()
        cls.addClassCleanup(cls.server.__exit__)

    def ids(self, text: str) -> list[int]:
        return self.server.json("/tokenize", {"content": text, "add_special": False})["tokens"]

    def tokens(self, **fields) -> list[int]:
        body = {"prompt": "x", "max_tokens": 32, "return_token_ids": True, "ignore_eos": True, "temperature": 2}
        return self.server.json("/v1/completions", body | fields)["choices"][0]["token_ids"]

    def refuse(self, **fields) -> dict:
        status, text = self.server.ask("/v1/completions", {"prompt": "x", "max_tokens": 8, **fields})
        self.assertEqual(status, 400, text)
        error = json.loads(text)["error"]
        self.assertEqual(error["type"], "invalid_request_error")
        return error

    def test_a_grammar_without_tokens_is_an_error_of_the_request(self):
        grammar = {"prompt": "x", "max_tokens": 8, "grammar": 'root ::= "ab"'}
        others = [[id, -100] for id in range(512) if id != 9]  # Token 9 is a control character.
        for bans in ({"logit_bias": others}, {"allowed_token_ids": [9]}, {"allowed_token_ids": [9], "logit_bias": {"9": 100}}):
            error = self.refuse(**grammar, **bans)
            self.assertEqual(error["param"], "logit_bias")
            self.assertIn("no token is left to generate", error["message"])
            _, text = self.server.ask("/v1/completions", {**grammar, **bans, "stream": True})
            self.assertIn('"type":"invalid_request_error"', text)
            self.assertIn("no token is left to generate", text)
        # Bans that leave a token.
        answer = self.server.json("/v1/completions", {**grammar, "logit_bias": {"9": -100}})
        self.assertEqual(answer["choices"][0]["text"], "ab")

    def test_bad_words_of_several_tokens(self):
        word = self.server.json("/detokenize", {"tokens": [301, 302]})["content"]
        ids = self.ids(word)
        self.assertGreater(len(ids), 1)
        kept = {"allowed_token_ids": ids, "max_tokens": 128, "temperature": 100, "min_p": 0, "top_p": 1, "top_k": 0}
        found, banned = self.tokens(**kept), self.tokens(**kept, bad_words=[word])

        def has(tokens: list[int]) -> bool:
            return any(tokens[i : i + len(ids)] == ids for i in range(len(tokens)))

        self.assertTrue(has(found), found)
        self.assertFalse(has(banned), banned)
        self.assertEqual(set(banned), set(ids), "each token alone may occur")

    def test_bad_words_that_leave_no_token_are_an_error_of_the_request(self):
        letters = [a for a in "abcdefghijklmnopqrstuvwxyz" if len(self.ids(a)) == 1 and self.ids(f"{a} {a}") == 2 * self.ids(a)]
        error = self.refuse(allowed_token_ids=self.ids(letters[0]), bad_words=[f"{letters[0]} {letters[0]}"])
        self.assertIn("'bad_words'", error["message"])

    def test_wrong_bad_words_are_named(self):
        self.assertEqual(self.refuse(bad_words=["a", ""])["param"], "bad_words[1]")
        self.assertEqual(self.refuse(bad_words=["ab " * 2000])["param"], "bad_words[0]")

    def test_a_minimum_yields_where_only_an_end_is_allowed(self):
        end = self.server.json("/props")["eos_token"]
        (id,) = self.server.json("/tokenize", {"content": end, "parse_special": True, "add_special": False})["tokens"]
        answer = self.server.json("/v1/completions", {"prompt": "x", "min_tokens": 4, "max_tokens": 8, "allowed_token_ids": [id]})
        self.assertEqual(answer["choices"][0]["finish_reason"], "stop")


class Tiers(unittest.TestCase):
    """Prefixes that the KV cache evicts come back from memory, and after a restart from files."""

    @staticmethod
    def cached(server: Server, order: str) -> list[int]:
        """The cached tokens of prompts, which fit into the cache one or two at a time."""
        prompts = {"A": [7 + i % 400 for i in range(400)], "B": [8 + i % 450 for i in range(500)], "C": [9 + i % 460 for i in range(500)]}
        answers = [server.json("/v1/completions", {"prompt": prompts[name], "max_tokens": 2}) for name in order]
        return [answer["usage"]["prompt_tokens_details"]["cached_tokens"] for answer in answers]

    def test_evicted_prefixes_are_restored(self):
        base = ["-m", LLAMA, "-c", "1024", "-np", "2"]
        with Server(*base, "--cache-ram", "0") as server:
            self.assertEqual(self.cached(server, "AABCA"), [0, 399, 0, 0, 0])
        with Server(*base) as server:
            self.assertEqual(self.cached(server, "AABCA"), [0, 399, 0, 0, 399])
            self.assertRegex(server.ask("/metrics")[1], r'tier_restored_tokens_total\{.*tier="ram".*\} 399')
        with tempfile.TemporaryDirectory() as folder:
            for expected in ([0], [399]):
                with Server(*base, "--cache-ram", "0", "--cache-disk", folder) as server:
                    self.assertEqual(self.cached(server, "A"), expected)


class Shutdown(unittest.TestCase):
    def test_open_live_streams_are_logged(self):
        with tempfile.TemporaryDirectory() as folder:
            log = Path(folder) / "access.log"
            with Server("-m", LLAMA, "--access-log", log) as server:
                connection = http.client.HTTPConnection(server.address, timeout=60)
                connection.request("GET", "/live", headers={"X-Request-Id": "mine"})
                answer = connection.getresponse()
                self.assertTrue(answer.readline().startswith(b"data: "))
                server.process.terminate()
                answer.read()  # To the end of the stream.
                connection.close()
            (line,) = [json.loads(line) for line in log.read_text().splitlines()]
            self.assertEqual((line["path"], line["status"], line["id"]), ("/live", 200, "mine"))
            self.assertGreater(line["bytes_out"], 0)


class Encoders(unittest.TestCase):
    def test_forms_of_inputs(self):
        with Server("-m", BERT) as server:
            plain = server.json("/v1/embeddings", {"input": "a cat"})["data"][0]["embedding"]
            for body in ({"content": "a cat"}, {"input": {"content": "a cat"}}, {"input": [{"prompt_string": "a cat"}]},
                         {"input": {"prompt_string": "a cat", "multimodal_data": []}}, {"content": ["a cat"]}):
                self.assertEqual(server.json("/embeddings", body)["data"][0]["embedding"], plain, body)
            self.assertEqual(len(server.json("/embeddings", {"input": [[5, 6], "x", [7, "y"], {"content": "z"}]})["data"]), 4)
            for body in ({"input": {}}, {"input": [{"multimodal_data": ["x"], "prompt_string": "a"}]}, {"content": 5}):
                self.assertEqual(server.ask("/embeddings", body)[0], 400, body)

    def test_norms(self):
        def vector(norm):
            return server.json("/v1/embeddings", {"input": "a cat", "embd_normalize": norm})["data"][0]["embedding"]

        with Server("-m", BERT) as server:
            self.assertAlmostEqual(sum(x * x for x in vector(2)), 1, 4)
            self.assertAlmostEqual(sum(map(abs, vector(1))), 1, 4)
            self.assertAlmostEqual(max(map(abs, vector(0))), 32760, 0)
            self.assertAlmostEqual(sum(abs(x) ** 3 for x in vector(3)), 1, 4)
            raw, unit = vector(-1), vector(2)
            scale = sum(x * x for x in raw) ** 0.5
            self.assertTrue(all(abs(x / scale - y) < 1e-5 for x, y in zip(raw, unit)))
        with Server("-m", BERT, "--embd-normalize", "-1") as server:
            default = server.json("/v1/embeddings", {"input": "a cat"})["data"][0]["embedding"]
            self.assertEqual(default, raw)

    def test_pooling_of_the_server(self):
        def vector(*words):
            with Server("-m", BERT, *words) as server:
                return server.json("/v1/embeddings", {"input": "a cat sits"})["data"][0]["embedding"]

        self.assertEqual(len({json.dumps(vector("--pooling", pooling)) for pooling in ("mean", "cls", "last")}), 3)

    def test_rerank_in_both_forms(self):
        texts = ["a cat", "a dog and a cat", "nothing"]
        with Server("-m", RERANKER) as server:
            jina = server.json("/reranking", {"query": "cat", "documents": texts})["results"]
            raw = server.json("/rerank", {"query": "cat", "texts": texts, "raw_scores": True})
            self.assertEqual([one["index"] for one in raw], [one["index"] for one in jina])
            self.assertEqual([one["score"] for one in raw], [one["relevance_score"] for one in jina])
            tei = server.json("/rerank", {"query": "cat", "texts": texts, "return_text": True, "truncate": True})
            self.assertTrue(all(0 <= one["score"] <= 1 and one["text"] == texts[one["index"]] for one in tei))
            self.assertEqual(server.ask("/rerank", {"query": "cat"})[0], 400)
            self.assertEqual(server.json("/models")["models"][0]["capabilities"], ["embedding", "rerank"])


class Endpoints(unittest.TestCase):
    def test_paths_without_v1(self):
        with Server("-m", LLAMA) as server:
            for path, body in (("/responses", {"input": "x", "max_output_tokens": 1}), ("/chat/completions", {**HELLO, "max_tokens": 1}),
                               ("/completions", {"prompt": "x", "max_tokens": 1}), ("/embeddings", {"input": "x"})):
                self.assertEqual(server.ask(path, body)[0], 200, path)


if __name__ == "__main__":
    unittest.main(verbosity=1)
