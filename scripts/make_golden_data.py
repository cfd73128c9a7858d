#!/usr/bin/env python3
"""Makes tests/data/golden from reference models: usage make_golden_data.py SOURCE_DIR NAME...

Each SOURCE_DIR/NAME has model.gguf (F32), tokens.json and logits.f32 from PyTorch. Matrices are stored as F16 here,
which must be exact (it is checked), to keep the repository small; Mamba's ssm_a, an exponential, stays F32. Needs the
packages gguf and numpy.
"""
import shutil
import struct
import sys
from pathlib import Path

import numpy as np
from gguf import GGUFReader, GGMLQuantizationType


def write_f16(source: Path, target: Path) -> None:
    reader = GGUFReader(source)
    raw = source.read_bytes()
    # Header: magic, version, counts; then the metadata as it is, up to the first tensor's description.
    metadata = raw[24:reader.tensors[0].field.offset]
    infos, blobs, offset = b"", [], 0
    alignment = 32
    for tensor in reader.tensors:
        data = np.array(tensor.data)
        kind = tensor.tensor_type
        if kind == GGMLQuantizationType.F32 and len(tensor.shape) >= 2 and not tensor.name.endswith(".ssm_a"):
            half = data.astype(np.float16)
            assert np.array_equal(half.astype(np.float32), data), f"{tensor.name} is not exact in F16"
            data, kind = half, GGMLQuantizationType.F16
        name = tensor.name.encode()
        infos += struct.pack("<Q", len(name)) + name + struct.pack("<I", len(tensor.shape))
        infos += struct.pack(f"<{len(tensor.shape)}Q", *(int(n) for n in tensor.shape))
        infos += struct.pack("<IQ", int(kind), offset)
        blob = data.tobytes()
        blob += bytes(-len(blob) % alignment)
        blobs.append(blob)
        offset += len(blob)
    head = raw[:4] + struct.pack("<IQQ", 3, len(reader.tensors), struct.unpack("<Q", raw[16:24])[0]) + metadata + infos
    head += bytes(-len(head) % alignment)
    target.write_bytes(head + b"".join(blobs))


def main() -> None:
    source, target = Path(sys.argv[1]), Path(__file__).parent.parent / "tests/data/golden"
    for name in sys.argv[2:]:
        (target / name).mkdir(parents=True, exist_ok=True)
        write_f16(source / name / "model.gguf", target / name / "model.gguf")
        for file in ("tokens.json", "logits.f32", "tokenize.json"):
            shutil.copyfile(source / name / file, target / name / file)


if __name__ == "__main__":
    main()
