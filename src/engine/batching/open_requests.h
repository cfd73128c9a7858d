#pragma once
// The requests with streams whose end was not delivered. Used by one thread.
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "engine/batching/stream.h"

namespace weft::engine {

class OpenRequests {
 public:
  /// The id of the next request, and the order (Schedule::Key) of its first stream.
  RequestId next_id() const { return last_id_ + 1; }
  std::int64_t next_order() const { return last_order_ + 1; }
  /// The last request that was added; 0: none.
  RequestId last_id() const { return last_id_; }

  using Entry = std::map<RequestId, std::vector<StreamPtr>>::node_type;
  /// The entry of the next request.
  Entry make_entry(std::vector<StreamPtr> streams) const;
  /// Adds the request. Needs no memory.
  void add(Entry entry) noexcept;
  /// The streams of a request; empty if it is not open.
  std::span<const StreamPtr> streams(RequestId id) const;
  /// The end of a stream is about to be delivered. Removes its request with its last stream.
  void close(const Stream& stream);

  /// Streams whose end was not delivered.
  std::size_t n_streams() const { return n_streams_; }
  /// False only if no open request has a deadline.
  bool any_deadlines() const { return any_deadlines_ && !requests_.empty(); }

 private:
  std::map<RequestId, std::vector<StreamPtr>> requests_;
  std::size_t n_streams_ = 0;
  bool any_deadlines_ = false;
  RequestId last_id_ = 0;
  std::int64_t last_order_ = 0;
};

}  // namespace weft::engine
