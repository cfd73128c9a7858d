#pragma once
// The batches in flight, and the streams that take part in the next one.
//
// Steps overlap in contexts whose devices can work on several batches (BatchRunner::begin). The running
// streams are divided into groups. While devices compute the later layers of some groups' batches, the host
// computes the first layers of another one. A group's tokens are drawn after the batches of all other groups
// have started. With one group, each batch is computed at once and none is in flight.
#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include "engine/batching/batch_runner.h"
#include "engine/batching/step_batch.h"
#include "engine/batching/stream.h"

namespace weft::engine {

/// Used by one thread.
class Flights {
 public:
  /// At most `n_running` streams run. The runner must outlive this.
  Flights(BatchRunner& runner, int n_running);

  bool empty() const { return flights_.empty(); }
  std::size_t size() const { return flights_.size(); }
  /// The number of groups that these streams are divided into. It is 1 if batches do not overlap, if there
  /// are too few streams, or if one must not be in flight.
  std::size_t count_groups(std::span<const StreamPtr> running) const;
  /// The groups of the next steps. At most this many batches are in flight.
  void set_groups(std::size_t n) { n_groups_ = n; }
  std::size_t n_groups() const { return n_groups_; }

  /// Chooses the streams of this step: as many of those not in flight as a group has.
  void choose_turn(std::span<const StreamPtr> running);
  std::span<const StreamPtr> turn() const { return turn_; }
  /// Drops the references to the chosen streams.
  void end_turn() { turn_.clear(); }

  /// Computes the batch. If steps overlap, it only starts the batch. `batch` is then the oldest started
  /// batch, or empty if fewer batches than groups are in flight. Throws what the runner throws.
  DecodeStatus decode(StepBatch& batch);
  /// Waits for the oldest batch in flight, which becomes `batch`. Its streams are then in flight no longer.
  DecodeStatus receive(StepBatch& batch);
  /// Removes the stream from the batch in flight that it is in.
  void leave(Stream& stream);
  /// Drops all batches in flight. The caller must take back their streams (CacheState::land).
  void drop() noexcept;
  void for_each_stream(const std::function<void(Stream&)>& f) const;

 private:
  /// Records `batch` as in flight.
  void take_off(StepBatch& batch) noexcept;

  BatchRunner& runner_;
  std::vector<StepBatch> flights_;  // The oldest first; a stream is in at most one of them.
  std::size_t n_groups_ = 1;
  std::vector<StreamPtr> turn_;
};

}  // namespace weft::engine
