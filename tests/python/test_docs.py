"""docs/python.md as a program: its blocks in order, and their expected output."""
import contextlib
import io
import re
import shutil
from pathlib import Path

from conftest import ENCODERS, chat_file  # noqa: F401

PAGE = Path(__file__).resolve().parents[2] / "docs" / "python.md"


def test_the_page_says_what_happens(chat_file, tmp_path, monkeypatch):  # noqa: F811
    shutil.copy(chat_file, tmp_path / "model.gguf")
    shutil.copy(ENCODERS / "bert/model.gguf", tmp_path / "embedder.gguf")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WEFT_CACHE", str(tmp_path))
    blocks = re.findall(r"^```(\w+)\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    names: dict = {}
    printed = ""
    n_checked = 0
    before = ""
    for kind, text in blocks:
        if kind == "python":
            output = io.StringIO()
            with contextlib.redirect_stdout(output):
                exec(compile(text, str(PAGE), "exec"), names)
            printed += output.getvalue()
        elif kind == "text" and before != "py":  # Programs in ```py have a test of their own: test_onnx.py.
            assert printed == text
            printed, n_checked = "", n_checked + 1
        before = kind
    assert n_checked >= 8 and printed == ""
    names["model"].close()
