#include "engine/batching/source_reader.h"

#include <algorithm>

#include "engine/batching/service_order.h"

namespace weft::engine {

bool SourceReader::read(std::int64_t step) {
  const Stream* const alone = tried_alone(live_.running());
  std::vector<StreamPtr> reading;
  int n_writing = 0;
  for (const StreamPtr& stream : live_.running()) {
    if (!goes_on(stream) || (alone != nullptr && stream.get() != alone)) continue;
    if (stream->cached.lacks_source()) {
      reading.push_back(stream);
    } else {
      ++n_writing;
    }
  }
  if (reading.empty()) return true;
  const auto size_of = [](const StreamPtr& stream) { return std::ssize(stream->origin().source); };
  std::ranges::sort(reading, [&](const StreamPtr& a, const StreamPtr& b) {
    return reads_before(*a, size_of(a), *b, size_of(b));
  });
  // Every kStarvedShare-th step begins with the stream served longest ago.
  const auto oldest = std::ranges::min_element(
      reading, {}, [](const StreamPtr& stream) { return stream->schedule.served_at(); });
  if (step % kStarvedShare == 0) std::rotate(reading.begin(), oldest, oldest + 1);
  const int budget = pace_.prompt_budget(n_writing);
  for (const StreamPtr& stream : reading) {
    const auto size = static_cast<int>(size_of(stream));
    if (n_ > 0 && n_ + size > budget) continue;
    live_.set_concerned(stream);
    const auto begin = Clock::now();
    const SourceRead read = cache_.read_source(*stream);
    if (read == SourceRead::kCancelled) return false;
    live_.set_concerned(nullptr);
    stream->schedule.serve(step);
    if (read == SourceRead::kShared) continue;
    const double ms = ms_between(begin, Clock::now());
    n_ += size;
    ms_ += ms;
    pace_.add_source(size, ms);
  }
  return true;
}

}  // namespace weft::engine
