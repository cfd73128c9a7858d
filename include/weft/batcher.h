#pragma once
// The batcher: continuous batching of requests. Each step puts the next tokens of all requests into one
// batch, so each pass over the weights serves all of them. The batcher also decides which requests get the
// cache.
//
// A request's result does not depend on others. It has the same tokens, bit by bit, in any batch, with any
// chunking of prompts and with prefix caching. The same holds for preemption, recovered failures and
// speculation.
//
// One thread uses a batcher. weft::Service runs one on a thread of its own, for requests from many threads.
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
  float logprob = 0.0f;           ///< Set for prompt tokens, and with n_logprobs >= 0.
  std::vector<Logprob> top = {};  ///< The n_logprobs most probable ones, most probable first.
};

/// Statistics of a completion.
struct CompletionStats {
  int n_prompt = 0;
  int n_cached = 0;  ///< Tokens of the prompt that were found in the cache.
  int n_generated = 0;
  int n_preempted = 0;          ///< Times that it lost its cells to others and was computed again.
  int n_recomputed = 0;         ///< Tokens computed again after a preemption or a failure.
  int n_drafted = 0;            ///< Tokens drafted by speculation ...
  int n_accepted = 0;           ///< ... and accepted.
  double queue_ms = 0.0;        ///< From submit until it ran first.
  double first_token_ms = 0.0;  ///< Since the request was submitted.
  double total_ms = 0.0;
};

/// The output of a step for one completion of a request. Valid during the call.
struct Output {
  RequestId request = 0;
  int completion = 0;                        ///< 0 to n - 1.
  std::string_view text = {};                ///< Whole characters; stop strings are held back.
  std::span<const OutputToken> tokens = {};  ///< Drawn in this step, an end token included.
  /// With RequestParams::prompt_logprobs: the successors of the prompt tokens that this step has prefilled.
  /// Each completion gets all prompt tokens but the first, once and in order.
  std::span<const OutputToken> prompt = {};
  /// With done and RequestParams::pooling: n_embd floats, not normalised. Empty where the completion ended
  /// before.
  std::span<const float> embedding = {};
  bool done = false;                   ///< Set once for each completion, in its last call.
  StopReason stop = StopReason::kEnd;  ///< With done.
  int stop_string = -1;                ///< With StopReason::kStopString: the index in RequestParams::stop.
  std::string_view error = {};         ///< With StopReason::kError: the message.
  bool not_numbers = false;            ///< With StopReason::kError: the error is a NotNumbersError.
  CompletionStats stats = {};          ///< With done.
};

/// Restricts the next tokens of a completion, by a grammar or a schema. One per completion. One thread at a
/// time calls its members. fill() runs on another thread than the batcher's while a step computes. The step
/// waits for it, so a slow constraint slows all requests. An exception of accept() or fill() ends the
/// completion with StopReason::kError.
class TokenConstraint {
 public:
  virtual ~TokenConstraint() = default;
  /// The completion continues with this token.
  virtual void accept(Token token) = 0;
  /// Sets bit i % 32 of allowed[i / 32] for each token i that may follow the accepted tokens and then `draft`
  /// (whose tokens were all allowed); `allowed` is zeroed. At least one token must be allowed: end tokens
  /// where the completion may end.
  virtual void fill(std::span<const Token> draft, std::span<std::uint32_t> allowed) = 0;
  /// Whether `next` may follow the accepted tokens and then `draft`. Called for drafts, before the step. An
  /// exception only drops the draft.
  virtual bool allows(std::span<const Token> draft, Token next) = 0;
  /// Appends to `tokens` the tokens that the constraint forces after the accepted ones and `draft`, or the
  /// first of them. They are drafted and verified like any draft, in one step. If a string has several
  /// tokenizations, any of them will do. Called before the step, by the batcher's thread. An exception only
  /// drops the draft.
  virtual void forced(std::span<const Token> /*draft*/, std::vector<Token>& /*tokens*/) {}
};

struct RequestParams {
  /// The embedded parts of the prompt, in their order. Completions of prompts with such parts are not
  /// drafted.
  std::vector<EmbeddedPart> parts = {};
  SamplerParams sampler = {};  ///< Completion i draws with seed + i.
  int n = 1;                   ///< Completions of the prompt.
  int n_predict = -1;          ///< Tokens of each completion. < 0: until an end token or the context is full.
  bool ignore_end = false;     ///< End tokens are tokens like others.
  /// Tokens of each completion before an end token may be drawn. Stop strings, and a constraint that allows
  /// only end tokens, end a completion earlier. No effect with ignore_end.
  int n_min = 0;
  /// Completions contain control tokens too, as the vocabulary writes them, but never end tokens.
  bool special = false;
  std::vector<std::string> stop = {};  ///< As GenerateParams::stop.
  int n_shown_stops = 0;               ///< The first n_shown_stops of `stop` are included in the completion.
  /// Tokens that end the completion as end tokens do, also with ignore_end. n_min does not hold them back.
  std::vector<Token> stop_tokens = {};
  /// If not kNone, the completion generates nothing and returns the pooled embedding of its prompt
  /// (Context::embedding) in Output::embedding. It ends with kLength once its prompt is computed. The mean
  /// needs the whole prompt computed, whatever is cached. kCls is refused. So are n > 1, n_min, stop,
  /// n_logprobs, prompt_logprobs, context_shift and a constraint.
  Pooling pooling = Pooling::kNone;
  int n_logprobs = -1;  ///< Most probable tokens to return per token, with logprobs. < 0: no logprobs.
  /// Logprobs of the prompt's tokens too, with the n_logprobs most probable ones if n_logprobs > 0. Each
  /// completion then computes the whole prompt, whatever is cached.
  bool prompt_logprobs = false;
  bool reuse_prefix = true;  ///< The prompt may begin with a cached prefix.
  /// Higher goes first. Waiting requests age, so low priority never starves.
  int priority = 0;
  // Deadlines, in milliseconds since submit; 0: none. A completion that misses one ends with
  // StopReason::kTimeout and keeps its tokens.
  double queue_timeout_ms = 0.0;        ///< To run first.
  double first_token_timeout_ms = 0.0;  ///< To its first token.
  double timeout_ms = 0.0;              ///< To its end.
  /// When the sequence has filled the cache (or n_ctx cells), drop the older half after the first n_keep
  /// tokens (Context::forget). n_keep must be less than these cells. The prompt of such a sequence cannot be
  /// computed again. Its cells are saved on the host when it is preempted; a failed step ends it.
  bool context_shift = false;
  int n_keep = 4;
  int n_ctx = 0;          ///< Cells that each completion may hold at most. 0: the whole cache.
  bool speculate = true;  ///< Draft tokens, also the ones that a constraint forces.
  /// The adapters (Context::set_adapters); nullopt: the context's. Only requests with the same adapters share
  /// prefixes.
  std::optional<std::vector<AdapterUse>> adapters = std::nullopt;
  /// Makes the constraint of a completion when it first runs. Null: none.
  std::function<std::unique_ptr<TokenConstraint>(int completion)> constraint = nullptr;
  /// Called from step() after the step's computation. May submit, cancel, pause and resume, but not step.
  /// Returning false cancels the request. An exception cancels it too; step() rethrows it after all other
  /// outputs were delivered.
  std::function<bool(const Output&)> on_output = nullptr;
};

/// The drafter, in addition to constraints (TokenConstraint::forced). Models with recurrent layers cannot
/// undo a wrong draft, so they decode without drafts.
enum class Speculation : std::uint8_t {
  kNone,
  kNgram,  ///< The tokens that followed an earlier copy of the last tokens.
  kModel,  ///< A smaller model with the same vocabulary.
};

/// Limits on submission. A request that can never be served throws Error kInvalidArgument. One that may be
/// served later throws OverloadedError.
struct BatcherLimits {
  int n_waiting = 0;                                      ///< Waiting completions; 0: no limit.
  std::int64_t n_waiting_tokens = 0;                      ///< Prompt tokens of these; 0: no limit.
  int n_completions = 256;                                ///< Of one request.
  std::int64_t n_request_tokens = std::int64_t{1} << 24;  ///< Prompt times completions of one request.
  int n_stops = 256;                                      ///< Stop strings of a request ...
  std::size_t stop_bytes = std::size_t{1} << 16;          ///< ... and their bytes.
};

/// The queue is full now. Error::code() is kOverloaded.
class OverloadedError : public Error {
 public:
  OverloadedError(const std::string& message, double retry_after_ms_in)
      : Error(ErrorCode::kOverloaded, message), retry_after_ms(retry_after_ms_in) {}
  double retry_after_ms;  ///< Estimated from the queue's recent speed.
};

/// The work of a step and its times.
struct StepRecord {
  std::chrono::steady_clock::time_point begin = {};
  std::chrono::steady_clock::time_point end = {};
  // Parts of its time: the host before Context::decode (including a decode that found no room and was
  // repeated), decode itself, and the host after it. A failed step has only the parts that it reached.
  double host_before_ms = 0.0;
  double decode_ms = 0.0;
  double host_after_ms = 0.0;
  int n_streams = 0;  ///< Completions in the step.
  int n_rows = 0;     ///< Tokens computed: of prompts, last ones of completions, drafts ...
  int n_prompt = 0;   ///< ... and of these, tokens of prompts and of recomputation.
  int n_generated = 0;
  int n_drafted = 0;
  int n_accepted = 0;
  bool failed = false;  ///< A device or memory failed; the step is tried again.
};

struct BatcherParams {
  /// The most completions that run at the same time. Cached prefixes, snapshots and branches of drafts need
  /// sequences of their own. A context needs more sequences than n_running to have these while all
  /// completions run. 0: the context's sequences.
  int n_running = 0;
  /// The most prompt tokens of a step. 0: Context::batch_size, which is also the maximum.
  int n_step_tokens = 0;
  /// While other completions decode, or wait for their first token, prompts are chunked so that a step takes
  /// about this long.
  double max_step_ms = 150.0;
  /// A paused completion keeps its cells and counts as running for this long, unless others need the cells.
  /// Then it is preempted.
  double max_pause_ms = 10000.0;
  BatcherLimits limits = {};
  /// Automatic prefix caching: finished sequences stay in the cache until their cells are needed. Where
  /// sequences cannot be cut anywhere (Context::cuts_anywhere), prefixes that were seen twice are snapshotted
  /// too.
  bool reuse_prefixes = true;
  Speculation speculation = Speculation::kNone;
  int n_draft = 8;           ///< The most tokens drafted for a completion.
  int n_draft_branches = 4;  ///< The most branches of a draft tree, if sequences are free for them.
  bool adapt_drafts = true;  ///< Draft as many tokens as measurably pays off; false: always n_draft.
  /// Called after each step that computed something, before its outputs are delivered: for traces. It runs on
  /// the stepping thread, must be quick and must not use the batcher. Its exceptions are dropped.
  std::function<void(const StepRecord&)> on_step = nullptr;
  /// With kModel: a context of the draft model with at least as many sequences. Must outlive the batcher,
  /// which uses both contexts in turns.
  Context* draft = nullptr;
};

/// Counts since the start, and the current state.
struct BatcherStats {
  std::int64_t n_steps = 0;
  std::int64_t n_failed_steps = 0;  ///< Steps that failed (device, memory) and were tried again.
  std::int64_t n_rebuilt = 0;       ///< Times that the cache was rebuilt after a failure.

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
  std::int64_t n_branches = 0;   ///< Branches of drafts after the first.
  std::int64_t n_evicted = 0;    ///< Finished sequences evicted from the cache.
  std::int64_t n_preempted = 0;  ///< Running completions preempted.
  std::int64_t n_snapshots = 0;  ///< Prefixes snapshotted, where sequences cannot be cut (Context::can_cut).
  int cells_peak = 0;            ///< The most cells in use, finished sequences included.
  double host_seconds = 0.0;     ///< Sum over steps, outside Context::decode.
  double decode_seconds = 0.0;

  LatencyHistogram queue = {};        ///< From submit until a completion ran first.
  LatencyHistogram first_token = {};  ///< From submit to the first token.
  LatencyHistogram between_tokens = {};
  LatencyHistogram step = {};

  // Now:
  int n_waiting = 0;
  std::int64_t n_waiting_tokens = 0;  ///< Of these completions.
  double longest_wait_ms = 0.0;
  double ms_per_admission = 0.0;  ///< Recent time between two admissions; 0: not known.
  int n_running = 0;
  int n_prefilling = 0;  ///< Running completions that prefill.
  int n_paused = 0;
  int cells_total = 0;
  int cells_used = 0;
  int cells_cached = 0;  ///< Part of cells_used that only finished sequences and snapshots hold.
  int sequences_total = 0;
  int sequences_cached = 0;  ///< Sequences with finished completions or snapshots.
  int sequences_free = 0;
};

/// A cached prefix.
struct SavedText {
  int n_tokens = 0;                   ///< 0: nothing was cached.
  std::vector<std::byte> state = {};  ///< The tokens and their cells, for restore_text().
};

/// A saved prefix that is in the cache again.
struct RestoredText {
  std::vector<Token> tokens = {};
  std::vector<AdapterUse> adapters = {};  ///< Its adapters, as numbered in this model.
};

enum class StreamState : std::uint8_t {
  kWaiting,     ///< In the queue, or preempted.
  kPrefilling,  ///< Computes its prompt, or lost cells again.
  kDecoding,
  kPaused,  ///< By pause(). In the queue if it has no sequence.
};
/// "waiting", "prefilling", "decoding", "paused"
std::string_view name(StreamState state);

/// The contents of the cache and the state of the requests, for display.
struct BatcherPicture {
  struct Stream {
    RequestId request = 0;
    int completion = 0;
    StreamState state = StreamState::kWaiting;
    SeqId sequence = -1;  ///< Its sequence; -1: none.
    int n_prompt = 0;
    int n_cached = 0;  ///< Prompt tokens found in the cache when it first ran.
    int n_read = 0;    ///< Tokens of prompt and completion in the cache now.
    int n_generated = 0;
    int priority = 0;
    double age_ms = 0.0;  ///< Since it was submitted.
  };
  struct Sequence {
    SeqId id = -1;
    int n_tokens = 0;
    bool running = false;  ///< Of a running stream; otherwise a finished sequence or a snapshot.
  };
  std::vector<CellRun> cells = {};         ///< As Context::cell_runs.
  int n_pages = 0;                         ///< Cells are numbered page by page: the pages ...
  int page_cells = Context::kCellsOfPage;  ///< ... and the cells of each.
  std::vector<Stream> streams = {};        ///< Running, then the first kMostWaiting waiting ones.
  int n_waiting = 0;                       ///< All of them.
  std::vector<Sequence> sequences = {};    ///< Non-empty sequences, by their ids.
  static constexpr int kMostWaiting = 256;
};

/// Used by one thread. The context must outlive it and is reserved for it (a second batcher on it is
/// refused). The batcher removes all sequences at its start and end.
class Batcher {
 public:
  /// Throws Error kInvalidArgument.
  explicit Batcher(Context& context, const BatcherParams& params = {});
  ~Batcher();
  Batcher(const Batcher&) = delete;
  Batcher& operator=(const Batcher&) = delete;

  /// At the places of embedded parts the prompt has their tokens (EmbeddedPart::token). An encoder-decoder
  /// model encodes the prompt as its source (ModelInfo::reads_source). Throws OverloadedError where the queue
  /// is full. Throws Error kInvalidArgument for wrong parameters, and for a prompt that does not fit even
  /// alone, with both numbers. Copies the prompt; all other state of a completion is made when it first runs.
  RequestId submit(std::span<const Token> prompt, RequestParams params);
  RequestId submit(std::initializer_list<Token> prompt, RequestParams params) {
    return submit(std::span(prompt.begin(), prompt.size()), std::move(params));
  }
  /// Ends open completions with kCancelled, which the next step reports to on_output. Their cells are free at
  /// once. Does nothing for requests that are unknown or have ended.
  void cancel(RequestId request);
  /// Leaves the completion out of steps until resume(): for slow clients. Its deadlines still count. Does
  /// nothing for completions that are unknown or have ended.
  void pause(RequestId request, int completion = 0);
  void resume(RequestId request, int completion = 0);

  /// Computes one step for all requests. Returns false if nothing is left to do until a submit, a resume or a
  /// deadline (next_deadline).
  ///
  /// A failed step (device, memory) does not throw. Its tokens are computed again, with the same results, if
  /// necessary in a rebuilt cache. If steps keep failing, each completion is tried alone. A completion that
  /// fails alone ends with StopReason::kError. So does one that lacks memory to draw its token, as drawing
  /// cannot be repeated. Throws only exceptions of on_output.
  bool step();
  /// Steps until nothing is left to do.
  void run() {
    while (step()) {
    }
  }
  /// The next deadline of all open completions. step() ends completions that miss theirs.
  std::optional<std::chrono::steady_clock::time_point> next_deadline() const;

  // Cached prefixes that outlive the cache. Call these between steps, and not from on_output. They throw
  // Error kDevice or kOutOfMemory on failures; completions with undefined cells are then computed again.

  /// Saves the longest cached prefix of `tokens`, from finished and running sequences with these adapters
  /// (nullopt: the context's). Models with recurrent layers can save only whole sequences, models with
  /// sliding windows only prefixes whose window is cached. Encoder-decoder models save a whole source,
  /// without its completions. The prefix ends before the first embedded part (EmbeddedPart). The last token
  /// of a sequence was drawn but not computed, so it is not in the cache. Throws Error kOverloaded where no
  /// sequence is free to copy a part of a sequence to.
  SavedText save_text(std::span<const Token> tokens,
                      const std::optional<std::vector<AdapterUse>>& adapters = std::nullopt);
  /// Puts a saved prefix into the cache, as if it had just finished, for requests with that prefix. Evicts
  /// finished sequences to make room. On an Error the cache gets nothing: kInvalidFile and kInvalidArgument
  /// as Context::restore, kOverloaded where running sequences leave no room, kUnsupported without
  /// BatcherParams::reuse_prefixes. Damaged states are detected, but forged ones are not: restore only states
  /// that you saved.
  RestoredText restore_text(std::span<const std::byte> state);
  /// Evicts finished sequences that are prefixes of `tokens` or begin with `tokens`. Returns their number.
  /// Cells shared with running sequences stay.
  int forget_text(std::span<const Token> tokens);

  int n_running() const;
  int n_waiting() const;
  std::int64_t n_waiting_tokens() const;
  BatcherStats stats() const;      ///< Takes time linear in the open completions.
  BatcherPicture picture() const;  ///< Between steps. Takes time linear in the cells in use.
  /// Checks cells and sequences against the requests: for tests and audits.
  bool consistent() const;

 private:
  friend class Service;  // It has checked its requests on their callers' threads.
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace weft

#pragma GCC visibility pop
