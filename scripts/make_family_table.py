#!/usr/bin/env python3
"""Writes docs/families.md, the table of families: make_family_table.py [--check]

The rows come from src/model/families.inc, and each reference from the scripts that make the golden models. The option
--check compares the file instead. The median must be below 120 lines per family. Needs only Python.
"""
import argparse
import ast
import re
import statistics
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
TABLE = ROOT / "docs/families.md"
FAMILIES = ROOT / "src/model/families"
MOST_LINES = 120
OWN = "own reference"
KINDS = {"Decoder": "decoder", "Encoder": "encoder", "EncoderDecoder": "encoder and decoder"}
HEAD = """# Families of models

Each family is a row of `src/model/families.inc`. GGUF calls it the architecture. Related families share a file.

Every family is tested with tiny models of random weights against the reference in the column "checked against". The
normalized mean square error (NMSE) of logits, or of vectors for encoders, must be at most 1e-6. Most references are
classes of transformers. A few families use the class of another family that differs only in tensor names. Families
without a class in transformers have a reference in weft's tree: `scripts/own_references.py`,
`scripts/rwkv_reference.py` or `scripts/own_encoders.py`.

`weft convert` takes folders of the classes under "converted from". It refuses the classes after "not" in that column.
GGUF files of these models come from other converters.

`scripts/make_family_table.py` writes this page.

"""


def constants():
    return re.findall(r"WEFT_FAMILY\((\w+)\)", (ROOT / "src/model/families.inc").read_text())


def definitions():
    """Maps each constant to its architecture, file and kind."""
    found = {}
    for path in FAMILIES.glob("*.cpp"):
        for name, rest in re.findall(r"^const Family (k\w+) = \{(.*?)\};", path.read_text(), re.M | re.S):
            architecture = re.match(r'\s*"([^"]+)"', rest)[1]
            kind = re.search(r"FamilyKind::k(\w+)", rest)
            found[name] = (architecture, path, KINDS[kind[1] if kind else "Decoder"])
    return found


def truths(script, function, suffix):
    """Maps each architecture to the references of its golden models in a script."""
    result = {}
    for call in ast.walk(ast.parse((ROOT / "scripts" / script).read_text())):
        if not isinstance(call, ast.Call) or getattr(call.func, "id", "") != function or len(call.args) < 2:
            continue
        architecture, model = (argument.value for argument in call.args[:2])
        given = {keyword.arg: keyword.value for keyword in call.keywords}
        end = given["head"].value if "head" in given else suffix
        result.setdefault(architecture, []).append(OWN if "source" in given else model + end)
    return result


def converted():
    """Maps each architecture to the classes that weft convert takes, and to the known classes that it refuses."""
    tables = []
    text = (ROOT / "src/convert/family.cpp").read_text()
    for table in ("Family kFamilies", "NotConverted kNotConverted"):
        rows = text[text.index(f"constexpr {table}[]"):]
        found = {}
        for name, architecture in re.findall(r'\{"(\w+)",\s*"([^"]+)"', rows[:rows.index("\n};")]):
            found.setdefault(architecture, []).append(name)
        tables.append(found)
    taken, others = tables
    # With experts the name has a suffix (kMoeByExperts).
    taken["nemotron_h_moe"] = taken["nemotron_h"]
    return taken, others


def origin(architecture, taken, others):
    if architecture not in taken and architecture not in others:
        raise SystemExit(f"{architecture} is in neither of the two tables of src/convert/family.cpp")
    names = [f"`{name}`" for name in taken.get(architecture, [])]
    if architecture in others:
        names.append("not " + ", ".join(f"`{name}`" for name in others[architecture]))
    return "; ".join([", ".join(names[:-1]), names[-1]] if architecture in others and len(names) > 1 else [", ".join(names)])


def table():
    known = definitions()
    taken, others = converted()
    truth = truths("make_golden_families.py", "Family", "ForCausalLM")
    for architecture, models in (truths("make_golden_encoders.py", "Encoder", "") |
                                 truths("make_golden_sources.py", "Both", "")).items():
        truth.setdefault(architecture, []).extend(models)
    rows, lines = [], []
    for constant in constants():
        architecture, path, kind = known[constant]
        if architecture not in truth:
            raise SystemExit(f"{constant}: no golden model of {architecture} in the scripts")
        lines.append(len(path.read_text().splitlines()))
        models = ", ".join(f"`{m}`" if m != OWN else m for m in sorted(set(truth[architecture])))
        rows.append(f"| `{architecture}` | {kind} | {models} | "
                    f"{origin(architecture, taken, others)} | "
                    f"[{path.name}](../src/model/families/{path.name}) |")
    median = statistics.median(lines)
    if median >= MOST_LINES:
        raise SystemExit(f"the median family has {median:.0f} lines, the limit is {MOST_LINES - 1}")
    summary = f"{len(rows)} families:\n\n"
    return HEAD + summary + "| family | kind | checked against | converted from | file |\n|---|---|---|---|---|\n" + "\n".join(rows) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    wanted = table()
    if not parser.parse_args().check:
        TABLE.write_text(wanted)
    elif not TABLE.exists() or TABLE.read_text() != wanted:
        sys.exit(f"{TABLE} is out of date: run scripts/make_family_table.py")


if __name__ == "__main__":
    main()
