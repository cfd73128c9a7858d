#pragma once
// Computes the steps of a batcher: admits streams, drafts, builds a batch, decodes it and reads its results.
// Its Recovery handles failed steps.
#include <cstddef>
#include <cstdint>
#include <string>

#include "engine/batching/batch_builder.h"
#include "engine/batching/drafts.h"
#include "engine/batching/flights.h"
#include "engine/batching/live_streams.h"
#include "engine/batching/mask_maker.h"
#include "engine/batching/recovery.h"
#include "engine/batching/result_reader.h"
#include "engine/batching/source_reader.h"
#include "engine/batching/step_batch.h"
#include "engine/batching/step_log.h"
#include "engine/batching/step_pace.h"
#include "engine/batching/what.h"
#include "weft/error.h"

namespace weft::engine {

/// Used by one thread.
class Stepper {
 public:
  /// The arguments must outlive it. `params` are filled in; `drafter` may be nullptr.
  Stepper(Context& context, const BatcherParams& params, Drafter* drafter, PrefixCache& cache,
          Flights& flights, LiveStreams& live, BatcherStats& counters);

  /// One step. It does not throw if a device or an allocation fails; later steps try again.
  void step();
  Recovery& recovery() { return recovery_; }
  const Recovery& recovery() const { return recovery_; }
  /// Returns the result of `f`, which uses the cache between two steps, with no batch in flight. If that
  /// throws, sequences that were left undefined are computed again; this rethrows. Throws Error kUnavailable
  /// if devices are lost.
  template <typename F>
  auto between_steps(F f) {
    reader_.clear_unsure();
    try {
      land();
      return f();
    } catch (...) {
      const std::string why = what_is_thrown();
      if (recovery_.other_failed(why, reader_.is_unsure()))
        throw Error(ErrorCode::kUnavailable, "the model is being reloaded; try again later (" + why + ")");
      throw;
    }
  }

 private:
  void compute();
  /// Decodes the batch while the masks are made, and reads the results.
  DecodeStatus decode();
  std::size_t count_groups() const;
  /// Waits for batches in flight and reads them, until `n_left` are left.
  void land(std::size_t n_left = 0);

  Flights& flights_;
  LiveStreams& live_;
  Recovery recovery_;
  StepLog log_;
  StepPace pace_;
  Drafts drafts_;
  MaskMaker masks_;
  SourceReader sources_;
  BatchBuilder builder_;
  ResultReader reader_;
  StepBatch batch_;
  std::int64_t number_ = 0;
};

}  // namespace weft::engine
