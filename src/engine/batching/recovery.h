#pragma once
// What happens to the streams when a step fails, and when devices are lost.
//
// A failed step changes no result: its streams compute their tokens again. Sequences that the step left
// undefined are dropped, and their streams wait again. If the cache itself is undefined, it is rebuilt: all
// streams wait and are computed again from their tokens. If steps keep failing, each stream is tried alone,
// and a stream that fails alone ends with an error. A shifted stream has dropped tokens and cannot be
// computed again; it ends with an error, too.
//
// If devices are lost for good, no stream is blamed. All streams wait until the caller has a new context.
#include <functional>
#include <string_view>

#include "engine/batching/flights.h"
#include "engine/batching/live_streams.h"
#include "engine/batching/prefix_cache.h"
#include "engine/batching/step_batch.h"
#include "weft/batcher.h"

namespace weft::engine {

/// Used by one thread.
class Recovery {
 public:
  /// The arguments must outlive it. `counters` counts failures.
  Recovery(Context& context, PrefixCache& cache, Flights& flights, LiveStreams& live, BatcherStats& counters)
      : context_(context), cache_(cache), flights_(flights), live_(live), counters_(counters) {}

  /// `devices_lost` returns whether devices are lost for good (ServiceParams::devices_lost). Null: never.
  void set_devices_lost(std::function<bool()> devices_lost) { devices_lost_ = std::move(devices_lost); }

  // --- Steps

  void step_succeeded() { n_failures_ = 0; }
  /// The step with this batch has failed. `results_unsure`: it failed while results were read.
  void step_failed(std::string_view why, const StepBatch& batch, bool results_unsure) noexcept;
  /// A call between steps has failed. Returns whether devices are lost.
  bool other_failed(std::string_view why, bool results_unsure) noexcept;
  /// Drops what a failed or cancelled step has left undefined. Throws if this fails; rebuild() helps then.
  void evict_damaged(std::string_view why);

  // --- Lost devices

  /// Devices are lost, until renewed().
  bool suspended() const { return suspended_; }
  /// The context is about to be replaced: all streams wait.
  void begin_renewal() noexcept;
  /// The context is another one. Throws if its cache cannot be emptied.
  void renewed();

 private:
  /// If devices are lost, all streams wait and no stream is blamed. Returns whether that is so.
  bool suspend_if_lost(std::string_view why) noexcept;
  void blame(std::string_view why, const StepBatch& batch) noexcept;
  void recover(std::string_view why, bool results_unsure) noexcept;
  /// Removes the stream from its batch in flight, and cuts its sequence back to its length before. False if
  /// that is impossible, because a running state has advanced.
  bool take_back(Stream& stream);
  /// Drops the cache. All running streams wait again and are recomputed from their tokens.
  void rebuild(std::string_view why) noexcept;

  Context& context_;
  PrefixCache& cache_;
  Flights& flights_;
  LiveStreams& live_;
  BatcherStats& counters_;
  std::function<bool()> devices_lost_;
  bool suspended_ = false;
  int n_failures_ = 0;  // Steps that failed, one after another.
};

}  // namespace weft::engine
