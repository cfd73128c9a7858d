"""The options of models, contexts and requests, with their types. What they mean stands in the C++ headers
(weft/model.h, context.h, service.h, sampler.h, batcher.h), defaults too: an option that is not given, or None, has it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypedDict, Union

FilePath = Union[str, Path]
CacheType = Literal["auto", "f32", "f16", "bf16", "q8_0", "q4_0"]


class LoadOptions(TypedDict, total=False):
    """How a model is loaded, and on which devices."""

    n_threads: int
    n_gpu_layers: int  # -1: as many as fit.
    devices: Sequence[str]  # As weft.devices() names them.
    tensor_split: Sequence[float]
    split_rows: bool
    cpu_moe: bool  # Experts stay with the CPU ...
    n_cpu_moe: int  # ... of the first so many layers.
    pins: Sequence[tuple[str, str]]  # (regular expression, device)
    fit: bool
    n_ctx: int
    n_sequences: int
    n_ubatch: int
    n_source: int
    repack: bool
    pack_cache: FilePath
    pre_tokenizer: str
    chat_template: str
    adapters: Sequence[FilePath]  # LoRA, in GGUF files.
    control_vectors: Sequence[tuple[FilePath, float]]


class ContextOptions(TypedDict, total=False):
    """What a context can hold and compute."""

    n_ctx: int  # Cells, shared by all sequences.
    n_sequences: int
    n_ubatch: int
    n_source: int  # Tokens of the source of a text, in models that read one.
    n_outputs: int
    n_threads: int
    n_best: int
    k_type: CacheType
    v_type: CacheType
    window_rewind: int
    use_adapters: Sequence[tuple[int, float]]


class ServiceOptions(TypedDict, total=False):
    """How requests share an engine."""

    n_running: int
    n_step_tokens: int
    max_step_ms: float
    reuse_prefixes: bool
    speculation: Literal["none", "ngram", "model"]
    n_draft: int
    n_waiting: int
    n_unread: int


class ModelOptions(LoadOptions, ContextOptions, ServiceOptions, total=False):
    """Of weft.Model: how it is loaded, and what its engine computes with."""


class SamplingOptions(TypedDict, total=False):
    """How tokens are chosen."""

    temperature: float  # 0: always the best one.
    top_k: int
    top_p: float
    min_p: float
    seed: int
    repetition_penalty: float
    frequency_penalty: float
    presence_penalty: float
    penalty_last_n: int
    typical_p: float
    top_n_sigma: float
    xtc_probability: float
    xtc_threshold: float
    dynamic_temperature_range: float
    dynamic_temperature_exponent: float
    mirostat: int
    mirostat_tau: float
    mirostat_eta: float
    dry_multiplier: float
    dry_base: float
    dry_allowed_length: int
    dry_penalty_last_n: int
    logit_bias: Mapping[int, float]
    samplers: str  # Their order: "top_k;top_p;temperature"


class ConstraintOptions(TypedDict, total=False):
    """What a text is held to, token by token: one of them at most."""

    grammar: str  # GBNF
    regex: str
    json_schema: Union[Mapping[str, Any], str, bool]  # A schema, or True: any object.


class RequestOptions(SamplingOptions, ConstraintOptions, total=False):
    """What is asked of an engine besides the prompt."""

    max_tokens: int
    min_tokens: int
    ignore_end: bool
    special: bool  # Control tokens stand in the text.
    stop: Union[str, Sequence[str]]
    logprobs: int  # So many of the most probable tokens beside each; 0: the token's own.
    prompt_logprobs: bool
    priority: int
    timeout: float  # Seconds.
    context_shift: bool
    n_keep: int
    speculate: bool
    use_adapters: Sequence[tuple[int, float]]
