#pragma once
// The streams with output that was not delivered yet. Each is here once. Used by one thread.
#include <cstddef>
#include <functional>
#include <vector>

#include "engine/batching/stream.h"

namespace weft::engine {

class Outbox {
 public:
  /// Makes room for `n_streams` streams, so that add() needs no memory. All streams whose end was not
  /// delivered must fit. May be called during deliver().
  void reserve(std::size_t n_streams);
  /// Adds a stream with output. Does nothing for a stream without output.
  void add(const StreamPtr& stream);
  bool empty() const { return streams_.empty(); }
  /// Whether deliver() is running: a receiver has called the batcher.
  bool delivering() const { return delivering_; }

  /// Delivers all output of requests up to `last`, also output that receivers add during this call. Output of
  /// later requests stays. Calls `ended` before the delivery of a stream's end, and `refused` for a stream
  /// whose receiver wants no more or has thrown. Throws the receivers' first exception after all deliveries.
  void deliver(RequestId last, const std::function<void(const Stream&)>& ended,
               const std::function<void(const Stream&)>& refused);

 private:
  std::vector<StreamPtr> streams_;
  std::vector<StreamPtr> taken_;  // By deliver().
  bool delivering_ = false;
};

}  // namespace weft::engine
