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

/// One step of priority is worth as much as being submitted that many requests earlier.
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
      drafts(params, drafter.get(), cache),
      pace(params, context.params().n_ubatch),
      masks(context.model().info().n_vocab) {
  running.reserve(static_cast<std::size_t>(params.n_running));
}

RequestId Batcher::Impl::submit(std::span<const Token> prompt, RequestParams p) {
  engine::check_request(prompt, p, context, params.limits);
  const BatcherLimits& limits = params.limits;
  if (limits.n_waiting > 0 || limits.n_waiting_tokens > 0) {
    engine::QueueLoad load{.ms_per_admission = counters.ms_per_admission};
    admission.for_each([&](const StreamPtr& stream) {
      ++load.n_waiting;
      load.n_waiting_tokens += std::ssize(stream->tokens());
    });
    try {
      engine::check_load(load, prompt.size(), p.n, limits);
    } catch (const OverloadedError&) {
      ++counters.n_rejected;
      throw;
    }
  }
  const auto n = static_cast<std::size_t>(p.n);
  auto request = std::make_shared<engine::Request>();
  request->id = last_request + 1;
  request->prompt.assign(prompt.begin(), prompt.end());
  request->max_text = engine::max_text(p, context);
  request->submitted = Clock::now();
  request->params = std::move(p);
  request->params.priority = std::clamp(request->params.priority, -kMaxPriority, kMaxPriority);
  const std::int64_t rank = request->id - kRequestsPerPriority * request->params.priority;
  std::vector<StreamPtr> streams;
  for (std::size_t i = 0; i < n; ++i)
    streams.push_back(std::make_shared<Stream>(request, static_cast<int>(i), context.model(), rank,
                                               last_order + 1 + static_cast<std::int64_t>(i)));
  // So that nobody needs memory to tell its end.
  for (std::vector<StreamPtr>* box : {&outbox, &telling})
    if (box->capacity() < n_open + n) box->reserve(2 * (n_open + n));
  std::size_t n_waiting = 0;
  try {
    for (; n_waiting < n && request->params.n_predict != 0; ++n_waiting) admission.wait(streams[n_waiting]);
  } catch (...) {
    admission.erase_if([&](const StreamPtr& stream) { return stream->request().id == request->id; });
    throw;
  }
  ++last_request;
  last_order += static_cast<std::int64_t>(n);
  n_open += n;
  ++counters.n_requests;
  if (request->params.n_predict == 0)
    for (const StreamPtr& stream : streams) {
      stream->finish(StopReason::kLength);
      tell(stream);
    }
  return request->id;
}

void Batcher::Impl::cancel(RequestId id) {
  const auto ends = [&](const StreamPtr& stream) {
    if (stream->request().id != id) return;
    stream->finish(StopReason::kCancelled);
    cache.release(*stream);
  };
  admission.for_each(ends);
  for (const StreamPtr& stream : running) ends(stream);
  drop_done();
}

void Batcher::Impl::set_paused(RequestId id, int completion, bool paused) {
  const auto set = [&](const StreamPtr& stream) {
    if (stream->request().id != id || stream->completion() != completion ||
        stream->paused.has_value() == paused)
      return;
    if (paused) {
      stream->paused = Clock::now();
    } else {
      stream->paused.reset();
    }
  };
  admission.for_each(set);
  for (const StreamPtr& stream : running) set(stream);
}

// --- Deadlines

void Batcher::Impl::expire(Clock::time_point now) {
  bool any = false;
  const auto late = [&](const StreamPtr& stream) {
    if (stream->done() || !stream->is_late(now)) return false;
    any = true;
    return true;
  };
  admission.for_each([&](const StreamPtr& stream) {
    if (late(stream)) stream->finish(StopReason::kTimeout);
  });
  for (const StreamPtr& stream : running)
    if (late(stream)) end(*stream, StopReason::kTimeout);
  if (any) drop_done();
}

std::optional<Clock::time_point> Batcher::Impl::next_deadline() const {
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

void Batcher::Impl::drop_done() {
  const auto leaves = [&](const StreamPtr& stream) {
    if (!stream->done()) return false;
    cache.release(*stream);  // Of those that end in their midst; others have left their sequence already.
    tell(stream);
    return true;
  };
  std::erase_if(running, leaves);
  admission.erase_if(leaves);
}

void Batcher::Impl::tell(const StreamPtr& stream) {
  if (stream->in_outbox || !stream->has_output()) return;
  stream->in_outbox = true;
  outbox.push_back(stream);
}

void Batcher::Impl::deliver() {
  std::exception_ptr thrown;
  delivering = true;
  while (!outbox.empty()) {
    std::swap(outbox, telling);  // What callbacks cancel or submit comes in the next round.
    for (const StreamPtr& stream : telling) {
      stream->in_outbox = false;
      if (!stream->has_output()) continue;
      const bool is_end = stream->done();
      if (is_end) {
        --n_open;
        switch (stream->stop()) {
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
      }
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

// --- The loop

bool Batcher::Impl::can_go_on() const {
  const auto goes_on = [](const StreamPtr& stream) { return !stream->paused; };
  if (std::any_of(running.begin(), running.end(), goes_on)) return true;
  bool any = false;
  admission.for_each([&](const StreamPtr& stream) { any = any || goes_on(stream); });
  return any;
}

bool Batcher::Impl::step() {
  if (delivering) engine::refuse("step() was called from on_output; let it return first");
  expire(Clock::now());
  if (can_go_on()) compute();
  const bool told = !outbox.empty();
  deliver();
  return told || can_go_on();
}

BatcherStats Batcher::Impl::stats() const {
  BatcherStats s = counters;
  const auto now = Clock::now();
  admission.for_each([&](const StreamPtr& stream) {
    ++s.n_waiting;
    s.n_waiting_tokens += std::ssize(stream->tokens());
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
BatcherStats Batcher::stats() const { return impl_->stats(); }
bool Batcher::consistent() const {
  return impl_->context.consistent() && impl_->cache.consistent(impl_->running);
}

}  // namespace weft
