#include "engine/batching/live_streams.h"

#include <algorithm>
#include <utility>

#include "base/to_size.h"

namespace weft::engine {

LiveStreams::LiveStreams(Context& context, const BatcherParams& params, PrefixCache& cache, Flights& flights,
                         Outbox& outbox, BatcherStats& counters)
    : context_(context),
      cache_(cache),
      flights_(flights),
      outbox_(outbox),
      counters_(counters),
      max_pause_ms_(params.max_pause_ms),
      queue_(context, cache, params.n_running) {
  running_.reserve(to_size(params.n_running));
}

bool LiveStreams::any_goes_on() const {
  const auto is_wanted = [](const StreamPtr& stream) { return !stream->schedule.paused(); };
  return std::any_of(running_.begin(), running_.end(), is_wanted) || queue_.any_of(is_wanted);
}

std::optional<Clock::time_point> LiveStreams::next_deadline() const {
  auto next = Clock::time_point::max();
  const auto look = [&](const StreamPtr& stream) { next = std::min(next, stream->deadline()); };
  queue_.for_each(look);
  for (const StreamPtr& stream : running_) look(stream);
  if (next == Clock::time_point::max()) return std::nullopt;
  return next;
}

// --- Streams come

void LiveStreams::wait(std::span<const StreamPtr> streams) {
  std::size_t n_waiting = 0;
  try {
    for (; n_waiting < streams.size(); ++n_waiting) queue_.wait(streams[n_waiting]);
  } catch (...) {
    while (n_waiting > 0) queue_.erase(*streams[--n_waiting]);
    throw;
  }
}

void LiveStreams::admit(std::int64_t step) {
  const auto now = Clock::now();
  for (std::size_t i = running_.size(); i-- > 0;)
    if (running_[i]->schedule.paused_for(max_pause_ms_, now)) preempt(running_[i]);
  set_yields();
  admit_waiting(step);
  set_yields();
}

void LiveStreams::set_yields() {
  const bool others_have_work = std::ranges::any_of(running_, [](const StreamPtr& stream) {
    return !stream->is_background() && !stream->schedule.paused();
  });
  for (const StreamPtr& stream : running_)
    stream->schedule.set_yields(others_have_work && stream->is_background());
}

bool LiveStreams::background_holds_room() const {
  return queue_.lacks_room() &&
         std::ranges::any_of(running_, [](const StreamPtr& stream) { return stream->is_background(); });
}

void LiveStreams::preempt_background() {
  const auto goes_later = [](const StreamPtr& a, const StreamPtr& b) {
    return a->is_background() != b->is_background() ? a->is_background() : b->goes_before(*a);
  };
  const auto last = std::min_element(running_.begin(), running_.end(), goes_later);
  if (last != running_.end() && (*last)->is_background()) preempt(*last);
}

void LiveStreams::admit_waiting(std::int64_t step) {
  const auto now = Clock::now();
  while (true) {
    const std::size_t n_before = running_.size();
    const bool any_failed = queue_.admit(running_);
    note_admissions(n_before, step, now);
    if (any_failed) drop_done_waiting();
    if (std::any_of(running_.begin(), running_.end(), goes_on)) return;
    if (queue_.any_restoring()) {  // Nothing else is to be computed.
      cache_.wait_for_files();
      return;
    }
    if (running_.empty()) return;
    // All running streams are paused. A waiting one may need their room.
    if (!queue_.any_of(goes_on) || !preempt_youngest(nullptr)) return;
  }
}

void LiveStreams::note_admissions(std::size_t n_before, std::int64_t step, Clock::time_point now) {
  const auto n_new = static_cast<double>(running_.size() - n_before);
  for (std::size_t i = n_before; i < running_.size(); ++i) {
    Stream& stream = *running_[i];
    stream.schedule.serve(step);
    if (stream.stats.queue_ms > 0.0) continue;  // It was admitted before.
    stream.stats.queue_ms = std::max(ms_between(stream.request().submitted, now), 1e-6);
    counters_.queue.add(stream.stats.queue_ms);
  }
  if (n_new > 0.0) {
    double& mean = counters_.ms_per_admission;
    if (last_admission_) {
      const double ms = ms_between(*last_admission_, now) / n_new;
      mean = mean == 0.0 ? ms : 0.9 * mean + 0.1 * ms;
    }
    last_admission_ = now;
  }
  if (queue_.n_waiting() == 0) last_admission_.reset();  // Idle time does not count as waiting.
}

// --- Streams end

void LiveStreams::end(Stream& stream, StopReason reason) {
  stream.finish(reason);
  cache_.retire(stream);
}

void LiveStreams::leave(const StreamPtr& stream) {
  const bool in_flight = stream->cached.n_in_flight() > 0;
  flights_.leave(*stream);
  // A batch in flight, or a failed step, has left tokens in the sequence that the stream does not count.
  const CacheState& cached = stream->cached;
  const bool is_whole = cached.has_sequence() && !cached.lacks_source() && !in_flight &&
                        context_.cache().next_pos(cached.seq()) == cached.n_computed();
  cache_.drop_branches(*stream);
  if (is_whole) {
    cache_.retire(*stream);
  } else {
    cache_.release(*stream);
  }
  const auto place = std::find(running_.begin(), running_.end(), stream);
  if (place != running_.end()) {
    running_.erase(place);
  } else {
    queue_.erase(*stream);
  }
  outbox_.add(stream);
}

void LiveStreams::drop_done() {
  std::erase_if(running_, [&](const StreamPtr& stream) {
    if (!stream->done()) return false;
    flights_.leave(*stream);
    cache_.release(*stream);  // Streams that ended early still have a sequence; others have released theirs.
    outbox_.add(stream);
    return true;
  });
}

void LiveStreams::drop_done_waiting() {
  queue_.erase_if([&](const StreamPtr& stream) {
    if (stream->done()) outbox_.add(stream);
    return stream->done();
  });
}

void LiveStreams::expire(Clock::time_point now) {
  bool any = false;
  queue_.for_each([&](const StreamPtr& stream) {
    if (stream->done() || !stream->is_late(now)) return;
    stream->finish(StopReason::kTimeout);
    any = true;
  });
  if (any) drop_done_waiting();
  for (const StreamPtr& stream : running_) {
    // A stream in flight is checked again after its batch is read.
    if (stream->done() || stream->cached.n_in_flight() > 0 || !stream->is_late(now)) continue;
    end(*stream, StopReason::kTimeout);
    any = true;
  }
  if (any) drop_done();
}

std::vector<StreamPtr> LiveStreams::full() const {
  std::vector<StreamPtr> full;
  for (const StreamPtr& stream : running_)
    if (goes_on(stream) && static_cast<int>(stream->text().size()) > stream->request().max_text)
      full.push_back(stream);
  return full;
}

void LiveStreams::shift_or_end(std::span<const StreamPtr> full) {
  for (const StreamPtr& stream : full) {
    if (!stream->cached.has_sequence()) continue;  // It was preempted for an earlier stream, or has ended.
    // A stream that is recomputed shifts where it did before: when only its last token is missing.
    if (stream->params().context_shift && stream->is_prefilling()) continue;
    const auto make_room_for_it = [&] { return cache_.evict() || preempt_youngest(stream.get()); };
    if (!cache_.forget(*stream, make_room_for_it)) end(*stream, StopReason::kContextFull);
  }
  if (!full.empty()) drop_done();
}

void LiveStreams::tell_all() {
  for (const StreamPtr& stream : running_) outbox_.add(stream);
}

void LiveStreams::fail_all(std::string_view why) {
  for (const StreamPtr& stream : running_) stream->fail(why);
  queue_.for_each([&](const StreamPtr& stream) { stream->fail(why); });
  drop_done();
  drop_done_waiting();
}

// --- When the cache is full

void LiveStreams::make_room() {
  if (running_.size() > 1) {
    preempt_youngest(nullptr);
    return;
  }
  Stream& last = *running_.front();
  if (!cache_.forget(last, {})) end(last, StopReason::kContextFull);
  drop_done();
}

void LiveStreams::drop_branches() {
  for (const StreamPtr& stream : running_) cache_.drop_branches(*stream);
}

void LiveStreams::preempt(const StreamPtr& stream) {
  concerned_ = stream;
  CacheState& cached = stream->cached;
  if (cached.shifted()) cached.set_saved(context_.save(cached.seq()));
  ++stream->stats.n_preempted;
  ++counters_.n_preempted;
  wait_again(concerned_);
  concerned_ = nullptr;
}

bool LiveStreams::preempt_youngest(const Stream* except) {
  const auto goes_later = [&](const StreamPtr& a, const StreamPtr& b) {
    if ((a.get() == except) != (b.get() == except)) return b.get() == except;
    if (goes_on(a) != goes_on(b)) return !goes_on(a);
    return b->goes_before(*a);
  };
  const auto last = std::min_element(running_.begin(), running_.end(), goes_later);
  if (last == running_.end() || last->get() == except) return false;
  preempt(*last);
  return true;
}

// --- When a step has failed

void LiveStreams::wait_again(const StreamPtr& stream) {
  cache_.release(*stream);
  stream->cached.lose_tokens();
  running_.erase(std::find(running_.begin(), running_.end(), stream));
  queue_.wait_again(stream);
}

void LiveStreams::give_up_sequences() {
  const auto give_up = [](const StreamPtr& stream) {
    stream->cached.give_up_sequence();
    stream->cached.land();
    stream->cached.lose_tokens();
    stream->draft.drop();
  };
  for (const StreamPtr& stream : running_) give_up(stream);
  queue_.for_each(give_up);
}

void LiveStreams::all_wait_again() noexcept {
  while (!running_.empty()) {
    queue_.wait_again(running_.back());
    running_.pop_back();
  }
}

}  // namespace weft::engine
