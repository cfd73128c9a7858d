// Requests and their ends. Stepper computes the steps.
#include "weft/batcher.h"

#include <algorithm>
#include <utility>

#include "base/to_size.h"
#include "engine/batching/batcher_impl.h"
#include "engine/batching/limits.h"
#include "engine/batching/what.h"
#include "engine/prompt_parts.h"
#include "engine/refuse.h"
#include "engine/sequence_adapters.h"

namespace weft {
namespace {

using engine::Clock;
using engine::ms_between;
using engine::Stream;
using engine::StreamPtr;

/// One level of priority counts as much as being submitted this many requests earlier.
constexpr std::int64_t kRequestsPerPriority = 64;
constexpr int kMaxPriority = -kBackgroundPriority;

}  // namespace

Batcher::Impl::Impl(Context& context_in, const BatcherParams& params_in)
    : context(context_in),
      params(engine::fill_in(params_in, context)),
      runner(context),
      draft_lease(params.speculation == Speculation::kModel ? params.draft.get() : nullptr),
      drafter(engine::make_drafter(params, context)),
      cache(context, drafter.get(), params, counters),
      flights(runner, params.n_running),
      live(context, params, cache, flights, outbox, counters),
      stepper(context, params, drafter.get(), cache, flights, live, counters) {}

RequestId Batcher::Impl::submit(std::span<const Token> prompt, RequestParams p) {
  engine::check_request(prompt, p, context, params.limits);
  check_queue(prompt.size(), p);
  return add({prompt.begin(), prompt.end()}, std::move(p));
}

void Batcher::Impl::check_queue(std::size_t n_prompt, const RequestParams& of) {
  const BatcherLimits limits = engine::limits_of(of, params.limits);
  if (limits.n_waiting > 0 || limits.n_waiting_tokens > 0) {
    try {
      engine::check_load({static_cast<std::int64_t>(live.queue().n_waiting()),
                          live.queue().n_waiting_tokens(), counters.ms_per_admission},
                         n_prompt, of.n, limits);
    } catch (const OverloadedError&) {
      ++counters.n_rejected;
      throw;
    }
  }
}

RequestId Batcher::Impl::add(std::vector<Token> prompt, RequestParams p) {
  const std::shared_ptr<const engine::Request> request = make_request(std::move(prompt), std::move(p));
  const RequestParams& of = request->params;
  const std::int64_t rank = request->id - kRequestsPerPriority * of.priority;
  std::vector<StreamPtr> streams;
  for (int i = 0; i < of.n; ++i)
    streams.push_back(std::make_shared<Stream>(request, i, context.model(),
                                               engine::Schedule::Key{rank, open.next_order() + i}));
  // Reserved here, so that reporting a stream's end never allocates.
  outbox.reserve(open.n_streams() + streams.size());
  engine::OpenRequests::Entry entry = open.make_entry(streams);
  live.wait(streams);
  open.add(std::move(entry));
  ++counters.n_requests;
  return request->id;
}

std::shared_ptr<const engine::Request> Batcher::Impl::make_request(std::vector<Token> prompt,
                                                                   RequestParams p) const {
  auto request = std::make_shared<engine::Request>();
  request->id = open.next_id();
  request->origin.adapters =
      p.adapters ? engine::checked_adapters(context.model(), *p.adapters) : usual_adapters();
  request->prompt = std::move(prompt);
  engine::fold_ids(request->prompt, p.parts);
  if (context.model().info().reads_source) {
    request->origin.source = std::move(request->prompt);
    request->prompt = {context.model().info().first_token};
  }
  request->max_text = engine::max_text(p, context);
  request->submitted = Clock::now();
  request->params = std::move(p);
  if (!request->params.parts.empty()) request->params.speculate = false;
  for (const EmbeddedPart& part : request->params.parts) request->n_skipped += part.n - part.extent();
  request->params.priority = std::clamp(request->params.priority, -kMaxPriority, kMaxPriority);
  return request;
}

void Batcher::Impl::cancel(RequestId id) {
  for (const StreamPtr& stream : open.streams(id)) {
    if (stream->done()) continue;
    stream->finish(StopReason::kCancelled);
    live.leave(stream);
  }
}

void Batcher::Impl::set_paused(RequestId id, int completion, bool paused) {
  const std::span<const StreamPtr> streams = open.streams(id);
  if (completion < 0 || completion >= std::ssize(streams)) return;
  engine::Schedule& schedule = streams[to_size(completion)]->schedule;
  if (paused) {
    schedule.pause(Clock::now());
  } else {
    schedule.resume();
  }
}

// --- Delivery

void Batcher::Impl::deliver() {
  // Streams that receivers cancel are reported now, too. Requests that receivers submit wait for the next
  // step.
  outbox.deliver(
      open.last_id(), [this](const Stream& stream) { count_end(stream); },
      [this](const Stream& stream) { cancel(stream.request().id); });
}

void Batcher::Impl::count_end(const Stream& stream) {
  switch (stream.stop()) {
    case StopReason::kCancelled:
      ++counters.n_cancelled;
      break;
    case StopReason::kTimeout:
      ++counters.n_timed_out;
      break;
    case StopReason::kError:
      ++counters.n_errors;
      break;
    default:
      ++counters.n_completed;
  }
  open.close(stream);
}

// --- The loop

std::optional<Clock::time_point> Batcher::Impl::next_deadline() const {
  return open.any_deadlines() ? live.next_deadline() : std::nullopt;
}

bool Batcher::Impl::can_go_on() const {
  // Batches in flight are still read if all streams pause: until then no stream can expire.
  return !outbox.empty() || (!stepper.recovery().suspended() && (!flights.empty() || live.any_goes_on()));
}

bool Batcher::Impl::step() {
  if (outbox.delivering()) engine::refuse("step() was called from on_output; let it return first");
  if (open.any_deadlines()) live.expire(Clock::now());
  cache.begin_step();
  if (!stepper.recovery().suspended() && can_go_on()) stepper.step();
  const bool told = !outbox.empty();
  deliver();
  store_idle();
  return told || can_go_on() || wants_store();
}

bool Batcher::Impl::wants_store() const { return !stepper.recovery().suspended() && cache.wants_store(); }

void Batcher::Impl::store_idle() {
  if (!wants_store()) return;
  try {
    stepper.between_steps([&] {
      cache.store_idle();
      if (cache.wants_store() && !can_go_on()) cache.wait_for_files();
    });
  } catch (const std::exception&) {  // The next steps compute damaged sequences again.
  }
}

void Batcher::Impl::renew(const std::function<void()>& make) {
  stepper.recovery().begin_renewal();
  runner.lease.release();
  try {
    make();
    runner.lease.acquire();
    stepper.recovery().renewed();
  } catch (...) {
    live.fail_all(engine::what_is_thrown());
    throw;
  }
}

BatcherStats Batcher::Impl::stats() const {
  BatcherStats s = counters;
  const auto now = Clock::now();
  s.n_waiting = static_cast<int>(live.queue().n_waiting());
  s.n_waiting_tokens = live.queue().n_waiting_tokens();
  live.queue().for_each([&](const StreamPtr& stream) {
    s.longest_wait_ms = std::max(s.longest_wait_ms, ms_between(stream->request().submitted, now));
    s.n_paused += stream->schedule.paused() ? 1 : 0;
  });
  s.n_running = static_cast<int>(live.running().size());
  for (const StreamPtr& stream : live.running()) {
    s.n_prefilling += stream->is_prefilling() ? 1 : 0;
    s.n_paused += stream->schedule.paused() ? 1 : 0;
  }
  s.cells_total = context.cache().cells_total();
  s.cells_used = context.cache().cells_used();
  s.cells_cached = cache.cells_cached(live.running());
  s.sequences_total = context.params().n_sequences;
  s.sequences_cached = cache.n_idle();
  s.snapshots_cached = cache.n_snapshots();
  s.sequences_free = cache.n_free();
  s.tiers = cache.tier_stats();
  return s;
}

Batcher::Batcher(Context& context, const BatcherParams& params)
    : impl_(std::make_unique<Impl>(context, params)) {}
Batcher::~Batcher() = default;

RequestId Batcher::submit(std::span<const Token> prompt, RequestParams params) {
  return impl_->submit(prompt, std::move(params));
}
void Batcher::cancel(RequestId request) { impl_->cancel(request); }
void Batcher::pause(RequestId request, int completion) { impl_->set_paused(request, completion, true); }
void Batcher::resume(RequestId request, int completion) { impl_->set_paused(request, completion, false); }
bool Batcher::step() { return impl_->step(); }
std::optional<Clock::time_point> Batcher::next_deadline() const { return impl_->next_deadline(); }
int Batcher::n_running() const { return static_cast<int>(impl_->live.running().size()); }
int Batcher::n_waiting() const { return static_cast<int>(impl_->live.queue().n_waiting()); }
std::int64_t Batcher::n_waiting_tokens() const { return impl_->live.queue().n_waiting_tokens(); }
SavedPrefix Batcher::save_prefix(std::span<const Token> tokens,
                                 const std::optional<std::vector<AdapterUse>>& adapters) {
  return impl_->save_prefix(tokens, adapters);
}
RestoredPrefix Batcher::restore_prefix(std::span<const std::byte> state) {
  return impl_->restore_prefix(state);
}
int Batcher::forget_prefix(std::span<const Token> tokens) { return impl_->forget_prefix(tokens); }
BatcherStats Batcher::stats() const { return impl_->stats(); }
BatcherSnapshot Batcher::snapshot() const { return impl_->snapshot(); }
bool Batcher::consistent() const {
  return impl_->context.cache().consistent() && impl_->cache.consistent(impl_->live.running());
}

}  // namespace weft
