#!/usr/bin/env python3
"""make_docs.py BUILD FOLDER: the reference of weft, from its headers and docstrings: FOLDER/index.html leads to it.

Doxygen documents C and C++; pdoc documents Python, from a wheel with BUILD's library. Fails where Doxygen finds a
mistake in the C headers or an undocumented item in them, except fields and constants with self-explanatory names."""
import re
import subprocess
import sys
from pathlib import Path

from make_wheel import make_environment, make_wheel, run

SOURCE = Path(__file__).resolve().parent.parent
VERSION = re.search(r"project\(weft VERSION ([\d.]+)", (SOURCE / "CMakeLists.txt").read_text())[1]
BY_NAME = ("(variable)", "(enumvalue)", "(enumeration)")


def doxygen(folder: Path, name: str, options: dict[str, object]) -> list[str]:
    """Writes a reference into folder/name; returns what Doxygen warns of."""
    folder.mkdir(parents=True, exist_ok=True)
    log = folder / f"{name}.log"
    every = {"PROJECT_NAME": f'"weft in {options.pop("LANGUAGE")}"', "PROJECT_NUMBER": VERSION, "OUTPUT_DIRECTORY": folder,
             "HTML_OUTPUT": name, "GENERATE_LATEX": "NO", "QUIET": "YES", "WARN_LOGFILE": log, "RECURSIVE": "YES",
             "STRIP_FROM_PATH": SOURCE, "HAVE_DOT": "NO", "MACRO_EXPANSION": "YES", "EXPAND_ONLY_PREDEF": "YES",
             "PREDEFINED": '"WEFT_API="'}
    text = "".join(f"{key} = {value}\n" for key, value in (every | options).items())
    subprocess.run(["doxygen", "-"], input=text, text=True, check=True)
    return log.read_text().splitlines()


def main() -> int:
    build, folder = (Path(word).resolve() for word in sys.argv[1:])
    headers = [SOURCE / "c" / name for name in ("weft.h", "weft_graph.h", "weft_media.h")]
    guide = SOURCE / "docs/c.md"
    warnings = doxygen(folder, "c", {"LANGUAGE": "C", "INPUT": " ".join(map(str, [*headers, guide])),
                                     "USE_MDFILE_AS_MAINPAGE": guide, "OPTIMIZE_OUTPUT_FOR_C": "YES"})
    problems = [line for line in warnings if not any(kind in line for kind in BY_NAME)]
    if problems:
        print("\n".join(problems), file=sys.stderr)
        return 1
    doxygen(folder, "cpp", {"LANGUAGE": "C++", "INPUT": f"{SOURCE / 'include'} {SOURCE / 'docs/guide'}",
                            "EXTRACT_ALL": "YES", "WARNINGS": "NO", "WARN_IF_UNDOCUMENTED": "NO"})

    wheel = make_wheel(build, folder.parent / "python")
    python = make_environment(folder.parent / "python/docs", "pdoc", "numpy")
    run(python, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--force-reinstall", "--no-deps", wheel)
    # The plugins need packages of others.
    run(python, "-I", "-m", "pdoc", "-o", folder / "python", "weft", "!weft.plugins")

    languages = {"c": "C", "cpp": "C++", "python": "Python"}
    links = "".join(f'<li><a href="{place}/index.html">{name}</a></li>' for place, name in languages.items())
    index = folder / "index.html"
    index.write_text(f"<!doctype html><title>weft</title><h1>weft {VERSION}</h1><ul>{links}</ul>\n")
    print(index)
    return 0


if __name__ == "__main__":
    sys.exit(main() if len(sys.argv) == 3 else __doc__)
