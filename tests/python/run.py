#!/usr/bin/env python3
"""run.py BUILD FOLDER [PYTEST ARGUMENTS...]: the tests of the Python package, from a wheel in an empty environment.

The wheel is made of the library in BUILD. The first argument may be --plugins, --lm-eval, --onnx, --types or --ray.
Then only the tests of that kind run, in an environment with the packages that they need. Exits with status 77 if packages
are missing and no package index can be reached."""
import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "scripts"))

from make_wheel import install, make_environment, make_wheel  # noqa: E402

# Groups of tests by option: the files, further packages that they need, and packages of which only the files are
# needed.
PLUGINS = {
    "--plugins": ("test_plugins.py", ["llm", "langchain-core", "llama-index-core"], []),
    "--lm-eval": ("test_lm_eval.py", ["lm-eval"], []),
    "--onnx": ("test_onnx.py", ["onnx", "onnxruntime"], ["rapidocr-onnxruntime==1.4.4", "silero-vad==6.2.3"]),
    "--types": ("test_types.py", ["mypy", "typing_extensions"], []),
    "--ray": ("test_ray.py", ["ray[serve,data]", "psutil"], []),
}


def main() -> int:
    build, folder, *words = sys.argv[1:]
    folder = Path(folder).resolve()
    wheel = make_wheel(Path(build).resolve(), folder)
    name, packages, files = "user", [], []
    tests = [HERE, *(f"--ignore={HERE / file}" for file, _, _ in PLUGINS.values())]
    if words and words[0] in PLUGINS:
        name = words.pop(0).strip("-")
        file, packages, files = PLUGINS["--" + name]
        tests = [HERE / file]
    tools = folder / "tools" / "bin" / "python3"  # make_wheel's.
    python = make_environment(folder / name, "numpy", "pytest", *packages, pip_of=tools)
    if files:
        install(python, "--no-deps", *files, pip_of=tools)
    install(python, "--no-deps", "--force-reinstall", wheel, pip_of=tools)
    # Isolated: only installed packages are found, neither the source nor names of the caller's environment.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    return subprocess.run([python, "-I", "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests, *words],
                          env=environment).returncode


if __name__ == "__main__":
    sys.exit(main())
