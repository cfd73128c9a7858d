#include "weft/batcher.h"

#include <algorithm>
#include <deque>
#include <utility>

#include "engine/batching/admission.h"
#include "engine/batching/batcher_params.h"
#include "engine/batching/drafts.h"
#include "engine/batching/prefix_cache.h"
#include "engine/batching/step_pace.h"
#include "engine/batching/stream.h"

namespace weft {
namespace {

using engine::Clock;
using engine::DraftTree;
using engine::Stream;
using StreamPtr = std::shared_ptr<Stream>;

/// One step of priority is worth as much as being submitted that many requests earlier.
constexpr std::int64_t kRequestsPerPriority = 64;
constexpr int kMaxPriority = 1 << 20;

double seconds_between(Clock::time_point from, Clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

}  // namespace

/// The loop over what has places of its own: who waits and is let in (`admission`), what the cache holds
/// (`texts`), what is written ahead (`drafts`), how much a step takes on (`pace`). A stream is waiting,
/// running (it has a sequence) or done.
struct Batcher::Impl {
  Impl(Context& context_in, const BatcherParams& params_in)
      : context(context_in),
        params(engine::fill_in(params_in, context)),
        drafter(engine::make_drafter(params, context)),
        cache(context, drafter.get(), params.reuse_prefixes, counters),
        admission(context, cache, params.n_running),
        drafts(params, drafter.get(), cache),
        pace(params, context.params().n_ubatch) {}

  // --- Requests --------------------------------------------------------------------------------------------

  RequestId submit(std::span<const Token> prompt, RequestParams p) {
    engine::check_request(prompt, p, context);
    p.priority = std::clamp(p.priority, -kMaxPriority, kMaxPriority);
    auto request = std::make_shared<engine::Request>();
    request->id = ++last_request;
    request->n_prompt = static_cast<int>(prompt.size());
    request->max_text = engine::max_text(p, context);
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
        admission.wait(stream);
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
    admission.erase_if(ends);
    std::erase_if(running, [&](const StreamPtr& stream) {
      if (!ends(stream)) return false;
      cache.release(*stream);
      return true;
    });
  }

  // --- When the cache is full ------------------------------------------------------------------------------

  /// Idle texts go first, then the drafts of this step, then the running stream that came last; one that is
  /// alone forgets, or ends.
  void make_room() {
    if (cache.evict()) return;
    if (std::exchange(drafts_allowed, false)) return;
    const auto last =
        std::max_element(running.begin(), running.end(),
                         [](const StreamPtr& a, const StreamPtr& b) { return a->goes_before(*b); });
    if (running.size() == 1) {
      if (!cache.forget(**last)) end(**last, StopReason::kContextFull);
      drop_done();
      return;
    }
    preempt(*last);
    running.erase(last);
  }

  void preempt(const StreamPtr& stream) {
    if (stream->shifted) stream->saved = context.save(stream->seq);
    cache.release(*stream);
    stream->n_computed = 0;
    ++stream->stats.n_preempted;
    ++counters.n_preempted;
    admission.wait(stream);
  }

  /// Room in the cache that one stream may use is up, before the batch is made.
  void check_limits() {
    for (const StreamPtr& stream : running)
      if (static_cast<int>(stream->text.size()) > stream->request().max_text && !cache.forget(*stream))
        end(*stream, StopReason::kContextFull);
    drop_done();
  }

  void end(Stream& stream, StopReason reason) {
    stream.finish(reason);
    cache.retire(stream);
  }

  /// Ended streams leave; what they have to tell stays until it is told.
  void drop_done() {
    std::erase_if(running, [&](const StreamPtr& stream) {
      if (!stream->done()) return false;
      outbox.push_back(stream);
      return true;
    });
  }

  // --- A step ----------------------------------------------------------------------------------------------

  /// What a stream has in the batch.
  struct Share {
    Stream* stream;
    int first;  // Item of the batch.
    int n;      // Items, drafts not counted.
  };

  bool step() {
    const auto start = Clock::now();
    double in_decode = 0.0;
    drop_branches();  // Of a step that failed.
    admission.admit(running);
    check_limits();
    drafts_allowed = true;
    DecodeStatus status = DecodeStatus::kCacheFull;
    while (status == DecodeStatus::kCacheFull && !running.empty()) {
      drafts.write(running, pace.cost(), drafts_allowed);
      build();
      const auto before = Clock::now();
      status = context.decode(batch);
      in_decode = seconds_between(before, Clock::now());
      counters.decode_seconds += in_decode;
      if (status == DecodeStatus::kCacheFull) {
        drop_branches();
        make_room();
      }
    }
    if (status == DecodeStatus::kOk && !running.empty()) {
      const std::int64_t n_before = counters.n_generated_tokens;
      for (const Share& share : shares) read(share);
      ++counters.n_steps;
      counters.cells_peak = std::max(counters.cells_peak, context.cells_used());
      pace.add(batch.size(), n_decoding, in_decode * 1e3,
               static_cast<double>(counters.n_generated_tokens - n_before));
      drafts.add_step(in_decode * 1e3);
      for (const StreamPtr& stream : running)
        if (!stream->done() && stream->has_output()) outbox.push_back(stream);
      drop_done();
    }
    const bool told = !outbox.empty();
    counters.host_seconds += seconds_between(start, Clock::now()) - in_decode;
    deliver();
    return told || !running.empty() || admission.n_waiting() > 0;
  }

  void drop_branches() {
    for (const StreamPtr& stream : running) cache.drop_branches(*stream);
  }

  /// The batch: first who writes, with drafts; then as much of the prompts as the step's time allows.
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
        drafts.add(batch, *share.stream);
      }
    }
    n_decoding = batch.size();
    int budget = pace.prompt_budget(n_decoding);
    for (const StreamPtr& stream : running) {
      if (stream->n_pending() == 1 || budget == 0) continue;
      int n = std::min(stream->n_pending(), budget);
      if (stream->pause_at > stream->n_computed) n = std::min(n, stream->pause_at - stream->n_computed);
      shares.push_back({stream.get(), batch.size(), n});
      batch.add(stream->pending().first(static_cast<std::size_t>(n)), stream->seq, n == stream->n_pending());
      budget -= n;
      if (n == stream->n_pending())
        budget = std::min(budget, pace.max_rows_behind(batch.size()) - batch.size());
    }
    for (const Share& share : shares) ask_for_best(share);
  }

  /// Where the best few tokens do, the step need not write logits.
  void ask_for_best(const Share& share) {
    const int n = share.stream->n_best();
    if (n == 0 || n > context.params().n_best) return;
    const int last = share.first + share.n - 1;
    for (int item = last; item <= last + share.stream->draft.size(); ++item)
      if (batch[item].logits) batch.only_best(item, n);
  }

  /// Takes a stream's tokens from the step's logits: one, and one more for each draft that was right.
  void read(const Share& share) {
    Stream& stream = *share.stream;
    const int n_prompt = std::max(0, std::min(share.n, stream.stats.n_prompt - stream.n_computed));
    if (stream.stats.n_generated == 0) counters.n_prompt_tokens += n_prompt;
    cache.computed(stream, share.n);
    cache.leave_snapshot(stream);
    if (stream.n_pending() > 0) return;  // A piece of a prompt.
    int node = DraftTree::kRoot;
    bool goes_on = true;
    while (true) {
      // The root's logits are those of the last token, a node's stand behind them in the nodes' order.
      const int item = share.first + share.n + node;
      goes_on = stream.draw(context, item, batch[item].n_best > 0);
      ++counters.n_generated_tokens;
      const int next = stream.draft.child(node, stream.text.back());
      if (goes_on) engine::Drafts::learn(stream, node, next);
      if (!goes_on || next == DraftTree::kNone) break;
      ++stream.stats.n_accepted;
      ++counters.n_accepted_tokens;
      cache.computed(stream, 1);
      node = next;
    }
    if (!stream.draft.empty()) {
      stream.stats.n_drafted += stream.draft.size();
      counters.n_drafted_tokens += stream.draft.size();
      counters.n_branches += static_cast<std::int64_t>(stream.branches.size()) - 1;
      drafts.fold(stream, node);
    }
    drafts.checked(stream);
    if (!goes_on) cache.retire(stream);
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

  Context& context;
  const BatcherParams params;
  BatcherStats counters;
  const std::unique_ptr<engine::Drafter> drafter;  // nullptr: no speculation.
  engine::PrefixCache cache;
  engine::Admission admission;
  engine::Drafts drafts;
  engine::StepPace pace;

  std::vector<StreamPtr> running;  // In the order of their admission.
  std::deque<StreamPtr> outbox;    // With something to tell.

  Batch batch;
  std::vector<Share> shares;
  int n_decoding = 0;  // Items of the batch that are no prompt's.
  bool drafts_allowed = true;

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
int Batcher::n_waiting() const { return static_cast<int>(impl_->admission.n_waiting()); }
BatcherStats Batcher::stats() const { return impl_->counters; }
bool Batcher::consistent() const {
  return impl_->context.consistent() && impl_->cache.consistent(impl_->running);
}

}  // namespace weft
