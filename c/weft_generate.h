/// @file
/// weft in C: samplers, single completions and grammars. The rules of weft.h hold here, too.
#ifndef WEFT_GENERATE_H
#define WEFT_GENERATE_H

#include "weft_context.h"

#ifdef __cplusplus
extern "C" {
#endif

// ---------------------------------------------------------------------------------------------------------
// Samplers, and single completions

/// A grammar that constrains completions. Immutable: any number of threads may use one.
typedef struct weft_grammar weft_grammar;

/// Samples tokens from logits. Each sequence needs its own.
typedef struct weft_sampler weft_sampler;

/// Added to a token's logit; minus infinity bans it.
typedef struct weft_logit_bias {
  weft_token token;
  float bias;
} weft_logit_bias;

/// Parameters of a sampler, with llama.cpp's meanings and defaults.
typedef struct weft_sampler_params {
  size_t struct_size;
  uint64_t seed;          ///< UINT64_MAX: a random one.
  float temperature;      ///< <= 0: greedy.
  int32_t top_k;          ///< <= 0: all.
  float top_p;            ///< 1: off.
  float min_p;            ///< 0: off.
  float typical_p;        ///< 1: off.
  float top_n_sigma;      ///< <= 0: off.
  float xtc_probability;  ///< 0: off.
  float xtc_threshold;
  float dynamic_temperature_range;
  float dynamic_temperature_exponent;
  int32_t mirostat;  ///< 0: off, 1 or 2.
  float mirostat_tau;
  float mirostat_eta;
  int32_t penalty_last_n;  ///< 0: off, -1: all tokens.
  float repetition_penalty;
  float frequency_penalty;
  float presence_penalty;
  float dry_multiplier;  ///< 0: off.
  float dry_base;
  int32_t dry_allowed_length;
  int32_t dry_penalty_last_n;
  const weft_logit_bias* logit_bias;
  size_t n_logit_bias;
  /// The order of steps, by llama.cpp's names: "top_k;top_p;temperature". NULL: the default order.
  const char* steps;
  /// DRY's sequence breakers: strings that end a repetition. They match within tokens and across them. NULL:
  /// newline, colon, quotation mark and asterisk, if the sampler has a tokenizer. Not NULL, with
  /// n_dry_breakers 0: none.
  const char* const* dry_breakers;
  size_t n_dry_breakers;
} weft_sampler_params;

/// Sets struct_size and the defaults.
WEFT_API void weft_sampler_params_init(weft_sampler_params* params, size_t struct_size);
/// Makes a sampler for a tokenizer's vocabulary, and keeps the tokenizer.
WEFT_API weft_sampler* weft_sampler_create_for(const weft_tokenizer* tokenizer,
                                               const weft_sampler_params* params, weft_error** error);
/// Makes a sampler without a tokenizer. DRY then has no breakers, and giving dry_breakers is an error.
WEFT_API weft_sampler* weft_sampler_create(int32_t n_vocab, const weft_sampler_params* params,
                                           weft_error** error);
/// Frees it.
WEFT_API void weft_sampler_free(weft_sampler* sampler);
/// Draws a token, but does not accept it. `allowed` is NULL or a mask: only tokens i with bit i % 32 of
/// allowed[i / 32] are drawn.
WEFT_API weft_status weft_sampler_sample(weft_sampler* sampler, const float* logits, size_t n_logits,
                                         const uint32_t* allowed, weft_token* token, weft_error** error);
/// Records a token that was appended to the sequence, drawn or of the prompt.
WEFT_API weft_status weft_sampler_accept(weft_sampler* sampler, weft_token token, weft_error** error);
/// Forgets all accepted tokens and restarts the random numbers from the seed.
WEFT_API weft_status weft_sampler_reset(weft_sampler* sampler, weft_error** error);
/// The seed in use, also if a random one was requested.
WEFT_API uint64_t weft_sampler_seed(const weft_sampler* sampler);

/// Why a completion ended.
typedef int32_t weft_stop;
enum {
  WEFT_STOP_END = 0,           ///< An end token.
  WEFT_STOP_LENGTH = 1,        ///< n_predict tokens.
  WEFT_STOP_CONTEXT_FULL = 2,  ///< The context is full.
  WEFT_STOP_STRING = 3,        ///< A stop string.
  WEFT_STOP_CANCELLED = 4,
  WEFT_STOP_TIMEOUT = 5,  ///< A deadline of the request.
  WEFT_STOP_ERROR = 6
};
/// "end", "length", "context", "stop", "cancelled", "timeout", "error"; "unknown". Valid indefinitely.
WEFT_API const char* weft_stop_name(weft_stop stop);

/// Called with new complete characters; a zero byte follows them. Valid during the call. Returning false ends
/// the generation.
typedef bool (*weft_text_callback)(const char* text, size_t n_bytes, void* user_data);
/// Called during prefill with the number of prompt tokens computed so far. Returning false ends the
/// generation.
typedef bool (*weft_prefill_callback)(int32_t n_done, void* user_data);

/// Parameters of a generation.
typedef struct weft_generate_params {
  size_t struct_size;
  int32_t n_predict;        ///< Tokens; < 0: until an end token or the context is full.
  int32_t n_keep;           ///< With context_shift: the first tokens, which stay.
  const char* const* stop;  ///< Strings that end it; the result excludes them.
  size_t n_stop;
  weft_text_callback on_text;        ///< NULL: none.
  weft_prefill_callback on_prefill;  ///< NULL: none.
  void* user_data;                   ///< Given to both.
  bool ignore_end;                   ///< Continue after end tokens.
  bool context_shift;  ///< When the context is full, drop the older half of the sequence and continue.
  /// The prompt whose tokens are given, if it has images or audio. Otherwise NULL.
  const weft_prompt* media;
  /// The sum of weft_part::n - weft_part::extent over the parts that the sequence already holds.
  int32_t n_skipped;
  const weft_grammar* grammar;  ///< Constrains the completion; NULL: none.
  int32_t n_chunk;              ///< The most prompt tokens of a batch. 0: weft_context_info::batch_size.
  bool special;                 ///< The completion includes control tokens.
} weft_generate_params;

/// The result of a generation.
typedef struct weft_generation {
  size_t struct_size;
  weft_stop stop;
  int32_t n_prompt;
  int32_t n_generated;  ///< Without an end token.
  int32_t n_decoded;    ///< Steps after the prompt; they took decode_ms.
  double prefill_ms;
  double decode_ms;
} weft_generation;

/// Sets struct_size and the defaults.
WEFT_API void weft_generate_params_init(weft_generate_params* params, size_t struct_size);
/// Appends a prompt to a sequence and generates. Sets `text`, `tokens` and `result` if they are not NULL.
/// Cancelling is not an error: weft_generation::stop is then WEFT_STOP_CANCELLED.
WEFT_API weft_status weft_generate(weft_context* context, weft_sampler* sampler, const weft_token* prompt,
                                   size_t n_prompt, weft_seq seq, const weft_generate_params* params,
                                   char** text, weft_token** tokens, size_t* n_tokens,
                                   weft_generation* result, weft_error** error);

// ---------------------------------------------------------------------------------------------------------
// Grammars

/// The kind of a grammar's source.
typedef int32_t weft_grammar_kind;
enum {
  WEFT_GRAMMAR_GBNF = 0,         ///< llama.cpp's GBNF. The start rule is "root".
  WEFT_GRAMMAR_REGEX = 1,        ///< A regular expression for the whole completion.
  WEFT_GRAMMAR_JSON_SCHEMA = 2,  ///< A JSON schema (draft 2020-12).
  WEFT_GRAMMAR_JSON_OBJECT = 3,  ///< Any JSON object; the source is ignored, and may be NULL.
  /// A structural tag of xgrammar and vLLM, as JSON: {"format": {...}}, or {"structures": [...], "triggers":
  /// [...]}.
  WEFT_GRAMMAR_STRUCTURAL_TAG = 4
};

/// Compiles a grammar for a model's vocabulary. Any thread.
WEFT_API weft_grammar* weft_grammar_create(const weft_model* model, weft_grammar_kind kind,
                                           const char* source, weft_error** error);
/// Frees it.
WEFT_API void weft_grammar_free(weft_grammar* grammar);

#ifdef __cplusplus
}
#endif

#endif
