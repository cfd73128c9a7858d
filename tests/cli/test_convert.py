#!/usr/bin/env python3
"""Folders of Hugging Face: weft convert, and the commands that take a folder as the model.

Needs WEFT_PROGRAM and WEFT_TEST_DATA in the environment.
"""
import json
import os
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

WEFT = os.environ["WEFT_PROGRAM"]
DATA = Path(os.environ["WEFT_TEST_DATA"])


class Folders(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.scratch = Path(scratch.name)

    def start(self, *words):
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("WEFT_", "LLAMA_", "XDG_"))}
        kept |= {"WEFT_CACHE": str(self.scratch / "cache"), "WEFT_CONFIG": ""}
        return subprocess.Popen([WEFT, *map(str, words)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, env=kept, cwd=self.scratch)

    def output(self, process):
        out, err = process.communicate(timeout=120)
        self.assertEqual(process.returncode, 0, err.decode())
        return out.decode()

    def converted(self):
        return sorted(path.name for path in (self.scratch / "cache/converted").iterdir())

    def test_two_that_take_a_folder_at_once_convert_it_to_one_file(self):
        words = ["run", "-p", "Once", "-n", "8", "--temp", "0", "-m"]
        expected = self.output(self.start(*words, DATA / "golden/mixtral/model.gguf"))
        both = [self.start(*words, DATA / "convert/mixtral") for _ in range(2)]
        self.assertEqual([self.output(process) for process in both], [expected] * 2)
        self.assertEqual(len(self.converted()), 1, self.converted())

    def test_a_change_beside_the_model_makes_another_file(self):
        folder = self.scratch / "gemma-embedding"
        shutil.copytree(DATA / "convert/gemma-embedding", folder)
        words = ["embed", "-q", "some text", "-m"]
        expected = self.output(self.start(*words, DATA / "golden_encoders/gemma-embedding/model.gguf"))
        self.assertEqual(self.output(self.start(*words, folder)), expected)
        (folder / "1_Pooling/config.json").write_text(json.dumps({"pooling_mode": "cls"}))
        self.assertNotEqual(self.output(self.start(*words, folder)), expected)
        self.assertEqual(len(self.converted()), 2, self.converted())

    def test_an_image_encoder_gets_a_file_of_its_own(self):
        self.assertIn("wrote mmproj-gemma3.gguf: clip",
                      self.output(self.start("convert", "--mmproj", DATA / "convert_vision/gemma3")))
        words = ["run", "-m", DATA / "golden/gemma3/model.gguf", "-c", "256", "--temp", "0", "-n", "8", "-p", "a text",
                 "--image", DATA / "vision/pictures/photo.png", "--mmproj"]
        expected = self.output(self.start(*words, DATA / "vision/gemma3/mmproj.gguf"))
        self.assertEqual(self.output(self.start(*words, "mmproj-gemma3.gguf")), expected)

    def test_an_existing_result_is_replaced_with_a_note(self):
        words = ["convert", DATA / "convert/phi2", "-o", "out.gguf"]
        notes = []
        for _ in range(2):
            process = self.start(*words)
            out, err = process.communicate(timeout=120)
            self.assertEqual(process.returncode, 0, err.decode())
            self.assertIn("wrote out.gguf", out.decode())
            notes.append(err.decode())
        self.assertNotIn("replaced", notes[0])
        self.assertIn("weft: note: replaced the existing file out.gguf\n", notes[1])

    def test_what_cannot_be_converted_leaves_nothing(self):
        folder = self.scratch / "phi2"
        shutil.copytree(DATA / "convert/phi2", folder)
        os.truncate(folder / "model.safetensors", 30000)
        for words in (["convert", folder], ["run", "-m", folder, "-p", "text"], ["convert", "--mmproj", DATA / "convert/phi2"]):
            process = self.start(*words)
            _, err = process.communicate(timeout=120)
            self.assertEqual(process.returncode, 1, err.decode())
            self.assertIn("weft: error: ", err.decode())
        self.assertEqual([path for path in self.scratch.rglob("*gguf*")], [])


if __name__ == "__main__":
    unittest.main()
