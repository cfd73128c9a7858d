#!/usr/bin/env python3
"""Unpacks the files of tests/data that the repository keeps compressed: packed_data.py [--pack FILE...]

Git has NAME.xz of each model and each file of floats (.gguf, .safetensors, .f32), and ignores NAME. Without arguments
the script writes NAME next to each NAME.xz. NAME gets the modification time of NAME.xz. A file with this time is up to
date, and any other is written again. CMake runs the script when it configures the tests.

--pack FILE... compresses files that a script made, in place of the old NAME.xz. The scripts that make test data do this
themselves. Needs only Python's own modules.
"""
import lzma
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

DATA = Path(__file__).resolve().parent.parent / "tests/data"
SUFFIXES = (".gguf", ".safetensors", ".f32")


def write(path, data):
    """Under another name first, so that no process sees half a file."""
    scratch = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        scratch.write_bytes(data)
        scratch.replace(path)
    except BaseException:
        scratch.unlink(missing_ok=True)
        raise


def unpack_file(packed):
    """Writes the file of a packed one. Returns whether it was not up to date."""
    path, time = packed.with_suffix(""), packed.stat().st_mtime_ns
    try:
        if path.stat().st_mtime_ns == time:
            return False
    except FileNotFoundError:
        pass
    try:
        data = lzma.decompress(packed.read_bytes())
    except lzma.LZMAError as error:
        raise SystemExit(f"{packed}: {error}; get it from git again: git checkout -- {packed}") from None
    write(path, data)
    os.utime(path, ns=(time, time))
    return True


def unpack(folder=DATA):
    """Brings the unpacked files up to date. Returns how many it wrote."""
    # Decompression runs without the lock of the interpreter.
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return sum(pool.map(unpack_file, sorted(folder.rglob("*.xz"))))


def compressed(path):
    """Values have 4 bytes in files of floats, and mostly 2 in models."""
    align = 2 if path.suffix == ".f32" else 1
    way = {"id": lzma.FILTER_LZMA2, "preset": 9 | lzma.PRESET_EXTREME, "lc": 0, "lp": align, "pb": align}
    return lzma.compress(path.read_bytes(), format=lzma.FORMAT_XZ, check=lzma.CHECK_CRC32, filters=[way])


def pack(*paths):
    """Compresses files. The files stay, as unpacked ones that are up to date."""
    for path in map(Path, paths):
        packed = path.with_name(path.name + ".xz")
        write(packed, compressed(path))
        time = packed.stat().st_mtime_ns
        os.utime(path, ns=(time, time))


def pack_folder(folder):
    """Compresses the models and floats of a folder, and of the folders in it."""
    pack(*sorted(path for path in Path(folder).rglob("*") if path.suffix in SUFFIXES))


def main():
    if sys.argv[1:2] == ["--pack"]:
        pack(*sys.argv[2:])
    elif len(sys.argv) > 1:
        raise SystemExit(__doc__)
    elif count := unpack():
        print(f"{count} files of tests/data unpacked")


if __name__ == "__main__":
    main()
