#pragma once
// The order in which the streams of a step are served.
#include <algorithm>
#include <cstdint>
#include <span>

#include "engine/batching/stream.h"

namespace weft::engine {

/// One part in this many of the prompt budget goes to the stream served longest ago, whatever its priority.
/// So no stream starves.
inline constexpr int kStarvedShare = 4;

/// By priority, then by the fewest tokens left to read.
inline bool reads_before(const Stream& a, std::int64_t n_a, const Stream& b, std::int64_t n_b) {
  if (a.params().priority != b.params().priority) return a.params().priority > b.params().priority;
  if (n_a != n_b) return n_a < n_b;
  return a.goes_before(b);
}

/// The first stream that must run alone (Schedule::is_suspect); nullptr: none.
inline const Stream* tried_alone(std::span<const StreamPtr> running) {
  const auto alone = std::ranges::find_if(
      running, [](const StreamPtr& stream) { return stream->schedule.is_suspect() && goes_on(stream); });
  return alone == running.end() ? nullptr : alone->get();
}

}  // namespace weft::engine
