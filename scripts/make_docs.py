#!/usr/bin/env python3
"""Makes the site of weft's documentation, FOLDER/index.html. It needs no network once built.

Sphinx makes the pages of docs/. FOLDER/reference has the API: Doxygen documents C and C++; pdoc documents Python, from
a wheel with the build's library. Fails where Sphinx warns, and where Doxygen finds a mistake in the C headers or an
undocumented item in them, except fields and constants with self-explanatory names."""
import argparse
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from make_wheel import make_environment, make_wheel, run

SOURCE = Path(__file__).resolve().parent.parent
VERSION = re.search(r"#define WEFT_VERSION \"([\d.]+)", (SOURCE / "include/weft/version.h").read_text())[1]
SITE = ["sphinx==9.0.4", "furo==2025.12.19", "myst-parser==5.2.0", "sphinx-copybutton==0.5.2"]
REFERENCE = ["pdoc==16.0.0", "numpy"]
BACK = "[All documentation](../../index.html)"
# Runs pdoc. Python's inspect cannot read the signatures of nanobind's constructors; weft.arguments reads them.
PDOC = """
import pdoc.__main__, pdoc.doc
from weft.arguments import _signature

from_callable = pdoc.doc._PrettySignature.from_callable

def read(function):
    if not hasattr(function, "__nb_signature__"):
        return from_callable(function)
    shown = lambda self, *args, **kwargs: None
    if not any("*args" in text for text, *_ in function.__nb_signature__):
        shown.__signature__ = _signature(function)
    return from_callable(shown)

pdoc.doc._PrettySignature.from_callable = read
pdoc.__main__.cli()
"""
BY_NAME = ("(variable)", "(enumvalue)", "(enumeration)")


def doxygen(folder: Path, name: str, main_text: str, options: dict[str, object]) -> list[str]:
    """Writes a reference into folder/name; returns Doxygen's warnings."""
    folder.mkdir(parents=True, exist_ok=True)
    log = folder / f"{name}.log"
    main_page = folder / f"{name}.md"
    main_page.write_text(main_text)
    every = {"PROJECT_NAME": f'"weft in {options.pop("LANGUAGE")}"', "PROJECT_NUMBER": VERSION, "OUTPUT_DIRECTORY": folder,
             "HTML_OUTPUT": name, "GENERATE_LATEX": "NO", "QUIET": "YES", "WARN_LOGFILE": log, "RECURSIVE": "YES",
             "STRIP_FROM_PATH": SOURCE, "USE_MDFILE_AS_MAINPAGE": main_page, "HAVE_DOT": "NO", "MACRO_EXPANSION": "YES",
             "EXPAND_ONLY_PREDEF": "YES", "PREDEFINED": '"WEFT_API="', "JAVADOC_AUTOBRIEF": "YES",
             "HTML_EXTRA_STYLESHEET": SOURCE / "docs/_static/reference.css"}
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


def make_c_reference(folder: Path) -> list[str]:
    """Returns the mistakes in the headers."""
    headers = sorted((SOURCE / "c").glob("weft*.h"))
    warnings = doxygen(folder, "c", f"# The C API\n\n[Headers](files.html)\n\n[Guide](../../c.html). {BACK}",
                       {"LANGUAGE": "C", "INPUT": " ".join(map(str, headers)), "OPTIMIZE_OUTPUT_FOR_C": "YES"})
    return [line for line in warnings if not any(kind in line for kind in BY_NAME)]


def make_cpp_reference(folder: Path) -> None:
    doxygen(folder, "cpp", "# The C++ API\n\n[Headers](files.html), [classes](annotated.html)\n\n"
            f"[Guide](../../cpp.html), [graphs](../../graphs.html). {BACK}",
            {"LANGUAGE": "C++", "INPUT": SOURCE / "include", "EXTRACT_ALL": "YES", "WARNINGS": "NO",
             "WARN_IF_UNDOCUMENTED": "NO"})


def make_python_reference(build: Path, folder: Path, environments: Path) -> None:
    wheel = make_wheel(build, environments)
    python = make_environment(environments / "docs", *REFERENCE)
    run(python, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--force-reinstall", "--no-deps", wheel)
    # The plugins need packages of others.
    run(python, "-I", "-c", PDOC, "-o", folder / "python", "weft", "!weft.plugins")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=Path, nargs="?", help="a release build; without it, the reference of Python is left out")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only-c", action="store_true", help="the reference of C alone, as a check of its headers")
    args = parser.parse_args()
    folder = args.folder.resolve()
    environments = folder.parent / "python"
    if not args.only_c:
        make_pages(folder, environments)
        make_cpp_reference(folder / "reference")
        if args.build:
            make_python_reference(args.build.resolve(), folder / "reference", environments)
    problems = make_c_reference(folder / "reference")
    print("\n".join(problems) or folder / "index.html")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
