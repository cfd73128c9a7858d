#!/usr/bin/env python3
"""Constraints of responses, tool calls, display on a terminal, and saved conversations.

Grammars leave tiny models one choice, so their output is known. Needs WEFT_PROGRAM and WEFT_TEST_DATA in the
environment.
"""
import json
import os
import re
import resource
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from test_cli import GOLDEN, LLAMA, TEMPLATE, WEFT, Case, Terminal, clean_environment, weft  # noqa: E402

YES = 'root ::= "yes"'
SCHEMA = '{"type": "object", "properties": {"n": {"type": "integer", "minimum": 10, "maximum": 99}}, "required": ["n"]}'
TOOLS = [{"type": "function", "function": {"name": "add", "parameters": {
    "type": "object", "properties": {"a": {"enum": [7]}}, "required": ["a"]}}}]  # fmt: skip


class InFolder(Case):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def file(self, name: str, text: str) -> Path:
        path = self.folder / name
        path.write_text(text)
        return path


class Run(InFolder):
    BASE = ["run", "-m", LLAMA, "-c", "256", "-p", "Hello", "-s", "1", "-t", "2"]

    def test_texts_are_held_to_grammars_and_schemas(self):
        self.assertEqual(self.succeed(*self.BASE, "--grammar", YES), "yes\n")
        self.assertEqual(self.succeed(*self.BASE, "--grammar", YES, "--ignore-eos"), "yes\n")
        self.assertEqual(self.succeed(*self.BASE, "--grammar-file", self.file("g.gbnf", YES)), "yes\n")
        for words in (["-j", SCHEMA], ["-jf", self.file("schema.json", SCHEMA)], ["--json-schema", SCHEMA, "--temp", "2"]):
            answer = json.loads(self.succeed(*self.BASE, *words))
            self.assertTrue(10 <= answer["n"] <= 99, answer)

    def test_what_is_no_grammar_is_refused_with_its_place(self):
        for words, parts in (
            (["--grammar", 'root ::= "a'], ["--grammar: ", "line 1, column "]),
            (["--grammar", 'root ::= "a"\nx = 1'], ["line 2, column "]),
            (["--grammar", "a ::= [b]"], ["root"]),
            (["--grammar-file", self.file("g.gbnf", "root ::= x")], ["g.gbnf: ", "line 1, column 10"]),
            (["-j", '{"type": }'], ["--json-schema: ", "byte 10"]),
            (["-j", '{"type": "objekt"}'], ["--json-schema: ", "type"]),
            (["-j", "{}", "--grammar", YES], ["give one of them"]),
        ):
            message = self.fail_with(2, *self.BASE, *words)
            for part in parts:
                self.assertIn(part, message, words)
        self.fail_with(1, *self.BASE, "--grammar-file", self.folder / "nothing")

    def test_control_tokens_are_written_where_they_are_wanted(self):
        biased = [*self.BASE, "--temp", "0", "-n", "2", "--logit-bias", "1+1000"]
        self.assertNotIn("<s>", self.succeed(*biased))
        self.assertEqual(self.succeed(*biased, "--special"), "<s><s>\n")

    def test_prompts_are_cached_in_files(self):
        cache = self.folder / "prompt.state"

        def run(prompt: str, *words, model=LLAMA) -> dict:
            return json.loads(self.succeed("run", "-m", model, "-c", "256", "-t", "2", "-n", "8", "--temp", "1", "-s", "5",
                                           "--repeat-penalty", "1.3", "--json", "-p", prompt, *words))  # fmt: skip

        long = "a few more words than one, and some behind them"
        for model in (LLAMA, GOLDEN / "mamba2" / "model.gguf"):  # Texts that can be cut, and that cannot.
            cache.unlink(missing_ok=True)
            plain = run(long, model=model)
            self.assertEqual(plain["cached_tokens"], 0)
            first = run(long, "--prompt-cache", cache, model=model)
            self.assertEqual((first["cached_tokens"], first["tokens"]), (0, plain["tokens"]))
            written = cache.read_bytes()
            again = run(long, "--prompt-cache", cache, model=model)
            self.assertEqual(again["cached_tokens"], plain["prompt_tokens"] - 1)
            self.assertEqual((again["tokens"], again["prompt_tokens"]), (plain["tokens"], plain["prompt_tokens"]))
            self.assertEqual(cache.read_bytes(), written)
            more = run(long + " and more", "--prompt-cache", cache, "--prompt-cache-ro", model=model)
            self.assertGreater(more["cached_tokens"], 5)
            self.assertEqual(more["tokens"], run(long + " and more", model=model)["tokens"])
            self.assertEqual(cache.read_bytes(), written)
            # A prefix of the prompt in the file (ggml-org/llama.cpp#1585).
            less = run(long[:30], "--prompt-cache", cache, "--prompt-cache-ro", model=model)
            self.assertEqual(less["tokens"], run(long[:30], model=model)["tokens"])
        # Another prompt replaces the file; --prompt-cache-all also keeps the generated tokens.
        other = run("something else", "--prompt-cache", cache, "--prompt-cache-all", model=model)
        self.assertLess(other["cached_tokens"], 4)
        ids = ",".join(map(str, self.tokens("something else", model) + other["tokens"]))
        rest = json.loads(self.succeed("run", "-m", model, "-c", "256", "-n", "2", "--json", "--tokens", ids,
                                       "--prompt-cache", cache))  # fmt: skip
        self.assertEqual(rest["cached_tokens"], rest["prompt_tokens"] - 1)
        # Errors say what to do; the file stays.
        message = self.fail_with(1, "run", "-m", LLAMA, "-p", "x", "--prompt-cache", cache)
        self.assertIn("remove the file", message)
        self.assertTrue(cache.exists())
        cache.write_bytes(written[:-1])
        self.assertIn("damaged", self.fail_with(1, "run", "-m", LLAMA, "-p", "x", "--prompt-cache", cache))
        self.assertIn("--prompt-cache FILE", self.fail_with(2, "run", "-m", LLAMA, "-p", "x", "--prompt-cache-ro"))

    def test_prompts_of_other_adapters_are_not_taken_from_the_cache(self):
        cache = self.folder / "prompt.state"
        one, two = (GOLDEN.parent / "adapters" / name for name in ("one.gguf", "two.gguf"))

        def run(*words) -> dict:
            return json.loads(self.succeed("run", "-m", LLAMA, "-c", "256", "-n", "8", "--temp", "0", "--json",
                                           "-p", "a few words more than one", *words))  # fmt: skip

        choices = ((), ("--lora", one), ("--lora-scaled", one, "0.5"), ("--lora", one, "--lora", two))
        for written in choices[:2]:
            for wanted in choices:
                if wanted == written or (written and not wanted):  # A model without the adapter is refused the file.
                    continue
                with self.subTest(written=written, wanted=wanted):
                    cache.unlink(missing_ok=True)
                    run(*written, "--prompt-cache", cache)
                    found = run(*wanted, "--prompt-cache", cache)
                    self.assertEqual((found["cached_tokens"], found["tokens"]), (0, run(*wanted)["tokens"]))
                    again = run(*wanted, "--prompt-cache", cache)
                    self.assertEqual(again["cached_tokens"], again["prompt_tokens"] - 1)
                    self.assertEqual(again["tokens"], found["tokens"])

    def test_a_limit_of_files_is_an_error_like_a_full_disk(self):
        cache = self.folder / "prompt.state"
        limit = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))  # noqa: E731
        ran = subprocess.run([WEFT, "run", "-m", LLAMA, "-p", "a few words " * 20, "-n", "1", "--no-pack-cache",
                              "--prompt-cache", cache], capture_output=True, env=clean_environment(), preexec_fn=limit)  # fmt: skip
        self.assertEqual(ran.returncode, 1, ran.stderr)
        self.assertIn(b"File too large", ran.stderr)
        self.assertFalse(cache.exists())

    def tokens(self, text: str, model: Path) -> list[int]:
        return json.loads(self.succeed("tokenize", "-m", model, "--json", stdin=text.encode()))


class Chats(InFolder):
    def setUp(self):
        super().setUp()
        self.base = ["chat", "-m", LLAMA, "-c", "1024", "--temp", "0", "-n", "200", "-t", "2"]
        self.base += ["--chat-template", TEMPLATE]

    def messages(self, path: Path) -> list[dict]:
        return json.loads(path.read_text())["messages"]


class Forms(Chats):
    def test_answers_are_held_to_grammars(self):
        self.assertEqual(self.succeed(*self.base, "--grammar", YES, stdin=b"one\ntwo\n"), "yes\nyes\n")
        answer = json.loads(self.succeed(*self.base, "-j", SCHEMA, "-p", "x", "-st"))
        self.assertTrue(10 <= answer["n"] <= 99)
        self.assertIn("line 1", self.fail_with(2, *self.base, "--grammar", 'root ::= "'))

    def test_templates(self):
        plain = ["chat", "-m", LLAMA, "-c", "256", "-p", "x", "-st", "-n", "4"]
        raising = "{{ raise_exception('mine') }}"
        self.assertIn("mine", self.fail_with(1, *plain, "--chat-template", raising))
        self.assertIn("unknown template 'nosuch'", self.fail_with(2, *plain, "--chat-template", "nosuch"))
        self.assertIn("give one", self.fail_with(2, *plain, "--chat-template", raising, "--chat-template-file", "x"))
        self.assertIn("line 1", self.fail_with(1, *plain, "--chat-template", "{% for %}"))

    def test_the_system_prompt_may_be_a_file(self):
        saved = self.folder / "saved"
        script = f"x\n/save {saved}\n".encode()
        self.succeed(*self.base, "-sysf", self.file("system", "Be brief"), "--grammar", YES, stdin=script)
        self.assertEqual(self.messages(saved)[0], {"role": "system", "content": "Be brief"})


class Tools(Chats):
    def setUp(self):
        super().setUp()
        self.tools = self.file("tools.json", json.dumps(TOOLS))
        # The first response must be a call; the response to its result must match the grammar.
        self.base += ["--tools", self.tools, "--tool-choice", "required", "--grammar", YES]
        # It could call again as well, but likes an "y" better.
        y = json.loads(self.succeed("tokenize", "-m", LLAMA, "--json", stdin=b"y"))[-1]
        self.base += ["--logit-bias", f"{y}+1000"]

    def test_people_answer_calls(self):
        saved = self.folder / "saved"
        out = self.succeed(*self.base, stdin=f"7?\nit is 8\n/save {saved}\n".encode())
        self.assertRegex(out, r'call add\(\{"a": ?7\}\)')
        messages = self.messages(saved)
        self.assertEqual([m["role"] for m in messages[:3]], ["user", "assistant", "tool"])
        call = messages[1]["tool_calls"][0]
        self.assertEqual((call["function"]["name"], json.loads(call["function"]["arguments"])), ("add", {"a": 7}))
        self.assertEqual((messages[2]["content"], messages[2]["tool_call_id"]), ("it is 8", call["id"]))
        self.assertEqual(json.loads(saved.read_text())["tools"], TOOLS)
        # A loaded conversation continues with its calls and tools.
        again = self.folder / "again"
        plain = [w for w in self.base if w not in ("--tools", self.tools)]
        self.succeed(*plain, stdin=f"/load {saved}\n/save {again}\n".encode())
        self.assertEqual(json.loads(again.read_text()), json.loads(saved.read_text()))

    def test_a_program_answers_calls(self):
        saved = self.folder / "saved"
        seen = self.folder / "seen"
        program = f"cat > {seen}; echo 'it is'; echo 8"
        result = weft(*self.base, "--tool-command", program, stdin=f"7?\n/save {saved}\n".encode())
        self.assertEqual(result.returncode, 0, result.stderr)
        call = json.loads(seen.read_text())
        self.assertEqual((call["name"], call["arguments"]), ("add", {"a": 7}))
        self.assertEqual(self.messages(saved)[2]["content"], "it is\n8")
        self.assertIn(b"add = it is 8", result.stderr)
        # One that fails says so to the model, and one that reads nothing is none that waits.
        result = weft(*self.base, "--tool-command", "echo no; exit 3", stdin=f"7?\n/save {saved}\n".encode())
        self.assertEqual(self.messages(saved)[2]["content"], "no\n(failed with exit code 3)")

    def test_a_call_without_a_result_takes_the_question_back(self):
        session = self.folder / "session"
        result = weft(*self.base, "--session", session, stdin=b"7?\n")
        self.assertEqual(result.returncode, 1)
        self.assertIn(b"question was removed", result.stderr)
        self.assertEqual(self.messages(session), [])

    def test_no_tools_no_calls(self):
        out = self.succeed(*self.base, stdin=b"/tools\n7?\n")
        self.assertEqual(out, "yes\n")
        self.assertEqual(self.succeed(*self.base, "--tool-choice", "none", stdin=b"7?\n"), "yes\n")

    def test_invalid_tools_are_named(self):
        for text, part in (("[", "byte 2"), ("{}", "must be an array"), ('[{"type": "function"}]', "tools[0].function"),
                           ("[1e999]", "out of range")):  # fmt: skip
            self.assertIn(part, self.fail_with(1, *self.base, "--tools", self.file("bad", text)), text)
        result = weft(*self.base, stdin=f"/tools {self.folder}/nothing\n".encode())
        self.assertEqual(result.returncode, 1)
        self.assertIn(b"nothing", result.stderr)


class Sessions(Chats):
    def test_a_session_goes_on(self):
        session = self.folder / "session.json"
        base = [*self.base, "--grammar", YES, "--session", session]
        self.succeed(*base, "--system-prompt", "Be brief", "-p", "one", "-st")
        self.assertEqual([m["content"] for m in self.messages(session)], ["Be brief", "one", "yes"])
        result = weft(*base, stdin=b"two\n")
        self.assertIn(b"loaded 3 messages", result.stderr)
        self.assertEqual([m["content"] for m in self.messages(session)][3:], ["two", "yes"])
        # The session is saved after each response, so killing the program loses nothing.
        with Terminal(self, *base, TERM="xterm", XDG_STATE_HOME=str(self.folder)) as chat:
            chat.prompt()
            chat.send(b"three\n")
            chat.prompt()
        self.assertEqual([m["content"] for m in self.messages(session)][5:], ["three", "yes"])
        self.succeed(*base, stdin=b"/clear\n")
        self.assertEqual([m["content"] for m in self.messages(session)], ["Be brief"])
        # Invalid session files are not overwritten.
        session.write_text("{}")
        self.assertIn("messages", self.fail_with(1, *base, "-p", "one", "-st"))
        self.assertEqual(session.read_text(), "{}")


class Markdown(Chats):
    TEXT = "# Title\n**bold** and `code`\n- item\n```\nx = 1\n```\nend"

    def setUp(self):
        super().setUp()
        grammar = "root ::= " + json.dumps(self.TEXT)
        self.base += ["--grammar", grammar, "-p", "x", "-st", "-q"]

    def on_terminal(self, *words, **env) -> bytes:
        with Terminal(self, *self.base, *words, XDG_STATE_HOME=str(self.folder), **env) as chat:
            chat.expect(b"end")
            return chat.seen

    def test_on_a_terminal_marks_become_styles(self):
        out = self.on_terminal(TERM="xterm")
        for part in (b"\x1b[0;1;4mTitle\x1b[0m", b"\x1b[0;1mbold\x1b[0m", b"\x1b[0;36mcode\x1b[0m", "• item".encode(),
                     b"\x1b[0;36mx = 1\x1b[0m"):  # fmt: skip
            self.assertIn(part, self.without_redrawing(out))
        for part in (b"#", b"**", b"`"):
            self.assertNotIn(part, out)

    @staticmethod
    def without_redrawing(out: bytes) -> bytes:
        return re.sub(rb"\x1b\[\d+D\x1b\[K", b"", out)

    def test_elsewhere_and_where_nobody_wants_it_the_text_is_as_it_is(self):
        self.assertEqual(self.succeed(*self.base), self.TEXT + "\n")
        for words, env in ((["--no-markdown"], {"TERM": "xterm"}), ([], {"TERM": "xterm", "NO_COLOR": "1"}),
                           ([], {"TERM": "dumb"}), (["--color", "never"], {"TERM": "xterm"})):  # fmt: skip
            out = self.on_terminal(*words, **env).replace(b"\r\n", b"\n")
            self.assertIn(self.TEXT.encode(), out, (words, env))
            self.assertNotIn(b"\x1b[0;1m", out)

    def test_what_a_model_writes_moves_no_cursor(self):
        grammar = 'root ::= "a\\x1b[2Jb\\x07end"'
        self.base[self.base.index("--grammar") + 1] = grammar
        for words in ([], ["--no-markdown"]):
            self.assertIn(b"a[2Jbend", self.on_terminal(*words, TERM="xterm"))


if __name__ == "__main__":
    unittest.main()
