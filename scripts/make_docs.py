#!/usr/bin/env python3
"""make_docs.py BUILD FOLDER: the site of weft's documentation, FOLDER/index.html. It needs no network once built.

Sphinx makes the pages of docs/. FOLDER/reference has the API: Doxygen documents C and C++; pdoc documents Python, from
a wheel with BUILD's library. Fails where Sphinx warns, and where Doxygen finds a mistake in the C headers or an
undocumented item in them, except fields and constants with self-explanatory names.

--pages FOLDER: the pages of docs/ alone, which needs no build."""
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from make_wheel import make_environment, make_wheel, run

SOURCE = Path(__file__).resolve().parent.parent
VERSION = re.search(r"project\(weft VERSION ([\d.]+)", (SOURCE / "CMakeLists.txt").read_text())[1]
SITE = ["sphinx==9.0.4", "furo==2025.12.19", "myst-parser==5.2.0", "sphinx-copybutton==0.5.2"]
REFERENCE = ["pdoc==16.0.0", "numpy"]
BY_NAME = ("(variable)", "(enumvalue)", "(enumeration)")


def doxygen(folder: Path, name: str, options: dict[str, object]) -> list[str]:
    """Writes a reference into folder/name; returns what Doxygen warns of."""
    folder.mkdir(parents=True, exist_ok=True)
    log = folder / f"{name}.log"
    main_page = folder / f"{name}.md"
    main_page.write_text(options.pop("MAIN_PAGE"))
    every = {"PROJECT_NAME": f'"weft in {options.pop("LANGUAGE")}"', "PROJECT_NUMBER": VERSION, "OUTPUT_DIRECTORY": folder,
             "HTML_OUTPUT": name, "GENERATE_LATEX": "NO", "QUIET": "YES", "WARN_LOGFILE": log, "RECURSIVE": "YES",
             "STRIP_FROM_PATH": SOURCE, "USE_MDFILE_AS_MAINPAGE": main_page, "HAVE_DOT": "NO", "MACRO_EXPANSION": "YES", "EXPAND_ONLY_PREDEF": "YES",
             "PREDEFINED": '"WEFT_API="'}
    every["INPUT"] = f"{options.pop('INPUT')} {main_page}"
    text = "".join(f"{key} = {value}\n" for key, value in (every | options).items())
    subprocess.run(["doxygen", "-"], input=text, text=True, check=True)
    warnings = log.read_text().splitlines()
    for file in (log, main_page):
        file.unlink()
    return warnings


def make_pages(folder: Path, environments: Path) -> None:
    python = make_environment(environments / "site", *SITE)
    with tempfile.TemporaryDirectory() as state:
        run(python, "-m", "sphinx", "-q", "-W", "--keep-going", "-d", state, SOURCE / "docs", folder)


def make_reference(build: Path, folder: Path) -> int:
    headers = [SOURCE / "c" / name for name in ("weft.h", "weft_graph.h", "weft_media.h")]
    back = "[All documentation](../../index.html)\n"
    files = "".join(f"- {header.name}\n" for header in headers)
    warnings = doxygen(folder, "c", {"LANGUAGE": "C", "INPUT": " ".join(map(str, headers)), "OPTIMIZE_OUTPUT_FOR_C": "YES",
                                     "MAIN_PAGE": f"# The C API\n\n{files}\n[Guide](../../c.html). {back}"})
    problems = [line for line in warnings if not any(kind in line for kind in BY_NAME)]
    if problems:
        print("\n".join(problems), file=sys.stderr)
        return 1
    doxygen(folder, "cpp", {"LANGUAGE": "C++", "INPUT": SOURCE / "include", "EXTRACT_ALL": "YES", "WARNINGS": "NO",
                            "WARN_IF_UNDOCUMENTED": "NO", "MAIN_PAGE": "# The C++ API\n\n"
                            "- [Classes](annotated.html)\n- [Headers](files.html)\n\n"
                            f"[Guide](../../cpp.html). {back}"})

    wheel = make_wheel(build, folder.parent.parent / "python")
    python = make_environment(folder.parent.parent / "python/docs", *REFERENCE)
    run(python, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--force-reinstall", "--no-deps", wheel)
    # The plugins need packages of others.
    run(python, "-I", "-m", "pdoc", "-o", folder / "python", "weft", "!weft.plugins")
    return 0


def main() -> int:
    pages_only = sys.argv[1] == "--pages"
    build, folder = (Path(word).resolve() for word in sys.argv[1:])
    make_pages(folder, folder.parent / "python")
    if not pages_only and (status := make_reference(build, folder / "reference")) != 0:
        return status
    print(folder / "index.html")
    return 0


if __name__ == "__main__":
    sys.exit(main() if len(sys.argv) == 3 else __doc__)
