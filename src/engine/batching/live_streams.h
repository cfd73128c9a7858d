#pragma once
// The streams that have not ended: the queue and the running ones. Moves streams from one to the other, and
// to the outbox at their end.
//
// A stream is waiting, running (it has a sequence) or done. A stream that ends leaves its batch in flight,
// its sequence and its place here at the same time. Moving a running stream to the queue or to the outbox
// needs no memory. So a step that fails for lack of memory can be undone.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/batching/admission.h"
#include "engine/batching/flights.h"
#include "engine/batching/outbox.h"
#include "engine/batching/prefix_cache.h"
#include "engine/batching/stream.h"
#include "weft/batcher.h"

namespace weft::engine {

/// Used by one thread.
class LiveStreams {
 public:
  /// The arguments must outlive it. `counters` counts admissions and preemptions.
  LiveStreams(Context& context, const BatcherParams& params, PrefixCache& cache, Flights& flights,
              Outbox& outbox, BatcherStats& counters);

  /// In the order of their admission.
  std::span<const StreamPtr> running() const { return running_; }
  const Admission& queue() const { return queue_; }
  /// Whether a stream has work that its client has not paused.
  bool any_goes_on() const;
  /// The earliest deadline of all streams; nullopt: none.
  std::optional<Clock::time_point> next_deadline() const;

  // --- Streams come

  /// Puts new streams into the queue. Strong exception guarantee.
  void wait(std::span<const StreamPtr> streams);
  /// Preempts streams that were paused for too long, then admits waiting streams to step `step`, and decides
  /// whether running streams in the background yield.
  void admit(std::int64_t step);
  /// Whether streams in the background hold what a waiting stream needs. preempt_background() preempts one of
  /// them; no batch may be in flight.
  bool background_holds_room() const;
  void preempt_background();

  // --- Streams end

  /// A running stream has ended; its sequence may become an idle one. drop_done() removes it.
  void end(Stream& stream, StopReason reason);
  /// Removes one ended stream, wherever it is.
  void leave(const StreamPtr& stream);
  /// Removes the ended streams of the running ones.
  void drop_done();
  /// Removes the ended streams of the queue, in time linear in its length.
  void drop_done_waiting();
  /// Ends and removes the streams that missed a deadline.
  void expire(Clock::time_point now);
  /// The running streams that have more tokens than they may have.
  std::vector<StreamPtr> full() const;
  /// Shifts the context of these streams, or ends them. May preempt other streams, so no batch may be in
  /// flight.
  void shift_or_end(std::span<const StreamPtr> full);
  /// Moves output of the running streams to the outbox.
  void tell_all();
  /// Ends and removes all streams, with an error.
  void fail_all(std::string_view why);

  // --- When the cache is full

  /// Evicts the least recently used idle sequence. False if there is none.
  bool evict_idle() { return cache_.evict(); }
  /// Preempts a paused stream, or the youngest one. The last remaining stream shifts its context, or ends.
  void make_room();
  /// Drops the branches of all drafts.
  void drop_branches();

  // --- When a step has failed

  /// A running stream waits again: it loses its sequence. `stream` must not be a reference into running().
  void wait_again(const StreamPtr& stream);
  /// Takes the sequences, branches and batches in flight from all streams, whatever the cache's state.
  void give_up_sequences();
  /// All streams that were running wait again. They must have given up their sequences.
  void all_wait_again() noexcept;
  /// The stream that a failure outside of batches is blamed on. nullptr: none is known.
  StreamPtr concerned() const { return concerned_ != nullptr ? concerned_ : queue_.concerned(); }
  /// `stream` is handled next; nullptr: none is.
  void set_concerned(StreamPtr stream) noexcept { concerned_ = std::move(stream); }

 private:
  void admit_waiting(std::int64_t step);
  void set_yields();
  void preempt(const StreamPtr& stream);
  bool preempt_youngest(const Stream* except);
  /// Statistics of the running streams from index `n_before` on.
  void note_admissions(std::size_t n_before, std::int64_t step, Clock::time_point now);

  Context& context_;
  PrefixCache& cache_;
  Flights& flights_;
  Outbox& outbox_;
  BatcherStats& counters_;
  const double max_pause_ms_;
  Admission queue_;
  std::vector<StreamPtr> running_;
  StreamPtr concerned_;
  std::optional<Clock::time_point> last_admission_;  // Unset if the queue is empty.
};

}  // namespace weft::engine
