#!/usr/bin/env python3
"""Writes the C++ source with the files of the web page: embed.py UI_FOLDER POLICY_FILE OUTPUT.

The output depends on the files alone: no times, no paths of the machine."""
import gzip
import hashlib
import sys
from pathlib import Path

TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
# Octal, as hexadecimal escapes would take in a digit that follows.
ESCAPES = [chr(b) if 32 <= b < 127 and chr(b) not in '"\\?' else f"\\{b:03o}" for b in range(256)]
LINE = 100


def literal(data: bytes) -> str:
    lines = ["".join(ESCAPES[b] for b in data[at:at + LINE]) for at in range(0, len(data), LINE)] or [""]
    return "std::string_view(\n" + "\n".join(f'    "{line}"' for line in lines) + f",\n    {len(data)})"


def main() -> int:
    ui, policy, output = (Path(argument) for argument in sys.argv[1:])
    rows = []
    for file in sorted(ui.rglob("*")):
        if not file.is_file():
            continue
        if file.suffix not in TYPES:
            print(f"{file}: a file of this kind is not served; its type belongs into TYPES of embed.py", file=sys.stderr)
            return 1
        relative = file.relative_to(ui).as_posix()
        rows.append(("/" if relative == "index.html" else f"/ui/{relative}", TYPES[file.suffix], file.read_bytes()))
    rows.sort(key=lambda row: row[0].encode())
    parts = [
        "// Made by embed.py.\n#include \"web_files.h\"\n\nnamespace weft::server {\nnamespace {\n\nconst WebFile kFiles[] = {\n",
    ]
    for path, content_type, data in rows:
        etag = hashlib.sha256(data).hexdigest()[:32]
        parts.append(f'{{"{path}", "{content_type}",\n{literal(data)},\n{literal(gzip.compress(data, 9, mtime=0))},\n"\\"{etag}\\""}},\n')
    parts.append("};\n\n}  // namespace\n\nstd::span<const WebFile> web_files() { return kFiles; }\n\nstd::string_view web_content_policy() {\n  return ")
    parts.append(f"{literal(policy.read_text().strip().encode())};\n}}\n\n}}  // namespace weft::server\n")
    output.write_text("".join(parts))
    return 0


if __name__ == "__main__":
    sys.exit(main())
