#pragma once
// The queue of waiting streams. Streams are admitted in the order of their rank while sequences and cells
// last. A stream waits if a running one is just computing its prefix. If the first stream of the queue does
// not fit, a limited number of later ones may pass it. Streams in the background are admitted only while no
// other stream runs or waits.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "base/to_size.h"
#include "engine/batching/prefix_cache.h"
#include "engine/batching/stream.h"

namespace weft::engine {

class Admission {
 public:
  /// At most `n_running` streams run at the same time. The context and the cache must outlive it.
  Admission(Context& context, PrefixCache& cache, int n_running)
      : context_(context), cache_(cache), n_running_(n_running) {
    entries_.reserve(to_size(n_running));
  }

  void wait(const StreamPtr& stream) {
    waiting_.emplace(stream->schedule.key(), stream);
    n_tokens_ += stream->n_to_read();
  }
  /// Puts an admitted stream back into the queue. Needs no memory.
  void wait_again(const StreamPtr& stream) noexcept;
  /// Removes the streams for which `gone(stream)` is true.
  template <typename F>
  void erase_if(F&& gone) {
    std::erase_if(waiting_, [&](const auto& entry) {
      if (!gone(entry.second)) return false;
      n_tokens_ -= entry.second->n_to_read();
      return true;
    });
  }
  void erase(const Stream& stream) {
    if (waiting_.erase(stream.schedule.key()) > 0) n_tokens_ -= stream.n_to_read();
  }
  template <typename F>
  bool any_of(F&& f) const {
    return std::any_of(waiting_.begin(), waiting_.end(), [&](const auto& entry) { return f(entry.second); });
  }
  template <typename F>
  void for_each(F&& f) const {
    for (const auto& [key, stream] : waiting_) f(stream);
  }
  std::size_t n_waiting() const { return waiting_.size(); }
  std::int64_t n_waiting_tokens() const { return n_tokens_; }  ///< Including encoder inputs.

  /// Moves the streams that can run now to `running`, whose capacity is n_running. Each of them has a
  /// sequence then. Sets for each running stream where its next step has to pause, because others want to
  /// share that prefix. A stream that cannot be prepared fails; returns true if there was one, which the
  /// caller must remove.
  bool admit(std::vector<StreamPtr>& running);
  /// Whether admit() has left a stream in the queue whose prefix is being restored.
  bool any_restoring() const { return any_restoring_; }
  /// Whether a stream that is not in the background did not fit in the last admit().
  bool lacks_room() const { return lacks_room_; }
  /// The stream that admit() was handling when it threw.
  const StreamPtr& concerned() const { return concerned_; }

 private:
  using Queue = std::map<Schedule::Key, StreamPtr>;  // The lowest key goes first.

  bool should_wait(const Stream& stream, int n_cached, const std::vector<StreamPtr>& running) const;
  bool take_up(Stream& stream);

  Context& context_;
  PrefixCache& cache_;
  const int n_running_;
  Queue waiting_;
  std::int64_t n_tokens_ = 0;
  StreamPtr concerned_;
  bool any_restoring_ = false;
  bool lacks_room_ = false;
  std::vector<Queue::node_type> entries_;  // Queue nodes of running streams, reused by wait_again().
};

}  // namespace weft::engine
