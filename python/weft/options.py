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
CacheType = Literal["auto", "f32", "f16", "bf16", "q8_0", "q4_0"]

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


def _steps(samplers: Union[str, Sequence[str]]) -> str:
    return samplers if isinstance(samplers, str) else ";".join(samplers)


class LoadOptions(TypedDict, total=False):
    """Options for loading a model, and its devices."""

    n_threads: Annotated[int, About("Threads of the CPU; 0: as many as there are cores.", 0, 1024)]
    n_gpu_layers: Annotated[int, About("Layers on GPUs; -1: as many as fit.", -1)]
    devices: Annotated[Sequence[str], About("As weft.devices() names them.", default="all")]
    tensor_split: Annotated[Sequence[float], About("The share of each device.", 0, default="by their free memory")]
    split_rows: Annotated[bool, About("Splits each matrix over the devices, not the layers.")]
    cpu_moe: Annotated[bool, About("Experts stay with the CPU.")]
    n_cpu_moe: Annotated[int, About("Experts of this many first layers stay with the CPU.", 0)]
    pins: Annotated[Sequence[tuple[str, str]], About("(regular expression, device) of tensors, by their names.", default="none")]
    fit: Annotated[bool, About("Leaves layers to the CPU where a GPU has too little memory.")]
    repack: Annotated[bool, About("Packs weights into the order that the CPU's kernels read.")]
    pack_cache: Annotated[FilePath, About('A folder for packed weights; "": none.', default="that of the program weft")]
    pre_tokenizer: Annotated[str, About("How texts are cut before tokens are merged.", default="as the file says")]
    chat_template: Annotated[str, About("The chat template, in Jinja.", default="as the file says")]
    adapters: Annotated[Sequence[FilePath], About("GGUF files of LoRA adapters, which apply at scale 1.", default="none")]
    control_vectors: Annotated[Sequence[tuple[FilePath, float]], About("(GGUF file, scale) of control vectors.", default="none")]


class ContextOptions(TypedDict, total=False):
    """The capacity of a context and its way of computing."""

    n_ctx: Annotated[int, About("Cells of the cache, for all sequences; 0: the training length, at most 8192.", 0, 1 << 26)]
    n_sequences: Annotated[int, About("Sequences at the same time. A model's engine has at least 32.", 1, 4096)]
    n_ubatch: Annotated[int, About("Tokens that one step computes at most.", 1, 1 << 16)]
    n_source: Annotated[int, About("Tokens of an encoder's input; 0: the training length, at most 512.", 0, 1 << 14)]
    n_outputs: Annotated[int, About("Rows of logits of a step at most; 0: 64, or n_sequences if that is more.", 0, 1 << 16)]
    n_threads: Annotated[int, About("Threads of the CPU; 0: as many as there are cores.", 0, 1024)]
    n_best: Annotated[int, About("Tokens that Batch.only_best() can ask for; -1: 64 on the CPU, else 0.", -1, 1024)]
    k_type: Annotated[CacheType, About("The type of cached keys.", default="'auto': bf16 where that is faster, else f16")]
    v_type: Annotated[CacheType, About("The type of cached values.", default="'auto'")]
    window_rewind: Annotated[int, About("Tokens that a sliding-window sequence can be cut back by; -1: any number.", -1)]
    use_adapters: Annotated[AdapterUses, About("(number in `adapters`, scale) of those that apply.", default="all, at 1")]


class ServiceOptions(TypedDict, total=False):
    """Options for requests that share an engine."""

    n_running: Annotated[int, About("Requests computed at the same time; 0: n_sequences.", 0, 4096)]
    n_step_tokens: Annotated[int, About("Prompt tokens of a step at most; 0: as many as a step computes well.", 0)]
    max_step_ms: Annotated[float, About("While others generate, prompts are chunked so that a step takes about this long.", 1e-3)]
    reuse_prefixes: Annotated[bool, About("Keeps finished sequences in the cache for prompts that begin alike.")]
    speculation: Annotated[Literal["none", "ngram", "model"], About("What drafts tokens.", default="'none'; 'model' with `draft`")]
    n_draft: Annotated[int, About("Drafted tokens at most.", 0, 64)]
    n_waiting: Annotated[int, About("Requests that may wait before others get OverloadedError; 0: any number.", 0, default="0")]
    n_unread: Annotated[int, About("Generated tokens that a stream may leave unread before its request pauses.", 1)]


class ModelOptions(LoadOptions, ContextOptions, ServiceOptions, total=False):
    """Options of weft.Model: loading, the context and the engine."""


class SamplingOptions(TypedDict, total=False):
    """Options for choosing tokens."""

    temperature: Annotated[float, About("0: always the most probable token.", -1e9, 1e9)]
    top_k: Annotated[int, About("Only the k most probable tokens; 0: all.")]
    top_p: Annotated[float, About("Only the most probable tokens that sum to p; 1: all.", 0, 1)]
    min_p: Annotated[float, About("Only tokens at least this probable, relative to the best; 0: all.", 0, 1)]
    seed: Annotated[int, About("The same seed gives the same tokens; -1: random.", -1, (1 << 64) - 1, "-1", _seed)]
    repetition_penalty: Annotated[float, About("Divides positive logits of recent tokens; 1: off.", 1e-6, 1e9)]
    frequency_penalty: Annotated[float, About("Subtracted for each time that a recent token occurred; 0: off.", -1e9, 1e9)]
    presence_penalty: Annotated[float, About("Subtracted once from recent tokens; 0: off.", -1e9, 1e9)]
    penalty_last_n: Annotated[int, About("How many tokens are recent; 0: none, -1: all.", -1)]
    typical_p: Annotated[float, About("Locally typical sampling; 1: off.", 0, 1)]
    top_n_sigma: Annotated[float, About("Only logits within n standard deviations of the best; 0 or less: all.", -1e9, 1e9)]
    xtc_probability: Annotated[float, About("How often the most probable choices are excluded (XTC); 0: off.", 0, 1)]
    xtc_threshold: Annotated[float, About("XTC excludes tokens that are at least this probable.", 0, 1)]
    dynamic_temperature_range: Annotated[float, About("The temperature varies by this with the entropy; 0: off.", 0, 1e9)]
    dynamic_temperature_exponent: Annotated[float, About("How it varies.", 0, 1e9)]
    mirostat: Annotated[int, About("Version of Mirostat, which replaces the steps that cut; 0: off.", 0, 2)]
    mirostat_tau: Annotated[float, About("The surprise that Mirostat aims at.", 0, 1e9)]
    mirostat_eta: Annotated[float, About("How fast Mirostat learns.", 0, 1e9)]
    dry_multiplier: Annotated[float, About("How strongly repeated sequences are penalised (DRY); 0: off.", 0, 1e9)]
    dry_base: Annotated[float, About("By which DRY's penalty grows with each repeated token.", 1, 1e9)]
    dry_allowed_length: Annotated[int, About("Repeated tokens that DRY allows.", 0)]
    dry_penalty_last_n: Annotated[int, About("Tokens that DRY looks at; 0: none, -1: all.", -1)]
    dry_breakers: Annotated[Sequence[str], About("Strings that end a repetition.", default="newline, colon, quotation mark, asterisk")]
    logit_bias: Annotated[Mapping[Union[int, str], float], About("Added to the logits of tokens, by their ids; -inf bans a token.",
                                                                 -_INFINITE, default="none", made=_by_token)]  # fmt: skip
    samplers: Annotated[Union[str, Sequence[str]], About('The steps, as in "top_k;top_p;temperature".', default="all", made=_steps)]


class ConstraintOptions(TypedDict, total=False):
    """Constraints of a completion, token by token: one of them at most."""

    grammar: Annotated[str, About("A grammar in GBNF.", default="none")]
    regex: Annotated[str, About("A regular expression that the whole completion matches.", default="none")]
    json_schema: Annotated[Union[Mapping[str, Any], str, bool], About("A JSON schema, or True: any JSON object.", default="none")]


class EmbedderOptions(LoadOptions, total=False):
    """Options of weft.Embedder: encoding, and loading if the model is given as a path."""

    n_tokens: Annotated[int, About("Tokens of a document, cut off after; 0: the training length, at most 8192.", 0, 1 << 26)]
    use_adapters: Annotated[AdapterUses, About("(number in `adapters`, scale) of those that apply.", default="the model's")]


class AnswerOptions(SamplingOptions, ConstraintOptions, total=False):
    """Of all requests."""

    max_tokens: Annotated[int, About("Tokens to generate at most; -1: until an end token, or the context is full.", -1)]
    min_tokens: Annotated[int, About("No end token before this many tokens.", 0)]
    ignore_end: Annotated[bool, About("Goes on past end tokens.")]
    stop: Annotated[Union[str, Sequence[str]], About("Texts that end the completion, which leaves them out.", default="none")]
    logprobs: Annotated[Union[int, bool], About("Log-probabilities of generated tokens, each with so many of the best ones; "
                                                "0 or True: none of them.", 0, 1024, "none", _logprobs)]  # fmt: skip
    prompt_logprobs: Annotated[bool, About("Log-probabilities of the prompt's tokens, with as many others as logprobs says.")]
    priority: Annotated[int, About("Requests with a higher one go first.")]
    timeout: Annotated[float, About("Seconds until the completion ends with the stop 'timeout'; 0: no limit.", 0, 1e9, "0")]
    context_shift: Annotated[bool, About("When the context is full, forgets the older half and goes on.")]
    n_keep: Annotated[int, About("With context_shift: first tokens that stay.", 0)]
    speculate: Annotated[bool, About("Drafts tokens ahead. The result is the same.")]
    use_adapters: Annotated[AdapterUses, About("(number in `adapters`, scale) of those that apply.", default="the model's")]


class RequestOptions(AnswerOptions, total=False):
    """Options of requests for completions."""

    special: Annotated[bool, About("The completion's text has control tokens, too.")]


# Names of these options in other programs, for hints.
OTHER_NAMES = {
    "max_new_tokens": "max_tokens", "max_completion_tokens": "max_tokens", "num_predict": "max_tokens", "n_predict": "max_tokens",
    "max_gen_len": "max_tokens", "max_length": "max_tokens", "min_new_tokens": "min_tokens", "n_min": "min_tokens",
    "temp": "temperature", "repeat_penalty": "repetition_penalty", "repeat_last_n": "penalty_last_n", "typ_p": "typical_p",
    "stop_sequences": "stop", "stop_strings": "stop", "top_logprobs": "logprobs", "n_probs": "logprobs", "random_state": "seed",
    "response_format": "json_schema", "guided_json": "json_schema", "guided_regex": "regex", "guided_grammar": "grammar",
    "ignore_eos": "ignore_end", "skip_special_tokens": "special", "num_ctx": "n_ctx", "max_model_len": "n_ctx",
    "context_length": "n_ctx", "n_seq_max": "n_sequences", "max_num_seqs": "n_running", "n_batch": "n_ubatch",
    "type_k": "k_type", "type_v": "v_type", "num_gpu": "n_gpu_layers", "lora_path": "adapters", "lora": "adapters",
    "num_thread": "n_threads", "draft_model": "draft", "model_path": "path", "enable_thinking": "template_variables",
}  # fmt: skip
