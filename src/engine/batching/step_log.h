#pragma once
// The times of a step: for the batcher's statistics and for BatcherParams::on_step.
#include <cstdint>
#include <functional>

#include "engine/batching/request.h"
#include "engine/batching/step_batch.h"
#include "weft/batcher.h"

namespace weft::engine {

/// Used by one thread.
class StepLog {
 public:
  /// The arguments must outlive it. `on_step` may be null. It may throw; that is ignored.
  StepLog(const std::function<void(const StepRecord&)>& on_step, BatcherStats& counters)
      : on_step_(on_step), counters_(counters) {}

  void begin_step();
  /// An attempt to decode begins. If there are several, the record has the times of the last one.
  void begin_decode();
  /// The attempt has ended. Returns its time in milliseconds.
  double end_decode();
  /// The attempt has thrown. Its time is not counted as decoding.
  void decode_failed() { decode_end_ = Clock::now(); }
  /// The step has ended. `batch` is the batch whose results were read. Encoder inputs of `n_source` tokens
  /// were encoded in `source_ms`.
  void end_step(const StepBatch& batch, int n_source, double source_ms, bool failed);

 private:
  void tell(const StepRecord& record) const noexcept;

  const std::function<void(const StepRecord&)>& on_step_;
  BatcherStats& counters_;
  Clock::time_point begin_;
  Clock::time_point decode_begin_, decode_end_;
  double decode_ms_ = 0.0;
  std::int64_t n_generated_ = 0, n_drafted_ = 0, n_accepted_ = 0;  // Before the step.
};

}  // namespace weft::engine
