#!/usr/bin/env python3
"""SmolLM2 whose file gives <|im_end|> another type and names another end token: every command ends its turn.

Public files of many models have such tables. Skipped where SmolLM2 is not in the model cache (make model). Needs
WEFT_PROGRAM in the environment.
"""
import json
import os
import shutil
import struct
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from test_cli import Case, weft  # noqa: E402
from test_options import Server  # noqa: E402

CACHE = Path(os.environ.get("WEFT_CACHE") or Path.home() / ".cache/weft")
MODEL = CACHE / "models/SmolLM2-135M-Instruct.Q4_1.gguf"
QUESTION = "What is 2 plus 2?"
PROMPT = f"<|im_start|>user\n{QUESTION}<|im_end|>\n<|im_start|>assistant\n"
LIMIT = 64
TYPES = {"normal": 1, "unknown": 2, "control": 3, "user-defined": 4, "unused": 5, "byte": 6}
SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
STRING, ARRAY = 8, 9


class Table:
    """Where a GGUF file stores token types and the end token's id."""

    def __init__(self, path: Path):
        with path.open("rb") as file:
            self.data = file.read(8 << 20)
        self.at = 24
        self.places = {}
        for _ in range(struct.unpack_from("<Q", self.data, 16)[0]):
            key = self.string()
            self.value(key, self.number("<I"))

    def number(self, layout: str) -> int:
        (value,) = struct.unpack_from(layout, self.data, self.at)
        self.at += struct.calcsize(layout)
        return value

    def string(self) -> str:
        length = self.number("<Q")
        self.at += length
        return self.data[self.at - length : self.at].decode(errors="replace")

    def value(self, key: str, kind: int):
        self.places[key] = self.at
        if kind == STRING:
            self.string()
        elif kind == ARRAY:
            self.array(key)
        else:
            self.at += SIZES[kind]

    def array(self, key: str):
        kind, length = self.number("<I"), self.number("<Q")
        self.places[key] = self.at
        if kind != STRING:
            self.at += SIZES[kind] * length
            return
        strings = [self.string() for _ in range(length)]
        if key == "tokenizer.ggml.tokens":
            self.tokens = strings


@unittest.skipUnless(MODEL.exists(), f"{MODEL.name} is not in the model cache; make model fetches it")
class EndTokens(Case):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.model = Path(folder.name) / "model.gguf"
        shutil.copy(MODEL, self.model)

    def write(self, kind: int):
        table = Table(self.model)
        end, other = table.tokens.index("<|im_end|>"), table.tokens.index("<|endoftext|>")
        with self.model.open("r+b") as file:
            file.seek(table.places["tokenizer.ggml.token_type"] + 4 * end)
            file.write(struct.pack("<i", kind))
            file.seek(table.places["tokenizer.ggml.eos_token_id"])
            file.write(struct.pack("<I", other))

    def check_notes(self, text: str, kind: int):
        noted = "<|im_end|>" in text
        self.assertEqual(noted, kind != TYPES["control"], text)

    def test_run_and_chat_end_with_every_type(self):
        options = ["-m", self.model, "--temp", "0", "-n", LIMIT, "--no-repack"]
        for name, kind in TYPES.items():
            with self.subTest(name):
                self.write(kind)
                result = weft("run", *options, "--json", "-p", PROMPT)
                answer = json.loads(result.stdout)
                self.assertEqual(answer["stop_reason"], "end", answer)
                self.assertNotIn("<|im_", answer["text"])
                self.check_notes(result.stderr.decode(), kind)
                result = weft("chat", *options, stdin=QUESTION.encode())
                self.assertEqual(result.returncode, 0, result.stderr)
                self.assertIn(b"4", result.stdout)
                self.assertNotIn(b"<|im_", result.stdout)
                self.check_notes(result.stderr.decode(), kind)

    def test_serve_ends_with_every_type(self):
        body = {"messages": [{"role": "user", "content": QUESTION}], "temperature": 0, "max_tokens": LIMIT}
        for name, kind in TYPES.items():
            with self.subTest(name):
                self.write(kind)
                with Server(self.model.parent, ["-m", self.model, "--port", "0", "--no-repack", "-c", "512"]) as server:
                    status, _, text = server.ask("POST", "/v1/chat/completions", body)
                self.assertEqual(status, 200, text)
                choice = json.loads(text)["choices"][0]
                self.assertEqual(choice["finish_reason"], "stop", choice)
                self.assertNotIn("<|im_", choice["message"]["content"])
                self.check_notes("".join(server.lines), kind)


if __name__ == "__main__":
    unittest.main()
