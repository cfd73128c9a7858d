/// @file
/// weft in C: batchers and services, for many requests at once. The rules of weft.h hold here, too.
#ifndef WEFT_BATCHER_H
#define WEFT_BATCHER_H

#include "weft_chat.h"

#ifdef __cplusplus
extern "C" {
#endif

/// Continuous batching: each step computes one batch with tokens of all running requests.
typedef struct weft_batcher weft_batcher;
/// A request of a batcher.
typedef int64_t weft_request;

/// The drafter for speculative decoding.
typedef int32_t weft_speculation;
enum {
  WEFT_SPECULATION_NONE = 0,
  WEFT_SPECULATION_NGRAM = 1,  ///< The tokens that followed an earlier occurrence of the last tokens.
  WEFT_SPECULATION_MODEL = 2   ///< A smaller model with the same vocabulary (weft_batcher_params::draft).
};

/// Host memory for prefixes: a quarter of the free memory, at most 8 GiB.
#define WEFT_CACHE_RAM_AUTO (-1)

/// Called with a note for a log, such as a damaged file. By a thread of the batcher: it must not use the
/// batcher. Valid during the call.
typedef void (*weft_note_callback)(const char* note, void* user_data);

/// Parameters of a batcher.
typedef struct weft_batcher_params {
  size_t struct_size;
  int32_t n_running;      ///< The most running completions. 0: the context's sequences.
  int32_t n_step_tokens;  ///< The most prompt tokens of a step. 0: weft_context_info::batch_size.
  double max_step_ms;     ///< Prompts are chunked so that a step takes about this long while others decode.
  double max_pause_ms;    ///< A paused completion keeps its cells for this long, unless others need them.
  int32_t n_waiting;      ///< The most waiting completions, then WEFT_OVERLOADED. 0: no limit.
  weft_speculation speculation;
  int32_t n_draft;   ///< The most drafted tokens of a completion per step.
  int32_t n_unread;  ///< For services: a completion pauses while this many tokens are unread.
  /// With WEFT_SPECULATION_MODEL: a context of the draft model, with at least as many sequences. The batcher
  /// reserves it.
  weft_context* draft;
  bool reuse_prefixes;  ///< Automatic prefix caching: finished sequences stay in the cache.
  // Cache tiers: evicted prefixes are kept, and later prompts restore them. Results do not depend on them.
  int64_t cache_ram_bytes;     ///< The most bytes of host memory for them, or WEFT_CACHE_RAM_AUTO. 0: none.
  const char* cache_disk;      ///< A folder for files of prefixes, which survive the process. NULL: none.
  int64_t cache_disk_bytes;    ///< The most bytes of all files in it. Least recently used ones go first.
  weft_note_callback on_note;  ///< Receives notes on the files; NULL: none.
  void* note_data;             ///< Given to it.
  // Snapshots: copied sequences of prompts, for models whose sequences cannot be cut anywhere.
  int64_t snapshot_bytes;    ///< The most bytes of their running states and windows. 0: none.
  int32_t n_snapshots;       ///< The most snapshots. 0: none.
  int32_t n_draft_branches;  ///< The most branches of a draft tree, 1 to 64. Each takes a free sequence.
  // Limits. A request beyond one of its own is WEFT_INVALID_ARGUMENT.
  int64_t n_waiting_tokens;  ///< The most prompt tokens of waiting completions, then WEFT_OVERLOADED. 0: no
                             ///< limit.
  int64_t n_request_tokens;  ///< The most tokens of a request's prompt, times its completions.
  size_t stop_bytes;         ///< The most bytes of a request's stop strings, and of its banned strings.
  int32_t n_stops;           ///< The most stop strings, stop tokens and banned strings of a request.
  int32_t n_completions;     ///< The most completions of a request.
  /// Draft as many tokens as measured acceptance makes worthwhile. false: always n_draft.
  bool adapt_drafts;
} weft_batcher_params;

/// A token and the natural logarithm of its probability.
typedef struct weft_logprob {
  weft_token token;
  float logprob;
} weft_logprob;

/// A generated token.
typedef struct weft_output_token {
  weft_token token;
  float logprob;            ///< Set if n_logprobs >= 0, and for prompt tokens.
  const weft_logprob* top;  ///< The most probable ones.
  size_t n_top;
} weft_output_token;

/// Statistics of a completion.
typedef struct weft_completion_stats {
  size_t struct_size;
  int32_t n_prompt;
  int32_t n_cached;  ///< Tokens of the prompt that were found in the cache.
  int32_t n_generated;
  int32_t n_preempted;
  int32_t n_recomputed;
  int32_t n_drafted;
  int32_t n_accepted;
  double queue_ms;
  double first_token_ms;
  double total_ms;
  int32_t n_discarded;  ///< Drawn tokens that were dropped again (weft_request_params::banned_strings).
} weft_completion_stats;

/// New output of one completion. How long it is valid depends on the function that delivers it.
typedef struct weft_output {
  size_t struct_size;
  weft_request request;
  int32_t completion;   ///< 0 to n - 1.
  bool done;            ///< The last one of this completion.
  weft_stop stop;       ///< With done.
  int32_t stop_string;  ///< With WEFT_STOP_STRING: the index in weft_request_params::stop. Otherwise -1.
  const char* text;     ///< New complete characters, with a zero byte at the end.
  size_t n_bytes;
  const weft_output_token* tokens;
  size_t n_tokens;
  const weft_output_token* prompt;  ///< With prompt_logprobs: prompt tokens with their logprobs.
  size_t n_prompt;
  const float* embedding;  ///< With done and a pooling: n_embd floats.
  size_t n_embedding;
  const char* error;                   ///< With WEFT_STOP_ERROR: the message; otherwise "".
  const weft_completion_stats* stats;  ///< With done; otherwise NULL.
  bool not_numbers;                    ///< With WEFT_STOP_ERROR: whether the model computed NaN or infinity.
} weft_output;

/// Called by weft_batcher_step. The output is valid during the call. The callback may submit, cancel, pause
/// and resume, but not step. Returning false cancels the request.
typedef bool (*weft_output_callback)(const weft_output* output, void* user_data);

/// Parameters of a request.
typedef struct weft_request_params {
  size_t struct_size;
  const weft_sampler_params* sampler;  ///< NULL: the defaults. Completion i uses seed + i.
  const weft_grammar* grammar;         ///< Constrains completions; NULL: none.
  const char* const* stop;             ///< Strings that end a completion; the result excludes them.
  size_t n_stop;
  int32_t n;          ///< Completions.
  int32_t n_predict;  ///< The most tokens of each. Below 0: until an end token, or until the context is full.
  int32_t n_min;      ///< The least number of tokens before an end token or a stop string counts.
  int32_t n_logprobs;  ///< Return each token's logprob, and this many most probable tokens. < 0: none.
  int32_t priority;    ///< Higher goes first.
  int32_t n_ctx;       ///< The most cells of a completion, with its prompt. 0: the whole cache.
  int32_t n_keep;      ///< With context_shift: the first tokens, which stay.
  /// If not WEFT_POOLING_NONE: generate nothing, return the prompt's pooled embedding.
  weft_pooling pooling;
  double queue_timeout_ms;  ///< Deadline from submit until it is first admitted. 0: none.
  double first_token_timeout_ms;
  double timeout_ms;
  const weft_adapter_use* adapters;  ///< NULL: the context's default. Not NULL, with n_adapters 0: none.
  size_t n_adapters;
  weft_output_callback on_output;  ///< For batchers; must be NULL for services.
  void* user_data;                 ///< Given to it.
  bool ignore_end;                 ///< Continue after end tokens.
  bool special;                    ///< Completions include control tokens.
  bool prompt_logprobs;            ///< Return logprobs of prompt tokens.
  bool context_shift;              ///< When the sequence fills the cache, drop its older half and continue.
  bool speculate;                  ///< Allow drafts.
  const weft_prompt* media;        ///< As weft_generate_params::media.
  const weft_token* stop_tokens;   ///< Tokens that end a completion, like end tokens, even with ignore_end.
  size_t n_stop_tokens;
  /// Strings that the completion never contains; ASCII letters match in both cases. When one is complete, the
  /// completion goes back and draws other tokens (RequestParams::banned_strings).
  const char* const* banned_strings;
  size_t n_banned_strings;
  /// Words that the completion never contains as tokens, at the start of a string and after a space (vLLM's
  /// bad_words). If a word has several tokens, its last one is banned after the others.
  const char* const* bad_words;
  size_t n_bad_words;
  const weft_token* allowed_tokens;  ///< The only tokens that may be generated. NULL: all.
  size_t n_allowed_tokens;
  /// Lengths of the prompt at which later prompts are likely to diverge: each leaves a snapshot.
  const int32_t* snapshot_at;
  size_t n_snapshot_at;
  /// The chat whose prompt is given: adds its constraint, reasoning budget, stop strings and snapshots, and
  /// control tokens. NULL: none.
  const weft_chat* chat;
  int32_t n_shown_stops;  ///< The first n_shown_stops strings of `stop` are included in the completion.
  bool reuse_prefix;      ///< Use a cached prefix of the prompt, if there is one.
} weft_request_params;

/// Counts since the batcher was made, and its current state.
typedef struct weft_batcher_stats {
  size_t struct_size;
  int64_t n_steps;
  int64_t n_failed_steps;
  int64_t n_requests;
  int64_t n_rejected;
  int64_t n_completed;      ///< Completions that ended by themselves.
  int64_t n_cancelled;      ///< Completions that were cancelled.
  int64_t n_timed_out;      ///< Completions that missed a deadline.
  int64_t n_errors;         ///< Completions that failed.
  int64_t n_prompt_tokens;  ///< Prompt tokens that were computed.
  int64_t n_cached_tokens;  ///< Prompt tokens that were found in the cache.
  int64_t n_generated_tokens;
  int64_t n_drafted_tokens;
  int64_t n_accepted_tokens;
  int64_t n_preempted;
  int32_t n_waiting;
  int32_t n_running;
  int32_t n_paused;
  int32_t cells_total;
  int32_t cells_used;
  int32_t cells_cached;  ///< Cells that only finished sequences hold.
  int32_t cells_peak;    ///< The most cells in use so far.
  int32_t n_prefilling;  ///< Running completions that compute a prompt.
  int32_t sequences_total;
  int32_t sequences_cached;  ///< Sequences that hold finished completions or snapshots.
  int32_t snapshots_cached;  ///< The snapshots among them.
  int32_t sequences_free;
  int64_t n_rebuilt;            ///< How often the whole cache was recomputed after a failure.
  int64_t n_recomputed_tokens;  ///< Tokens computed again after a preemption or a failure.
  int64_t n_branches;           ///< Draft branches in addition to each draft's first.
  int64_t n_evicted;            ///< Finished sequences that were evicted from the cache.
  int64_t n_snapshots;          ///< Snapshots of prompts.
  int64_t n_waiting_tokens;     ///< Prompt tokens of waiting completions.
  double longest_wait_ms;
  double ms_per_admission;  ///< Recent mean time between admissions. 0: not known.
  double host_seconds;      ///< Time of steps outside the model.
  double decode_seconds;    ///< Time of steps in the model.
  // Cache tiers.
  int64_t n_stored_tokens;   ///< Tokens that were copied out of the cache.
  int64_t n_ram_tokens;      ///< Tokens that were restored from host memory.
  int64_t n_disk_tokens;     ///< Tokens that were restored from files.
  int64_t n_tier_failures;   ///< Files that were damaged, or could not be written or read.
  int64_t cache_ram_bytes;   ///< Host memory in use now.
  int64_t cache_ram_limit;   ///< weft_batcher_params::cache_ram_bytes, with the automatic value replaced.
  int64_t cache_disk_bytes;  ///< Bytes of all files in the folder, as last counted.
} weft_batcher_stats;

/// Sets struct_size and the defaults.
WEFT_API void weft_batcher_params_init(weft_batcher_params* params, size_t struct_size);
/// Sets struct_size and the defaults.
WEFT_API void weft_request_params_init(weft_request_params* params, size_t struct_size);
/// Makes a batcher. It reserves the context until it is freed: other functions then refuse the context.
WEFT_API weft_batcher* weft_batcher_create(weft_context* context, const weft_batcher_params* params,
                                           weft_error** error);
/// Ends all requests without further output, and empties the context.
WEFT_API void weft_batcher_free(weft_batcher* batcher);
/// Adds a request. WEFT_OVERLOADED where the queue is full.
WEFT_API weft_status weft_batcher_submit(weft_batcher* batcher, const weft_token* prompt, size_t n_prompt,
                                         const weft_request_params* params, weft_request* request,
                                         weft_error** error);
/// Ends its completions with WEFT_STOP_CANCELLED; the next step reports that. Does nothing for a request that
/// has ended.
WEFT_API weft_status weft_batcher_cancel(weft_batcher* batcher, weft_request request, weft_error** error);
/// Leaves a completion out of steps until it is resumed.
WEFT_API weft_status weft_batcher_pause(weft_batcher* batcher, weft_request request, int32_t completion,
                                        weft_error** error);
/// Resumes it.
WEFT_API weft_status weft_batcher_resume(weft_batcher* batcher, weft_request request, int32_t completion,
                                         weft_error** error);
/// Computes one step for all requests and delivers their output. Sets `more` to whether work is left. A step
/// that fails is repeated and is not an error.
WEFT_API weft_status weft_batcher_step(weft_batcher* batcher, bool* more, weft_error** error);
/// Steps until nothing is left to do.
WEFT_API weft_status weft_batcher_run(weft_batcher* batcher, weft_error** error);
/// Its statistics.
WEFT_API weft_status weft_batcher_get_stats(const weft_batcher* batcher, weft_batcher_stats* stats,
                                            weft_error** error);

/// A batcher on a thread of its own. Any thread may use one.
typedef struct weft_service weft_service;
/// The response to a request, as a stream. Any thread may call weft_response_cancel.
typedef struct weft_response weft_response;

/// Makes a service, which takes over the context, even on failure: its handle can then only be freed.
WEFT_API weft_service* weft_service_create(weft_context* context, const weft_batcher_params* params,
                                           weft_error** error);
/// Cancels everything, and waits for the thread. Responses may outlive it.
WEFT_API void weft_service_free(weft_service* service);
/// Adds a request. WEFT_OVERLOADED where the queue is full, WEFT_UNAVAILABLE once it is shut down.
WEFT_API weft_response* weft_service_submit(weft_service* service, const weft_token* prompt, size_t n_prompt,
                                            const weft_request_params* params, weft_error** error);
/// Refuses new requests and waits at most this long for the open ones. Then it cancels the rest.
WEFT_API weft_status weft_service_drain(weft_service* service, int64_t at_most_ms, weft_error** error);
/// Recent statistics. Does not wait for a step.
WEFT_API weft_status weft_service_get_stats(const weft_service* service, weft_batcher_stats* stats,
                                            weft_error** error);

/// The result of weft_response_next.
typedef int32_t weft_poll;
enum {
  WEFT_POLL_FAILED = -1,      ///< A wrong argument: see the error.
  WEFT_POLL_OUTPUT = 0,       ///< New output.
  WEFT_POLL_NOTHING_YET = 1,  ///< No output within the time.
  WEFT_POLL_END = 2           ///< All completions have ended.
};

/// Called by the service's thread, or by weft_response_on_ready itself. It must not block or use the service.
typedef void (*weft_ready_callback)(void* user_data);

/// Waits at most this long for new output of one completion, valid until the next call. 0: does not wait.
/// Below 0: waits without a limit.
WEFT_API weft_poll weft_response_next(weft_response* response, int64_t at_most_ms, const weft_output** output,
                                      weft_error** error);
/// Ends the request; output so far can still be taken. Any thread.
WEFT_API void weft_response_cancel(weft_response* response);
/// For event loops: `ready` is called whenever weft_response_next has new output, and at once if there is
/// some. NULL ends the calls: none is running after the return.
WEFT_API weft_status weft_response_on_ready(weft_response* response, weft_ready_callback ready,
                                            void* user_data, weft_error** error);
/// Frees it, and cancels its request if it has not ended.
WEFT_API void weft_response_free(weft_response* response);

#ifdef __cplusplus
}
#endif

#endif
