#!/usr/bin/env python3
"""Pictures in prompts: weft run, weft chat and weft serve with a tiny model and its vision file.

Needs WEFT_PROGRAM and WEFT_TEST_DATA in the environment.
"""
import base64
import json
import os
import subprocess
import sys
import tempfile
import unittest
import urllib.error
import urllib.request
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "clients"))
from weft_server import Server  # noqa: E402

WEFT = os.environ["WEFT_PROGRAM"]
DATA = Path(os.environ["WEFT_TEST_DATA"])
MODEL = DATA / "golden/gemma3/model.gguf"
MMPROJ = DATA / "vision/gemma3/mmproj.gguf"
PNG, JPEG = DATA / "vision/pictures/photo.png", DATA / "vision/pictures/turned.jpg"
TEMPLATE = "{{ bos_token }}{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}assistant:"
N_ROWS = 9  # Of a picture.


def weft(*words, stdin=b""):
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("WEFT_", "LLAMA_", "XDG_"))}
    kept |= {"WEFT_CACHE": "/dev/null/none", "WEFT_CONFIG": "", "XDG_STATE_HOME": tempfile.gettempdir() + "/weft-test-state"}
    return subprocess.run([WEFT, *map(str, words)], input=stdin, capture_output=True, env=kept, timeout=120)


class Run(unittest.TestCase):
    def run_json(self, *words):
        result = weft("run", "-m", MODEL, "-c", "256", "--temp", "0", "-n", "24", "--json", "-q", *words)
        self.assertEqual(result.returncode, 0, result.stderr.decode())
        return json.loads(result.stdout)

    def refused(self, code, *words):
        result = weft("run", "-m", MODEL, "-c", "256", *words)
        self.assertEqual(result.returncode, code, result.stderr)
        return result.stderr.decode()

    def test_an_image_comes_before_the_text(self):
        plain = self.run_json("-p", "a text")
        one = self.run_json("-p", "a text", "--mmproj", MMPROJ, "--image", PNG)
        two = self.run_json("-p", "a text", "--mmproj", MMPROJ, "--image", PNG, "--image", JPEG)
        other = self.run_json("-p", "a text", "--mmproj", MMPROJ, "--image", JPEG)
        n_around = one["prompt_tokens"] - plain["prompt_tokens"] - N_ROWS
        self.assertGreater(n_around, 0)
        self.assertGreater(two["prompt_tokens"], one["prompt_tokens"] + N_ROWS)
        self.assertEqual(other["prompt_tokens"], one["prompt_tokens"])
        self.assertEqual(len({tuple(result["tokens"]) for result in (plain, one, two, other)}), 4)
        self.assertEqual(self.run_json("-p", "a text", "--mmproj", MMPROJ, "--image", PNG, "--chunk", "3")["tokens"], one["tokens"])

    def test_unreadable_files_are_named(self):
        self.assertIn("--mmproj", self.refused(2, "-p", "text", "--image", PNG))
        self.assertIn("mmproj", self.refused(1, "-p", "text", "--image", PNG, "--mmproj", MODEL))
        self.assertIn("nothing.png", self.refused(1, "-p", "text", "--image", "nothing.png", "--mmproj", MMPROJ))
        self.assertIn("PNG", self.refused(1, "-p", "text", "--image", MODEL, "--mmproj", MMPROJ))
        self.assertIn("--image", self.refused(2, "--tokens", "1,2", "--image", PNG, "--mmproj", MMPROJ))
        llama = DATA / "golden/llama/model.gguf"
        result = weft("run", "-m", llama, "-p", "text", "--image", PNG, "--mmproj", MMPROJ)
        self.assertEqual(result.returncode, 1)
        self.assertIn(b"another model", result.stderr)


class Chat(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.template = Path(self.folder.name) / "template.jinja"
        self.template.write_text(TEMPLATE)

    def chat(self, script, *words):
        result = weft("chat", "-m", MODEL, "-c", "512", "--temp", "0", "-n", "6", "-v", "--swa-full",
                      "--chat-template-file", self.template, *words, stdin=script.encode())  # fmt: skip
        return result.returncode, result.stdout.decode(), result.stderr.decode()

    def test_the_next_question_has_the_image(self):
        code, _, messages = self.chat(f"/image {PNG}\nWhat is it?\nAnd then?\n", "--mmproj", MMPROJ)
        self.assertEqual(code, 0, messages)
        turns = [line for line in messages.splitlines() if line.startswith("(prompt: ")]
        self.assertEqual(len(turns), 2, messages)
        reused = [int(line.split(" and ")[1].split()[0]) for line in turns]
        self.assertEqual(reused[0], 0)
        self.assertGreater(reused[1], N_ROWS)  # The picture, and what stands around it.

    def test_a_question_that_failed_leaves_its_image_to_the_next(self):
        long = "word " * 600  # Longer than the context.
        code, answer, messages = self.chat(f"/image {PNG}\n{long}\nWhat is it?\n", "--mmproj", MMPROJ)
        self.assertEqual(code, 1)
        self.assertIn("n_ctx", messages)
        self.assertIn("the next message begins with", messages)
        _, expected, _ = self.chat(f"/image {PNG}\nWhat is it?\n", "--mmproj", MMPROJ)
        self.assertEqual(answer, expected)
        _, cleared, _ = self.chat(f"/image {PNG}\n{long}\n/clear\nWhat is it?\n", "--mmproj", MMPROJ)
        _, without, _ = self.chat("What is it?\n")
        self.assertEqual(cleared, without)
        self.assertNotEqual(cleared, expected)

    def test_saved_images_are_loaded(self):
        saved, again = (Path(self.folder.name) / name for name in ("saved.json", "again.json"))
        code, answer, messages = self.chat(f"/image {PNG}\nWhat is it?\n/save {saved}\n", "--mmproj", MMPROJ)
        self.assertEqual(code, 0, messages)
        picture, text = json.loads(saved.read_text())["messages"][0]["content"]
        self.assertEqual(picture, Serve.picture(PNG))
        self.assertEqual(text, {"type": "text", "text": "What is it?"})
        # The next response is the same as without saving and loading.
        code, other, messages = self.chat(f"/load {saved}\nAnd then?\n/save {again}\n", "--mmproj", MMPROJ, "-s", "1")
        self.assertEqual(code, 0, messages)
        _, both, _ = self.chat(f"/image {PNG}\nWhat is it?\nAnd then?\n", "--mmproj", MMPROJ, "-s", "1")
        self.assertEqual(both, answer + other)
        self.assertEqual(json.loads(again.read_text())["messages"][:2], json.loads(saved.read_text())["messages"])
        code, _, messages = self.chat(f"/load {saved}\n")
        self.assertEqual(code, 1)
        self.assertIn("message 1: images need", messages)

    def test_without_a_vision_file(self):
        code, _, messages = self.chat(f"/image {PNG}\n")
        self.assertEqual(code, 1)
        self.assertIn("--mmproj", messages)


class Serve(unittest.TestCase):
    def start(self, *words):
        template = tempfile.NamedTemporaryFile("w", suffix=".jinja")
        self.addCleanup(template.close)
        template.write(TEMPLATE)
        template.flush()
        server = Server(WEFT, "-m", str(MODEL), "-c", "2048", "-np", "4", "--chat-template-file", template.name,
                        "--swa-full", *map(str, words))  # fmt: skip
        self.addCleanup(server.log.close)
        self.addCleanup(server.stop)
        return server

    def ask(self, server, messages):
        body = json.dumps({"messages": messages, "max_tokens": 8, "temperature": 0}).encode()
        request = urllib.request.Request(server.url + "/v1/chat/completions", body, {"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return answer.status, json.loads(answer.read())
        except urllib.error.HTTPError as error:
            return error.code, json.loads(error.read())

    @staticmethod
    def picture(path):
        kind = "png" if path.suffix == ".png" else "jpeg"
        text = base64.b64encode(path.read_bytes()).decode()
        return {"type": "image_url", "image_url": {"url": f"data:image/{kind};base64,{text}"}}

    def test_images_in_a_conversation(self):
        server = self.start("--mmproj", MMPROJ)
        first = [{"role": "user", "content": [{"type": "text", "text": "Look: "}, self.picture(PNG), {"type": "text", "text": "?"}]}]
        status, answer = self.ask(server, first)
        self.assertEqual(status, 200, answer)
        n_first = answer["usage"]["prompt_tokens"]
        more = first + [{"role": "assistant", "content": answer["choices"][0]["message"]["content"]},
                        {"role": "user", "content": "And then?"}]  # fmt: skip
        status, next_response = self.ask(server, more)
        self.assertEqual(status, 200, next_response)
        # All of the first prompt but what its end has become.
        self.assertGreaterEqual(next_response["usage"]["prompt_tokens_details"]["cached_tokens"], n_first - 2)
        # Responses are identical with and without the prefix cache.
        self.assertEqual(self.ask(server, more)[1]["choices"][0]["message"], next_response["choices"][0]["message"])
        other = [{"role": "user", "content": [{"type": "text", "text": "Look: "}, self.picture(JPEG), {"type": "text", "text": "?"}]}]
        status, other_answer = self.ask(server, other)
        self.assertEqual(status, 200)
        self.assertEqual(other_answer["usage"]["prompt_tokens"], n_first)
        self.assertLess(other_answer["usage"]["prompt_tokens_details"]["cached_tokens"], n_first - N_ROWS)

    def test_what_cannot_be_read_is_a_400(self):
        server = self.start("--mmproj", MMPROJ)
        good = self.picture(PNG)["image_url"]["url"]
        for url, part in (("https://example.com/cat.png", "data:"), ("data:image/png,abc", "base64"),
                          ("data:image/png;base64,****", "base64"), (good[:-400], "cannot be read"),
                          ("data:image/gif;base64,R0lGODlh", "PNG")):  # fmt: skip
            content = [{"type": "image_url", "image_url": {"url": url}}]
            status, answer = self.ask(server, [{"role": "user", "content": content}])
            self.assertEqual(status, 400, url)
            self.assertIn(part, answer["error"]["message"])
            self.assertEqual(answer["error"]["param"], "messages[0].content[0]")
        for part in ({"type": "image_url"}, {"type": "image_url", "image_url": 5}, {"type": "image_url", "image_url": {}}):
            self.assertEqual(self.ask(server, [{"role": "user", "content": [part]}])[0], 400)

    def test_without_a_vision_file(self):
        server = self.start()
        status, answer = self.ask(server, [{"role": "user", "content": [self.picture(PNG)]}])
        self.assertEqual(status, 400)
        self.assertIn("--mmproj", answer["error"]["message"])


if __name__ == "__main__":
    unittest.main()
