/// @file
/// weft in C: batchers and services, for many requests at once. The rules of weft.h hold here, too.
#ifndef WEFT_BATCHER_H
#define WEFT_BATCHER_H

#include "weft_generate.h"

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
