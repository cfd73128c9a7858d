#pragma once
// The batcher: requests in, tokens out, one loop. It puts what all requests want next into one batch a step,
// so that every pass over the weights serves everybody, and it decides who gets the cache.
//
// A request's result is its own: the same tokens, bit by bit, whoever else is served, however prompts are
// cut, shared or set aside and resumed, with speculation and without.
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "weft/context.h"
#include "weft/generate.h"
#include "weft/sampler.h"

#pragma GCC visibility push(default)

namespace weft {

using RequestId = std::int64_t;

struct Logprob {
  Token id = 0;
  float logprob = 0.0f;  ///< Natural logarithm, of the model's distribution: before any sampler.
};

struct OutputToken {
  Token id = 0;
  float logprob = 0.0f;      ///< With n_logprobs >= 0 only.
  std::vector<Logprob> top;  ///< The n_logprobs most probable ones, most probable first.
};

/// How a completion went.
struct CompletionStats {
  int n_prompt = 0;
  int n_cached = 0;  ///< Tokens of the prompt that were found in the cache.
  int n_generated = 0;
  int n_preempted = 0;          ///< How often it had to wait for others in its midst.
  int n_drafted = 0;            ///< By speculation ...
  int n_accepted = 0;           ///< ... and right.
  double first_token_ms = 0.0;  ///< Since the request was submitted.
  double total_ms = 0.0;
};

/// What a step brought to one completion of a request. Valid during the call.
struct Output {
  RequestId request = 0;
  int completion = 0;                   ///< 0 to n - 1.
  std::string_view text;                ///< Whole characters; stop strings are held back.
  std::span<const OutputToken> tokens;  ///< Drawn in this step, an end token included.
  bool done = false;
  StopReason stop = StopReason::kEnd;  ///< With done.
  CompletionStats stats;               ///< With done.
};

struct RequestParams {
  SamplerParams sampler;  ///< Completion i draws with seed + i.
  int n = 1;              ///< Completions of the prompt.
  int n_predict = -1;     ///< Tokens of each, < 0: until an end token or the context is full.
  bool ignore_end = false;
  std::vector<std::string> stop;
  int n_logprobs = -1;  ///< < 0: none.
  /// Higher goes first. Who waits long comes up, so nobody waits for ever.
  int priority = 0;
  /// When the text has filled the cache (or n_ctx cells), forget the older half behind the first n_keep
  /// tokens, and go on.
  bool context_shift = false;
  int n_keep = 4;
  int n_ctx = 0;  ///< Cells that each completion may hold at most. 0: the whole cache.
  bool speculate = true;
  /// Called from step() after the step's computation. May submit and cancel; returning false cancels the
  /// request.
  std::function<bool(const Output&)> on_output;
};

/// Models with recurrent layers cannot go back behind a wrong draft: they write without one.
enum class Speculation : std::uint8_t {
  kNone,
  kNgram,  ///< What followed the last tokens when they stood in the text before.
  kModel,  ///< A smaller model with the same vocabulary writes ahead.
};

struct BatcherParams {
  int n_running = 0;  ///< Completions computed at the same time, at most. 0: the context's sequences.
  /// Tokens of a step, at most. 0: what the context likes best (Context::batch_size), which is also the most.
  int n_step_tokens = 0;
  /// While others decode, or wait for their first token, prompts are cut so that a step takes about this
  /// long.
  double max_step_ms = 150.0;
  /// Finished texts stay in the cache until their room is needed. Where texts cannot be cut anywhere
  /// (Context::cuts_anywhere), beginnings that come again are kept too, once they were seen twice.
  bool reuse_prefixes = true;
  Speculation speculation = Speculation::kNone;
  int n_draft = 8;           ///< Tokens drafted ahead for a completion, at most.
  int n_draft_branches = 4;  ///< Ways to go on that a draft may hold, where sequences are free for them.
  bool adapt_drafts =
      true;  ///< Draft as much as pays, which is measured; otherwise always as much as allowed.
  /// With kModel: a context of the draft model with at least as many sequences. Must outlive the batcher,
  /// which uses it and the model's by turns.
  Context* draft = nullptr;
};

struct BatcherStats {
  std::int64_t n_steps = 0;
  std::int64_t n_prompt_tokens = 0;  ///< Computed ...
  std::int64_t n_cached_tokens = 0;  ///< ... and found in the cache instead.
  std::int64_t n_generated_tokens = 0;
  std::int64_t n_drafted_tokens = 0;
  std::int64_t n_accepted_tokens = 0;
  std::int64_t n_branches = 0;   ///< Of drafts: ways to go on besides the first.
  std::int64_t n_evicted = 0;    ///< Finished texts that had to leave the cache.
  std::int64_t n_preempted = 0;  ///< Running completions that had to.
  std::int64_t n_snapshots =
      0;                      ///< Beginnings kept for others, where texts cannot be cut (Context::can_cut).
  int cells_peak = 0;         ///< Cells in use, finished texts included.
  double host_seconds = 0.0;  ///< Of all steps, outside Context::decode.
  double decode_seconds = 0.0;
};

/// Used by one thread. The context must outlive it and is the batcher's alone in the meantime; its sequences
/// are emptied at the beginning and at the end.
class Batcher {
 public:
  /// Throws Error kInvalidArgument.
  explicit Batcher(Context& context, const BatcherParams& params = {});
  ~Batcher();
  Batcher(const Batcher&) = delete;
  Batcher& operator=(const Batcher&) = delete;

  /// Never refuses for want of room, except a prompt that the cache could not hold if it were alone: Error
  /// kInvalidArgument with both numbers. Wrong parameters are refused here too.
  RequestId submit(std::span<const Token> prompt, RequestParams params);
  /// All its completions end with kCancelled (on_output is told so) and their cells are free. Unknown or
  /// ended ones are none of its business.
  void cancel(RequestId request);
  /// One step for everybody. False where there is nothing to do. Throws Error where the device fails; the
  /// requests stay then, and the next step tries again.
  bool step();
  /// Steps until nothing is left to do.
  void run() {
    while (step()) {
    }
  }

  int n_running() const;
  int n_waiting() const;
  BatcherStats stats() const;
  /// Cells and sequences against what the requests hold: for tests and audits.
  bool consistent() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace weft

#pragma GCC visibility pop
