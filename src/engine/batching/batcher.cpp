// Requests and their ends. The step is in batch_step.cpp.
#include "weft/batcher.h"

#include <algorithm>
#include <exception>
#include <utility>

#include "engine/batching/batcher_impl.h"
#include "engine/refuse.h"

namespace weft {
namespace {

using engine::Clock;
using engine::ms_between;
using engine::Stream;
using engine::StreamPtr;

/// One level of priority counts as much as being submitted this many requests earlier.
constexpr std::int64_t kRequestsPerPriority = 64;
constexpr int kMaxPriority = 1 << 20;

}  // namespace

Batcher::Impl::Impl(Context& context_in, const BatcherParams& params_in)
    : context(context_in),
      params(engine::fill_in(params_in, context)),
      lease(&context),
      draft_lease(params.speculation == Speculation::kModel ? params.draft : nullptr),
      drafter(engine::make_drafter(params, context)),
      cache(context, drafter.get(), params.reuse_prefixes, counters),
      admission(context, cache, params.n_running),
      drafts(params, drafter.get(), cache, context),
      pace(params, context.params().n_ubatch),
      masks(context.model().info().n_vocab) {
  running.reserve(static_cast<std::size_t>(params.n_running));
  turn.reserve(static_cast<std::size_t>(params.n_running));
}

RequestId Batcher::Impl::submit(std::span<const Token> prompt, RequestParams p) {
  engine::check_request(prompt, p, context, params.limits);
  check_queue(prompt.size(), p.n);
  return add({prompt.begin(), prompt.end()}, std::move(p));
}

void Batcher::Impl::check_queue(std::size_t n_prompt, int n_completions) {
  const BatcherLimits& limits = params.limits;
  if (limits.n_waiting > 0 || limits.n_waiting_tokens > 0) {
    try {
      engine::check_load({static_cast<std::int64_t>(admission.n_waiting()), admission.n_waiting_tokens(),
                          counters.ms_per_admission},
                         n_prompt, n_completions, limits);
    } catch (const OverloadedError&) {
      ++counters.n_rejected;
      throw;
    }
  }
}

RequestId Batcher::Impl::add(std::vector<Token> prompt, RequestParams p) {
  const auto n = static_cast<std::size_t>(p.n);
  auto request = std::make_shared<engine::Request>();
  request->id = last_request + 1;
  request->origin.adapters =
      p.adapters ? engine::checked_adapters(context.model(), *p.adapters) : usual_adapters();
  request->prompt = std::move(prompt);
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
  const std::int64_t rank = request->id - kRequestsPerPriority * request->params.priority;
  std::vector<StreamPtr> streams;
  for (std::size_t i = 0; i < n; ++i)
    streams.push_back(std::make_shared<Stream>(request, static_cast<int>(i), context.model(), rank,
                                               last_order + 1 + static_cast<std::int64_t>(i)));
  // Reserved here, so that reporting a stream's end never allocates.
  for (std::vector<StreamPtr>* box : {&outbox, &telling})
    if (box->capacity() < n_open + n) box->reserve(2 * (n_open + n));
  std::map<RequestId, std::vector<StreamPtr>> entries;
  entries[request->id].reserve(n);
  auto entry = entries.extract(entries.begin());
  const bool has_work = request->params.n_predict != 0 || streams.front()->wants_prompt() ||
                        request->params.pooling != Pooling::kNone;
  std::size_t n_waiting = 0;
  try {
    for (; n_waiting < n && has_work; ++n_waiting) admission.wait(streams[n_waiting]);
  } catch (...) {
    while (n_waiting > 0) admission.erase(*streams[--n_waiting]);
    throw;
  }
  ++last_request;
  last_order += static_cast<std::int64_t>(n);
  n_open += n;
  entry.mapped() = streams;
  open.insert(std::move(entry));
  for (const double ms :
       {request->params.queue_timeout_ms, request->params.first_token_timeout_ms, request->params.timeout_ms})
    any_deadlines = any_deadlines || ms > 0.0;
  ++counters.n_requests;
  if (!has_work)
    for (const StreamPtr& stream : streams) {
      stream->finish(StopReason::kLength);
      tell(stream);
    }
  return request->id;
}

void Batcher::Impl::cancel(RequestId id) {
  const auto found = open.find(id);
  if (found == open.end()) return;
  for (const StreamPtr& stream : found->second) {
    if (stream->done()) continue;
    stream->finish(StopReason::kCancelled);
    leave(stream);
  }
}

void Batcher::Impl::set_paused(RequestId id, int completion, bool paused) {
  const auto found = open.find(id);
  if (found == open.end() || completion < 0 || completion >= static_cast<int>(found->second.size())) return;
  Stream& stream = *found->second[static_cast<std::size_t>(completion)];
  if (stream.paused.has_value() == paused) return;
  if (paused) {
    stream.paused = Clock::now();
  } else {
    stream.paused.reset();
  }
}

// --- Deadlines

void Batcher::Impl::expire(Clock::time_point now) {
  if (open.empty()) any_deadlines = false;
  if (!any_deadlines) return;
  bool any = false;
  const auto end_if_late = [&](const StreamPtr& stream) {
    if (stream->done() || !stream->is_late(now)) return;
    stream->finish(StopReason::kTimeout);
    any = true;
  };
  admission.for_each(end_if_late);
  if (any) drop_done_waiting();
  for (const StreamPtr& stream : running) {
    // A stream in flight is checked again after its batch is read.
    if (stream->done() || stream->n_in_flight > 0 || !stream->is_late(now)) continue;
    end(*stream, StopReason::kTimeout);
    any = true;
  }
  if (any) drop_done();
}

std::optional<Clock::time_point> Batcher::Impl::next_deadline() const {
  if (!any_deadlines) return std::nullopt;
  auto next = Clock::time_point::max();
  const auto look = [&](const StreamPtr& stream) { next = std::min(next, stream->deadline()); };
  admission.for_each(look);
  for (const StreamPtr& stream : running) look(stream);
  if (next == Clock::time_point::max()) return std::nullopt;
  return next;
}

// --- Ends

void Batcher::Impl::end(Stream& stream, StopReason reason) {
  stream.finish(reason);
  cache.retire(stream);
}

void Batcher::Impl::leave(const StreamPtr& stream) {
  leave_flight(*stream);
  cache.release(*stream);
  const auto place = std::find(running.begin(), running.end(), stream);
  if (place != running.end()) {
    running.erase(place);
  } else {
    admission.erase(*stream);
  }
  tell(stream);
}

void Batcher::Impl::drop_done() {
  std::erase_if(running, [&](const StreamPtr& stream) {
    if (!stream->done()) return false;
    leave_flight(*stream);
    cache.release(*stream);  // Streams that ended early still have a sequence; others have released theirs.
    tell(stream);
    return true;
  });
}

void Batcher::Impl::drop_done_waiting() {
  admission.erase_if([&](const StreamPtr& stream) {
    if (stream->done()) tell(stream);
    return stream->done();
  });
}

void Batcher::Impl::tell(const StreamPtr& stream) {
  if (stream->in_outbox || !stream->has_output()) return;
  stream->in_outbox = true;
  outbox.push_back(stream);
}

void Batcher::Impl::deliver() {
  std::exception_ptr thrown;
  delivering = true;
  // Streams that callbacks cancel are reported now, too. Requests that callbacks submit wait for the next
  // step.
  const RequestId last = last_request;
  const auto is_next = [&] {
    return std::any_of(outbox.begin(), outbox.end(),
                       [&](const StreamPtr& stream) { return stream->request().id <= last; });
  };
  while (is_next()) {
    std::swap(outbox, telling);
    for (std::size_t i = 0; i < telling.size(); ++i) {
      const StreamPtr stream = telling[i];  // A copy: a callback that submits may reallocate `telling`.
      stream->in_outbox = false;
      if (!stream->has_output()) continue;
      if (stream->request().id > last) {
        tell(stream);
        continue;
      }
      const bool is_end = stream->done();
      if (is_end) count_end(*stream);
      bool wants_more = false;
      try {
        wants_more = stream->deliver();
      } catch (...) {
        if (!thrown) thrown = std::current_exception();
      }
      if (!wants_more && !is_end) cancel(stream->request().id);
    }
    telling.clear();
  }
  delivering = false;
  if (thrown) std::rethrow_exception(thrown);
}

void Batcher::Impl::count_end(const Stream& stream) {
  --n_open;
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
  const auto entry = open.find(stream.request().id);
  if (std::all_of(entry->second.begin(), entry->second.end(),
                  [&](const StreamPtr& other) { return other.get() == &stream || other->told_end(); }))
    open.erase(entry);
}

// --- The loop

bool Batcher::Impl::can_go_on() const {
  // Batches in flight are still read if all streams pause: until then no stream can expire.
  return !outbox.empty() ||
         (!suspended && (!flights.empty() || std::any_of(running.begin(), running.end(), engine::goes_on) ||
                         admission.any_of(engine::goes_on)));
}

bool Batcher::Impl::step() {
  if (delivering) engine::refuse("step() was called from on_output; let it return first");
  expire(Clock::now());
  if (!suspended && can_go_on()) compute();
  const bool told = !outbox.empty();
  deliver();
  return told || can_go_on();
}

BatcherStats Batcher::Impl::stats() const {
  BatcherStats s = counters;
  const auto now = Clock::now();
  s.n_waiting = static_cast<int>(admission.n_waiting());
  s.n_waiting_tokens = admission.n_waiting_tokens();
  admission.for_each([&](const StreamPtr& stream) {
    s.longest_wait_ms = std::max(s.longest_wait_ms, ms_between(stream->request().submitted, now));
    s.n_paused += stream->paused ? 1 : 0;
  });
  s.n_running = static_cast<int>(running.size());
  for (const StreamPtr& stream : running) {
    s.n_prefilling += stream->is_prefilling() ? 1 : 0;
    s.n_paused += stream->paused ? 1 : 0;
  }
  s.cells_total = context.cells_total();
  s.cells_used = context.cells_used();
  s.cells_cached = cache.cells_cached(running);
  s.sequences_total = context.params().n_sequences;
  s.sequences_cached = cache.n_idle();
  s.sequences_free = cache.n_free();
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
int Batcher::n_running() const { return static_cast<int>(impl_->running.size()); }
int Batcher::n_waiting() const { return static_cast<int>(impl_->admission.n_waiting()); }
std::int64_t Batcher::n_waiting_tokens() const { return impl_->admission.n_waiting_tokens(); }
SavedText Batcher::save_text(std::span<const Token> tokens,
                             const std::optional<std::vector<AdapterUse>>& adapters) {
  return impl_->save_text(tokens, adapters);
}
RestoredText Batcher::restore_text(std::span<const std::byte> state) { return impl_->restore_text(state); }
int Batcher::forget_text(std::span<const Token> tokens) { return impl_->forget_text(tokens); }
BatcherStats Batcher::stats() const { return impl_->stats(); }
BatcherPicture Batcher::picture() const { return impl_->picture(); }
bool Batcher::consistent() const {
  return impl_->context.consistent() && impl_->cache.consistent(impl_->running);
}

}  // namespace weft
