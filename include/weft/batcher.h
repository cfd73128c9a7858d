#pragma once
// The batcher: requests in, tokens out, one loop. It puts what all requests want next into one batch a step,
// so that every pass over the weights serves everybody, and it decides who gets the cache.
//
// A request's result is its own: the same tokens, bit by bit, whoever else is served, however prompts are
// cut, shared, preempted or computed again after a failure, with speculation and without.
//
// One thread uses a batcher. weft::Service puts one behind a thread of its own, for requests from many.
#include <chrono>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "weft/context.h"
#include "weft/embedded_part.h"
#include "weft/error.h"
#include "weft/generate.h"
#include "weft/metrics.h"
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
  float logprob = 0.0f;           ///< Of the prompt, or with n_logprobs >= 0.
  std::vector<Logprob> top = {};  ///< The n_logprobs most probable ones, most probable first.
};

/// How a completion went.
struct CompletionStats {
  int n_prompt = 0;
  int n_cached = 0;  ///< Tokens of the prompt that were found in the cache.
  int n_generated = 0;
  int n_preempted = 0;          ///< How often it lost its cells to others, to be computed again.
  int n_recomputed = 0;         ///< Tokens that were computed again for that, or after a failure.
  int n_drafted = 0;            ///< By speculation ...
  int n_accepted = 0;           ///< ... and right.
  double queue_ms = 0.0;        ///< From submit until it ran first.
  double first_token_ms = 0.0;  ///< Since the request was submitted.
  double total_ms = 0.0;
};

/// What a step brought to one completion of a request. Valid during the call.
struct Output {
  RequestId request = 0;
  int completion = 0;                        ///< 0 to n - 1.
  std::string_view text = {};                ///< Whole characters; stop strings are held back.
  std::span<const OutputToken> tokens = {};  ///< Drawn in this step, an end token included.
  /// With RequestParams::prompt_logprobs: the prompt's tokens that follow those that this step has read. All
  /// but the first one are told, in their order, once for each completion.
  std::span<const OutputToken> prompt = {};
  /// With done, and RequestParams::pooling: n_embd floats, not normalised. Empty where it did not come to
  /// that.
  std::span<const float> embedding = {};
  bool done = false;                   ///< Told once for each completion, with its last call.
  StopReason stop = StopReason::kEnd;  ///< With done.
  int stop_string = -1;                ///< With StopReason::kStopString: which of RequestParams::stop it was.
  std::string_view error = {};         ///< With StopReason::kError: what happened.
  CompletionStats stats = {};          ///< With done.
};

/// Which tokens a completion may write next: a grammar, a schema. One per completion. Its members are called
/// by one thread at a time, fill() from another one than the batcher's, while a step computes; the step waits
/// for it, so one that is slow slows everybody. What accept() and fill() throw ends the completion with
/// StopReason::kError.
class TokenConstraint {
 public:
  virtual ~TokenConstraint() = default;
  /// The completion went on with this token.
  virtual void accept(Token token) = 0;
  /// Sets bit i % 32 of allowed[i / 32] for each token i that may follow the accepted ones and `draft` behind
  /// them (each of which was allowed); `allowed` is zeroed. At least one must be allowed: end tokens where
  /// the text may end.
  virtual void fill(std::span<const Token> draft, std::span<std::uint32_t> allowed) = 0;
  /// Whether `next` may follow the accepted ones and `draft` behind them: of guesses written ahead, before
  /// the step. What it throws costs the guesses only.
  virtual bool allows(std::span<const Token> draft, Token next) = 0;
  /// Appends to `tokens` what the constraint leaves no choice about behind the accepted ones and `draft`, or
  /// the beginning of it. These are written ahead and checked like any guess, in one step: where a text can
  /// be cut into tokens in several ways, any of them will do. Before the step, by the batcher's thread; what
  /// it throws costs the guesses only.
  virtual void forced(std::span<const Token> /*draft*/, std::vector<Token>& /*tokens*/) {}
};

struct RequestParams {
  /// Of the prompt, in their order. Nothing is drafted for completions of prompts with such parts.
  std::vector<EmbeddedPart> parts = {};
  SamplerParams sampler = {};  ///< Completion i draws with seed + i.
  int n = 1;                   ///< Completions of the prompt.
  int n_predict = -1;          ///< Tokens of each, < 0: until an end token or the context is full.
  bool ignore_end = false;     ///< End tokens are tokens like others.
  /// Tokens of each before an end token may be drawn. Stop strings end a text at any time, and so does a
  /// constraint that allows nothing but an end. With ignore_end there is nothing to hold back.
  int n_min = 0;
  /// Control tokens stand in the text too, as the vocabulary writes them; end tokens never do.
  bool special = false;
  std::vector<std::string> stop = {};  ///< As GenerateParams::stop.
  int n_shown_stops = 0;               ///< So many of `stop`, the first ones, are included in the completion.
  /// Tokens that end the completion as end tokens do, also with ignore_end. n_min does not hold them back.
  std::vector<Token> stop_tokens = {};
  /// If not kNone, the completion generates nothing and returns the pooled embedding of its prompt
  /// (Context::embedding) in Output::embedding. It ends with kLength once its prompt is computed. The mean
  /// needs the whole prompt computed, whatever is cached. kCls is refused. So are n > 1, n_min, stop,
  /// n_logprobs, prompt_logprobs, context_shift and a constraint.
  Pooling pooling = Pooling::kNone;
  int n_logprobs = -1;  ///< The most probable tokens told beside each one, with logprobs. < 0: no logprobs.
  /// Logprobs of the prompt's tokens too, with the n_logprobs most probable ones where that is more than 0.
  /// Each completion then computes the whole prompt, whatever is cached.
  bool prompt_logprobs = false;
  bool reuse_prefix = true;  ///< The prompt may begin with a cached prefix.
  /// Higher goes first. Who waits long comes up, so nobody waits for ever.
  int priority = 0;
  // Deadlines, in milliseconds since submit; 0: none. A completion that misses one ends with
  // StopReason::kTimeout and keeps what it has written.
  double queue_timeout_ms = 0.0;        ///< To run first.
  double first_token_timeout_ms = 0.0;  ///< To its first token.
  double timeout_ms = 0.0;              ///< To its end.
  /// When the sequence has filled the cache (or n_ctx cells), drop the older half after the first n_keep
  /// tokens (Context::forget). n_keep must be less than these cells. The prompt of such a sequence cannot be
  /// computed again. Its cells are saved on the host when it is preempted; a failed step ends it.
  bool context_shift = false;
  int n_keep = 4;
  int n_ctx = 0;          ///< Cells that each completion may hold at most. 0: the whole cache.
  bool speculate = true;  ///< Tokens are written ahead, those that a constraint forces too.
  /// What it is written with (Context::set_adapters); nullopt: as the context's texts are. Beginnings are
  /// shared among requests with the same.
  std::optional<std::vector<AdapterUse>> adapters = std::nullopt;
  /// Makes the constraint of a completion, when it runs first. Null: none.
  std::function<std::unique_ptr<TokenConstraint>(int completion)> constraint = nullptr;
  /// Called from step() after the step's computation. May submit, cancel, pause and resume, but not step.
  /// Returning false cancels the request. What it throws cancels the request too, and step() throws it on
  /// when everybody else has been told.
  std::function<bool(const Output&)> on_output = nullptr;
};

/// Who drafts, besides constraints (TokenConstraint::forced). Models with recurrent layers cannot go back
/// behind a wrong draft: they write without one.
enum class Speculation : std::uint8_t {
  kNone,
  kNgram,  ///< What followed the last tokens when they stood in the text before.
  kModel,  ///< A smaller model with the same vocabulary writes ahead.
};

/// What is refused when it is submitted. What could never be served is Error kInvalidArgument, what could be
/// later is OverloadedError.
struct BatcherLimits {
  int n_waiting = 0;                                      ///< Completions that wait; 0: no limit.
  std::int64_t n_waiting_tokens = 0;                      ///< Of their prompts; 0: no limit.
  int n_completions = 256;                                ///< Of one request.
  std::int64_t n_request_tokens = std::int64_t{1} << 24;  ///< Prompt times completions of one request.
  int n_stops = 256;                                      ///< Stop strings of a request ...
  std::size_t stop_bytes = std::size_t{1} << 16;          ///< ... and their bytes.
};

/// There is no room in the queue now. Error::code() is kOverloaded.
class OverloadedError : public Error {
 public:
  OverloadedError(const std::string& message, double retry_after_ms_in)
      : Error(ErrorCode::kOverloaded, message), retry_after_ms(retry_after_ms_in) {}
  double retry_after_ms;  ///< When there may be room, from how fast the queue moved lately.
};

/// What a step did, and where its time went.
struct StepRecord {
  std::chrono::steady_clock::time_point begin = {};
  std::chrono::steady_clock::time_point end = {};
  // Parts of it: the host's before Context::decode (one that found no room and was repeated included), decode
  // itself, and the host's after it. Of a step that failed the parts that it came to.
  double host_before_ms = 0.0;
  double decode_ms = 0.0;
  double host_after_ms = 0.0;
  int n_streams = 0;  ///< That had a share in it.
  int n_rows = 0;     ///< Tokens computed: of prompts, the last ones of texts, drafted ones ...
  int n_prompt = 0;   ///< ... of them those of prompts, and of texts that are computed again.
  int n_generated = 0;
  int n_drafted = 0;
  int n_accepted = 0;
  bool failed = false;  ///< A device or memory did; what it was about is tried again.
};

struct BatcherParams {
  /// Completions computed at the same time, at most. The prefix cache, snapshots and branches of drafts live
  /// in sequences that no completion runs in: a context needs more sequences than this to have them while all
  /// are busy. 0: the context's sequences.
  int n_running = 0;
  /// Tokens of prompts that a step computes, at most. 0: what the context likes best (Context::batch_size),
  /// which is also the most.
  int n_step_tokens = 0;
  /// While others decode, or wait for their first token, prompts are cut so that a step takes about this
  /// long.
  double max_step_ms = 150.0;
  /// A completion that is paused keeps its cells and its place among the running ones for so long, unless
  /// running ones need the cells, and is preempted then.
  double max_pause_ms = 10000.0;
  BatcherLimits limits = {};
  /// Finished texts stay in the cache until their room is needed. Where texts cannot be cut anywhere
  /// (Context::cuts_anywhere), beginnings that come again are kept too, once they were seen twice.
  bool reuse_prefixes = true;
  Speculation speculation = Speculation::kNone;
  int n_draft = 8;           ///< Tokens drafted ahead for a completion, at most.
  int n_draft_branches = 4;  ///< Ways to go on that a draft may hold, where sequences are free for them.
  bool adapt_drafts =
      true;  ///< Draft as much as pays, which is measured; otherwise always as much as allowed.
  /// Called after each step that computed something, before its outputs are told: for traces. It must be
  /// quick and not use the batcher; what it throws is dropped. By the thread that steps.
  std::function<void(const StepRecord&)> on_step = nullptr;
  /// With kModel: a context of the draft model with at least as many sequences. Must outlive the batcher,
  /// which uses it and the model's by turns.
  Context* draft = nullptr;
};

/// Counts since the beginning, and how things stand.
struct BatcherStats {
  std::int64_t n_steps = 0;
  std::int64_t n_failed_steps = 0;  ///< That a device or memory failed; they were tried again.
  std::int64_t n_rebuilt = 0;       ///< How often the cache was given up after a failure.

  std::int64_t n_requests = 0;   ///< Submitted ...
  std::int64_t n_rejected = 0;   ///< ... and refused because of the queue's limits.
  std::int64_t n_completed = 0;  ///< Completions by how they ended: by themselves,
  std::int64_t n_cancelled = 0;  ///< cancelled,
  std::int64_t n_timed_out = 0;  ///< by a deadline,
  std::int64_t n_errors = 0;     ///< by an error.

  std::int64_t n_prompt_tokens = 0;      ///< Computed ...
  std::int64_t n_cached_tokens = 0;      ///< ... and found in the cache instead.
  std::int64_t n_recomputed_tokens = 0;  ///< Computed again after a preemption or a failure.
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

  LatencyHistogram queue = {};        ///< From submit until a completion ran first.
  LatencyHistogram first_token = {};  ///< From submit to the first token.
  LatencyHistogram between_tokens = {};
  LatencyHistogram step = {};

  // Now:
  int n_waiting = 0;
  std::int64_t n_waiting_tokens = 0;  ///< Of their texts.
  double longest_wait_ms = 0.0;
  double ms_per_admission = 0.0;  ///< Between two completions that left the queue lately; 0: not known.
  int n_running = 0;
  int n_prefilling = 0;  ///< Of those that run: still reading.
  int n_paused = 0;
  int cells_total = 0;
  int cells_used = 0;
  int cells_cached = 0;  ///< Of cells_used: of finished texts and snapshots alone.
  int sequences_total = 0;
  int sequences_cached = 0;  ///< That hold finished texts or snapshots.
  int sequences_free = 0;
};

/// The beginning of a text, as the cache held it.
struct SavedText {
  int n_tokens = 0;                   ///< 0: it held none of it.
  std::vector<std::byte> state = {};  ///< These tokens and what the cache has of them, for restore_text().
};

/// A saved text that is in the cache again.
struct RestoredText {
  std::vector<Token> tokens = {};
  std::vector<AdapterUse> adapters = {};  ///< That it was written with: those of this model.
};

enum class StreamState : std::uint8_t {
  kWaiting,     ///< In the queue, or preempted.
  kPrefilling,  ///< Reads its prompt, or again what it lost.
  kDecoding,
  kPaused,  ///< By its reader; in the queue where it has no sequence.
};
/// "waiting", "prefilling", "decoding", "paused"
std::string_view name(StreamState state);

/// What is in the cache and who is served: for people to look at.
struct BatcherPicture {
  struct Stream {
    RequestId request = 0;
    int completion = 0;
    StreamState state = StreamState::kWaiting;
    SeqId sequence = -1;  ///< Where it runs; -1: it has none.
    int n_prompt = 0;
    int n_cached = 0;  ///< Of the prompt: found in the cache when it ran first.
    int n_read = 0;    ///< Of its text, prompt and what it wrote: in the cache now.
    int n_generated = 0;
    int priority = 0;
    double age_ms = 0.0;  ///< Since it was submitted.
  };
  struct Sequence {
    SeqId id = -1;
    int n_tokens = 0;
    bool running = false;  ///< A stream's; else a finished text or a snapshot that was kept.
  };
  std::vector<CellRun> cells = {};         ///< As Context::cell_runs.
  int n_pages = 0;                         ///< That the cells are numbered in ...
  int page_cells = Context::kCellsOfPage;  ///< ... and the cells of each.
  std::vector<Stream> streams = {};        ///< Those that run, then those that wait: the first kMostWaiting.
  int n_waiting = 0;                       ///< All of them.
  std::vector<Sequence> sequences = {};    ///< That hold something, by their ids.
  static constexpr int kMostWaiting = 256;
};

/// Used by one thread. The context must outlive it and is the batcher's alone in the meantime (a second
/// batcher on it is refused); its sequences are emptied at the beginning and at the end.
class Batcher {
 public:
  /// Throws Error kInvalidArgument.
  explicit Batcher(Context& context, const BatcherParams& params = {});
  ~Batcher();
  Batcher(const Batcher&) = delete;
  Batcher& operator=(const Batcher&) = delete;

  /// In the places of parts the prompt has their tokens (EmbeddedPart::token). A model that reads a source
  /// reads it as that (ModelInfo::reads_source). Throws OverloadedError where the queue is full, and Error
  /// kInvalidArgument for wrong parameters and for a prompt that could not be held if it were alone, with
  /// both numbers. Copies the prompt; all else that a completion needs is made when it runs first.
  RequestId submit(std::span<const Token> prompt, RequestParams params);
  RequestId submit(std::initializer_list<Token> prompt, RequestParams params) {
    return submit(std::span(prompt.begin(), prompt.size()), std::move(params));
  }
  /// Completions that have not ended do so with kCancelled, which on_output is told in the next step; their
  /// cells are free at once. Does nothing for requests that are unknown or have ended.
  void cancel(RequestId request);
  /// The completion takes no part in steps until it is resumed: for readers that are slow. Its deadlines go
  /// on. Does nothing for those that are unknown or have ended.
  void pause(RequestId request, int completion = 0);
  void resume(RequestId request, int completion = 0);

  /// One step for everybody. False where nothing is left to do before something is submitted or resumed, or a
  /// deadline comes (next_deadline).
  ///
  /// A step that fails (a device, memory) is no error here: what it was about is computed again, in a cache
  /// that is made anew where the failure left it unsure; the results are the same. When steps go on failing
  /// each completion is tried alone, and those that fail alone end with StopReason::kError; so does one that
  /// lacks memory for its own draw, which cannot be done twice. Throws only what
  /// on_output throws.
  bool step();
  /// Steps until nothing is left to do.
  void run() {
    while (step()) {
    }
  }
  /// The next deadline of those that wait or run: step() then ends who misses it.
  std::optional<std::chrono::steady_clock::time_point> next_deadline() const;

  // Texts that outlive the cache. Between steps, and not from on_output. Where a device or memory fails
  // meanwhile they throw Error kDevice or kOutOfMemory; streams whose cells that left unsure are computed
  // again.

  /// The longest beginning of `tokens` that the cache holds, of finished texts and running ones that are
  /// written with these adapters (nothing: the context's own), and that can be given: models with recurrent
  /// layers give texts as a whole only, windows ones whose window is there. Of models that read sources a
  /// source, as a whole, without what is written about it. Never more than was asked for, and nothing from
  /// the first part that is no token on (EmbeddedPart). A text's last token was drawn and not computed: it is
  /// not in the cache. Error kOverloaded for a part of a text that no sequence is free to be copied to.
  SavedText save_text(std::span<const Token> tokens,
                      const std::optional<std::vector<AdapterUse>>& adapters = std::nullopt);
  /// A saved text is in the cache as if it had just been finished, for requests that begin like it; finished
  /// texts make room. Throws Error and takes nothing up: kInvalidFile and
  /// kInvalidArgument like Context::restore, kOverloaded where running texts leave no room, kUnsupported
  /// without BatcherParams::reuse_prefixes. Damage is found; who forges a state chooses what its tokens stand
  /// for, so take up only what you saved yourself.
  RestoredText restore_text(std::span<const std::byte> state);
  /// Finished texts that begin with `tokens`, or that `tokens` begin with, leave the cache. Returns how many.
  /// What running texts share with them stays.
  int forget_text(std::span<const Token> tokens);

  int n_running() const;
  int n_waiting() const;
  std::int64_t n_waiting_tokens() const;
  BatcherStats stats() const;      ///< Costs the number of open completions.
  BatcherPicture picture() const;  ///< Costs what the cache holds. Between steps.
  /// Cells and sequences against what the requests hold: for tests and audits.
  bool consistent() const;

 private:
  friend class Service;  // It has checked its requests on their callers' threads.
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace weft

#pragma GCC visibility pop
