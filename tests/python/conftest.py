"""What the tests of the Python package share: tiny models."""
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import weft

DATA = Path(__file__).resolve().parent.parent / "data"
GOLDEN = DATA / "golden"
ENCODERS = DATA / "golden_encoders"
# A wheel is tested without a build of the tree, which unpacks the models.
subprocess.run([sys.executable, DATA.parent.parent / "scripts/packed_data.py"], check=True)
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


def write_gguf(path: Path, metadata: dict, tensors: dict) -> Path:
    """Strings, numbers and f32 tensors, each a multiple of 32 bytes."""

    def text(value: str) -> bytes:
        return struct.pack("<Q", len(value.encode())) + value.encode()

    data = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(metadata))
    for key, value in metadata.items():
        data += text(key) + (struct.pack("<I", 8) + text(value) if isinstance(value, str) else struct.pack("<If", 6, value))
    offset = 0
    for name, array in tensors.items():
        data += text(name) + struct.pack(f"<I{array.ndim}QIQ", array.ndim, *array.shape[::-1], 0, offset)
        offset += array.nbytes
    data += bytes(-len(data) % 32)
    path.write_bytes(data + b"".join(np.ascontiguousarray(array, np.float32).tobytes() for array in tensors.values()))
    return path


@pytest.fixture(scope="session")
def adapter_file(tmp_path_factory):
    """A LoRA adapter of rank 2 that changes the tiny model's completions."""
    numbers = np.random.default_rng(5)
    tensors = {"blk.0.attn_q.weight.lora_a": numbers.standard_normal((2, 128)).astype(np.float32),
               "blk.0.attn_q.weight.lora_b": numbers.standard_normal((128, 2)).astype(np.float32),
               "blk.2.ffn_down.weight.lora_a": numbers.standard_normal((2, 352)).astype(np.float32),
               "blk.2.ffn_down.weight.lora_b": numbers.standard_normal((128, 2)).astype(np.float32)}  # fmt: skip
    metadata = {"general.type": "adapter", "adapter.type": "lora", "general.architecture": "llama", "adapter.lora.alpha": 4.0}
    return write_gguf(tmp_path_factory.mktemp("adapters") / "lora.gguf", metadata, tensors)


@pytest.fixture(scope="session")
def chat_file(tmp_path_factory):
    return with_template(GOLDEN / "llama/model.gguf", tmp_path_factory.mktemp("models") / "chat.gguf", CHATML)


@pytest.fixture(scope="module")
def model(chat_file):
    with weft.Model(chat_file, n_ctx=4096, pack_cache="") as one:
        yield one
