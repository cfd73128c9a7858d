#!/usr/bin/env python3
"""Tests scripts/packed_data.py: when it writes a file again, and which files remain after errors."""
import lzma
import os
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))
import packed_data  # noqa: E402


class PackedData(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = Path(scratch.name)
        self.packed = self.folder / "sub/model.gguf.xz"
        self.file = self.folder / "sub/model.gguf"
        self.packed.parent.mkdir()
        self.packed.write_bytes(lzma.compress(b"first"))

    def unpack(self):
        return packed_data.unpack(self.folder)

    def test_unpacks_once(self):
        self.assertEqual(self.unpack(), 1)
        self.assertEqual(self.file.read_bytes(), b"first")
        self.assertEqual(self.unpack(), 0)

    def test_unpacks_deleted_files_again(self):
        self.unpack()
        self.file.unlink()
        self.assertEqual(self.unpack(), 1)
        self.assertEqual(self.file.read_bytes(), b"first")

    def test_follows_the_packed_file(self):
        self.unpack()
        self.packed.write_bytes(lzma.compress(b"second"))
        # An older time counts as well: git and tar write files of any age.
        for time in (10**18, 2 * 10**18):
            os.utime(self.packed, ns=(time, time))
            self.assertEqual(self.unpack(), 1)
            self.assertEqual(self.file.read_bytes(), b"second")

    def test_replaces_changed_files(self):
        self.unpack()
        self.file.write_bytes(b"other")
        os.utime(self.file, ns=(1, 1))
        self.assertEqual(self.unpack(), 1)
        self.assertEqual(self.file.read_bytes(), b"first")

    def test_damaged_files_are_named_and_nothing_is_written(self):
        self.packed.write_bytes(lzma.compress(b"first")[:-8])
        with self.assertRaisesRegex(SystemExit, "model.gguf.xz: "):
            self.unpack()
        self.assertEqual(list(self.packed.parent.iterdir()), [self.packed])

    def test_packing_gives_the_same_bytes(self):
        for name in ("a.gguf", "b.f32"):
            data = os.urandom(999)
            (self.folder / name).write_bytes(data)
            packed_data.pack(self.folder / name)
            self.assertEqual(lzma.decompress((self.folder / f"{name}.xz").read_bytes()), data)
        self.assertEqual(self.unpack(), 1)  # Only the file of setUp: the others are up to date.


if __name__ == "__main__":
    unittest.main()
