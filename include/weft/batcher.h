#pragma once
// The batcher: continuous batching of requests. Each step computes one batch with tokens of all running
// requests, so that they share each pass over the weights. The batcher admits requests, chunks prompts,
// preempts requests when the cache is full, and keeps finished sequences as a prefix cache.
//
//   weft::Batcher batcher(context);
//   batcher.submit(prompt, {.n_predict = 100, .on_output = [](const weft::Output& output) {
//                             std::cout << output.text;
//                             return true;
//                           }});
//   batcher.run();
//
// The tokens of a request do not depend on other requests. They have the same bits in any batch, with any
// chunking of the prompt, with cached prefixes, after preemption and after failed steps that were repeated.
// Speculation does not change them either.
//
// One thread uses a batcher. weft::Service (weft/service.h) runs one on its own thread, for requests from
// many threads.
#include <algorithm>
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

#include "weft/cache_tiers.h"
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
  float logprob = 0.0f;  ///< Natural logarithm of the probability before any sampler step.
};

struct OutputToken {
  Token id = 0;
  float logprob = 0.0f;           ///< Set for tokens of Output::prompt, and if n_logprobs >= 0.
  std::vector<Logprob> top = {};  ///< The n_logprobs most probable tokens at its place, most probable first.
};

/// Statistics of one completion.
struct CompletionStats {
  int n_prompt = 0;
  int n_cached = 0;  ///< Tokens of the prompt that were found in the cache.
  int n_generated = 0;
  int n_preempted = 0;          ///< Preemptions: it lost its cells to other requests and was computed again.
  int n_recomputed = 0;         ///< Tokens computed again after a preemption or a failure.
  int n_drafted = 0;            ///< Drafted tokens (speculation).
  int n_accepted = 0;           ///< Drafted tokens that were accepted.
  int n_discarded = 0;          ///< Drawn tokens that were dropped again (RequestParams::banned_strings).
  double queue_ms = 0.0;        ///< From submit until it was first admitted.
  double first_token_ms = 0.0;  ///< From submit to the first token.
  double total_ms = 0.0;

  /// From its first admission to its first token, or to its end without one.
  double prefill_ms() const {
    return std::max(0.0, (n_generated > 0 ? first_token_ms : total_ms) - queue_ms);
  }
  /// From its first token to its end: the time of all tokens but the first.
  double decode_ms() const { return n_generated > 0 ? std::max(0.0, total_ms - first_token_ms) : 0.0; }
};

/// The new output of one completion: after a step (RequestParams::on_output), or since the last one was taken
/// (Response::next).
struct Output {
  RequestId request = 0;  ///< Batcher::submit's, or Response::id.
  int completion = 0;     ///< 0 to n - 1.
  /// New complete UTF-8 characters. A possible beginning of a stop string is held back.
  std::string text = {};
  std::vector<OutputToken> tokens = {};  ///< Newly drawn tokens, including an end token.
  /// With RequestParams::prompt_logprobs: the prompt tokens whose logprobs were computed. Over all outputs,
  /// each completion gets all prompt tokens except the first, once and in order.
  std::vector<OutputToken> prompt = {};
  /// With done and RequestParams::pooling: the pooled embedding, n_embd floats, not normalised. Empty if the
  /// completion ended early.
  std::vector<float> embedding = {};
  bool done = false;  ///< True in the last output of a completion. Each completion has such an output.
  StopReason stop = StopReason::kEnd;  ///< With done.
  int stop_string = -1;                ///< With StopReason::kStopString: the index in RequestParams::stop.
  std::string error = {};              ///< With StopReason::kError: the message.
  bool not_numbers = false;  ///< With StopReason::kError: whether it is a NotNumbersError (NaN or infinity).
  CompletionStats stats = {};  ///< With done.
};

/// A constraint decides which tokens may follow in a completion, for example by a grammar (weft/grammar.h).
/// Each completion has its own. One thread at a time calls it: the batcher's, or a thread that runs fill()
/// while a step computes. The end of the step waits for fill(), so a slow constraint slows down all requests.
/// If accept() or fill() throws, the completion ends with StopReason::kError.
class TokenConstraint {
 public:
  virtual ~TokenConstraint() = default;
  /// Tells the constraint that the completion continues with this token.
  virtual void accept(Token token) = 0;
  /// Writes the mask of the next token, which follows the accepted tokens and then `draft`. Sets bit i % 32
  /// of allowed[i / 32] if token i may follow. `allowed` is zeroed before. All tokens of `draft` were
  /// allowed. At least one token must be allowed; that is an end token if the completion must end.
  virtual void fill(std::span<const Token> draft, std::span<std::uint32_t> allowed) = 0;
  /// Whether `next` may follow the accepted tokens and then `draft`. The batcher calls it to check drafts
  /// before a step. If it throws, only the draft is dropped.
  virtual bool allows(std::span<const Token> draft, Token next) = 0;
  /// Appends forced tokens that follow the accepted tokens and `draft`. A token is forced if the constraint
  /// leaves no choice of characters. It may append the first of them only. If several tokenizations are
  /// possible, any of them will do. One step verifies them like any draft. Called by the batcher's thread
  /// before a step. If it throws, only the draft is dropped.
  virtual void forced(std::span<const Token> /*draft*/, std::vector<Token>& /*tokens*/) {}
  /// Whether every token may follow the accepted tokens and then any `n_ahead` tokens or fewer. The batcher
  /// then skips fill(), and needs no complete row of logits. False is always right.
  virtual bool allows_all(int /*n_ahead*/) { return false; }
};

/// The priority of requests in the background. They compute only in steps in which no other request has work.
/// If others need their cells, they lose them. They fill at most half of the queue (BatcherLimits).
inline constexpr int kBackgroundPriority = -(1 << 20);

struct RequestParams {
  /// Images and audio in the prompt, in order (weft/media.h). With them nothing is drafted.
  std::vector<EmbeddedPart> parts = {};
  SamplerParams sampler = {};  ///< Completion i uses seed + i.
  int n = 1;                   ///< The number of completions.
  /// The most tokens of each completion. < 0: until an end token, or until the context is full. 0: none. The
  /// prompt is computed and stays in the prefix cache.
  int n_predict = -1;
  bool ignore_end = false;  ///< Continue after end tokens.
  /// The least number of tokens before an end token, a stop token or a stop string may end a completion. A
  /// constraint that allows only such tokens still ends it earlier.
  int n_min = 0;
  /// Output::text includes control tokens, as the vocabulary spells them, except end tokens.
  bool special = false;
  std::vector<std::string> stop = {};  ///< Strings that end a completion: see GenerateParams::stop.
  /// The first n_shown_stops strings of `stop` are included in the completion that they end.
  int n_shown_stops = 0;
  /// Tokens that end a completion like end tokens, even with ignore_end.
  std::vector<Token> stop_tokens = {};
  /// Strings that the completion never contains; ASCII letters match in both cases. When one is complete, the
  /// completion goes back to the token where the string begins, bans this token there, and draws again.
  /// Tokens that may begin such a string are held back; others are final. If other tokens then take the place
  /// of held ones, and the string begins in a final one, the first token after it is banned. A completion
  /// discards at most as many tokens as it may generate, or 256 if that is less; then it ends with kLength.
  /// Error kInvalidArgument for a model with recurrent layers, and for a prompt that ends with an image or
  /// audio.
  std::vector<std::string> banned_strings = {};
  /// If not kNone, the request generates nothing. It returns the pooled embedding of its prompt
  /// (Output::embedding) and ends with kLength. For kMean the whole prompt is computed, even if a prefix is
  /// cached. Error kInvalidArgument for kCls, and together with n > 1, n_min, stop, stop_tokens,
  /// banned_strings, n_logprobs, prompt_logprobs, context_shift or a constraint.
  Pooling pooling = Pooling::kNone;
  /// Return each token's logprob, and this many most probable tokens at its place. Below 0: no logprobs.
  int n_logprobs = -1;
  /// Return logprobs of prompt tokens, too (Output::prompt), with n_logprobs most probable tokens each. Each
  /// completion then computes the whole prompt, even if a prefix is cached.
  bool prompt_logprobs = false;
  bool reuse_prefix = true;  ///< Use a cached prefix of the prompt, if there is one.
  /// Lengths of the prompt at which prompts of later requests are likely to diverge, such as the start of the
  /// last user message (ChatOpening::divergences). Steps end there, and each leaves a snapshot. They have no
  /// effect for models whose sequences can be cut anywhere. Lengths outside of the prompt are ignored.
  std::vector<int> snapshot_at = {};
  /// Higher goes first. Waiting requests age, so that low priority never starves: one level counts as much as
  /// being submitted 64 requests earlier. kBackgroundPriority or less: in the background.
  int priority = 0;
  // Deadlines in milliseconds from submit; 0: none. A completion that misses one ends with
  // StopReason::kTimeout. Its tokens so far were delivered.
  double queue_timeout_ms = 0.0;        ///< Until it is first admitted.
  double first_token_timeout_ms = 0.0;  ///< Until its first token.
  double timeout_ms = 0.0;              ///< Until its end.
  /// When the sequence fills the cache (or n_ctx cells), keep its first n_keep tokens, drop the older half of
  /// the others (KvCache::forget), and continue. n_keep is at least 2 less than these cells. After such a
  /// shift the cache cannot be recomputed. So a preempted completion saves its cells in host memory, and a
  /// failed step ends it with kError.
  bool context_shift = false;
  int n_keep = 4;
  int n_ctx = 0;          ///< The most cells of a completion, with its prompt. 0: the whole cache.
  bool speculate = true;  ///< Allow drafts, including tokens that a constraint forces.
  /// LoRA adapters (Context::set_adapters). nullopt: ContextParams::adapters. Requests share prefixes only if
  /// they have the same adapters.
  std::optional<std::vector<AdapterUse>> adapters = std::nullopt;
  /// Makes the constraint of a completion when the completion is first admitted. Null: no constraint.
  std::function<std::unique_ptr<TokenConstraint>(int completion)> constraint = nullptr;
  /// Receives the output: called by step(), at its end. It may call submit, cancel, pause and resume, but not
  /// step(). If it returns false, the request is cancelled. If it throws, the request is cancelled, too, and
  /// step() rethrows once all other outputs are delivered.
  std::function<bool(const Output&)> on_output = nullptr;
};

/// The drafter for speculative decoding. Constraints draft their forced tokens in addition
/// (TokenConstraint::forced). Models with recurrent layers draft only in a context that keeps states to go
/// back to after a wrong draft (ContextParams::state_rewind). The decoding completions of a step share these
/// states evenly. Each needs one, and one more for each token of its draft.
enum class Speculation : std::uint8_t {
  kNone,
  kNgram,  ///< N-gram lookup: the tokens that followed an earlier occurrence of the last tokens.
  kModel,  ///< A draft model: BatcherParams::draft.
};

/// Limits that Batcher::submit checks. A request beyond n_waiting or n_waiting_tokens throws OverloadedError,
/// as there may be room later; an empty queue takes any. A request beyond another limit throws Error
/// kInvalidArgument.
struct BatcherLimits {
  int n_waiting = 0;                  ///< The most waiting completions. 0: no limit.
  std::int64_t n_waiting_tokens = 0;  ///< The most prompt tokens of waiting completions. 0: no limit.
  int n_completions = 256;            ///< The most completions of one request.
  /// The most tokens of its prompt, times its completions.
  std::int64_t n_request_tokens = std::int64_t{1} << 24;
  int n_stops = 256;                              ///< The most stop strings, and stop tokens, of one request.
  std::size_t stop_bytes = std::size_t{1} << 16;  ///< The most bytes of its stop strings.
  // The same limits apply to its banned strings. One of them has at most kMaxBannedBytes.
  static constexpr std::size_t kMaxBannedBytes = 512;
};

/// The queue is full. Error::code() is kOverloaded.
class OverloadedError : public Error {
 public:
  OverloadedError(const std::string& message, double retry_after_ms_in)
      : Error(ErrorCode::kOverloaded, message), retry_after_ms(retry_after_ms_in) {}
  double retry_after_ms;  ///< Milliseconds until there may be room, from recent admissions.
};

/// What a step computed, and how long it took.
struct StepRecord {
  std::chrono::steady_clock::time_point begin = {};
  std::chrono::steady_clock::time_point end = {};
  // Parts of its time: host work before Context::decode, decode itself, and host work after it. If decode
  // found no room and was repeated, the earlier attempts count as host work before. A failed step has only
  // the parts that it reached.
  double host_before_ms = 0.0;
  double decode_ms = 0.0;
  double host_after_ms = 0.0;
  int n_streams = 0;  ///< Completions in the step.
  int n_rows = 0;     ///< Computed tokens: prompt tokens, each completion's last token, and drafts.
  int n_prompt = 0;   ///< The part of n_rows that is prompt tokens and recomputed tokens.
  int n_generated = 0;
  int n_drafted = 0;
  int n_accepted = 0;
  bool failed = false;  ///< A device failed or memory ran out. The step is repeated.
};

struct BatcherParams {
  /// The most completions that run at the same time. 0 or more than ContextParams::n_sequences: that. Cached
  /// prefixes, snapshots and draft branches need sequences, too. To keep them while all completions run, make
  /// the context with more sequences than n_running.
  int n_running = 0;
  /// The most prompt tokens of a step. 0 or more than Context::batch_size(): that.
  int n_step_tokens = 0;
  /// Prompts are chunked so that a step takes about this long while other completions decode or wait for
  /// their first token.
  double max_step_ms = 150.0;
  /// A paused completion keeps its cells for this long, then it is preempted. It is preempted earlier if
  /// others need the cells.
  double max_pause_ms = 10000.0;
  BatcherLimits limits = {};
  /// Automatic prefix caching: finished sequences stay in the cache until their cells are needed. In models
  /// with recurrent or sliding-window layers sequences cannot be cut anywhere (KvCache::cuts_anywhere). There
  /// the batcher also keeps snapshots, which are copied sequences: at the end of each prompt, at
  /// RequestParams::snapshot_at, and of each prefix that two prompts share.
  bool reuse_prefixes = true;
  /// The most snapshots. 0: none. They also take at most half of the context's sequences. Snapshots are
  /// evicted like finished sequences when a request needs room.
  int n_snapshots = 32;
  /// The most bytes of running states and windows of all snapshots (KvCache::snapshot_bytes). 0: none.
  std::int64_t snapshot_bytes = std::int64_t{2} << 30;
  /// With reuse_prefixes: host memory and files for evicted prefixes. Results do not depend on them.
  CacheTiers tiers = {};
  Speculation speculation = Speculation::kNone;
  int n_draft = 8;           ///< The most drafted tokens of a completion per step, 0 to 64.
  int n_draft_branches = 4;  ///< The most branches of a draft tree, 1 to 64. Each takes a free sequence.
  /// Draft as many tokens as measured acceptance makes worthwhile. false: always n_draft.
  bool adapt_drafts = true;
  /// For traces: called by step() after it has computed something or failed, before it delivers outputs. It
  /// must be quick and must not use the batcher. Its exceptions are ignored.
  std::function<void(const StepRecord&)> on_step = nullptr;
  /// With kModel: a context of the draft model, with at least as many sequences. The vocabularies must be the
  /// same. The batcher reserves it. It uses the two contexts in turns, so they may share temporaries
  /// (Context's second constructor).
  std::shared_ptr<Context> draft = nullptr;
};

/// ContextParams::state_rewind with which four completions at a time draft `n_draft` tokens each, of models
/// with recurrent layers. If more of the `n_running` draft, their drafts are shorter.
constexpr int state_rewind_for(int n_draft, int n_running) {
  constexpr int kMostDrafting = 4;
  return n_draft <= 0 ? 0 : (n_draft + 1) * (n_running < kMostDrafting ? n_running : kMostDrafting);
}

/// Counts since the batcher was made, and its current state.
struct BatcherStats {
  std::int64_t n_steps = 0;
  std::int64_t n_failed_steps = 0;  ///< Steps that failed (device or memory) and were repeated.
  std::int64_t n_rebuilt = 0;       ///< How often the whole cache was recomputed after a failure.

  std::int64_t n_requests = 0;   ///< Submitted requests.
  std::int64_t n_rejected = 0;   ///< Requests that the queue's limits refused.
  std::int64_t n_completed = 0;  ///< Completions that ended by themselves.
  std::int64_t n_cancelled = 0;  ///< Completions that were cancelled.
  std::int64_t n_timed_out = 0;  ///< Completions that missed a deadline.
  std::int64_t n_errors = 0;     ///< Completions that failed.

  std::int64_t n_prompt_tokens = 0;      ///< Prompt tokens that were computed.
  std::int64_t n_cached_tokens = 0;      ///< Prompt tokens that were found in the cache.
  std::int64_t n_recomputed_tokens = 0;  ///< Computed again after a preemption or a failure.
  std::int64_t n_generated_tokens = 0;
  std::int64_t n_drafted_tokens = 0;
  std::int64_t n_accepted_tokens = 0;
  std::int64_t n_branches = 0;   ///< Draft branches in addition to each draft's first.
  std::int64_t n_evicted = 0;    ///< Finished sequences evicted from the cache.
  std::int64_t n_preempted = 0;  ///< Running completions preempted.
  std::int64_t n_snapshots = 0;  ///< Snapshots of prefixes (BatcherParams::reuse_prefixes).
  int cells_peak = 0;            ///< The most cells in use so far, including finished sequences.
  double host_seconds = 0.0;     ///< Time of steps outside Context::decode.
  double decode_seconds = 0.0;

  CacheTierStats tiers = {};

  LatencyHistogram queue = {};        ///< From submit until a completion was first admitted.
  LatencyHistogram first_token = {};  ///< From submit to the first token.
  LatencyHistogram between_tokens = {};
  LatencyHistogram step = {};

  // Now:
  int n_waiting = 0;
  std::int64_t n_waiting_tokens = 0;  ///< Prompt tokens of the waiting completions.
  double longest_wait_ms = 0.0;
  double ms_per_admission = 0.0;  ///< Recent mean time between admissions. 0: not known.
  int n_running = 0;
  int n_prefilling = 0;  ///< Running completions that compute a prompt.
  int n_paused = 0;
  int cells_total = 0;
  int cells_used = 0;
  int cells_cached = 0;  ///< Cells that only finished sequences and snapshots hold.
  int sequences_total = 0;
  int sequences_cached = 0;  ///< Sequences that hold finished completions or snapshots.
  int snapshots_cached = 0;  ///< The snapshots among them.
  int sequences_free = 0;
};

/// A saved prefix.
struct SavedPrefix {
  int n_tokens = 0;                   ///< Its length. 0: no prefix was cached.
  std::vector<std::byte> state = {};  ///< Bytes for restore_prefix(): tokens, keys and values.
};

/// A prefix that restore_prefix() has put into the cache.
struct RestoredPrefix {
  std::vector<Token> tokens = {};
  std::vector<AdapterUse> adapters = {};  ///< Its adapters, by their indices in this model.
};

enum class StreamState : std::uint8_t {
  kWaiting,     ///< In the queue, or preempted.
  kPrefilling,  ///< It computes its prompt, or recomputes tokens after a preemption.
  kDecoding,
  kPaused,  ///< Paused by pause(), with or without a sequence.
};
/// "waiting", "prefilling", "decoding", "paused"
std::string_view to_string(StreamState state);
[[deprecated("use to_string")]] inline std::string_view name(StreamState state) { return to_string(state); }

/// A snapshot of the cache and the requests, for display.
struct BatcherSnapshot {
  struct Stream {
    RequestId request = 0;
    int completion = 0;
    StreamState state = StreamState::kWaiting;
    SeqId sequence = -1;  ///< -1: it has none, as it waits.
    int n_prompt = 0;
    int n_cached = 0;  ///< Prompt tokens found in the cache when it was first admitted.
    int n_read = 0;    ///< Its tokens in the cache now, of prompt and completion.
    int n_generated = 0;
    int priority = 0;
    double age_ms = 0.0;  ///< Time since submit.
  };
  struct Sequence {
    SeqId id = -1;
    int n_tokens = 0;
    /// Whether a running completion holds it. Otherwise it is a finished sequence or a snapshot.
    bool running = false;
  };
  std::vector<CellRun> cells = {};         ///< As KvCache::cell_runs.
  int n_pages = 0;                         ///< The pages of the cache.
  int page_cells = KvCache::kCellsOfPage;  ///< Cells of a page.
  /// Completions: the running ones, then the first kMostWaiting waiting ones.
  std::vector<Stream> streams = {};
  int n_waiting = 0;                     ///< All waiting completions.
  std::vector<Sequence> sequences = {};  ///< Non-empty sequences, by ascending id.
  static constexpr int kMostWaiting = 256;
};

// Deprecated names, for one version.
using SavedText [[deprecated("use SavedPrefix")]] = SavedPrefix;
using RestoredText [[deprecated("use RestoredPrefix")]] = RestoredPrefix;
using BatcherPicture [[deprecated("use BatcherSnapshot")]] = BatcherSnapshot;

/// Used by one thread. The context must outlive it and is reserved for it: a second batcher on the context is
/// refused, and nothing else may use the context. The constructor and the destructor remove all sequences.
class Batcher {
 public:
  /// Throws Error kInvalidArgument for wrong params and for a context that another batcher has. It also
  /// throws it for a draft model with other tokens, or whose cache cannot go back (KvCache::cuts_back).
  /// Throws kUnsupported for a draft model where one of the two is an encoder-decoder.
  explicit Batcher(Context& context, const BatcherParams& params = {});
  ~Batcher();
  Batcher(const Batcher&) = delete;
  Batcher& operator=(const Batcher&) = delete;

  /// Adds a request and returns its id. The prompt is copied. At the places of RequestParams::parts it holds
  /// kMediaToken. For an encoder-decoder model the prompt is the encoder input. Throws
  /// OverloadedError if the queue is full. Throws Error kInvalidArgument for wrong parameters and for a
  /// prompt that is longer than the cache or n_ctx; the message has both lengths. Throws kUnsupported for
  /// parameters that the model cannot follow, such as context_shift with learned positions.
  RequestId submit(std::span<const Token> prompt, RequestParams params);
  RequestId submit(std::initializer_list<Token> prompt, RequestParams params) {
    return submit(std::span(prompt.begin(), prompt.size()), std::move(params));
  }
  /// Ends the request's open completions with kCancelled. Their tokens stay in the prefix cache, as after
  /// other ends. The next step() calls on_output with their end. Does nothing for a request that is
  /// unknown or has ended.
  void cancel(RequestId request);
  /// Leaves the completion out of steps until resume(), for example while its client is slow. Its deadlines
  /// still apply. Does nothing for a completion that is unknown or has ended.
  void pause(RequestId request, int completion = 0);
  void resume(RequestId request, int completion = 0);

  /// Computes one step for all requests and delivers their output. Returns false if no step is needed until
  /// the next submit, resume or deadline (next_deadline()).
  ///
  /// A step that fails (device or memory) does not throw. The next steps compute its tokens again, with the
  /// same results, and rebuild the cache if it was damaged. If steps keep failing, each completion is tried
  /// alone. One that fails alone ends with StopReason::kError. So does one for which memory runs out while
  /// its token is drawn, because drawing cannot be repeated. step() throws only exceptions of on_output.
  bool step();
  /// Steps until nothing is left to do.
  void run() {
    while (step()) {
    }
  }
  /// The earliest deadline of all open completions; nullopt: none. Call step() then, which ends the late
  /// ones.
  std::optional<std::chrono::steady_clock::time_point> next_deadline() const;

  // Saving cached prefixes and restoring them, also in another process. Call these between steps, not from
  // on_output. If a device or memory fails, they throw Error kDevice or kOutOfMemory, and the next steps
  // recompute the completions whose cells were damaged.

  /// Saves the longest cached prefix of `tokens`. It may belong to a finished or running sequence with these
  /// adapters (nullopt: ContextParams::adapters). Limits of the prefix:
  /// - It ends before the first image or audio part.
  /// - It lacks the last token of a completion, which was drawn but not computed.
  /// - With recurrent layers it is a whole sequence or snapshot.
  /// - With sliding-window layers its last window must be in the cache.
  /// - With encoder-decoder models it is the whole encoder input, without completions.
  /// Throws Error kOverloaded if a part of a sequence must be copied and no sequence is free for that.
  SavedPrefix save_prefix(std::span<const Token> tokens,
                          const std::optional<std::vector<AdapterUse>>& adapters = std::nullopt);
  /// Puts a saved prefix into the cache, as if a request with it had just finished. Later requests with this
  /// prefix use it. Evicts finished sequences to make room. After an Error the cache does not hold it. Throws
  /// Error kInvalidFile and kInvalidArgument like Context::restore, and kOverloaded if running sequences
  /// leave no room. Throws kUnsupported if BatcherParams::reuse_prefixes is false. Damaged bytes are
  /// detected, but forged ones are not: restore only states that you saved.
  RestoredPrefix restore_prefix(std::span<const std::byte> state);
  /// Evicts finished sequences that are a prefix of `tokens`, or of which `tokens` is a prefix. Returns their
  /// number. Cells that running sequences share stay. kMediaToken equals any image or audio.
  int forget_prefix(std::span<const Token> tokens);

  int n_running() const;
  int n_waiting() const;
  std::int64_t n_waiting_tokens() const;
  BatcherStats stats() const;        ///< Takes time linear in the open completions.
  BatcherSnapshot snapshot() const;  ///< Takes time linear in the cells in use.
  /// Whether cells and sequences agree with the requests; for tests.
  bool consistent() const;

  // Deprecated names, for one version.
  [[deprecated("use save_prefix")]] SavedPrefix save_text(
      std::span<const Token> tokens, const std::optional<std::vector<AdapterUse>>& adapters = std::nullopt) {
    return save_prefix(tokens, adapters);
  }
  [[deprecated("use restore_prefix")]] RestoredPrefix restore_text(std::span<const std::byte> state) {
    return restore_prefix(state);
  }
  [[deprecated("use forget_prefix")]] int forget_text(std::span<const Token> tokens) {
    return forget_prefix(tokens);
  }
  [[deprecated("use snapshot")]] BatcherSnapshot picture() const { return snapshot(); }

 private:
  friend class Service;  // It has checked its requests on their callers' threads.
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace weft

#pragma GCC visibility pop
