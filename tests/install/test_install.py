#!/usr/bin/env python3
"""Installs weft, moves the installation, and builds and runs programs with it, by CMake and by pkg-config. One is
example/ with all of it, the other is graph/ with only the component `graph`."""
import argparse
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from guide import write_programs


def run(command: list, **options) -> str:
    command = [str(word) for word in command]
    result = subprocess.run(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **options)
    if result.returncode != 0:
        sys.exit(f"FAILED ({result.returncode}): {' '.join(command)}\n{result.stdout}")
    return result.stdout


def need(condition: bool, message: str) -> None:
    if not condition:
        sys.exit(f"FAILED: {message}")


def check_build_target(build: Path, source: Path) -> None:
    """What `make build` builds is all that is installed: ninja is asked what its target needs."""
    commands = run(["make", "-n", "-C", source, "build"])
    (target,) = re.findall(r"cmake --build .* --target (\w+)", commands)
    # What the linker writes, and its links with less of the version.
    commands = run(["ninja", "-C", build, "-t", "commands", target])
    made = set(re.findall(r" -o (\S+)", commands))
    # Manuals and completions are written into a folder.
    made |= {str(Path(path).relative_to(build.resolve())) for path in re.findall(r" --install (\S+)", commands)}
    scripts = []
    for folder, folders, files in os.walk(build):
        # The Python package's build is a separate project inside this build's folder. Its test may run now.
        if Path(folder) == build and "python" in folders:
            folders.remove("python")
        if "cmake_install.cmake" in files:
            scripts.append(Path(folder) / "cmake_install.cmake")
    install = "".join(path.read_text() for path in scripts)
    installed = [Path(path) for path in re.findall(r'FILES "([^"]+)"', install)]
    built = {path.relative_to(build).as_posix() for path in installed if path.is_relative_to(build)}
    # CMake writes packages' files when it configures.
    built = {path for path in built if not path.endswith((".cmake", ".pc"))}
    for library in ("libweft.so", "libweft_graph.so", "libweft_c.so"):
        need("weft" in built and any(library in path for path in built), f"nothing is built of {built}")
    for path in sorted(built):
        known = any(one == path or one.startswith(path + ".") for one in made)
        need(known, f"{path} is installed, and `make build` does not build it")


def check_since(headers: Path, source: Path) -> None:
    """Each header of the graph library names the version that introduced it."""
    header = (source / "include/weft/version.h").read_text()
    version = re.search(r"#define WEFT_VERSION \"(\d+)\.(\d+)", header).groups()
    found = sorted(headers.rglob("*.h"))
    need(len(found) > 15, f"few headers of the graph library: {found}")
    for header in found:
        since = re.match(r"// Since (\d+)\.(\d+)\n#pragma once\n", header.read_text())
        need(since is not None, f"{header.name} does not begin with the version that it came with: // Since "
                                + ".".join(version))
        need(tuple(map(int, since.groups())) <= tuple(map(int, version)), f"{header.name} is of a version to come")


def check_standard(args: argparse.Namespace, headers: tuple[str, ...], flags: list[str]) -> None:
    """The flags set no standard: the compiler's first error says which one the headers need."""
    includes = [flag for flag in flags if flag.startswith("-I")]
    for header in headers:
        old = subprocess.run([args.cxx, "-std=c++17", "-fsyntax-only", "-x", "c++", "-include", header, "/dev/null", *includes],
                             capture_output=True, text=True)  # fmt: skip
        errors = [line for line in old.stderr.splitlines() if "error" in line]
        need(errors and "weft needs C++20" in errors[0], f"{header} does not ask for C++20: {old.stderr[:500]}")


def check_missing_component(args: argparse.Namespace, prefix: Path) -> None:
    """A component that is not installed is named in the error."""
    project = args.scratch / "missing_component"
    project.mkdir()
    (project / "CMakeLists.txt").write_text("cmake_minimum_required(VERSION 3.20)\nproject(missing NONE)\n"
                                            "find_package(weft REQUIRED COMPONENTS graph weft)\n")
    failed = subprocess.run([args.cmake, "-S", project, "-B", project / "build", f"-DCMAKE_PREFIX_PATH={prefix}"],
                            capture_output=True, text=True)  # fmt: skip
    need(failed.returncode != 0 and 'no component "weft"' in failed.stderr, f"no component is named: {failed.stderr}")


def check_graph_library(args: argparse.Namespace) -> Path:
    """The component `graph` alone: programs build and run with it. Returns a backend module that was built so."""
    first, prefix, build = (args.scratch / name for name in ("first_graph", "graph", "by_cmake_graph"))
    run([args.cmake, "--install", args.build, "--prefix", first, "--component", "graph"])
    first.rename(prefix)
    for path in ("weft/model.h", "weft/tokenizer.h", "weft/context.h"):
        need(not (prefix / "include" / path).exists(), f"{path} is installed with the graph library")
    check_since(prefix / "include", args.source)
    pages = write_programs(args.source / "docs/guide", args.scratch / "guide")
    need(len(pages) >= 5, f"few pages of the guide: {pages}")
    packages = [f"-DCMAKE_PREFIX_PATH={prefix}", f"-DCMAKE_CXX_COMPILER={args.cxx}"]
    run([args.cmake, "-S", args.example.parent / "graph", "-B", build, *packages,
         f"-DEXAMPLES={args.source / 'examples'}", f"-DGUIDE={args.scratch / 'guide'}", "-DCMAKE_CXX_FLAGS=-Wall -Wextra -Werror"])
    run([args.cmake, "--build", build])
    whole = subprocess.run([str(word) for word in (args.cmake, "-S", args.example, "-B", args.scratch / "none",
                                                   *packages)], capture_output=True, text=True)
    need(whole.returncode != 0 and "weft" in whole.stderr, "weft::weft is found where the graph library is alone")

    output = run([build / "graph"])
    need("4 steps" in output and "compiled 1 time" in output, f"the graph did not run: {output}")
    output = run([build / "backend"])
    need(re.search(r"matmul: \d+ cases of \d+, 0 failed", output) is not None, f"no conformance in: {output}")
    need("split 1 on cpu" in output and "in 3 steps" in output, f"the graph was not run in two parts: {output}")

    for name, expected in pages.items():
        output = run([build / name])
        need(output == expected, f"docs/guide/{name.removeprefix('guide_')}.md promises\n{expected}and prints\n{output}")

    need("12 elements of 3.0" in run([build / "sizes"]), "expressions of sizes do not work")

    (pc,) = prefix.rglob("weft-graph.pc")
    environment = os.environ | {"PKG_CONFIG_PATH": str(pc.parent)}
    flags = run(["pkg-config", "--cflags", "--libs", "weft-graph"], env=environment).split()
    by_pkgconfig = args.scratch / "graph_by_pkgconfig"
    run([args.cxx, "-std=c++20", args.source / "examples/graph.cpp", "-o", by_pkgconfig, *flags])
    check_standard(args, ("weft/graph.h", "weft/plan.h", "weft/weights.h"), flags)
    check_missing_component(args, prefix)
    needed = run(["readelf", "-d", by_pkgconfig])
    need("libweft_graph.so" in needed and "libweft.so" not in needed, f"linked with {needed}")
    return build / "weft_backend_slow.so"


def check_c(args: argparse.Namespace, libdir: Path, environment: dict[str, str]) -> None:
    """The C example, built by CMake (with the others) and by pkg-config, has the same output everywhere."""
    flags = run(["pkg-config", "--cflags", "--libs", "weft-c"], env=environment).split()
    by_pkgconfig = args.scratch / "c_by_pkgconfig"
    run(["cc", "-std=c99", "-Wall", "-Wextra", "-Wpedantic", "-Werror", args.source / "examples/c/c.c", "-o",
         by_pkgconfig, *flags])
    needed = re.findall(r"NEEDED.*\[(.*)\]", run(["readelf", "-d", by_pkgconfig]))
    need(any(re.fullmatch(r"libweft_c\.so\.\d+", name) for name in needed), f"the C library is known by {needed}")
    need("libweft.so" not in " ".join(needed), f"a C program is bound to the C++ library: {needed}")
    texts = [run([args.scratch / "c/c", args.model, "hello"]),
             run([by_pkgconfig, args.model, "hello"], env=os.environ | {"LD_LIBRARY_PATH": str(libdir)})]
    need("tokens (length)" in texts[0] and texts[0] == texts[1], f"two texts: {texts}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("--build", "--source", "--example", "--scratch", "--model"):
        parser.add_argument(name, type=Path, required=True)
    parser.add_argument("--cxx", required=True)
    parser.add_argument("--cmake", required=True)
    args = parser.parse_args()

    shutil.rmtree(args.scratch, ignore_errors=True)
    check_build_target(args.build, args.source)
    module = check_graph_library(args)
    first, prefix = args.scratch / "first", args.scratch / "moved"
    run([args.cmake, "--install", args.build, "--prefix", first])
    # Moved: an installation that named its prefix would stop working here.
    first.rename(prefix)

    for path in ("bin/weft", "include/weft/model.h", "share/man/man1/weft-run.1", "lib/systemd/system/weft.service",
                 "share/bash-completion/completions/weft", "share/doc/weft/copyright"):
        need((prefix / path).is_file(), f"{path} is not installed")
    for text in [*prefix.rglob("*.cmake"), *prefix.rglob("*.pc")]:
        need(str(first) not in text.read_text(), f"{text.name} names the prefix that it was installed to")
    (library,) = [path for path in prefix.rglob("libweft.so") if path.exists()]
    libdir = library.parent

    # What is visible is what the public headers declare.
    symbols = run(["nm", "-D", "-C", "--defined-only", library])
    names = {line.split(" ", 2)[2] for line in symbols.splitlines()}
    need(any(name.startswith("weft::Model::load") for name in names), "weft::Model::load is not exported")
    inner = [n for n in names if re.match(r"weft::(base|tensor|gguf|graph|backend|exec|kv|model)::", n)]
    need(not inner, f"symbols of inner layers are exported, e.g. {inner[:3]}")

    need("weft" in run([prefix / "bin/weft", "version"]), "the installed program does not tell its version")

    by_cmake = args.scratch / "by_cmake"
    run([args.cmake, "-S", args.example, "-B", by_cmake, f"-DCMAKE_PREFIX_PATH={prefix}",
         f"-DCMAKE_CXX_COMPILER={args.cxx}", "-DCMAKE_CXX_FLAGS=-Wall -Wextra -Werror"])
    run([args.cmake, "--build", by_cmake])

    # Examples with a page of their own are projects of their own.
    for example in sorted((args.source / "examples").glob("*/CMakeLists.txt")):
        build = args.scratch / example.parent.name
        run([args.cmake, "-S", example.parent, "-B", build, f"-DCMAKE_PREFIX_PATH={prefix}",
             f"-DCMAKE_CXX_COMPILER={args.cxx}", "-DCMAKE_CXX_FLAGS=-Wall -Wextra -Werror"])
        run([args.cmake, "--build", build])
        usage = subprocess.run([str(build / example.parent.name)], capture_output=True, text=True)
        need(usage.returncode == 2 and "usage" in usage.stderr, f"{example.parent.name} does not tell how it is used")

    environment = os.environ | {"PKG_CONFIG_PATH": str(libdir / "pkgconfig")}
    check_c(args, libdir, environment)
    flags = run(["pkg-config", "--cflags", "--libs", "weft"], env=environment).split()
    # No warning comes of a header, nor of parameters of which a user names some.
    warnings = ["-Wall", "-Wextra", "-Werror"]
    by_pkgconfig = args.scratch / "by_pkgconfig"
    run([args.cxx, "-std=c++20", *warnings, args.example / "main.cpp", "-o", by_pkgconfig, *flags])
    check_standard(args, ("weft/context.h", "weft/model.h", "weft/service.h", "weft/quantize.h"), flags)

    # A foreign module with its own graph library, in the program and next to libweft.
    (libdir / "weft").mkdir(exist_ok=True)
    shutil.copy(module, libdir / "weft")
    output = run([prefix / "bin/weft", "test-backend", "slow0", "--op", "matmul"])
    need("matmul" in output and "passed" in output, f"the module does not work: {output}")
    words = [prefix / "bin/weft", "run", "-m", args.model, "-p", "hello", "-n", "8", "--temp", "0"]
    texts = [subprocess.run([str(word) for word in [*words, *on]], capture_output=True, check=True).stdout
             for on in ((), ("--device", "slow0", "-ngl", "3"))]
    need(texts[0] != b"" and texts[0] == texts[1], f"a model says something else on the module's device: {texts}")

    for program, env in [(by_cmake / "example", None), (by_pkgconfig, os.environ | {"LD_LIBRARY_PATH": str(libdir)})]:
        output = run([program, args.model], env=env)
        need("device cpu" in output and "device slow0" in output, f"no CPU or no device of the module in: {output}")
        need("prompt <user>hi" in output, f"no prompt in: {output}")
        need("caught" in output, f"no caught error in: {output}")
        need("generated 4 tokens" in output, f"no generation in: {output}")
    print("installed, moved, built and run")


if __name__ == "__main__":
    main()
