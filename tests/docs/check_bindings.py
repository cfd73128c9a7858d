#!/usr/bin/env python3
"""Compares the fields of include/weft with the structs of the C API and with the sources of the Python package.

Each field of a struct in STRUCTS has a counterpart in both languages. MISSING lists those without one, and why.

--self-test plants mistakes and fails if one of them is not found.
"""
import re
import sys
from dataclasses import dataclass, field

from pages import ROOT

sys.path.insert(0, str(ROOT / "tests" / "c"))
from check_abi import read_headers  # noqa: E402


@dataclass
class Struct:
    """`c`: the C structs. `python`: the files of python/src and the functions that use the fields. None: the struct has no
    counterpart. `names`: the C names of fields with another name. `inner`: fields whose own fields are compared instead."""

    header: str
    c: tuple[str, ...] | None
    python: tuple[tuple[str, str], ...] | None
    names: dict[str, str] = field(default_factory=dict)
    inner: tuple[str, ...] = ()


LOAD = (("options.cpp", "model_fields()"), ("model.cpp", "ModelPtr load("))
SERVICE = (("options.cpp", "service_fields()"), ("engine.cpp", "  Engine("))
REQUEST = (("options.cpp", "request_fields()"), ("engine.cpp", "> submit("), ("chat.cpp", "Opening::add_to("))
STATS = (("engine.cpp", "Dict stats_of(const BatcherStats&"),)
STRUCTS = {
    "ModelParams": Struct("model.h", ("weft_model_params",), LOAD, inner=("placement",)),
    "PlacementParams": Struct("device.h", ("weft_model_params",), LOAD, {"n_layers": "n_gpu_layers"}),
    "ModelInfo": Struct("model.h", ("weft_model_info",), (("model.cpp", "Dict info("),)),
    "PlacementReport": Struct("model.h", ("weft_placement",), (("model.cpp", "Dict placement("),), {"devices": "n_devices"}),
    "PlacementReport::Device": Struct("model.h", ("weft_placed_device",), (("model.cpp", "Dict placement("),)),
    "DeviceInfo": Struct("device.h", ("weft_device_info",), (("model.cpp", "> device_list("),)),
    "ContextParams": Struct("context.h", ("weft_context_params",), (("options.cpp", "context_fields()"),)),
    "BatcherParams": Struct("batcher.h", ("weft_batcher_params",), SERVICE, inner=("limits", "tiers")),
    "BatcherLimits": Struct("batcher.h", ("weft_batcher_params",), SERVICE),
    "CacheTiers": Struct("cache_tiers.h", ("weft_batcher_params",), SERVICE,
                         {"ram_bytes": "cache_ram_bytes", "disk": "cache_disk", "disk_bytes": "cache_disk_bytes"}),
    "ServiceParams": Struct("service.h", ("weft_batcher_params",), SERVICE, inner=("batcher",)),
    "RequestParams": Struct("batcher.h", ("weft_request_params",), REQUEST, {"parts": "media", "constraint": "grammar"}),
    "TokenBans": Struct("token_bans.h", ("weft_request_params",), (("engine.cpp", "void ban("),),
                        {"sequences": "bad_words", "allowed": "allowed_tokens"}),
    "SamplerParams": Struct("sampler.h", ("weft_sampler_params",), (("options.cpp", "sampler_fields()"),)),
    "GenerateParams": Struct("generate.h", ("weft_generate_params",), None, {"parts": "media", "constraint": "grammar"}),
    "Generation": Struct("generate.h", ("weft_generation",), None, {"tokens": "n_generated"}),
    "EmbedderParams": Struct("embedder.h", ("weft_embedder_params",), (("options.cpp", "embedder_fields()"),)),
    "ChatTurn": Struct("chat.h", ("weft_chat_turn",), (("chat.cpp", "> open("),)),
    "ResponseEvent": Struct("chat.h", ("weft_chat_event",), (("chat.cpp", "> to_list("),)),
    "Output": Struct("batcher.h", ("weft_output",), (("engine.cpp", "void bind_engine("),)),
    "OutputToken": Struct("batcher.h", ("weft_output_token",), (("engine.cpp", "> ids("), ("engine.cpp", "> logprobs(")), {"id": "token"}),
    "CompletionStats": Struct("batcher.h", ("weft_completion_stats",), (("engine.cpp", "Dict stats_of(const CompletionStats&"),)),
    "BatcherStats": Struct("batcher.h", ("weft_batcher_stats",), STATS, inner=("tiers",)),
    "CacheTierStats": Struct("cache_tiers.h", ("weft_batcher_stats",), STATS,
                             {"n_failures": "n_tier_failures", "ram_bytes": "cache_ram_bytes", "ram_limit": "cache_ram_limit",
                              "disk_bytes": "cache_disk_bytes"}),
}  # fmt: skip
# What has no counterpart on purpose.
MISSING = {
    "C": {
        "ModelParams::isa": "for tests",
        "ModelParams::registry": "backends are C++",
        "PlacementParams::n_outputs": "for programs that need many logits at once",
        "PlacementParams::state_rewind": "for programs that fill the memory; others leave it to fit_margin",
        "ModelParams::placed": "weft_model_get_placement, after loading",
        "DeviceInfo::features": "for display",
        "DeviceInfo::speed": "estimates for placement",
        "DeviceInfo::uuid": "for registries, which list a GPU once",
        "ContextParams::sum_columns": "for importance matrices",
        "BatcherParams::on_step": "for traces",
        "ServiceParams::devices_lost": "for servers that load models again",
        "TokenBans::on_none_left": "the completion ends with an error",
        "Generation::text": "a parameter of weft_generate",
        "ChatTurn::hold_arguments": "schemas always hold",
        "ChatTurn::reasoning": "reasoning_budget 0 and variables_json",
        "ChatTurn::default_variables_json": "of servers",
        "ChatTurn::find_divergences": "set for models that need snapshots",
        "BatcherStats::queue": "histograms are for metrics of servers",
        "BatcherStats::first_token": "see queue",
        "BatcherStats::between_tokens": "see queue",
        "BatcherStats::step": "see queue",
    },
    "Python": {
        "ModelParams::isa": "for tests",
        "ModelParams::registry": "backends are C++",
        "PlacementParams::n_outputs": "for programs that need many logits at once",
        "PlacementParams::state_rewind": "for programs that fill the memory; others leave it to fit_margin",
        "DeviceInfo::speed": "estimates for placement",
        "DeviceInfo::uuid": "for registries, which list a GPU once",
        "ContextParams::sum_columns": "for importance matrices",
        "BatcherParams::on_step": "for traces",
        "BatcherLimits::n_waiting_tokens": "limits on clients; here the program makes the requests",
        "BatcherLimits::n_completions": "see n_waiting_tokens",
        "BatcherLimits::n_request_tokens": "see n_waiting_tokens",
        "BatcherLimits::n_stops": "see n_waiting_tokens",
        "BatcherLimits::stop_bytes": "see n_waiting_tokens",
        "ServiceParams::devices_lost": "for servers that load models again",
        "RequestParams::parts": "Python has no images and audio",
        "RequestParams::n": "a request has one completion; give a list of prompts",
        "RequestParams::pooling": "weft.Embedder",
        "RequestParams::n_ctx": "max_tokens",
        "RequestParams::on_output": "weft.Stream",
        "TokenBans::sequences": "bad_words, by TokenBans::add_word",
        "TokenBans::on_none_left": "the completion ends with an error",
        "ChatTurn::hold_arguments": "schemas always hold",
        "ChatTurn::reasoning": "reasoning_budget=0 and template_variables",
        "ChatTurn::default_variables_json": "of servers",
        "Output::request": "a response is an object",
        "Output::completion": "a request has one completion",
        "Output::embedding": "weft.Embedder",
        "Output::stop_string": "include_stop_str_in_output shows it",
        "Output::not_numbers": "the message of the exception",
        "BatcherStats::queue": "histograms are for metrics of servers",
        "BatcherStats::first_token": "see queue",
        "BatcherStats::between_tokens": "see queue",
        "BatcherStats::step": "see queue",
    },
}  # fmt: skip


def braces(text: str, start: int) -> str:
    """What stands between the first brace from `start` on and its counterpart."""
    begin = text.index("{", start) + 1
    depth, at = 1, begin
    while depth > 0:
        depth += {"{": 1, "}": -1}.get(text[at], 0)
        at += 1
    return text[begin : at - 1]


def fields(header: str, name: str) -> list[str]:
    """The fields of a struct, in a header."""
    text = re.sub(r"//[^\n]*", "", header)
    for part in name.split("::"):
        text = braces(text, re.search(rf"\bstruct {part}\b[^;{{]*{{", text).start())
    found, statement, depth = [], "", 0
    for letter in text:
        depth += {"{": 1, "}": -1}.get(letter, 0)
        if letter == "}" and depth == 0:  # Of a function or a nested type; an initializer goes on.
            statement = statement if "=" in statement else ""
        elif letter == ";" and depth == 0:
            found += declared(statement)
            statement = ""
        elif depth == 0 and letter != "{":
            statement += letter
    return found


def declared(statement: str) -> list[str]:
    while (simple := re.sub(r"<[^<>]*>", "", statement)) != statement:
        statement = simple
    words = statement.split()
    if not words or words[0] in ("using", "static", "friend", "enum", "struct", "class") or "(" in statement.split("=")[0]:
        return []
    return [part.split("=")[0].split()[-1] for part in statement.split(",")]


def used(regions: tuple[tuple[str, str], ...], sources: dict[str, str]) -> set[str]:
    """The members that functions of python/src name."""
    bodies = "".join(braces(sources[file], sources[file].index(marker)) for file, marker in regions)
    return set(re.findall(r"(?:::|\.|->)(\w+)", bodies))


def problems(headers: dict[str, str], c: dict[str, list[str]], sources: dict[str, str]) -> list[str]:
    found, seen = [], {"C": set(), "Python": set()}
    for name, struct in STRUCTS.items():
        there = {"C": None if struct.c is None else {one for part in struct.c for one in c[part]},
                 "Python": None if struct.python is None else used(struct.python, sources)}
        for member in fields(headers[struct.header], name):
            if member in struct.inner:
                continue
            whole = f"{name}::{member}"
            for language, names in there.items():
                seen[language].add(whole)
                has = names is None or (struct.names.get(member, member) if language == "C" else member) in names
                if not has and whole not in MISSING[language]:
                    found.append(f"{language} has no counterpart of {whole}: add it, or the reason to MISSING")
                if has and whole in MISSING[language]:
                    found.append(f"{language} has a counterpart of {whole}: remove it from MISSING")
    return found + [f"MISSING has {one}, which is no field" for language, all_of in MISSING.items() for one in all_of if one not in seen[language]]


def main() -> int:
    headers = {path.name: path.read_text() for path in (ROOT / "include" / "weft").glob("*.h")}
    sources = {path.name: path.read_text() for path in (ROOT / "python" / "src").glob("*.cpp")}
    c = read_headers(ROOT / "c")[2]
    found = problems(headers, c, sources)
    if "--self-test" in sys.argv[1:]:
        context = headers["context.h"].replace("int n_ubatch = 512;", "int n_ubatch = 512;\n  std::vector<int> brand_new = {};")
        planted = [problems(headers | {"context.h": context}, c, sources),
                   problems(headers, c | {"weft_sampler_params": []}, sources),
                   problems(headers, c, sources | {"options.cpp": sources["options.cpp"].replace("::rotate_cache", "::n_ctx")})]
        missed = [i for i, one in enumerate(planted) if len(one) <= len(found)]
        print(f"missed: {missed}")
        return 1 if missed else 0
    print("\n".join(found))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
