#include "weft/batcher.h"

#include <algorithm>
#include <deque>
#include <limits>
#include <map>
#include <utility>

#include "engine/forget.h"
#include "engine/prefix_index.h"
#include "engine/speculation.h"
#include "engine/stream.h"
#include "weft/error.h"

namespace weft {
namespace {

using engine::Clock;
using engine::DraftOdds;
using engine::DraftTree;
using engine::Stream;
using StreamPtr = std::shared_ptr<Stream>;

/// One step of priority is worth as much as being submitted that many requests earlier.
constexpr std::int64_t kRequestsPerPriority = 64;
constexpr int kMaxPriority = 1 << 20;
constexpr int kMaxCompletions = 1 << 12;
constexpr int kMaxLogprobs = 1 << 10;
/// Waiting streams that are looked at in a step: those behind wait for their turn.
constexpr int kMaxLookAhead = 64;
/// Tokens that a stream may be about to write while others are let in.
constexpr int kHeadroom = 8;
constexpr int kMinChunk = 16;
constexpr int kMaxDraft = 64;
constexpr int kMaxBranches = 64;
/// A beginning that was seen twice is kept for others if it is at least as long.
constexpr int kMinSnapshot = 64;
constexpr Pos kPage = 64;  // Shifts by whole pages leave cells in place.

[[noreturn]] void refuse(const std::string& reason) { throw Error(ErrorCode::kInvalidArgument, reason); }

double seconds_between(Clock::time_point from, Clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

int n_common(std::span<const Token> a, std::span<const Token> b) {
  const auto n = static_cast<std::ptrdiff_t>(std::min(a.size(), b.size()));
  return static_cast<int>(std::mismatch(a.begin(), a.begin() + n, b.begin()).first - a.begin());
}

BatcherParams fill_in(BatcherParams p, const ContextParams& context) {
  const auto at_most = [](const char* what, int& value, int max) {
    if (value < 0) refuse(std::string(what) + " is " + std::to_string(value) + ", expected at least 0");
    if (value == 0 || value > max) value = max;
  };
  at_most("the number of running completions", p.n_running, context.n_sequences);
  at_most("the number of tokens of a step", p.n_step_tokens, context.n_ubatch);
  if (!(p.max_step_ms > 0.0)) refuse("the time of a step must be more than 0 ms");
  if (p.n_draft < 0 || p.n_draft > kMaxDraft)
    refuse("the depth of drafts must be 0 to " + std::to_string(kMaxDraft));
  if (p.n_draft_branches < 1 || p.n_draft_branches > kMaxBranches)
    refuse("the branches of drafts must be 1 to " + std::to_string(kMaxBranches));
  if (p.speculation == Speculation::kModel && p.draft == nullptr)
    refuse("speculation with a model needs the context of a draft model");
  return p;
}

}  // namespace

/// A stream is waiting, running (it has a sequence) or done. A sequence is free, a running stream's, or idle:
/// then it holds what a finished stream left, for others that begin alike.
struct Batcher::Impl {
  Impl(Context& context_in, const BatcherParams& params_in)
      : context(context_in),
        params(fill_in(params_in, context.params())),
        index(context.params().n_sequences),
        is_snapshot(static_cast<std::size_t>(context.params().n_sequences), false) {
    // Recurrent layers cannot go back behind a draft that was wrong.
    if (params.speculation == Speculation::kNgram && !recurrent) drafter = engine::make_ngram_drafter();
    if (params.speculation == Speculation::kModel && !recurrent)
      drafter = engine::make_model_drafter(*params.draft, context.model(), context.params().n_sequences);
    context.clear();
    for (SeqId seq = context.params().n_sequences; seq-- > 0;) free_seqs.push_back(seq);
  }
  ~Impl() { context.clear(); }

  // --- Requests --------------------------------------------------------------------------------------------

  void check(std::span<const Token> prompt, const RequestParams& p) const {
    if (prompt.empty()) refuse("the prompt is empty");
    const int n_vocab = context.model().info().n_vocab;
    for (const Token token : prompt)
      if (token < 0 || token >= n_vocab)
        refuse("token " + std::to_string(token) + " is outside the vocabulary of " + std::to_string(n_vocab));
    if (p.n < 1 || p.n > kMaxCompletions)
      refuse("the number of completions must be 1 to " + std::to_string(kMaxCompletions));
    if (p.n_logprobs > kMaxLogprobs) refuse("at most " + std::to_string(kMaxLogprobs) + " log-probabilities");
    if (p.n_ctx < 0 || p.n_keep < 0) refuse("n_ctx and n_keep must not be negative");
    if (p.context_shift && !context.can_shift())
      throw Error(ErrorCode::kUnsupported,
                  "the text of this model cannot be shifted: it has learned positions or recurrent layers");
    const auto limit = static_cast<std::size_t>(std::min<Pos>(limit_of(p), context.max_positions()));
    if (prompt.size() > limit)
      refuse("the prompt has " + std::to_string(prompt.size()) + " tokens and the context has room for " +
             std::to_string(limit) + "; use a larger context or a shorter prompt");
  }

  int limit_of(const RequestParams& p) const {
    return p.n_ctx > 0 ? std::min(p.n_ctx, context.cells_total()) : context.cells_total();
  }

  RequestId submit(std::span<const Token> prompt, RequestParams p) {
    check(prompt, p);
    p.priority = std::clamp(p.priority, -kMaxPriority, kMaxPriority);
    auto request = std::make_shared<engine::Request>();
    request->id = ++last_request;
    request->n_prompt = static_cast<int>(prompt.size());
    request->submitted = Clock::now();
    request->params = std::move(p);
    const std::int64_t rank = request->id - kRequestsPerPriority * request->params.priority;
    std::vector<StreamPtr> streams;
    for (int i = 0; i < request->params.n; ++i)
      streams.push_back(std::make_shared<Stream>(request, i, prompt, context.model(), rank, ++last_order));
    for (const StreamPtr& stream : streams) {
      if (request->params.n_predict == 0) {
        stream->finish(StopReason::kLength);
        outbox.push_back(stream);
      } else {
        waiting.emplace(stream->key(), stream);
      }
    }
    return request->id;
  }

  void cancel(RequestId id) {
    const auto ends = [&](const StreamPtr& stream) {
      if (stream->request().id != id) return false;
      stream->finish(StopReason::kCancelled);
      outbox.push_back(stream);
      return true;
    };
    std::erase_if(waiting, [&](const auto& entry) { return ends(entry.second); });
    std::erase_if(running, [&](const StreamPtr& stream) {
      if (!ends(stream)) return false;
      release(*stream);
      return true;
    });
  }

  // --- Sequences -------------------------------------------------------------------------------------------

  /// Empties a sequence; it is free then.
  void empty(SeqId seq) {
    index.remove(seq);
    context.remove(seq);
    if (drafter) drafter->cut(seq, 0);
    is_snapshot[seq_index(seq)] = false;
    free_seqs.push_back(seq);
  }

  void release(Stream& stream) {
    drop_branches(stream);
    if (stream.seq >= 0) empty(std::exchange(stream.seq, -1));
  }

  /// The stream is over: what it leaves may serve others.
  void retire(Stream& stream) {
    const SeqId seq = stream.seq;
    const bool needless = cuts_anywhere ? index.covered(seq) : index.doubled(seq);
    if (!params.reuse_prefixes || stream.shifted || needless) return release(stream);
    idle.push_back(seq);
    stream.seq = -1;
  }

  /// Gives up the idle text that was of use least recently, `except` not counted. False where there is none.
  bool evict(SeqId except = -1) {
    const auto victim = std::find_if(idle.begin(), idle.end(), [&](SeqId seq) { return seq != except; });
    if (victim == idle.end()) return false;
    empty(*victim);
    idle.erase(victim);
    ++counters.n_evicted;
    return true;
  }

  static std::size_t seq_index(SeqId seq) { return static_cast<std::size_t>(seq); }
  bool is_idle(SeqId seq) const { return std::find(idle.begin(), idle.end(), seq) != idle.end(); }

  /// A sequence for a stream, beginning with what the cache has of its text.
  void settle(Stream& stream, engine::PrefixIndex::Match match) {
    stream.snapshot_at = beginning_to_keep(stream, match);
    // All of an idle text, or the only one to be had: the stream goes on where it lies.
    const bool take_over = match.holder >= 0 && is_idle(match.holder) &&
                           ((match.n == index.size(match.holder) && !is_snapshot[seq_index(match.holder)]) ||
                            (free_seqs.empty() && idle.size() == 1));
    if (take_over) {
      std::erase(idle, match.holder);
      stream.seq = match.holder;
      is_snapshot[seq_index(match.holder)] = false;
      index.remove(match.holder);
      context.remove(match.holder, match.n);
      if (drafter) drafter->cut(match.holder, match.n);
    } else {
      if (match.holder >= 0 && is_idle(match.holder)) {  // Of use just now.
        std::erase(idle, match.holder);
        idle.push_back(match.holder);
      }
      if (free_seqs.empty()) evict(match.holder);
      stream.seq = free_seqs.back();
      free_seqs.pop_back();
      if (match.n > 0 && !context.copy(match.holder, stream.seq, 0, match.n)) match.n = 0;
      if (drafter && match.n > 0) drafter->copy(match.holder, stream.seq, match.n);
    }
    stream.n_computed = match.n;
    index.append(stream.seq, std::span(stream.text).first(static_cast<std::size_t>(match.n)));
    if (stream.stats.n_generated == 0) {
      stream.stats.n_cached = match.n;
      counters.n_cached_tokens += match.n;
    }
  }

  // --- Admission -------------------------------------------------------------------------------------------

  /// What the cache has of a stream's text. The last token is computed in any case, for its logits.
  engine::PrefixIndex::Match look_up(const Stream& stream) const {
    if (!params.reuse_prefixes || stream.shifted) return {};
    const std::span<const Token> text = std::span(stream.text).first(stream.text.size() - 1);
    if (cuts_anywhere) return index.find(text);
    return index.find(text, [&](SeqId holder, int n) { return context.can_cut(holder, n); });
  }

  /// How long a beginning of the stream's text is worth keeping, because somebody else has it and cannot be
  /// cut there: 0 for none.
  int beginning_to_keep(const Stream& stream, const engine::PrefixIndex::Match& match) const {
    if (cuts_anywhere || !params.reuse_prefixes || stream.shifted) return 0;
    const int n = index.find(std::span(stream.text).first(stream.text.size() - 1)).n;
    return n >= kMinSnapshot && n > match.n + kMinChunk ? n : 0;
  }

  /// A stream that has just computed a beginning that others want leaves a copy of it.
  void leave_snapshot(const Stream& stream) {
    if (stream.pause_at == 0 || stream.n_computed != stream.pause_at) return;
    if (index.doubled(stream.seq) || (free_seqs.empty() && !evict())) return;
    const SeqId seq = free_seqs.back();
    if (!context.copy(stream.seq, seq)) return;
    free_seqs.pop_back();
    if (drafter) drafter->copy(stream.seq, seq, stream.n_computed);
    index.append(seq, std::span(stream.text).first(static_cast<std::size_t>(stream.n_computed)));
    is_snapshot[seq_index(seq)] = true;
    idle.push_back(seq);
    ++counters.n_snapshots;
  }

  /// Whether somebody is about to compute more of the stream's text than the cache has: worth waiting for.
  /// Where texts cannot be cut, the other one is to pause there.
  bool should_wait(const Stream& stream, int n_cached) const {
    if (!params.reuse_prefixes || stream.shifted) return false;
    const auto found = std::find_if(running.begin(), running.end(), [&](const StreamPtr& other) {
      if (other->n_pending() <= 1 || other->shifted) return false;
      const int n = n_in_common(*other, stream);
      return n > other->n_computed && n > n_cached + kMinChunk;
    });
    if (found == running.end()) return false;
    if (!cuts_anywhere) pause(**found, n_in_common(**found, stream));
    return true;
  }
  static int n_in_common(const Stream& other, const Stream& stream) {
    return std::min(n_common(other.text, stream.text), static_cast<int>(stream.text.size()) - 1);
  }
  static void pause(Stream& stream, int n) {
    if (n > stream.n_computed && n < static_cast<int>(stream.text.size()))
      stream.pause_at = stream.pause_at == 0 ? n : std::min(stream.pause_at, n);
  }

  /// Whether the cache can take the stream besides what the running ones are about to write. Idle texts make
  /// room.
  bool make_room_for(const Stream& stream, const engine::PrefixIndex::Match& match) {
    // Of the last page that is shared the stream gets a copy of its own, once it writes there.
    std::int64_t need = static_cast<std::int64_t>(stream.text.size()) - match.n + match.n % kPage;
    for (const StreamPtr& other : running) need += std::max(other->n_pending(), kHeadroom);
    while (context.cells_used() + need > context.cells_total())
      if (!evict(match.holder) && !shorten(match)) return running.empty();
    return true;
  }

  /// Gives up what an idle text has beyond a match. False where there is nothing to be had.
  bool shorten(const engine::PrefixIndex::Match& match) {
    if (match.holder < 0 || match.n == index.size(match.holder) || !is_idle(match.holder)) return false;
    const std::vector<Token> kept = index.text(match.holder, match.n);
    index.remove(match.holder);
    context.remove(match.holder, match.n);
    if (drafter) drafter->cut(match.holder, match.n);
    index.append(match.holder, kept);
    return true;
  }

  void admit() {
    for (const StreamPtr& stream : running) {
      stream->pause_at = 0;
      pause(*stream, stream->snapshot_at);
    }
    int n_seen = 0;
    for (auto entry = waiting.begin(); entry != waiting.end() && n_seen < kMaxLookAhead; ++n_seen) {
      if (static_cast<int>(running.size()) >= params.n_running) return;
      const StreamPtr stream = entry->second;
      const engine::PrefixIndex::Match match = look_up(*stream);
      if (should_wait(*stream, match.n)) {
        ++entry;
        continue;
      }
      if (!make_room_for(*stream, match)) return;
      settle(*stream, match);
      if (stream->shifted && !take_up(*stream)) {
        release(*stream);
        return;
      }
      entry = waiting.erase(entry);
      running.push_back(stream);
      stream->pause_at = 0;
      pause(*stream, stream->snapshot_at);
    }
  }

  /// The cache of a shifted stream comes back as it was.
  bool take_up(Stream& stream) {
    while (!context.restore(stream.saved, stream.seq))
      if (!evict()) return false;
    stream.n_computed = context.next_pos(stream.seq);
    stream.saved = {};
    return true;
  }

  // --- When the cache is full ------------------------------------------------------------------------------

  /// Idle texts go first, then the drafts of this step, then the running stream that came last; one that is
  /// alone forgets, or ends.
  void make_room() {
    if (evict()) return;
    if (std::exchange(drafts_allowed, false)) return;
    const auto last =
        std::max_element(running.begin(), running.end(),
                         [](const StreamPtr& a, const StreamPtr& b) { return a->goes_before(*b); });
    if (running.size() == 1) {
      Stream& stream = **last;
      if (!forget(stream)) end(stream, StopReason::kContextFull);
      drop_done();
      return;
    }
    set_aside(*last);
    running.erase(last);
  }

  void set_aside(const StreamPtr& stream) {
    if (stream->shifted) stream->saved = context.save(stream->seq);
    release(*stream);
    stream->n_computed = 0;
    ++stream->stats.n_set_aside;
    ++counters.n_set_aside;
    waiting.emplace(stream->key(), stream);
  }

  /// Forgets the older half of the text behind what is kept, in whole pages where it is long enough for that.
  bool forget(Stream& stream) {
    if (!stream.params().context_shift || stream.n_pending() != 1) return false;
    const auto [keep, n] = engine::middle_of(context, stream.seq, stream.params().n_keep);
    if (n == 0) return false;
    index.remove(stream.seq);
    if (drafter) drafter->cut(stream.seq, 0);
    stream.shifted = true;
    if (!engine::forget(context, stream.seq, keep, n)) return false;
    stream.text.erase(stream.text.begin() + keep, stream.text.begin() + keep + n);
    stream.n_computed -= n;
    return true;
  }

  // --- A step ----------------------------------------------------------------------------------------------

  /// What a stream has in the batch.
  struct Share {
    Stream* stream;
    int first;  // Item of the batch.
    int n;      // Items, drafts not counted.
  };

  /// Room in the cache that one stream may use is up, before the batch is made.
  void check_limits() {
    for (const StreamPtr& stream : running) {
      const int limit = limit_of(stream->params());
      const bool beyond = static_cast<int>(stream->text.size()) > limit ||
                          static_cast<Pos>(stream->text.size()) > context.max_positions();
      if (beyond && !forget(*stream)) end(*stream, StopReason::kContextFull);
    }
    drop_done();
  }

  void write_drafts() {
    if (!drafter) return;
    jobs.clear();
    // Branches are sequences: the free ones are shared out evenly.
    const int n_spare = running.empty() ? 0 : static_cast<int>(free_seqs.size() / running.size());
    for (const StreamPtr& stream : running) {
      stream->draft.clear();
      if (!drafts_allowed || !stream->params().speculate || stream->n_pending() != 1) continue;
      DraftOdds& odds = stream->odds;
      odds.n_leaves = std::min(1 + n_spare, params.n_draft_branches);
      odds.least = params.adapt_drafts ? least_chance(cost, drafter->ms_per_token()) : 0.0;
      // Not past the end of what the stream may write.
      const auto n_text = static_cast<int>(stream->text.size());
      odds.n_max =
          std::min({params.n_draft, limit_of(stream->params()) - n_text, context.max_positions() - n_text});
      if (stream->params().n_predict >= 0)
        odds.n_max = std::min(odds.n_max, stream->params().n_predict - stream->stats.n_generated - 1);
      if (odds.right < odds.least && stream->n_until_probe-- <= 0) {
        odds.n_max = std::min(odds.n_max, 1);
        odds.least = 0.0;
      }
      stream->draft.begin(odds);
      if (odds.n_max > 0) jobs.push_back({stream->seq, stream->text, &stream->draft});
    }
    if (!jobs.empty()) drafter->draft(jobs);
  }

  /// Tokens of prompts that a step may take on besides those that decode.
  int prompt_budget() const {
    int budget = params.n_step_tokens - n_decoding;
    if (n_decoding > 0 && cost.known()) {
      const double ms = params.max_step_ms - cost.ms_per_step();
      const double rows = std::max(ms / prompt_ms_per_row(), double{kMinChunk}) - n_decoding;
      budget = std::min(budget, static_cast<int>(std::max(rows, double{kMinChunk})));
    }
    return std::max(budget, 1);
  }
  double prompt_ms_per_row() const { return prompt_ms > 0.0 ? prompt_ms : 0.1; }

  /// A stream's last token with the tree that stands behind it: a branch is a sequence, which shares the
  /// text, and each token belongs to all branches that go through it.
  void add_with_draft(Stream& stream) {
    const std::vector<int> leaves = stream.draft.leaves();
    stream.branches.assign(1, stream.seq);
    while (stream.branches.size() < leaves.size()) {
      stream.branches.push_back(free_seqs.back());
      free_seqs.pop_back();
      context.copy(stream.seq, stream.branches.back());
    }
    batch.add(stream.text.back(), stream.branches, true);
    std::vector<SeqId> seqs;
    for (int node = 0; node < stream.draft.size(); ++node) {
      seqs.clear();
      for (std::size_t i = 0; i < leaves.size(); ++i)
        if (stream.draft.leads_to(node, leaves[i])) seqs.push_back(stream.branches[i]);
      batch.add(stream.draft.nodes()[static_cast<std::size_t>(node)].token, seqs, true);
    }
  }

  /// The stream goes on with the branch that `node` is on; the others are given up, and what stands behind
  /// it.
  void fold_branches(Stream& stream, int node) {
    const std::vector<int> leaves = stream.draft.leaves();
    std::size_t right = 0;
    while (right < leaves.size() && !stream.draft.leads_to(node, leaves[right])) ++right;
    if (right > 0 && right < leaves.size()) {
      context.remove(stream.seq);
      context.copy(stream.branches[right], stream.seq);
    }
    context.remove(stream.seq, stream.n_computed);
    drop_branches(stream);
  }

  void drop_branches(Stream& stream) {
    for (std::size_t i = 1; i < stream.branches.size(); ++i) {
      context.remove(stream.branches[i]);
      free_seqs.push_back(stream.branches[i]);
    }
    stream.branches.clear();
    stream.draft.clear();
  }

  void build() {
    batch.clear();
    shares.clear();
    int n_logits = 0;
    for (const StreamPtr& stream : running) {
      if (stream->n_pending() != 1) continue;
      shares.push_back({stream.get(), batch.size(), 1});
      batch.add(stream->text.back(), stream->seq, true);
      ++n_logits;
    }
    // Drafts only as far as the step's rows of logits go.
    const int max_logits = context.params().n_outputs;
    for (Share& share : shares) {
      DraftTree& draft = share.stream->draft;
      draft.cut(max_logits - n_logits);
      n_logits += draft.size();
    }
    if (n_logits > batch.size()) {
      batch.clear();
      for (Share& share : shares) {
        share.first = batch.size();
        add_with_draft(*share.stream);
      }
    }
    n_decoding = batch.size();
    int budget = prompt_budget();
    for (const StreamPtr& stream : running) {
      if (stream->n_pending() == 1 || budget == 0) continue;
      int n = std::min(stream->n_pending(), budget);
      if (stream->pause_at > stream->n_computed) n = std::min(n, stream->pause_at - stream->n_computed);
      shares.push_back({stream.get(), batch.size(), n});
      batch.add(stream->pending().first(static_cast<std::size_t>(n)), stream->seq, n == stream->n_pending());
      budget -= n;
    }
  }

  void computed(Stream& stream, int n) {
    if (!stream.shifted) index.append(stream.seq, stream.pending().first(static_cast<std::size_t>(n)));
    stream.n_computed += n;
  }

  /// Takes a stream's tokens from the step's logits: one, and one more for each draft that was right.
  void read(const Share& share) {
    Stream& stream = *share.stream;
    const int n_prompt = std::max(0, std::min(share.n, stream.stats.n_prompt - stream.n_computed));
    if (stream.stats.n_generated == 0) counters.n_prompt_tokens += n_prompt;
    computed(stream, share.n);
    leave_snapshot(stream);
    if (stream.n_pending() > 0) return;  // A piece of a prompt.
    int node = DraftTree::kRoot;
    bool goes_on = true;
    while (true) {
      // The root's logits are those of the last token, a node's stand behind them in the nodes' order.
      goes_on = stream.draw(context.logits(share.first + share.n + node));
      ++counters.n_generated_tokens;
      const int next = stream.draft.child(node, stream.text.back());
      if (goes_on) learn(stream, node, next);
      if (!goes_on || next == DraftTree::kNone) break;
      computed(stream, 1);
      node = next;
    }
    if (!stream.draft.empty()) {
      stream.stats.n_drafted += stream.draft.size();
      counters.n_drafted_tokens += stream.draft.size();
      counters.n_branches += static_cast<std::int64_t>(stream.branches.size()) - 1;
      fold_branches(stream, node);
    }
    if (drafter) drafter->cut(stream.seq, stream.n_computed);
    if (!goes_on) retire(stream);
  }

  /// Each guess at how the text goes on behind `node` was a trial, up to the one that was right (if any).
  void learn(Stream& stream, int node, int right) {
    const DraftTree& draft = stream.draft;
    const int n_guesses = draft.n_children(node);
    if (n_guesses == 0) return;
    constexpr double kRate = 0.12;
    constexpr int kProbeEvery = 24;
    const int rank =
        right == DraftTree::kNone ? n_guesses : draft.nodes()[static_cast<std::size_t>(right)].rank;
    stream.odds.right += kRate * ((rank == 0 ? 1.0 : 0.0) - stream.odds.right);
    for (int i = 1; i <= std::min(rank, n_guesses - 1); ++i)
      stream.odds.other += kRate * ((i == rank ? 1.0 : 0.0) - stream.odds.other);
    stream.n_until_probe = kProbeEvery;
    if (right == DraftTree::kNone) return;
    ++stream.stats.n_accepted;
    ++counters.n_accepted_tokens;
  }

  void end(Stream& stream, StopReason reason) {
    stream.finish(reason);
    retire(stream);
  }

  /// Ended streams leave; what they have to tell stays until it is told.
  void drop_done() {
    std::erase_if(running, [&](const StreamPtr& stream) {
      if (!stream->done()) return false;
      outbox.push_back(stream);
      return true;
    });
  }

  /// Everything that is new goes to whom it concerns.
  void deliver() {
    while (!outbox.empty()) {
      const StreamPtr stream = outbox.front();
      outbox.pop_front();
      if (!stream->has_output()) continue;
      const bool was_done = stream->done();
      if (!stream->deliver() && !was_done) cancel(stream->request().id);
    }
  }

  bool step() {
    const auto start = Clock::now();
    double in_decode = 0.0;
    for (const StreamPtr& stream : running) drop_branches(*stream);  // Of a step that failed.
    admit();
    check_limits();
    drafts_allowed = true;
    DecodeStatus status = DecodeStatus::kCacheFull;
    while (status == DecodeStatus::kCacheFull && !running.empty()) {
      write_drafts();
      build();
      const auto before = Clock::now();
      status = context.decode(batch);
      in_decode = seconds_between(before, Clock::now());
      counters.decode_seconds += in_decode;
      if (status == DecodeStatus::kCacheFull) {
        for (const StreamPtr& stream : running) drop_branches(*stream);
        make_room();
      }
    }
    if (status == DecodeStatus::kOk && !running.empty()) {
      const std::int64_t n_before = counters.n_generated_tokens;
      for (const Share& share : shares) read(share);
      ++counters.n_steps;
      counters.cells_peak = std::max(counters.cells_peak, context.cells_used());
      measure(in_decode * 1e3, static_cast<double>(counters.n_generated_tokens - n_before));
      for (const StreamPtr& stream : running)
        if (!stream->done() && stream->has_output()) outbox.push_back(stream);
      drop_done();
    }
    const bool told = !outbox.empty();
    counters.host_seconds += seconds_between(start, Clock::now()) - in_decode;
    deliver();
    return told || !running.empty() || !waiting.empty();
  }

  /// Learns what steps cost.
  void measure(double ms, double n_drawn) {
    const int n_rows = batch.size();
    if (n_rows == n_decoding) return cost.add(n_rows, ms, n_drawn);
    const int n_prompt = n_rows - n_decoding;
    if (n_prompt < kMinChunk) return;
    const double per_row = std::max(0.0, ms - (n_decoding > 0 ? cost.ms_per_step() : 0.0)) / n_rows;
    prompt_ms = prompt_ms == 0.0 ? per_row : 0.7 * prompt_ms + 0.3 * per_row;
  }

  bool consistent() const {
    if (!context.consistent()) return false;
    std::vector<Pos> expected(static_cast<std::size_t>(context.params().n_sequences), -1);
    const auto claim = [&](SeqId seq, int n) {
      Pos& held = expected[static_cast<std::size_t>(seq)];
      if (held >= 0) return false;
      held = n;
      return true;
    };
    for (const SeqId seq : free_seqs)
      if (!claim(seq, 0) || index.size(seq) != 0) return false;
    for (const SeqId seq : idle)
      if (!claim(seq, index.size(seq))) return false;
    for (const StreamPtr& stream : running)
      if (!claim(stream->seq, stream->n_computed) ||
          (!stream->shifted && index.size(stream->seq) != stream->n_computed))
        return false;
    for (SeqId seq = 0; seq < context.params().n_sequences; ++seq)
      if (expected[static_cast<std::size_t>(seq)] != context.next_pos(seq)) return false;
    return true;
  }

  Context& context;
  const BatcherParams params;
  const bool recurrent = context.model().info().recurrent;
  const bool cuts_anywhere = context.cuts_anywhere();
  engine::PrefixIndex index;
  std::unique_ptr<engine::Drafter> drafter;

  std::map<std::pair<std::int64_t, std::int64_t>, StreamPtr> waiting;  // By who goes first.
  std::vector<StreamPtr> running;                                      // In the order of their admission.
  std::deque<StreamPtr> outbox;                                        // With something to tell.
  std::vector<SeqId> free_seqs;
  std::vector<SeqId> idle;        // Least recently used first.
  std::vector<bool> is_snapshot;  // By sequence: an idle one that stays for others when one goes on from it.

  Batch batch;
  std::vector<Share> shares;
  std::vector<engine::DraftJob> jobs;
  int n_decoding = 0;  // Items of the batch that are no prompt's.
  bool drafts_allowed = true;

  engine::StepCost cost;   // Of steps without prompts.
  double prompt_ms = 0.0;  // A prompt's token.
  BatcherStats counters;
  RequestId last_request = 0;
  std::int64_t last_order = 0;
};

Batcher::Batcher(Context& context, const BatcherParams& params)
    : impl_(std::make_unique<Impl>(context, params)) {}
Batcher::~Batcher() = default;

RequestId Batcher::submit(std::span<const Token> prompt, RequestParams params) {
  return impl_->submit(prompt, std::move(params));
}
void Batcher::cancel(RequestId request) { impl_->cancel(request); }
bool Batcher::step() { return impl_->step(); }
int Batcher::n_running() const { return static_cast<int>(impl_->running.size()); }
int Batcher::n_waiting() const { return static_cast<int>(impl_->waiting.size()); }
BatcherStats Batcher::stats() const { return impl_->counters; }
bool Batcher::consistent() const { return impl_->consistent(); }

}  // namespace weft
