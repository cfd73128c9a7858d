#!/usr/bin/env python3
"""Checks that links and includes go in the direction of the design, and nowhere else; and that one file parses JSON.

DESIGN below is the order of the layers: for each layer the layers that it may link. The links that CMake has (--links,
written at configuration) must be within it. Every #include must name the file's own layer, a layer that it links
(directly or through others), or include/weft, which is below all layers.

--self-test plants violations of every kind in a temporary small tree and in the real list of links. It fails if one of
them is not found.
"""
import argparse
import re
import sys
import tempfile
from pathlib import Path

# Layer: the layers that it may name as DEPS. The dependencies of these may be used as well.
DESIGN = {
    "base": set(),
    "tensor": {"base"},
    "gguf": {"tensor"},
    "text": {"tensor"},
    "grammar": {"text"},
    "chat": {"grammar"},
    "graph": {"tensor"},
    "backend": {"graph"},
    "backend_cpu": {"backend"},
    "backend_gpu": {"backend"},
    "backend_cuda": {"backend_gpu"},
    "backend_vulkan": {"backend_gpu"},
    "backend_remote": {"backend"},
    "backend_mpi": {"backend_remote"},
    "exec": {"backend"},
    "weights": {"gguf"},
    "plan": {"exec", "backend_cpu", "weights"},
    "kv": {"graph"},
    "model": {"gguf", "graph"},
    "engine": {"plan", "kv", "model", "text"},
    "encoders": {"plan", "text"},
    "vision": {"encoders"},
    "audio": {"encoders"},
    "speech": {"audio", "engine"},
    "quantize": {"gguf", "exec", "model"},
    "convert": {"weights", "text", "model"},
}
# Folders outside src/ that use weft as a user does: include/weft and base only, though they link it whole; ALONE have
# include/weft and nothing else.
USERS = ["server", "fetch", "cli", "examples", "bench", "python", "c"]
ALONE = ["python", "c"]
# Folders of users that use others': they name the files from that folder on.
USES = {"cli": ["server", "fetch"]}

# The only file that calls a parser of JSON. Programs of examples/ stand alone.
JSON_READER = "src/base/json_reader.h"
JSON_PARSER = re.compile(r"\b\w*json::(?:sax_)?(?:parse|accept)\(", re.IGNORECASE)

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^">]+)[">]', re.MULTILINE)
SOURCES = {".h", ".hpp", ".inc", ".c", ".cc", ".cpp", ".cu"}


def closure(direct: dict[str, set[str]], layer: str) -> set[str]:
    found: set[str] = set()
    todo = list(direct.get(layer, ()))
    while todo:
        name = todo.pop()
        if name not in found:
            found.add(name)
            todo += direct.get(name, ())
    return found


def read_links(text: str) -> tuple[dict[str, str], dict[str, set[str]]]:
    """Lines `target;folder;link;link...` to folder -> layer and layer -> linked layers.

    A layer of DESIGN without a line is optional and was not configured (its library is not installed). Its folder
    follows from its name. Its links are all that the design allows, so its sources are checked on every machine.
    """
    folders = {"src/" + layer.replace("_", "/"): layer for layer in DESIGN}
    direct = {layer: set(links) for layer, links in DESIGN.items()}
    for line in text.splitlines():
        target, folder, *links = line.split(";")
        # CMake wraps private links of static libraries: $<LINK_ONLY:weft_x>
        names = {m for link in links for m in re.findall(r"\bweft_\w+", link)}
        layer = target.removeprefix("weft_")
        folders[folder] = layer
        direct[layer] = {name.removeprefix("weft_") for name in names}
    return folders, direct


def check_links(direct: dict[str, set[str]]) -> list[str]:
    problems = []
    for layer, links in direct.items():
        if layer in ("weft", "cli", "cli_options"):  # The program, and its parts without and with options.
            allowed = {"engine", "quantize", "convert", "grammar", "chat", "base", "server", "fetch", "cli", "cli_options"}
        elif layer in DESIGN:
            allowed = closure(DESIGN, layer)
        else:
            problems.append(f"target weft_{layer}: a layer that DESIGN in check_layers.py does not know")
            continue
        for link in sorted(links - allowed):
            problems.append(f"target {'' if layer == 'weft' else 'weft_'}{layer} links weft_{link}: not in the design")
    return problems


def layer_of(path: Path, folders: dict[str, str]) -> str | None:
    """The layer of the innermost folder that is one."""
    for folder in path.parents:
        if (name := folders.get(folder.as_posix())) is not None:
            return name
    return None


def check_includes(root: Path, folders: dict[str, str], direct: dict[str, set[str]]) -> list[str]:
    problems = []

    def complain(file: Path, offset: int, text: str, why: str) -> None:
        line = text.count("\n", 0, offset) + 1
        problems.append(f"{file.relative_to(root)}:{line}: {why}")

    for top in ["include", "src", *USERS]:
        for file in sorted((root / top).rglob("*")):
            relative = file.relative_to(root)
            if file.suffix not in SOURCES:
                continue
            own = layer_of(relative, folders)
            if top == "src" and own is None:
                problems.append(f"{relative}: lies in no layer")
                continue
            text = file.read_text(encoding="utf-8", errors="replace")
            if top != "examples" and relative.as_posix() != JSON_READER:
                for match in JSON_PARSER.finditer(text):
                    complain(file, match.start(), text, f"{match[0]}...) is not the reader of {JSON_READER}")
            for match in INCLUDE.finditer(text):
                bracket, name = match.groups()
                if name.startswith("weft/"):
                    if not (root / "include" / name).is_file():
                        complain(file, match.start(), text, f"{name} does not exist")
                    continue
                source = Path("src") / name
                in_src = (root / source).is_file()
                beside = (file.parent / name).is_file()
                if top == "include":
                    if bracket == '"' or in_src:
                        complain(file, match.start(), text, f"a public header includes {name}; only weft/ and std may be")
                elif in_src:
                    layer = layer_of(source, folders)
                    if top in ALONE:  # They link the library, which exports what is public.
                        allowed = set()
                    elif top in USERS:
                        allowed = {"base"}
                    else:
                        allowed = {own} | closure(direct, own)
                    if layer not in allowed:
                        complain(file, match.start(), text, f"{own or top} must not include {name} (of {layer})")
                elif bracket == '"':
                    # A file of the same folder or below it, never ../
                    if not beside or ".." in Path(name).parts:
                        named = any((root / folder / name).is_file() for folder in [top, *USES.get(top, [])])
                        if not (top in USERS and named and ".." not in Path(name).parts):
                            complain(file, match.start(), text, f"{name} is no file of this project, or is named by ../")
                    elif top == "src" and layer_of((relative.parent / name), folders) not in {own} | closure(direct, own):
                        complain(file, match.start(), text, f"{own} must not include {name}")
    return problems


def check(root: Path, links: str) -> list[str]:
    folders, direct = read_links(links)
    return check_links(direct) + check_includes(root, folders, direct)


def self_test(links: str) -> list[str]:
    """Every kind of violation, planted; returns the missed violations and the false reports."""
    missed = []

    # 1. Links: the real list with one more link.
    for target, extra in [("weft_tensor", "weft_engine"), ("weft_kv", "weft_model"), ("weft_text", "weft_gguf"),
                          ("weft_model", "weft_backend_cpu"), ("weft", "weft_model")]:
        lines = [line + (f";{extra}" if line.startswith(target + ";") else "") for line in links.splitlines()]
        _, direct = read_links("\n".join(lines))
        if not any(extra in problem for problem in check_links(direct)):
            missed.append(f"link {target} -> {extra}")
    if not check_links({"newlayer": set()}):
        missed.append("an unknown layer")

    # 2. Optional layers: a machine without MPI and Vulkan configures no such targets.
    bare = "\n".join(line for line in links.splitlines() if not line.startswith(("weft_backend_mpi;", "weft_backend_vulkan;")))
    for lines in {links, bare}:
        missed += includes_missed(lines)
    return missed


def includes_missed(links: str) -> list[str]:
    """Plants wrong includes in a small tree; returns the missed ones."""
    missed = []
    # A small tree with a header a layer, right as it stands; then one wrong line at a time.
    folders, _ = read_links(links)
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        for folder in folders:
            (root / folder).mkdir(parents=True, exist_ok=True)
        for folder, layer in folders.items():
            (root / folder / f"{layer}.h").write_text("#include <vector>\n")
        (root / "include/weft").mkdir(parents=True)
        (root / "include/weft/error.h").write_text("#include <string>\n")
        (root / "server/http").mkdir(parents=True)
        (root / "server/http/http.h").write_text("")
        (root / "cli/main.cpp").write_text(
            '#include "weft/error.h"\n#include "base/base.h"\n#include "http/http.h"\n#include "weft.h"\n')
        (root / "cli/weft.h").write_text("")
        (root / "src/engine/ok.cpp").write_text('#include "kv/kv.h"\n#include "tensor/tensor.h"\n#include "engine.h"\n')
        missed += [f"right, but refused: {problem}" for problem in check(root, links)]
        for place, line in [
            ("src/tensor/bad.cpp", '#include "gguf/gguf.h"'),
            ("src/gguf/bad.cpp", "#include <text/text.h>"),
            ("src/kv/bad.h", '  #  include "exec/exec.h"'),
            ("src/backend/mpi/bad.cpp", '#include "backend/cpu/backend_cpu.h"'),
            ("src/backend/remote/bad.cpp", '#include "backend/mpi/backend_mpi.h"'),
            ("src/backend/bad.cpp", '#include "backend/cpu/backend_cpu.h"'),
            ("src/backend/bad.cpp", '#include "cpu/backend_cpu.h"'),
            ("src/model/bad.cpp", '#include "../engine/engine.h"'),
            ("src/base/bad.cpp", '#include "nowhere.h"'),
            ("src/stray.cpp", "#include <vector>"),
            ("src/chat/bad.cpp", "const auto json = nlohmann::ordered_json::parse(text);"),
            ("fetch/bad.cpp", "if (!Json::accept(text)) return;"),
            ("cli/bad.cpp", "Json::sax_parse(text, &reader);"),
            ("include/weft/bad.h", '#include "base/base.h"'),
            ("cli/bad.cpp", '#include "engine/engine.h"'),
            ("cli/bad.cpp", '#include "weft/missing.h"'),
            ("server/bad.cpp", '#include "engine/engine.h"'),
            ("server/bad.cpp", '#include "main.cpp"'),
            ("src/engine/bad.cpp", '#include "http/http.h"'),
            ("examples/bad.cpp", '#include "http/http.h"'),
            ("examples/bad.cpp", '#include "tensor/tensor.h"'),
            ("python/src/bad.cpp", '#include "engine/engine.h"'),
            ("python/src/bad.cpp", '#include "base/base.h"'),
            ("c/bad.cpp", '#include "base/base.h"'),
        ]:
            bad = root / place
            bad.parent.mkdir(parents=True, exist_ok=True)
            bad.write_text(f"// planted\n{line}\n")
            found = check(root, links)
            if len(found) != 1 or not found[0].startswith(place):
                missed.append(f"{place}: {line} (found: {found})")
            bad.unlink()
    return missed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=Path, required=True)
    parser.add_argument("--links", type=Path, required=True)
    parser.add_argument("--self-test", action="store_true")
    args = parser.parse_args()
    links = args.links.read_text()
    problems = self_test(links) if args.self_test else check(args.root, links)
    for problem in problems:
        print(problem)
    print(f"{len(problems)} violations" + (" not found" if args.self_test else ""))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
