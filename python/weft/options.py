"""The options of models, contexts and requests: their types, ranges and meanings.

weft.arguments checks every option against these tables before anything runs, and help() of the functions that take options
lists them. An option that is not given, or None, has its default."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, Optional, TypedDict, Union

FilePath = Union[str, Path]
AdapterUses = Sequence[tuple[int, float]]
CacheType = Literal["auto", "f32", "f16", "bf16", "q8_0", "q4_0", "q4_1", "q5_0", "q5_1", "iq4_nl"]

_INFINITE = float("inf")


@dataclass(frozen=True)
class About:
    """What an option means, the range of its numbers, and how its value is given to C++ (`made`). `default`: where C++ has
    another one, or none that can be shown."""

    meaning: str
    least: Optional[float] = None
    most: Optional[float] = None
    default: Optional[str] = None
    made: Optional[Callable[[Any], Any]] = None


def _seed(seed: int) -> Optional[int]:
    return None if seed == -1 else seed


def _logprobs(n: Union[int, bool]) -> Optional[int]:
    """Converts the form of OpenAI's API: True requests the chosen token's logprob, False requests none."""
    return (0 if n else None) if isinstance(n, bool) else n


def _by_token(biases: Mapping[Any, float]) -> dict[int, float]:
    """The keys of JSON are strings."""
    return {int(token): bias for token, bias in biases.items()}


def _margin(margin: Union[int, Mapping[str, int]]) -> Union[int, dict[str, int]]:
    return dict(margin) if isinstance(margin, Mapping) else margin


def _steps(samplers: Union[str, Sequence[str]]) -> str:
    return samplers if isinstance(samplers, str) else ";".join(samplers)


class LoadOptions(TypedDict, total=False):
    """Options for loading a model, and its devices."""

    n_threads: Annotated[int, About("Number of CPU threads; 0: one per core.", 0, 1024)]
    n_gpu_layers: Annotated[int, About("Number of layers on GPUs; -1: as many as fit.", -1)]
    devices: Annotated[Sequence[str], About("Names of devices, as weft.devices() lists them.", default="all")]
    tensor_split: Annotated[Sequence[float], About("The proportion of the model on each device.", 0, default="by their free memory")]
    split_rows: Annotated[bool, About("Splits each matrix over the devices, instead of the layers.")]
    cpu_moe: Annotated[bool, About("Keeps the weights of experts on the CPU.")]
    n_cpu_moe: Annotated[int, About("Keeps the experts of the first N layers on the CPU.", 0)]
    pins: Annotated[Sequence[tuple[str, str]], About("Pairs (regular expression, device) that place tensors by name.", default="none")]
    fit: Annotated[bool, About("If a device has too little memory, shortens a default context and leaves experts or layers on the CPU.")]
    fit_margin: Annotated[Union[int, Mapping[str, int]], About("Bytes that `fit` leaves free: of each device, or by device name.",
                                                              0, 1 << 62, "0", _margin)]  # fmt: skip
    n_ctx_min: Annotated[int, About("Smallest n_ctx that `fit` may choose; 0: a given n_ctx is kept.", 0, 1 << 26)]
    repack: Annotated[bool, About("Repacks weights for fast CPU kernels.")]
    pack_cache: Annotated[FilePath, About('Folder that keeps repacked weights; "": none.', default="that of the program weft")]
    pack_cache_bytes: Annotated[int, About("Maximum bytes of that folder; least recently loaded models are removed.", 0, 1 << 62)]
    pre_tokenizer: Annotated[str, About("Name of the pre-tokenizer, e.g. llama-bpe.", default="as the file says")]
    chat_template: Annotated[str, About("The chat template, in Jinja.", default="as the file says")]
    adapters: Annotated[Sequence[FilePath], About("LoRA adapters (GGUF files), applied at scale 1.", default="none")]
    control_vectors: Annotated[Sequence[tuple[FilePath, float]], About("Pairs (GGUF file, scale) of control vectors.", default="none")]
    first_control_layer: Annotated[int, About("First layer that control vectors change; -1: of all that the files have.", -1)]
    last_control_layer: Annotated[int, About("Last layer that control vectors change; -1: of all that the files have.", -1)]


class ContextOptions(TypedDict, total=False):
    """The capacity of a context and its way of computing."""

    n_ctx: Annotated[int, About("Cells of the cache, for all sequences; 0: the training length, at most 8192.", 0, 1 << 26)]
    n_sequences: Annotated[int, About("Maximum number of sequences; the engine of weft.Model has at least 32.", 1, 4096)]
    n_ubatch: Annotated[int, About("Maximum number of tokens per step.", 1, 1 << 16)]
    n_source: Annotated[int, About("Maximum tokens of an encoder input; 0: the training length, at most 512.", 0, 1 << 14)]
    n_outputs: Annotated[int, About("Maximum rows of logits per step; 0: 64, or n_sequences if that is more.", 0, 1 << 16)]
    n_threads: Annotated[int, About("Number of CPU threads; 0: one per core.", 0, 1024)]
    n_best: Annotated[int, About("Maximum n_best of Batch.add(); -1: 64 on the CPU, else 0.", -1, 1024)]
    k_type: Annotated[CacheType, About("The type of cached keys.", default="'auto': bf16 where that is faster, else f16")]
    v_type: Annotated[CacheType, About("The type of cached values.", default="'auto'")]
    rotate_cache: Annotated[bool, About("Rotates keys and values of quantised caches, which lowers their error.")]
    window_rewind: Annotated[int, About("Tokens that a sequence with sliding windows can be rolled back by; -1: any number.", -1)]
    state_rewind: Annotated[int, About("States that recurrent layers keep, so that as many last tokens with logits can be removed again.", 0, 4096, default="0; enough for drafts with `speculation`")]
    use_adapters: Annotated[AdapterUses, About("Pairs (index in `adapters`, scale) of the adapters to apply.", default="all, at 1")]


class ServiceOptions(TypedDict, total=False):
    """Options for requests that share an engine."""

    n_running: Annotated[int, About("Maximum number of requests computed at the same time; 0: n_sequences.", 0, 4096)]
    n_step_tokens: Annotated[int, About("Maximum prompt tokens per step; 0: chosen by weft.", 0)]
    max_step_ms: Annotated[float, About("Target time of a step while other requests generate; prompts are chunked to keep it.", 1e-3)]
    max_pause_ms: Annotated[float, About("Time that a paused request keeps its cells, unless others need them.", 0)]
    reuse_prefixes: Annotated[bool, About("Automatic prefix caching: reuses finished sequences for prompts with the same prefix.")]
    n_snapshots: Annotated[int, About("Maximum number of snapshots of prompts, for models with recurrent or sliding-window layers.", 0)]
    snapshot_bytes: Annotated[int, About("Maximum bytes of their running states and windows.", 0, 1 << 62)]
    cache_ram_bytes: Annotated[int, About("Host memory for prefixes that the cache evicts; -1: a quarter of the free memory, at most 8 GiB.",
                                          -1, 1 << 62)]  # fmt: skip
    cache_disk: Annotated[FilePath, About("Folder for files of prefixes, which survive the process.", default="none")]
    cache_disk_bytes: Annotated[int, About("Maximum bytes of all files in that folder; least recently used ones are removed.", 0, 1 << 62)]
    speculation: Annotated[Literal["none", "ngram", "model"], About("What drafts tokens.", default="'none'; 'model' with `draft`")]
    n_draft: Annotated[int, About("Maximum number of drafted tokens.", 0, 64)]
    n_draft_branches: Annotated[int, About("Maximum number of branches of a draft tree.", 1, 64)]
    adapt_drafts: Annotated[bool, About("Drafts as many tokens as measured acceptance makes worthwhile.")]
    n_waiting: Annotated[int, About("Maximum number of waiting requests; others get OverloadedError; 0: no limit.", 0, default="0")]
    n_unread: Annotated[int, About("Unread tokens of a stream at which its request pauses.", 1)]


class ModelOptions(LoadOptions, ContextOptions, ServiceOptions, total=False):
    """Options of weft.Model: loading, the context and the engine."""


class SamplingOptions(TypedDict, total=False):
    """Options for choosing tokens."""

    temperature: Annotated[float, About("0: always the most probable token.", -1e9, 1e9)]
    top_k: Annotated[int, About("Only the k most probable tokens; 0: all.")]
    top_p: Annotated[float, About("Only the most probable tokens that sum to p; 1: all.", 0, 1)]
    min_p: Annotated[float, About("Only tokens at least this probable, relative to the best; 0: all.", 0, 1)]
    seed: Annotated[int, About("The same seed gives the same tokens; -1: random.", -1, (1 << 64) - 1, "-1", _seed)]
    repetition_penalty: Annotated[float, About("Penalty for recent tokens, which divides their positive logits; 1: off.", 1e-6, 1e9)]
    frequency_penalty: Annotated[float, About("Subtracted from a logit for each recent occurrence of the token; 0: off.", -1e9, 1e9)]
    presence_penalty: Annotated[float, About("Subtracted once from the logits of recent tokens; 0: off.", -1e9, 1e9)]
    penalty_last_n: Annotated[int, About("Number of last tokens that count as recent; 0: none, -1: all.", -1)]
    typical_p: Annotated[float, About("Locally typical sampling; 1: off.", 0, 1)]
    top_n_sigma: Annotated[float, About("Only logits within n standard deviations of the best; 0 or less: all.", -1e9, 1e9)]
    xtc_probability: Annotated[float, About("XTC: probability of excluding the most probable tokens; 0: off.", 0, 1)]
    xtc_threshold: Annotated[float, About("XTC: minimum probability of the tokens that are excluded.", 0, 1)]
    dynamic_temperature_range: Annotated[float, About("Dynamic temperature: range around the temperature; 0: off.", 0, 1e9)]
    dynamic_temperature_exponent: Annotated[float, About("Dynamic temperature: exponent.", 0, 1e9)]
    mirostat: Annotated[int, About("Version of Mirostat, which replaces top-k, top-p and the like; 0: off.", 0, 2)]
    mirostat_tau: Annotated[float, About("Mirostat: target entropy (tau).", 0, 1e9)]
    mirostat_eta: Annotated[float, About("Mirostat: learning rate (eta).", 0, 1e9)]
    dry_multiplier: Annotated[float, About("DRY: strength of the penalty for repetitions; 0: off.", 0, 1e9)]
    dry_base: Annotated[float, About("DRY: base of the penalty's growth per repeated token.", 1, 1e9)]
    dry_allowed_length: Annotated[int, About("DRY: maximum length of repetitions without a penalty.", 0)]
    dry_penalty_last_n: Annotated[int, About("DRY: number of last tokens to search; 0: none, -1: all.", -1)]
    dry_breakers: Annotated[Sequence[str], About("Strings that end a repetition.", default="newline, colon, quotation mark, asterisk")]
    logit_bias: Annotated[Mapping[Union[int, str], float], About("Bias for each token id, added to its logit; -inf bans the token.",
                                                                 -_INFINITE, default="none", made=_by_token)]  # fmt: skip
    samplers: Annotated[Union[str, Sequence[str]], About('The samplers in their order, as "top_k;top_p".', default="all", made=_steps)]


class ConstraintOptions(TypedDict, total=False):
    """Constraints of a completion; at most one of them."""

    grammar: Annotated[str, About("A grammar in GBNF.", default="none")]
    regex: Annotated[str, About("A regular expression that the whole completion matches.", default="none")]
    json_schema: Annotated[Union[Mapping[str, Any], str, bool], About("A JSON schema, or True: any JSON object.", default="none")]
    structural_tag: Annotated[Union[Mapping[str, Any], str], About("A structural tag, as xgrammar and vLLM have them.", default="none")]


class EmbedderOptions(LoadOptions, total=False):
    """Options of weft.Embedder: encoding, and loading if the model is given as a path."""

    n_tokens: Annotated[int, About("Maximum tokens of an input; longer ones are truncated. 0: the training length, at most 8192.", 0, 1 << 26)]
    use_adapters: Annotated[AdapterUses, About("Pairs (index in `adapters`, scale) of the adapters to apply.", default="the model's")]


class ResponseOptions(SamplingOptions, ConstraintOptions, total=False):
    """Options of all requests."""

    max_tokens: Annotated[int, About("Maximum tokens to generate; -1: until an end token, or until the context is full.", -1)]
    min_tokens: Annotated[int, About("Minimum number of tokens before an end token or a stop string ends the completion.", 0)]
    ignore_end: Annotated[bool, About("Continues after end tokens.")]
    stop: Annotated[Union[str, Sequence[str]], About("Strings that end the completion and are not part of it.", default="none")]
    include_stop_str_in_output: Annotated[bool, About("The completion includes the stop string that ends it.")]
    stop_token_ids: Annotated[Sequence[int], About("Tokens that end the completion, also with ignore_end.", 0, default="none")]
    banned_strings: Annotated[Sequence[str], About("Strings that the completion never contains: it goes back and draws other tokens.",
                                                   default="none")]  # fmt: skip
    bad_words: Annotated[Sequence[str], About("Words that the completion never contains as tokens, alone or after a space.", default="none")]
    allowed_token_ids: Annotated[Sequence[int], About("The only tokens that may be generated.", 0, default="all")]
    logprobs: Annotated[Union[int, bool], About("Log-probabilities of generated tokens, and of this many best alternatives each; "
                                                "0 or True: no alternatives.", 0, 1024, "none", _logprobs)]  # fmt: skip
    prompt_logprobs: Annotated[bool, About("Log-probabilities of the prompt's tokens, with alternatives as in logprobs.")]
    reuse_prefix: Annotated[bool, About("Uses a cached prefix of the prompt, if there is one.")]
    priority: Annotated[int, About("Requests with a higher priority run first.")]
    queue_timeout: Annotated[float, About("Seconds until a request that still waits ends with the stop 'timeout'; 0: no limit.", 0, 1e9, "0")]
    first_token_timeout: Annotated[float, About("Seconds until a request without a token ends so; 0: no limit.", 0, 1e9, "0")]
    timeout: Annotated[float, About("Seconds until the completion ends with the stop 'timeout'; 0: no limit.", 0, 1e9, "0")]
    context_shift: Annotated[bool, About("When the context is full, drops the older half of the sequence and continues.")]
    n_keep: Annotated[int, About("Number of first tokens that context_shift keeps.", 0)]
    speculate: Annotated[bool, About("Uses speculative decoding. The result is the same.")]
    use_adapters: Annotated[AdapterUses, About("Pairs (index in `adapters`, scale) of the adapters to apply.", default="the model's")]


class RequestOptions(ResponseOptions, total=False):
    """Options of requests for completions."""

    special: Annotated[bool, About("Includes control tokens in the text of the completion.")]
    snapshot_at: Annotated[Sequence[int], About("Lengths of the prompt at which later prompts are likely to diverge.", default="none")]


# Names of these options in other programs, for hints.
OTHER_NAMES = {
    "max_new_tokens": "max_tokens", "max_completion_tokens": "max_tokens", "num_predict": "max_tokens", "n_predict": "max_tokens",
    "max_gen_len": "max_tokens", "max_length": "max_tokens", "min_new_tokens": "min_tokens", "n_min": "min_tokens",
    "temp": "temperature", "repeat_penalty": "repetition_penalty", "repeat_last_n": "penalty_last_n", "typ_p": "typical_p",
    "stop_sequences": "stop", "stop_strings": "stop", "top_logprobs": "logprobs", "n_probs": "logprobs", "random_state": "seed",
    "response_format": "json_schema", "guided_json": "json_schema", "guided_regex": "regex", "guided_grammar": "grammar",
    "cache_ram": "cache_ram_bytes", "cache_disk_size": "cache_disk_bytes", "cache_dir": "cache_disk", "kv_cache_dir": "cache_disk",
    "stop_tokens": "stop_token_ids", "banned_tokens": "banned_strings", "custom_token_bans": "banned_strings",
    "ctx_checkpoints": "n_snapshots", "thinking_budget": "reasoning_budget", "thinking_token_budget": "reasoning_budget",
    "ignore_eos": "ignore_end", "skip_special_tokens": "special", "num_ctx": "n_ctx", "max_model_len": "n_ctx",
    "context_length": "n_ctx", "n_seq_max": "n_sequences", "max_num_seqs": "n_running", "n_batch": "n_ubatch",
    "type_k": "k_type", "type_v": "v_type", "num_gpu": "n_gpu_layers", "lora_path": "adapters", "lora": "adapters",
    "num_thread": "n_threads", "draft_model": "draft", "model_path": "path", "enable_thinking": "template_variables",
}  # fmt: skip
