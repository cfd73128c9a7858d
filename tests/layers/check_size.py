#!/usr/bin/env python3
"""Checks that the files which git tracks stay small: check_size.py --root TREE [--limit MIB] [--self-test]

A larger tree fails, and the largest files are named. Exit status 77: git does not know TREE.
--self-test checks both results with small trees of its own.
"""
import argparse
import contextlib
import io
import subprocess
import sys
import tempfile
from pathlib import Path

SKIPPED = 77


def tracked(root):
    """Sizes of the tracked files in bytes, largest first. None without git or outside of a checkout."""
    try:
        listed = subprocess.run(["git", "-C", root, "ls-files", "-z"], capture_output=True)
    except FileNotFoundError:
        return None
    if listed.returncode:
        return None
    names = set(listed.stdout.decode(errors="surrogateescape").split("\0")) - {""}
    files = [(root / name, name) for name in names]
    return sorted(((path.lstat().st_size, name) for path, name in files if path.is_symlink() or path.exists()),
                  reverse=True)


def check(root, limit):
    sizes = tracked(root)
    if sizes is None:
        print(f"git does not know {root}")
        return SKIPPED
    total = sum(size for size, _ in sizes) / 2**20
    if total <= limit:
        return 0
    print(f"The tracked files have {total:.1f} MiB, and the limit is {limit} MiB. The largest are:")
    for size, name in sizes[:20]:
        print(f"{size / 2**20:9.2f}  {name}")
    print("scripts/packed_data.py compresses models; scripts/coarse.py draws weights that compress well.")
    return 1


def self_test():
    with tempfile.TemporaryDirectory() as scratch:
        root = Path(scratch)
        subprocess.run(["git", "init", "-q", root], check=True)
        (root / "small").write_bytes(bytes(1000))
        (root / "large").write_bytes(bytes(2**20))
        (root / "untracked").write_bytes(bytes(2**22))
        subprocess.run(["git", "-C", root, "add", "small", "large"], check=True)
        with contextlib.redirect_stdout(io.StringIO()) as said:
            assert check(root, 2) == 0, said.getvalue()
            assert check(root, 1) == 1
        assert "1.0 MiB" in said.getvalue() and said.getvalue().index("large\n") < said.getvalue().index("small\n")
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=Path, required=True)
    parser.add_argument("--limit", type=float, default=45, help="in MiB (default: 45)")
    parser.add_argument("--self-test", action="store_true")
    args = parser.parse_args()
    sys.exit(self_test() if args.self_test else check(args.root, args.limit))


if __name__ == "__main__":
    main()
