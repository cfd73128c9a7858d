// Describes the cache and the streams for display.
#include <algorithm>

#include "engine/batching/batcher_impl.h"

namespace weft {

using engine::Clock;
using engine::ms_between;
using engine::Stream;

namespace {

StreamState state_of(const Stream& stream) {
  if (stream.schedule.paused()) return StreamState::kPaused;
  if (!stream.cached.has_sequence()) return StreamState::kWaiting;
  return stream.is_prefilling() ? StreamState::kPrefilling : StreamState::kDecoding;
}

}  // namespace

std::string_view to_string(StreamState state) {
  constexpr std::string_view kNames[] = {"waiting", "prefilling", "decoding", "paused"};
  return kNames[static_cast<std::size_t>(state)];
}

BatcherSnapshot Batcher::Impl::snapshot() const {
  BatcherSnapshot result;
  result.cells = context.cache().cell_runs();
  result.n_pages = context.cache().n_pages();
  result.n_waiting = static_cast<int>(live.queue().n_waiting());
  const auto now = Clock::now();
  const auto add = [&](const Stream& stream) {
    result.streams.push_back({.request = stream.request().id,
                              .completion = stream.completion(),
                              .state = state_of(stream),
                              .sequence = stream.cached.seq(),
                              .n_prompt = stream.stats.n_prompt,
                              .n_cached = stream.stats.n_cached,
                              .n_read = stream.cached.n_computed(),
                              .n_generated = stream.stats.n_generated,
                              .priority = stream.params().priority,
                              .age_ms = ms_between(stream.request().submitted, now)});
  };
  for (const auto& stream : live.running()) {
    add(*stream);
    const engine::CacheState& cached = stream->cached;
    if (cached.n_computed() > 0) result.sequences.push_back({cached.seq(), cached.n_computed(), true});
  }
  live.queue().for_each([&, n = 0](const auto& stream) mutable {
    if (n++ < BatcherSnapshot::kMostWaiting) add(*stream);
  });
  for (const SeqId seq : cache.idle()) result.sequences.push_back({seq, cache.n_tokens(seq), false});
  std::sort(result.sequences.begin(), result.sequences.end(),
            [](const auto& a, const auto& b) { return a.id < b.id; });
  return result;
}

}  // namespace weft
