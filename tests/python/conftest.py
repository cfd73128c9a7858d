"""What the tests of the Python package share: tiny models."""
import struct
from pathlib import Path

import pytest
import weft

DATA = Path(__file__).resolve().parent.parent / "data"
GOLDEN = DATA / "golden"
ENCODERS = DATA / "golden_encoders"
CHATML = (DATA / "templates" / "chatml.jinja").read_text()


def with_template(source: Path, target: Path, template: str) -> Path:
    """A copy of a model's file with a chat template, as first of its metadata."""
    data = source.read_bytes()
    (n_kv,) = struct.unpack_from("<Q", data, 16)
    key = b"tokenizer.chat_template"
    head = struct.pack("<Q", len(key)) + key + struct.pack("<I", 8)
    text = template.encode()
    text += b" " * (-(len(head) + 8 + len(text) + len("{##}")) % 32)  # So that tensors stay aligned.
    text = text[: len(template.encode())] + b"{#" + text[len(template.encode()) :] + b"#}"
    entry = head + struct.pack("<Q", len(text)) + text
    target.write_bytes(data[:16] + struct.pack("<Q", n_kv + 1) + entry + data[24:])
    return target


@pytest.fixture(scope="session")
def chat_file(tmp_path_factory):
    return with_template(GOLDEN / "llama/model.gguf", tmp_path_factory.mktemp("models") / "chat.gguf", CHATML)


@pytest.fixture(scope="module")
def model(chat_file):
    with weft.Model(chat_file, n_ctx=4096, pack_cache="") as one:
        yield one
