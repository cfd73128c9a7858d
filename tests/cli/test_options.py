#!/usr/bin/env python3
"""Every option of every command has an effect, or refuses a wrong value.

The program lists the options; an option without a row here fails the test. A row is one of
  Effect(words):    the command does something else with these words than without them;
  Refused(words):   the command refuses these words, with a message that names the option;
  Untested(reason): the effect cannot be seen here.

Needs WEFT_PROGRAM and WEFT_TEST_DATA in the environment.
"""
import http.client
import json
import os
import re
import shutil
import subprocess
import tempfile
import unittest
import zlib
from dataclasses import dataclass
from pathlib import Path

WEFT = os.environ["WEFT_PROGRAM"]
DATA = Path(os.environ["WEFT_TEST_DATA"])
LLAMA = DATA / "golden" / "llama" / "model.gguf"
BPE = DATA / "golden" / "gpt2" / "model.gguf"
T5 = next(iter(sorted((DATA / "golden_sources").glob("*/model.gguf"))), None)
WHISPER = DATA / "speech" / "model"
SOUND = DATA / "speech" / "sound.wav"
RERANKER = next(iter(sorted((DATA / "golden_encoders").glob("*rank*/model.gguf"))), None)
LORA = DATA / "adapters" / "one.gguf"
CONTROL = DATA / "adapters" / "control.gguf"
TEMPLATE = "{{ bos_token }}{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}assistant:"
REPEATING = "a b a b a b a b a b"
TEXT = "one two three four five six seven eight nine ten " * 40


@dataclass
class Effect:
    words: list
    among: tuple = ()  # Words that both runs have.


@dataclass
class Refused:
    words: list


@dataclass
class Untested:
    reason: str


def environment(folder: Path) -> dict[str, str]:
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("WEFT_", "LLAMA_", "XDG_", "OMP_"))}
    return kept | {"WEFT_CACHE": str(folder / "cache"), "WEFT_CONFIG": "", "XDG_STATE_HOME": str(folder / "state"),
                   "NO_COLOR": "1"}


def write_files(folder: Path) -> None:
    """What rows name, in the folder that commands run in."""
    (folder / "text.txt").write_text(TEXT)
    (folder / "prompt.txt").write_text("a prompt of a file")
    (folder / "template.jinja").write_text(TEMPLATE)
    (folder / "other.jinja").write_text(TEMPLATE.replace("assistant:", "it:"))
    (folder / "effort.jinja").write_text(TEMPLATE + "{{ reasoning_effort }}")
    (folder / "switch.jinja").write_text(TEMPLATE + "{{ 'yes' if enable_thinking else 'no' }}")
    (folder / "thinks.jinja").write_text(TEMPLATE + "<think>\n")
    (folder / "grammar.gbnf").write_text('root ::= "yes" | "no"')
    (folder / "schema.json").write_text('{"enum": ["yes", "no"]}')
    (folder / "config.toml").write_text("nosuch = 1\n")
    (folder / "keys.txt").write_text("secret\n")
    (folder / "tools.json").write_text("[]")
    (folder / "rules.txt").write_text("ffn_down=q8_0\n")
    (folder / "vocabulary.txt").write_bytes(b"two\0texts\0")


def outcome(folder: Path, words: list, stdin: str = "") -> tuple:
    """All that a run leaves, without times."""
    for entry in list(folder.iterdir()):
        shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
    write_files(folder)
    before = {path for path in folder.rglob("*")}
    run = subprocess.run([WEFT, *map(str, words)], input=stdin, capture_output=True, text=True, timeout=120, cwd=folder,
                         env=environment(folder), errors="replace", check=False)
    files = {str(path.relative_to(folder)): zlib.crc32(path.read_bytes()) if path.parent == folder else 0
             for path in sorted(folder.rglob("*")) if path not in before and path.is_file()}
    stdout = re.sub(r"\d[\d.e+-]*", "", run.stdout) if words[0] == "bench" else run.stdout  # What it measures.
    times = re.compile(r"\d+(\.\d+)? ?(ms|us|s\b|/s|tokens a second)|\"(ms|\w*_ms|\w*seconds?|\w*per_second|\w*us_per_step)\": ?[\d.e+-]+")
    return run.returncode, times.sub("", stdout), times.sub("", run.stderr), files


# Options that several commands have.
TALK = {
    "quiet": Effect(["-q"], among=("--mlock",)),  # Its note.
    "progress": Untested("bars are for terminals, and come after a third of a second"),
    "color": Effect(["--color", "always"], among=("-m", "nosuch.gguf")),
    "config": Refused(["--config", "config.toml"]),
    "help": Effect(["--help"]),
}
VERBOSE = {"verbose": Effect(["-v"])}
ADAPTERS = {
    "lora": Effect(["--lora", LORA]),
    "lora-scaled": Effect(["--lora-scaled", LORA, "2"]),
    "lora-init-without-apply": Effect(["--lora-init-without-apply"], among=("--lora", LORA)),
    "control-vector": Effect(["--control-vector", CONTROL]),
    "control-vector-scaled": Effect(["--control-vector-scaled", CONTROL, "4"]),
    "control-vector-layer-range": Effect(["--control-vector-layer-range", "2", "2"], among=("--control-vector", CONTROL)),
}
DEVICES = {
    "device": Effect(["--device", "nosuch"]),
    "gpu-layers": Refused(["--gpu-layers", "x"]),
    "tensor-split": Refused(["--tensor-split", "x"]),
    "split": Refused(["--split", "x"]),
    "pin": Effect(["--pin", "blk=nosuch"]),
    "cpu-moe": Untested("needs a GPU"),
    "n-cpu-moe": Refused(["--n-cpu-moe", "-1"]),
    "fit": Untested("needs a device that is too small"),
    "fit-target": Refused(["--fit-target", "many"]),
    "fit-ctx": Refused(["--fit-ctx", "-1"]),
}
MODEL = ADAPTERS | DEVICES | {
    "model": Effect(["-m", "nosuch.gguf"]),
    "hf-repo": Refused(["--hf-repo", "x"]),
    "hf-file": Refused(["--hf-file", "x"]),
    "model-url": Refused(["--model-url", "x"]),
    "threads": Refused(["-t", "4096"]),
    "repack": Effect(["--no-repack"]),
    "pack-cache": Effect(["--no-pack-cache"]),
    "pack-cache-size": Effect(["--pack-cache-size", "0"]),
    "isa": Refused(["--isa", "x"]),
    "pre": Effect(["--pre", "nosuch"], among=("-m", BPE)),
}
CACHE_TYPES = {
    "cache-type-k": Effect(["-ctk", "q4_0"]),
    "cache-type-v": Effect(["-ctv", "q4_0"]),
    "cache-rotation": Effect(["--no-cache-rotation"], among=("-ctk", "q4_0")),
}
REPEATED = ("--logit-bias", "300+20")  # The text repeats a token.
SAMPLING = {
    "seed": Effect(["--seed", "2"]),
    "temp": Effect(["--temp", "0"]),
    "top-k": Effect(["--top-k", "1"]),
    "top-p": Effect(["--top-p", "0.01"]),
    "min-p": Effect(["--min-p", "1"]),
    "typical": Effect(["--typical", "0.01"]),
    "top-nsigma": Effect(["--top-nsigma", "0.01"]),
    "xtc-probability": Effect(["--xtc-probability", "1"], among=("--xtc-threshold", "0.001")),
    "xtc-threshold": Effect(["--xtc-threshold", "0.001"], among=("--xtc-probability", "1")),
    "dynatemp-range": Effect(["--dynatemp-range", "5"], among=("--temp", "5")),
    "dynatemp-exp": Effect(["--dynatemp-exp", "9"], among=("--temp", "5", "--dynatemp-range", "5")),
    "mirostat": Effect(["--mirostat", "2"]),
    "mirostat-ent": Effect(["--mirostat-ent", "0.1"], among=("--mirostat", "2")),
    "mirostat-lr": Effect(["--mirostat-lr", "5"], among=("--mirostat", "2", "--mirostat-ent", "1")),
    "repeat-last-n": Effect(["--repeat-last-n", "0"], among=("--repeat-penalty", "100")),
    "repeat-penalty": Effect(["--repeat-penalty", "100"]),
    "presence-penalty": Effect(["--presence-penalty", "100"]),
    "frequency-penalty": Effect(["--frequency-penalty", "100"]),
    "dry-multiplier": Effect(["--dry-multiplier", "100"], among=REPEATED),
    "dry-base": Effect(["--dry-base", "100"], among=(*REPEATED, "--dry-multiplier", "1")),
    "dry-allowed-length": Effect(["--dry-allowed-length", "0"], among=(*REPEATED, "--dry-multiplier", "100")),
    "dry-penalty-last-n": Effect(["--dry-penalty-last-n", "0"], among=(*REPEATED, "--dry-multiplier", "100")),
    "dry-sequence-breaker": Effect(["--dry-sequence-breaker", "x" * 99999], among=("--dry-multiplier", "1")),
    "logit-bias": Effect(["--logit-bias", "300+100"]),
    "samplers": Effect(["--samplers", "temperature"]),
    "sampler-seq": Effect(["--sampler-seq", "t"]),
}
PREFIXES = {
    "ctx-checkpoints": Refused(["--ctx-checkpoints", "-1"]),
    "checkpoint-ram": Refused(["--checkpoint-ram", "-1"]),
    "cache-ram": Refused(["--cache-ram", "-2"]),
    "cache-disk": Refused(["--cache-disk", "text.txt"]),
    "cache-disk-size": Refused(["--cache-disk-size", "-1"]),
}
CONTEXT = CACHE_TYPES | {
    "ctx-size": Effect(["-c", "8"]),
    "batch-size": Refused(["-b", "-1"]),
    "ubatch-size": Refused(["--ubatch-size", "-1"]),
    "window-rewind": Refused(["--window-rewind", "-1"]),
    "source-size": Effect(["--source-size", "1"], among=("-m", T5)),
    "swa-full": Untested("takes memory alone, except where sequences are cut back"),
}
DRAFTS = {
    "spec-type": Refused(["--spec-type", "x"]),
    "model-draft": Effect(["--model-draft", "nosuch.gguf"]),
    "hf-repo-draft": Refused(["--hf-repo-draft", "x"]),
    "draft-max": Refused(["--draft-max", "65"]),
    "ctx-size-draft": Refused(["--ctx-size-draft", "-1"]),
    "gpu-layers-draft": Effect(["--gpu-layers-draft", "x"], among=("--model-draft", LLAMA)),
    "device-draft": Effect(["--device-draft", "nosuch"], among=("--model-draft", LLAMA)),
}
CONSTRAINTS = {
    "grammar": Effect(["--grammar", 'root ::= "yes"']),
    "grammar-file": Effect(["--grammar-file", "grammar.gbnf"]),
    "json-schema": Effect(["-j", '{"enum": ["yes"]}']),
    "json-schema-file": Effect(["--json-schema-file", "schema.json"]),
}
MEDIA = {
    "image": Refused(["--image", "nosuch.png"]),
    "audio": Refused(["--audio", "nosuch.wav"]),
    "mmproj": Effect(["--mmproj", "nosuch.gguf", "--image", "nosuch.png"], among=("--image", "nosuch.png")),
    "no-mmproj": Effect(["--no-mmproj"], among=("--mmproj", "nosuch.gguf", "--image", "nosuch.png")),
}
GENERATION = MODEL | CONTEXT | SAMPLING | DRAFTS | TALK | VERBOSE | CONSTRAINTS | MEDIA
JSON_OUTPUT = {"json": Effect(["--json"])}
VISIBLE_LOAD = {name: Effect(MODEL[name].words, among=("-v",)) for name in ("repack",)}

# For each command: its arguments, its standard input, and its rows.
COMMANDS = {
    "run": (["-m", LLAMA, "-p", REPEATING + "\\nthree a b a b", "-n", "24", "--seed", "1", "-t", "1", "-c", "64"], "",
            GENERATION | VISIBLE_LOAD | JSON_OUTPUT | {
                "prompt": Effect(["-p", "other"]),
                "file": Refused(["-f", "prompt.txt"]),
                "tokens": Refused(["--tokens", "1,2"]),
                "escape": Effect(["--no-escape"]),
                "predict": Effect(["-n", "2"]),
                "ignore-eos": Effect(["--ignore-eos"], among=("--logit-bias", "2+100", "--json")),
                "context-shift": Effect(["--context-shift"], among=("-c", "32", "-n", "64", "--ignore-eos")),
                "keep": Effect(["--keep", "-1"], among=("-c", "32", "-n", "64", "--ignore-eos", "--context-shift")),
                "stop": Effect(["--stop", "of"], among=("--logit-bias", "300+100")),
                "parse-special": Effect(["--no-parse-special"], among=("-p", "<s>x")),
                "special": Effect(["--special"], among=("--logit-bias", "1+100", "--ignore-eos")),
                "prompt-cache": Effect(["--prompt-cache", "state"]),
                "prompt-cache-all": Effect(["--prompt-cache-all"], among=("--prompt-cache", "state")),
                "prompt-cache-ro": Effect(["--prompt-cache-ro"], among=("--prompt-cache", "state")),
                "chunk": Refused(["--chunk", "0"]),
                "logits": Effect(["--logits", "logits.f32"]),
            }),
    "chat": (["-m", LLAMA, "-n", "12", "--seed", "1", "-t", "1", "-c", "256", "--chat-template-file", "template.jinja"],
             "one\\ntwo\n", GENERATION | PREFIXES | VISIBLE_LOAD | {
                 "system-prompt": Effect(["--system-prompt", "short"]),
                 "system-prompt-file": Effect(["--system-prompt-file", "prompt.txt"]),
                 "prompt": Effect(["-p", "first"]),
                 "escape": Effect(["--no-escape"], among=("-p", "a\\nb")),
                 "single-turn": Effect(["-st"], among=("-p", "first")),
                 "predict": Effect(["-n", "2"]),
                 "session": Effect(["--session", "session.json"]),
                 "chat-template": Refused(["--chat-template", "nosuch", "--chat-template-file", ""]),
                 "chat-template-file": Effect(["--chat-template-file", "other.jinja"]),
                 "chat-template-kwargs": Refused(["--chat-template-kwargs", "["]),
                 "reasoning": Effect(["--reasoning", "off"], among=("--chat-template-file", "switch.jinja")),
                 "reasoning-budget": Effect(["--reasoning-budget", "0"], among=("--chat-template-file", "switch.jinja")),
                 "reasoning-budget-message": Effect(["--reasoning-budget-message", "Enough."], among=(
                     "--chat-template-file", "thinks.jinja", "--reasoning-budget", "1")),
                 "reasoning-effort": Effect(["--reasoning-effort", "high"], among=(
                     "--chat-template-kwargs", "{}", "--chat-template-file", "effort.jinja")),
                 "tools": Effect(["--tools", "nosuch.json"]),
                 "tool-command": Untested("test_responses.py: it needs a model that calls"),
                 "tool-choice": Refused(["--tool-choice", "x"]),
                 "markdown": Untested("for terminals: test_responses.py"),
                 "wrap": Untested("for terminals: test_responses.py"),
                 "history": Untested("for terminals: test_cli.py"),
             }),
    "embed": (["-m", LLAMA, "one two three", "-t", "1"], "", MODEL | VISIBLE_LOAD | TALK | VERBOSE | JSON_OUTPUT | {
        "file": Refused(["-f", "text.txt"]),
        "truncate": Effect(["--truncate"], among=("-c", "2")),
        "ctx-size": Effect(["-c", "2"]),
        "batch-size": Refused(["-b", "0"]),
        "pooling": Effect(["--pooling", "none"]),
        "dimensions": Effect(["--dimensions", "3"]),
        "normalize": Effect(["--no-normalize"]),
    }),
    "imatrix": (["-m", LLAMA, "-f", "text.txt", "-c", "16", "--chunks", "4", "-t", "1"], "",
                MODEL | VISIBLE_LOAD | TALK | VERBOSE | JSON_OUTPUT | {
                    "file": Effect(["-f", "nosuch.txt"]),
                    "ctx-size": Effect(["-c", "32"]),
                    "chunks": Effect(["--chunks", "2"]),
                    "chunk": Effect(["--chunk", "99999"]),
                    "batch-size": Refused(["-b", "0"]),
                    "parse-special": Refused(["--parse-special=x"]),
                    "output": Effect(["-o", "other.gguf"]),
                    "output-format": Effect(["--output-format", "dat"]),
                    "in-file": Effect(["--in-file", "nosuch.gguf"]),
                    "output-frequency": Refused(["--output-frequency", "-1"]),
                    "save-frequency": Effect(["--save-frequency", "2"], among=("-b", "16")),
                    "process-output": Effect(["--process-output"]),
                    "show-statistics": Refused(["--show-statistics"]),
                    "cache-type-k": Refused(["-ctk", "x"]),
                    "cache-type-v": Refused(["-ctv", "x"]),
                    "cache-rotation": Refused(["--cache-rotation=x"]),
                }),
    "perplexity": (["-m", LLAMA, "-f", "text.txt", "-c", "16", "--chunks", "4", "-t", "1"], "",
                   MODEL | VISIBLE_LOAD | CACHE_TYPES | TALK | VERBOSE | JSON_OUTPUT | {
                       "file": Effect(["-f", "nosuch.txt"]),
                       "ctx-size": Effect(["-c", "32"]),
                       "chunks": Effect(["--chunks", "2"]),
                       "batch-size": Refused(["-b", "0"]),
                       "hellaswag": Effect(["--hellaswag"]),
                       "hellaswag-tasks": Refused(["--hellaswag-tasks", "-1"]),
                       "winogrande": Effect(["--winogrande"]),
                       "winogrande-tasks": Refused(["--winogrande-tasks", "-1"]),
                       "multiple-choice": Effect(["--multiple-choice"]),
                       "multiple-choice-tasks": Refused(["--multiple-choice-tasks", "-1"]),
                       "save-all-logits": Effect(["--save-all-logits", "logits.bin"]),
                       "kl-divergence-base": Effect(["--kl-divergence-base", "nosuch.bin"]),
                   }),
    "tokenize": (["-m", LLAMA], "<s>one two", TALK | JSON_OUTPUT | {
        "model": Effect(["-m", "nosuch.gguf"]),
        "file": Effect(["-f", "text.txt"]),
        "pre": MODEL["pre"],
        "null": Effect(["--null", "--json"], among=("-f", "vocabulary.txt", "--json")),
        "bos": Effect(["--no-bos"]),
        "special": Effect(["--no-special"]),
        "color": Effect(["--color", "always"], among=("-m", "nosuch.gguf")),
    }),
    "inspect": ([LLAMA], "", TALK | CACHE_TYPES | JSON_OUTPUT | {
        "model": Effect(["-m", LLAMA]),
        "ctx-size": Effect(["-c", "99"]),
        "tensors": Effect(["--tensors"]),
        "plan": Effect(["--plan"]),
        "nodes": Refused(["--nodes", "x"]),
        "svg": Effect(["--svg", "plan.svg"]),
        "color": Effect(["--color", "always"]),
    } | {name: row if isinstance(row, Untested) else type(row)(row.words, among=("--plan",)) if isinstance(row, Effect)
         else Refused([*row.words, "--plan"]) for name, row in DEVICES.items()}),
    "convert": ([DATA / "convert" / "qwen2moe"], "", TALK | {
        "output": Effect(["-o", "other.gguf"]),
        "type": Effect(["--type", "f32"]),
        "pre": Untested("test_convert.py: it needs a folder whose tokenizer is not known"),
        "base": Refused(["--base", "nosuch"]),
        "mmproj": Effect(["--mmproj"]),
        "list": Effect(["--list"]),
        "color": Effect(["--color", "always"], among=("--type", "nosuch")),
    }),
    "quantize": ([LLAMA, "small.gguf", "Q4_K_M"], "", TALK | VERBOSE | JSON_OUTPUT | {
        "imatrix": Effect(["--imatrix", "nosuch.gguf"]),
        "include-weights": Effect(["--include-weights", "a", "--exclude-weights", "b"], among=("--exclude-weights", "b")),
        "exclude-weights": Effect(["--exclude-weights", "b", "--include-weights", "a"], among=("--include-weights", "a")),
        "tensor-type": Effect(["--tensor-type", "nosuch=q4_0"]),
        "tensor-type-file": Refused(["--tensor-type-file", "prompt.txt"]),
        "output-tensor-type": Effect(["--output-tensor-type", "f16"]),
        "token-embedding-type": Effect(["--token-embedding-type", "f32"]),
        "leave-output-tensor": Effect(["--leave-output-tensor"]),
        "pure": Effect(["--pure"]),
        "allow-requantize": Refused(["--allow-requantize=x"]),
        "prune-layers": Effect(["--prune-layers", "0"]),
        "override-kv": Effect(["--override-kv", "general.name=str:a much longer name than before, which takes room"]),
        "keep-split": Refused(["--keep-split=x"]),
        "dry-run": Effect(["--dry-run"]),
        "threads": Refused(["-t", "4096"]),
        "color": Effect(["--color", "always"], among=("--imatrix", "nosuch")),
    }),
    "split": ([LLAMA, "part", "--split-max-tensors", "5"], "", TALK | JSON_OUTPUT | {
        "split-max-tensors": Effect(["--split-max-tensors", "7"]),
        "split-max-size": Refused(["--split-max-size", "x"]),
        "dry-run": Effect(["--dry-run"]),
        "color": Effect(["--color", "always"], among=("--split-max-tensors", "99")),
    }),
    "merge": ([LLAMA, "whole.gguf"], "", TALK | {"color": Effect(["--color", "always"])}),
    "lora-merge": (["-m", LLAMA, "--lora", LORA, "-o", "merged.gguf"], "", TALK | JSON_OUTPUT | {
        "model": Effect(["-m", "nosuch.gguf"]),
        "lora": Effect(["--lora", LORA]),
        "lora-scaled": Effect(["--lora-scaled", LORA, "2"]),
        "output": Effect(["-o", "other.gguf"]),
        "type": Effect(["--type", "f32"]),
        "threads": Refused(["-t", "4096"]),
        "color": Effect(["--color", "always"], among=("-m", "nosuch.gguf")),
    }),
    "pull": (["ollama:x"], "", TALK | JSON_OUTPUT | {
        "connections": Refused(["--connections", "0"]),
        "json": Untested("test_pull.py: it needs a hub"),
        "color": Effect(["--color", "always"]),
    }),
    "models": ([], "", JSON_OUTPUT | {
        "packed": Effect(["--packed"]),
        "clear-packed": Effect(["--clear-packed"]),
        "remove": Effect(["--remove", "x"]),
        "config": TALK["config"],
        "help": TALK["help"],
    }),
    "devices": ([], "", JSON_OUTPUT | {
        "measure": Effect(["--measure"]),
        "quiet": TALK["quiet"],
        "color": Untested("no command line fails"),
        "config": TALK["config"],
        "help": TALK["help"],
    }),
    "test-backend": (["cpu", "--op", "norm"], "", TALK | JSON_OUTPUT | {
        "op": Effect(["--op", "top_k"]),
        "color": Effect(["--color", "always"], among=("--op", "nosuch")),
    }),
    "health": ([], "", {
        "host": Effect(["--host", "/nosuch.sock"], among=("--port", "1")),
        "port": Effect(["--port", "2"], among=("--port", "1")),
        "max-time": Refused(["--max-time", "0"]),
        "ssl-cert-file": Effect(["--ssl-cert-file", "x"], among=("--port", "1")),
        "config": TALK["config"],
        "help": TALK["help"],
    }),
    "completion": (["bash"], "", {"config": Untested("nothing is configurable"), "help": TALK["help"]}),
    "man": (["run"], "", {"install": Effect(["--install", "share"]), "config": TALK["config"], "help": TALK["help"]}),
    "version": ([], "", JSON_OUTPUT | {"config": TALK["config"], "help": TALK["help"]}),
}
# bench and rerank spell the same options differently: their rows follow. Class Serve has the rows of serve.
COMMANDS["rerank"] = (["-m", RERANKER, "-p", "one", "two", "three four", "-t", "1"], "",
                      MODEL | VISIBLE_LOAD | TALK | VERBOSE | JSON_OUTPUT | {
                          "prompt": Effect(["-p", "other"]),
                          "file": Refused(["-f", "text.txt"]),
                          "top-n": Effect(["-n", "1"]),
                          "lora-init-without-apply": Untested("encoders refuse adapters: see --lora"),
                          "control-vector-layer-range": Untested("encoders refuse control vectors: see --control-vector"),
                      })
COMMANDS["transcribe"] = (["-m", WHISPER, SOUND, "-t", "1", "--language", "de"], "",
                          TALK | {
                              "model": Effect(["-m", "nosuch.bin"]),
                              "threads": Refused(["-t", "4096"]),
                              "device": Effect(["--device", "nosuch"]),
                              "language": Effect(["--language", "klingon"]),
                              "translate": Effect(["--translate"]),
                              "prompt": Effect(["--prompt", "and the thing and the thing"]),
                              "temperature": Effect(["--temperature", "1"]),
                              "output": Effect(["--output", "srt", "--output-dir", "."]),
                              "output-dir": Effect(["--output-dir", "nosuch"], among=("--output", "txt")),
                          })
COMMANDS["bench"] = (["-m", LLAMA, "-p", "4", "-n", "0", "-r", "1", "-t", "1", "-o", "csv"], "",
                     MODEL | TALK | {
                         # A run takes seconds, so these end before it.
                         "lora": Effect(["--lora", "nosuch.gguf"]),
                         "lora-scaled": Effect(["--lora-scaled", "nosuch.gguf", "2"]),
                         "lora-init-without-apply": Refused(["--lora-init-without-apply=x"]),
                         "control-vector": Effect(["--control-vector", "nosuch.gguf"]),
                         "control-vector-scaled": Effect(["--control-vector-scaled", "nosuch.gguf", "2"]),
                         "control-vector-layer-range": Refused(["--control-vector-layer-range", "5"]),
                         "repack": Refused(["--repack=x"]),
                         "pack-cache": Refused(["--pack-cache=x"]),
                         "pack-cache-size": Refused(["--pack-cache-size", "x"]),
                         "quiet": Refused(["--quiet=x"]),
                         "verbose": Refused(["--verbose=x"]),
                         "swa-full": CONTEXT["swa-full"],
                         "window-rewind": CONTEXT["window-rewind"],
                         "ctx-size": Refused(["-c", "-1"]),
                         "threads": Refused(["-t", "4096"]),
                         "batch-size": Refused(["-b", "x"]),
                         "ubatch-size": Refused(["-ub", "x"]),
                         "cache-type-k": Refused(["-ctk", "x"]),
                         "cache-type-v": Refused(["-ctv", "x"]),
                         "cache-rotation": Refused(["--cache-rotation=x"]),
                         "prompt-size": Refused(["-p", "x"]),
                         "generate-size": Refused(["-n", "x"]),
                         "prompt-generate": Refused(["-pg", "x"]),
                         "depth": Refused(["-d", "x"]),
                         "repetitions": Refused(["-r", "0"]),
                         "parallel": Refused(["--parallel", "0"]),
                         "streams": Refused(["--streams", "0"]),
                         "shared-prompt": Refused(["--shared-prompt"]),
                         "ops": Refused(["--ops", "--trace", "x"]),
                         "filter": Refused(["--filter", "x"]),
                         "plans": Refused(["--plans"]),
                         "profile": Refused(["--profile"]),
                         "trace": Effect(["--trace", "trace.json"]),
                         "output": Refused(["-o", "x"]),
                         "json": Effect(["--json"]),
                     } | {name: Untested("test_load.py") for name in (
                         "serve", "endpoint", "model-name", "concurrency", "rate", "requests", "duration",
                         "shared-prefix", "long-share", "long-tokens", "replay", "schema", "tools", "api-key",
                         "ignore-eos", "warm-up", "seed", "timeout", "slo-ttft", "slo-itl")})
LOADS_NOTHING = {"models", "devices", "health", "completion", "man", "version"}


class Server:
    """weft serve, for one request of each kind."""

    def __init__(self, folder: Path, words: list):
        self.process = subprocess.Popen([WEFT, "serve", *map(str, words)], stderr=subprocess.PIPE, text=True, cwd=folder,
                                        env=environment(folder))
        self.lines = []
        for line in self.process.stderr:
            self.lines.append(re.sub(r"^\S+ |\d{4,}", "", line))
            if found := re.search(r"ready.*http://([\w.:]+)", line):
                self.address = found.group(1)
                return
        self.address = None

    def ask(self, method: str, path: str, body: dict | None = None, **headers: str) -> tuple:
        connection = http.client.HTTPConnection(self.address, timeout=60)
        connection.request(method, path, json.dumps(body) if body is not None else None,
                           {"Content-Type": "application/json"} | headers)
        with connection.getresponse() as response:
            text = response.read().decode(errors="replace")
        connection.close()
        return response.status, response.getheader("Access-Control-Allow-Origin"), text

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.communicate(timeout=60)


def served(folder: Path, words: list) -> tuple:
    """What clients of a server see."""
    write_files(folder)
    with Server(folder, words) as server:
        if server.address is None:
            return tuple(server.lines), server.process.wait()
        text = json.loads(server.ask("POST", "/v1/completions", {"prompt": REPEATING, "max_tokens": 24})[2])
        # A shift shows in many drawn tokens, a penalty where one token repeats.
        how = {"max_tokens": 300} if "--context-shift" in words else {"logit_bias": {"300": 20}}
        body = {"prompt": "x", "ignore_eos": True, **how}
        repeated = json.loads(server.ask("POST", "/v1/completions", body)[2]).get("choices")
        chat = server.ask("POST", "/v1/chat/completions",
                          {"messages": [{"role": "user", "content": "x"}], "max_tokens": 4, "seed": 1})
        chat_text = json.loads(chat[2]).get("choices") if chat[0] == 200 else chat[0]
        own = {"Origin": f"http://{server.address}"}
        statuses = [server.ask("GET", path, **own)[0] for path in ("/ui/main.js", "/metrics", "/v1/models", "/slots", "/llm/health")]
        models = [(model["id"], model["tags"]) for model in json.loads(server.ask("GET", "/v1/models")[2]).get("data", [])]
        vector = json.loads(server.ask("POST", "/v1/embeddings", {"input": "one two"})[2]).get("data")
        props = json.loads(server.ask("GET", "/props")[2])
        saved = server.ask("POST", "/slots/0?action=save", {"filename": "slot"})[0]
        origin = server.ask("GET", "/health", Origin="http://other.example")[:2]
        files = sorted(path.name for path in folder.rglob("*") if path.suffix in (".log", ".trace", ".packed"))
    return text.get("choices"), repeated, chat_text, statuses, models, vector, props.get("n_ctx"), saved, origin, files


EFFORT = ("--chat-template-file", "effort.jinja")
SERVED = {name: Effect(row.words, row.among[2:] if row.among[:2] == REPEATED else row.among)
          for name, row in SAMPLING.items()}
SERVE_ROWS = SERVED | DRAFTS | PREFIXES | {name: row for name, row in MODEL.items() if name != "model"} | {
    "lora-init-without-apply": Effect(["--lora-init-without-apply"], among=("--lora", LORA)),
    "repack": Untested("see run"),
    "pre": Untested("see run: here -m adds a model"),
    "model": Effect(["-m", "nosuch.gguf"]),
    "host": Effect(["--host", "300.1.1.1"]),
    "port": Refused(["--port", "70000"]),
    "parallel": Refused(["--parallel", "0"]),
    "max-queue": Refused(["--max-queue", "0"]),
    "timeout": Refused(["--timeout", "-1"]),
    "api-key": Effect(["--api-key", "secret"]),
    "api-key-file": Effect(["--api-key-file", "keys.txt"]),
    "alias": Effect(["--alias", "name"]),
    "models-max": Refused(["--models-max", "-1"]),
    "sleep-idle-seconds": Refused(["--sleep-idle-seconds", "-2"]),
    "stored-responses": Refused(["--stored-responses", "-1"]),
    "files": Effect(["--files", "keys.txt/files"]),
    "files-size": Refused(["--files-size", "0"]),
    "cors": Effect(["--cors"]),
    "allowed-host": Refused(["--allowed-host", "a b"]),
    "api-prefix": Effect(["--api-prefix", "/llm"]),
    "ssl-cert-file": Refused(["--ssl-cert-file", "nosuch.pem"]),
    "ssl-key-file": Refused(["--ssl-key-file", "nosuch.pem"]),
    "trusted-proxy": Refused(["--trusted-proxy", "10.0.0.0/33"]),
    "step-ms": Refused(["--step-ms", "0"]),
    "max-connections": Refused(["--max-connections", "0"]),
    "max-connections-per-address": Refused(["--max-connections-per-address", "-1"]),
    "max-requests-per-client": Refused(["--max-requests-per-client", "-2"]),
    "share-slots": Untested("tests/clients has tenants with two keys"),
    "metrics": Effect(["--no-metrics"]),
    "webui": Effect(["--no-webui"]),
    "slot-save-path": Effect(["--slot-save-path", "."]),
    "access-log": Effect(["--access-log", "access.log"]),
    "trace": Effect(["--trace", "steps.trace"]),
    "shutdown-timeout": Refused(["--shutdown-timeout", "-1"]),
    "drain-delay": Refused(["--drain-delay", "-1"]),
    "mmproj": Effect(["--mmproj", "nosuch.gguf"]),
    "no-mmproj": Effect(["--no-mmproj"], among=("--mmproj", "nosuch.gguf")),
    "chat-template": Effect(["--chat-template", "llama3"]),
    "chat-template-file": Effect(["--chat-template-file", "template.jinja"]),
    "chat-template-kwargs": Effect(["--chat-template-kwargs", '{"reasoning_effort": "x"}'], among=EFFORT),
    "reasoning": Effect(["--reasoning", "off"], among=("--chat-template-file", "switch.jinja")),
    "reasoning-budget": Effect(["--reasoning-budget", "0"], among=("--chat-template-file", "switch.jinja")),
    "reasoning-budget-message": Effect(["--reasoning-budget-message", "Enough."], among=(
        "--chat-template-file", "thinks.jinja", "--reasoning-budget", "1")),
    "reasoning-effort": Effect(["--reasoning-effort", "high"], among=EFFORT),
    "reasoning-format": Refused(["--reasoning-format", "none"]),
    "predict": Effect(["-n", "2"], among=()),
    "ignore-eos": Effect(["--ignore-eos"], among=("--logit-bias", "2+100")),
    "context-shift": Effect(["--context-shift"], among=("-c", "32")),
    "keep": Effect(["--keep", "9"], among=("-c", "32", "--context-shift")),
    "pooling": Effect(["--pooling", "last"]),
    "embd-normalize": Effect(["--embd-normalize", "1"]),
    "spm-infill": Untested("test_llama_server.py: it needs a model that can infill"),
    "slots": Effect(["--no-slots"]),
    "tags": Effect(["--tags", "word"]),
    "threads-http": Refused(["--threads-http", "65"]),
    "cors-origins": Effect(["--cors-origins", "http://other.example"]),
    "ctx-size": Effect(["-c", "2048"]),
    "batch-size": CONTEXT["batch-size"],
    "ubatch-size": CONTEXT["ubatch-size"],
    "window-rewind": CONTEXT["window-rewind"],
    "source-size": Refused(["--source-size", "-1"]),
    "swa-full": CONTEXT["swa-full"],
    "cache-type-k": CACHE_TYPES["cache-type-k"],
    "cache-type-v": CACHE_TYPES["cache-type-v"],
    "cache-rotation": CACHE_TYPES["cache-rotation"],
    "log-file": Effect(["--log-file", "server.log"]),
    "log-json": Untested("log_test.cpp"),
    "log-colors": Untested("log_test.cpp"),
    "quiet": Untested("log_test.cpp"),
    "verbose": Untested("log_test.cpp"),
    "progress": TALK["progress"],
    "color": Untested("errors alone, as of other commands"),
    "config": TALK["config"],
    "help": Untested("test_cli.py"),
}


def listed(command: str) -> dict[str, list[str]]:
    """The long names of a command's options, as its help lists them: the first of each, and all."""
    text = subprocess.run([WEFT, "help", command], capture_output=True, text=True, check=True).stdout
    options = {}
    for line in re.findall(r"^  (-\S.*?)(?:  .*)?$", text, re.M):
        names = re.findall(r"--([\w-]+)", line)
        if names:
            options[names[0]] = names
    return options


class EveryOption(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def check_rows(self, command: str, rows: dict) -> dict:
        """Those of options that are listed; each of these has one."""
        options = listed(command)
        self.assertEqual(sorted(name for name in options if name not in rows), [], f"'weft {command}': options without a row")
        return {name: rows[name] for name in options}

    def check_refusal(self, command: str, base: list, name: str, row: Refused) -> None:
        code, _, message, _ = outcome(self.folder, [command, *base, *row.words])
        self.assertIn(code, (1, 2), row.words)
        self.assertTrue(name in message or row.words[0] in message, message)
        self.assertTrue(message.startswith("weft: error: "), message)

    def check_command(self, command: str) -> None:
        base, stdin, rows = COMMANDS[command]
        without = {}
        for name, row in self.check_rows(command, rows).items():
            with self.subTest(command=command, option=name):
                if isinstance(row, Refused):
                    self.check_refusal(command, base, name, row)
                elif isinstance(row, Effect):
                    among = [command, *base, *row.among]
                    if row.among not in without:
                        without[row.among] = outcome(self.folder, among, stdin)
                    self.assertNotEqual(outcome(self.folder, [*among, *row.words], stdin), without[row.among])


def add_test(command: str) -> None:
    setattr(EveryOption, f"test_{command.replace('-', '_')}", lambda self: self.check_command(command))


for each in COMMANDS:
    add_test(each)


class Serve(EveryOption):
    BASE = ["-m", LLAMA, "--port", "0", "-t", "1", "--seed", "1", "-np", "1"]

    def test_serve(self):
        cache = {}
        for name, row in self.check_rows("serve", SERVE_ROWS).items():
            with self.subTest(option=name):
                if isinstance(row, Refused):
                    self.check_refusal("serve", self.BASE, name, row)
                elif isinstance(row, Effect):
                    if row.among not in cache:
                        cache[row.among] = served(self.folder, [*self.BASE, *row.among])
                    self.assertNotEqual(served(self.folder, [*self.BASE, *row.among, *row.words]), cache[row.among])


for each in COMMANDS:
    setattr(Serve, f"test_{each.replace('-', '_')}", None)  # Those of EveryOption are its own.


class Table(unittest.TestCase):
    def test_every_command_has_rows(self):
        overview = subprocess.run([WEFT, "help"], capture_output=True, text=True, check=True).stdout
        commands = re.findall(r"^  ([\w-]+)  .*", overview.split("Commands:")[1].split("\n\n")[0], re.M)
        self.assertEqual(sorted(commands), sorted([*COMMANDS, "serve", "help"]))


if __name__ == "__main__":
    unittest.main(verbosity=1)
