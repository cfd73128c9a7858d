#!/usr/bin/env python3
"""make_wheel.py BUILD FOLDER: a wheel of the Python package around the library that BUILD has, in FOLDER/wheel.

Prints its path. Its build requirements (nanobind, scikit-build-core) are installed once into a virtual environment in
FOLDER. Objects are kept there, too, so the next wheel compiles only changed files."""
import shutil
import subprocess
import sys
import venv
from pathlib import Path

SOURCE = Path(__file__).resolve().parent.parent
TOOLS = ["nanobind", "scikit-build-core"]
SKIPPED = 77
UNREACHABLE = ("NewConnectionError", "ConnectTimeoutError", "ReadTimeoutError", "ProxyError")  # Words of pip.


def run(*command: object) -> None:
    result = subprocess.run([str(word) for word in command], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if result.returncode != 0:
        sys.exit(f"FAILED ({result.returncode}): {' '.join(map(str, command))}\n{result.stdout}")


def install(python: Path, *words: object, pip_of: Path | None = None) -> None:
    """Runs pip install. Exits with status 77 where no package index can be reached."""
    pip = [python, "-m", "pip"] if pip_of is None else [pip_of, "-m", "pip", "--python", python]
    try:
        run(*pip, "install", "-q", "--disable-pip-version-check", *words)
    except SystemExit as error:
        if not any(word in str(error) for word in UNREACHABLE):
            raise
        print(f"skipped: no package index can be reached for {' '.join(map(str, words))}")
        sys.exit(SKIPPED)


def make_environment(folder: Path, *packages: str, pip_of: Path | None = None) -> Path:
    """A virtual environment with these packages, and its Python. One that has them already is left as it is. Exits with
    status 77 if they are not there and no package index can be reached. The pip of another environment's Python, if given,
    installs them: an own one takes seconds."""
    stamp = folder / "packages.txt"
    python = folder / "bin" / "python3"
    wanted = "\n".join(packages)
    if not stamp.exists() or stamp.read_text() != wanted:
        venv.create(folder, with_pip=pip_of is None, clear=True)
        install(python, *packages, pip_of=pip_of)
        stamp.write_text(wanted)
    return python


def make_wheel(build: Path, folder: Path) -> Path:
    python = make_environment(folder / "tools", *TOOLS)
    prefix, wheels = folder / "library", folder / "wheel"
    for component in ("graph", "library"):
        run("cmake", "--install", build, "--prefix", prefix, "--component", component)
    shutil.rmtree(wheels, ignore_errors=True)
    (package,) = prefix.glob("lib*/**/weftConfig.cmake")
    run(python, "-m", "pip", "wheel", "-q", "--no-build-isolation", "--no-deps", "--wheel-dir", wheels,
        "--config-settings", f"build-dir={folder / 'objects'}", "--config-settings", f"cmake.define.weft_DIR={package.parent}",
        "--config-settings", f"cmake.define.WEFT_MODULES={build}", SOURCE)
    (wheel,) = wheels.glob("*.whl")
    return wheel


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    print(make_wheel(Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve()))
