#!/usr/bin/env python3
"""Audio in prompts: weft run and weft serve with a tiny language model (scripts/make_audio_data.py) and its encoder.

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
DATA = Path(os.environ["WEFT_TEST_DATA"]) / "audio"
MODEL, MMPROJ, SOUND = DATA / "text.gguf", DATA / "voxtral" / "mmproj.gguf", DATA / "sound.wav"
TEMPLATE = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}assistant:"


def weft(*words):
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("WEFT_", "LLAMA_", "XDG_"))}
    kept |= {"WEFT_CACHE": "/dev/null/none", "WEFT_CONFIG": "", "XDG_STATE_HOME": tempfile.gettempdir() + "/weft-test-state"}
    return subprocess.run([WEFT, *map(str, words)], capture_output=True, env=kept, timeout=120)


class Sounds(unittest.TestCase):
    def run_json(self, *words):
        result = weft("run", "-m", MODEL, "--temp", "0", "-n", "12", "-p", "a text", "--json", "-q", *words)
        self.assertEqual(result.returncode, 0, result.stderr.decode())
        return json.loads(result.stdout)

    def refused(self, code, *words):
        result = weft("run", "-m", MODEL, "-p", "a text", *words)
        self.assertEqual(result.returncode, code, result.stderr)
        return result.stderr.decode()

    def test_audio_comes_before_the_text(self):
        plain = self.run_json()
        one = self.run_json("--mmproj", MMPROJ, "--audio", SOUND)
        self.assertGreater(one["prompt_tokens"], plain["prompt_tokens"] + 5)
        self.assertNotEqual(one["tokens"], plain["tokens"])
        self.assertEqual(one["tokens"], self.run_json("--mmproj", MMPROJ, "--audio", SOUND, "--chunk", "3")["tokens"])

    def test_unreadable_files_are_named(self):
        self.assertIn("--mmproj", self.refused(2, "--audio", SOUND))
        self.assertIn("WAV", self.refused(1, "--mmproj", MMPROJ, "--audio", MODEL))
        self.assertIn("qwen2", self.refused(1, "--mmproj", DATA / "qwen2a" / "mmproj.gguf", "--audio", SOUND))

    def test_audio_in_a_conversation(self):
        template = tempfile.NamedTemporaryFile("w", suffix=".jinja")
        self.addCleanup(template.close)
        template.write(TEMPLATE)
        template.flush()
        server = Server(WEFT, "-m", str(MODEL), "--mmproj", str(MMPROJ), "--chat-template-file", template.name)
        self.addCleanup(server.log.close)
        self.addCleanup(server.stop)

        def ask(data, kind="wav"):
            sound = {"type": "input_audio", "input_audio": {"data": base64.b64encode(data).decode(), "format": kind, "name": "x"}}
            content = [sound, {"type": "text", "text": "What is that?"}] if data else "What is that?"
            body = {"messages": [{"role": "user", "content": content}], "max_tokens": 6, "temperature": 0}
            request = urllib.request.Request(server.url + "/v1/chat/completions", json.dumps(body).encode(),
                                             {"Content-Type": "application/json"})  # fmt: skip
            try:
                with urllib.request.urlopen(request, timeout=60) as answer:
                    return answer.status, json.loads(answer.read())
            except urllib.error.HTTPError as error:
                return error.code, json.loads(error.read())

        (_, plain), (status, heard), (_, again) = ask(b""), ask(SOUND.read_bytes()), ask(SOUND.read_bytes())
        self.assertEqual(status, 200)
        # Compressed audio with other sample rates.
        status, tone = ask((DATA / "tone.mp3").read_bytes(), "mp3")
        self.assertEqual(status, 200)
        self.assertNotEqual(tone["choices"][0]["message"], plain["choices"][0]["message"])
        self.assertGreater(heard["usage"]["prompt_tokens"], plain["usage"]["prompt_tokens"] + 5)
        self.assertEqual(heard["choices"][0]["message"], again["choices"][0]["message"])
        for data, kind in ((b"no sound", "wav"), (SOUND.read_bytes()[:20], "wav"), (SOUND.read_bytes(), "midi")):
            status, answer = ask(data, kind)
            self.assertEqual(status, 400, answer)


if __name__ == "__main__":
    unittest.main()
