#include "engine/batching/open_requests.h"

#include <algorithm>
#include <utility>

namespace weft::engine {

OpenRequests::Entry OpenRequests::make_entry(std::vector<StreamPtr> streams) const {
  std::map<RequestId, std::vector<StreamPtr>> entries;
  entries[next_id()] = std::move(streams);
  return entries.extract(entries.begin());
}

void OpenRequests::add(Entry entry) noexcept {
  const std::vector<StreamPtr>& streams = entry.mapped();
  const RequestParams& params = streams.front()->params();
  if (requests_.empty()) any_deadlines_ = false;
  for (const double ms : {params.queue_timeout_ms, params.first_token_timeout_ms, params.timeout_ms})
    any_deadlines_ = any_deadlines_ || ms > 0.0;
  last_id_ = entry.key();
  last_order_ += std::ssize(streams);
  n_streams_ += streams.size();
  requests_.insert(std::move(entry));
}

std::span<const StreamPtr> OpenRequests::streams(RequestId id) const {
  const auto found = requests_.find(id);
  return found == requests_.end() ? std::span<const StreamPtr>() : std::span(found->second);
}

void OpenRequests::close(const Stream& stream) {
  --n_streams_;
  const auto entry = requests_.find(stream.request().id);
  if (std::all_of(entry->second.begin(), entry->second.end(),
                  [&](const StreamPtr& other) { return other.get() == &stream || other->end_delivered(); }))
    requests_.erase(entry);
}

}  // namespace weft::engine
