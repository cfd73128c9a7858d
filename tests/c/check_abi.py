#!/usr/bin/env python3
"""Compares the C API with abi.txt in this folder, the ABI that programs were compiled with: declarations, constants,
and offsets of fields in structs. The library must export exactly the functions.

    check_abi.py --cc cc --headers c --library build/release/c/libweft_c.so             fails where they differ
    check_abi.py --cc cc --headers c --library build/release/c/libweft_c.so --update    adds new items

Listed items may not change, and a field may not use former padding of a struct. Such a change needs another
WEFT_ABI_VERSION and a new list."""
import argparse
import re
import subprocess
import sys
import tempfile
from pathlib import Path

LIST = Path(__file__).with_name("abi.txt")


def words(text: str) -> str:
    return " ".join(text.split())


def read_headers(headers: Path) -> tuple[list[str], list[str], dict[str, list[str]]]:
    """Declarations; names of constants; structs and their fields."""
    text = "".join(path.read_text() for path in sorted(headers.glob("weft*.h")))
    text = re.sub(r"//[^\n]*", "", text)
    declarations = [words(one) for one in re.findall(r"^WEFT_API ([^;]*);", text, re.MULTILINE)]
    declarations += ["typedef " + words(one) for one in re.findall(r"^typedef (?!struct)([^;]*);", text, re.MULTILINE)]
    constants = re.findall(r"^#define (WEFT_\w+) [-(\d]", text, re.MULTILINE)
    for body in re.findall(r"^enum \{(.*?)\};", text, re.MULTILINE | re.DOTALL):
        constants += re.findall(r"\b(WEFT_\w+) =", body)
    structs = {}
    for name, body in re.findall(r"^typedef struct (\w+) \{(.*?)\} \1;", text, re.MULTILINE | re.DOTALL):
        structs[name] = [re.search(r"(\w+)(\[\w+\])?$", field.strip())[1] for field in body.split(";") if field.strip()]
    return declarations, constants, structs


def measure(cc: str, headers: Path, constants: list[str], structs: dict[str, list[str]]) -> list[str]:
    """What a C compiler makes of constants and structs."""
    lines = [f'printf("{name} = %lld\\n", (long long){name});' for name in constants]
    for name, fields in structs.items():
        lines.append(f'printf("sizeof {name} %zu\\n", sizeof({name}));')
        lines += [f'printf("{name}.{field} at %zu, %zu bytes\\n", offsetof({name}, {field}), sizeof((({name}*)0)->{field}));'
                  for field in fields]
    with tempfile.TemporaryDirectory() as folder:
        source, program = Path(folder) / "abi.c", Path(folder) / "abi"
        source.write_text('#include <stdio.h>\n#include "weft_graph.h"\n#include "weft_media.h"\nint main(void) {\n' + "\n".join(lines)
                          + "\nreturn 0;\n}\n")
        subprocess.run([cc, "-std=c99", f"-I{headers}", source, "-o", program], check=True)
        return subprocess.run([program], check=True, text=True, stdout=subprocess.PIPE).stdout.splitlines()


def breaks(listed: list[str], now: list[str]) -> list[str]:
    """What of the list is another thing now."""
    sizes = {}
    problems = []
    for line in listed:
        if size := re.match(r"sizeof (\w+) (\d+)$", line):
            sizes[size[1]] = int(size[2])
        elif line not in now:
            problems.append(f"listed, and no longer so: {line}")
    now_sizes = {name: int(size) for name, size in re.findall(r"^sizeof (\w+) (\d+)$", "\n".join(now), re.MULTILINE)}
    grows = {name for name, first in re.findall(r"^(\w+)\.(struct_size) at 0,", "\n".join(listed), re.MULTILINE)}
    for name, size in sizes.items():
        if now_sizes.get(name, 0) < size:
            problems.append(f"{name} is smaller than its {size} bytes")
        elif now_sizes[name] > size and name not in grows:
            problems.append(f"{name} does not begin with struct_size: it may not grow")
    for line in now:
        field = re.match(r"(\w+)\.(\w+) at (\d+),", line)
        if field and line not in listed and int(field[3]) < sizes.get(field[1], 0):
            problems.append(f"{field[1]}.{field[2]} lies where programs have {field[1]} already: at {field[3]} of "
                            f"{sizes[field[1]]} bytes")
    return problems


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cc", required=True)
    parser.add_argument("--headers", type=Path, required=True)
    parser.add_argument("--library", type=Path, required=True)
    parser.add_argument("--update", action="store_true")
    args = parser.parse_args()
    declarations, constants, structs = read_headers(args.headers)
    measured = measure(args.cc, args.headers.resolve(), constants, structs)
    now = sorted(declarations) + measured

    declared = {re.search(r"(\w+)\(", one)[1] for one in declarations if not one.startswith("typedef")}
    symbols = subprocess.run(["nm", "-D", "--defined-only", args.library], check=True, text=True,
                             stdout=subprocess.PIPE).stdout
    exported = {line.split()[-1] for line in symbols.splitlines()}
    problems = [f"declared, and not exported: {name}" for name in sorted(declared - exported)]
    problems += [f"exported, and not declared: {name}" for name in sorted(exported - declared)]

    listed = LIST.read_text().splitlines() if LIST.exists() else []
    (version,) = [line for line in now if line.startswith("WEFT_ABI_VERSION ")]
    if not listed or version in listed:
        problems += breaks(listed, now)
    if not problems and args.update:
        LIST.write_text("".join(f"{line}\n" for line in now))
        print(f"{LIST}: {len(declared)} functions, {len(now)} lines")
        return 0
    if not args.update:
        problems += [f"not listed (--update): {line}" for line in now if line not in listed]
    print("\n".join(problems) or f"{len(declared)} functions, as listed")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
