#!/usr/bin/env python3
"""Checks commands, options and defaults in the Markdown pages against the program's help and the headers.

- A command in a block or in code (`weft run -n 64`) has only options that the command has.
- An option in code exists (PAGES only, since other pages have options of scripts).
- A default is the one that the help or the header states. Defaults are in tables with the columns "option" or "field"
  and "default", and in prose as `--port` (default 8080) or `--port` (8080).

Needs WEFT_PROGRAM in the environment. --self-test plants mistakes and fails if one of them is not found.
"""
import os
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass
from functools import cache

from pages import ROOT, line_of, pages, parts

# The commands whose defaults a page states. Other pages may state those of any command.
PAGES = {"docs/operations.md": ["serve"], "docs/server.md": ["serve"], "docs/chat.md": ["chat", "run"],
         "docs/gpus.md": ["run", "serve", "bench"], "docs/models.md": ["run", "models"]}
# Has options of llama-server, too.
FOREIGN_OPTIONS = {"docs/server.md"}
# Changes of former versions.
EXCLUDED = {"CHANGELOG.md", "labs/NOTES.md"}


@dataclass
class Option:
    takes_value: bool
    default: str  # "": the help states none.


@cache
def run(*words: str) -> str:
    environment = os.environ | {"WEFT_CONFIG": "", "NO_COLOR": "1"}
    environment.pop("OMP_NUM_THREADS", None)
    return subprocess.run([os.environ["WEFT_PROGRAM"], *words], check=True, text=True, stdout=subprocess.PIPE,
                          env=environment).stdout


@cache
def commands() -> list[str]:
    listed = run("help").split("Commands:\n")[1].split("\n\n")[0]
    return re.findall(r"^  ([a-z-]+)  ", listed, re.M)


@cache
def options(command: str) -> dict[str, Option]:
    """The options of a command by each of their names."""
    found: dict[str, Option] = {}
    if command == "help":
        return found
    rows: list[tuple[str, str]] = []
    for line in run("help", command).splitlines():
        if re.match(r"  -", line):
            names, _, description = line.strip().partition("   ") if len(line) > 34 and line[33] == " " else (line, "", "")
            rows.append((names, description.strip()))
        elif rows and line.startswith(" " * 34):
            rows[-1] = (rows[-1][0], f"{rows[-1][1]} {line.strip()}".strip())
    for names, description in rows:
        words = re.findall(r"(?<!\S)--?[A-Za-z][\w-]*", names)
        takes_value = re.search(r" [^-\s]\S*\s*$", names) is not None
        default = re.search(r"\(default\)|[(;,] ?default:? ([^)]*)\)", description)
        option = Option(takes_value, "" if default is None else default[1] or "on")
        for word in words:
            found[word] = option
            if word.startswith("--") and not takes_value:
                found[f"--no-{word[2:]}"] = Option(False, "off" if option.default == "on" else "on")
    return found


@cache
def fields() -> dict[str, str]:
    """The defaults of public structs: "ContextParams::n_ctx" to "0"."""
    found = {}
    for header in sorted((ROOT / "include/weft").glob("*.h")):
        text = re.sub(r"//.*", "", header.read_text())
        for name, body in re.findall(r"^struct (\w+) \{\n(.*?)^\};", text, re.M | re.S):
            for field, value in re.findall(r"\b(\w+)\s*=\s*([^;=]+);", body):
                found[f"{name}::{field}"] = re.sub(r"\s+", " ", value).strip()
    return found


def plain(value: str) -> str:
    value = re.sub(r"\s+", " ", value.replace("`", "")).strip().lower()
    number = re.fullmatch(r"(-?\d+(?:\.\d+)?)f?", value)
    return f"{float(number[1]):g}" if number else value


def agree(stated: str, actual: str) -> bool:
    """Whether the values agree. Explanations after a colon or semicolon may differ."""
    return plain(stated) == plain(actual) or plain(re.split("[:;]", stated)[0]) == plain(re.split("[:;]", actual)[0])


def actual_default(option: Option) -> str:
    return option.default or ("none" if option.takes_value else "off")


def check_default(where: str, page: str, name: str, stated: str) -> list[str]:
    if "::" in name:
        if name not in fields():
            return [f"{where}: {name}: no such field"]
        return [] if agree(stated, fields()[name]) else [f"{where}: {name}: default {stated}, but {fields()[name]}"]
    having = {command: options(command)[name] for command in PAGES.get(page, commands()) if name in options(command)}
    if not having:
        return [f"{where}: {name}: no such option"]
    wrong = [f"{where}: {name}: default {stated}, but of weft {command} {actual_default(option)}"
             for command, option in having.items() if not agree(stated, actual_default(option))]
    return wrong if page in PAGES or len(wrong) == len(having) else []


def check_tables(page: str, prose: str) -> list[str]:
    found, columns = [], None
    for number, line in enumerate(prose.split("\n"), 1):
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")] if line.startswith("|") else None
        if cells is None:
            columns = None
        elif columns is None:
            columns = cells
        elif columns[0] in ("option", "field") and columns[1:2] == ["default"] and not set(cells[0]) <= set("-: "):
            names = re.findall(r"`([^`]+)`", cells[0])
            found += [problem for name in names for problem in check_default(f"{page}:{number}", page, name, cells[1])]
    return found


def check_prose(page: str, prose: str) -> list[str]:
    found = []
    for match in re.finditer(r"`(--[a-z][\w-]*)(?: [A-Z]+)?` \((?:default:? ([^;:)]*)|(-?\d[\d.]*))[;:)]", prose):
        found += check_default(f"{page}:{line_of(prose, match.start())}", page, match[1], match[2] or match[3])
    known = {name for command in commands() for name in options(command)}
    if page in PAGES and page not in FOREIGN_OPTIONS:
        for match in re.finditer(r"`(--[a-z][\w-]*)[^`]*`", prose):
            if match[1] not in known and f"| `{match[1]}`" not in prose:  # Those are check_tables' part.
                found.append(f"{page}:{line_of(prose, match.start())}: {match[1]}: no such option")
    return found


def check_command(where: str, command_line: str) -> list[str]:
    try:
        words = shlex.split(command_line, comments=True)
    except ValueError:  # A quotation that goes on in the next line.
        words = command_line.split("'")[0].split('"')[0].split()
    while words and not re.fullmatch(r"(\S*/)?weft", words[0]):
        words = words[1:]
    if len(words) < 2:
        return []
    command, found = words[1], []
    if command not in [*commands(), "help"]:
        return [f"{where}: weft {command}: no such command"] if re.fullmatch(r"[a-z-]+", command) else []
    for word in words[2:]:
        if word in ("|", "&&", ";", "#", "--"):
            break
        name = word.split("=")[0]
        if re.match(r"--?[A-Za-z]", name) and name not in options(command):
            found.append(f"{where}: weft {command} {name}: no such option")
    return found


def problems(texts: dict[str, str]) -> list[str]:
    found = []
    for page, text in texts.items():
        if page in EXCLUDED:
            continue
        prose, blocks = parts(text)
        found += check_tables(page, prose) + check_prose(page, prose)
        joined = re.sub(r"\\\n", "  ", blocks)
        for match in re.finditer(r"^(?:.*[ \t/])?weft [a-z].*$", joined, re.M):
            line = match[0]
            if not re.match(r"\s*(#|//|for |import |from |docker )", line):
                found += check_command(f"{page}:{line_of(blocks, match.start())}", line)
        for match in re.finditer(r"`((?:\S*/)?weft [a-z][^`]*)`", prose):
            found += check_command(f"{page}:{line_of(prose, match.start())}", match[1])
    return found


def self_test() -> list[str]:
    right = ("`--port` (default 8080) and `--port` (8080)\n\n| option | default | meaning |\n|---|---|---|\n"
             "| `--max-queue` | 1024 | a |\n| `--metrics` | on | b |\n| `--ignore-eos` | off | c |\n\n"
             "| field | default |\n|---|---|\n| `ContextParams::n_ubatch` | 512 |\n\n"
             "`weft serve -m FILE -np 3`\n\n```\nweft run -p 'a' -n 3   # --nothing\n```\n")
    page = "docs/operations.md"
    missed = [f"right, but reported: {problem}" for problem in problems({page: right})]
    for old, new in [("(default 8080)", "(default 8081)"), ("(8080)", "(8081)"), ("| 1024 |", "| 1023 |"), ("| on |", "| off |"),
                     ("| off |", "| on |"), ("`--max-queue`", "`--max-queues`"), ("| 512 |", "| 256 |"), ("n_ubatch", "n_ubatches"),
                     ("-np 3`", "--paralel 3`"), ("-n 3 ", "--n-predicts 3 "), ("weft run", "weft rum")]:
        if len(problems({page: right.replace(old, new, 1)})) != 1:
            missed.append(f"not found once: {new} for {old}: {problems({page: right.replace(old, new, 1)})}")
    return missed


def main() -> int:
    found = self_test() if "--self-test" in sys.argv else problems(pages())
    print("\n".join([*found, f"{len(found)} problems"]))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
