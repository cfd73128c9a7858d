#pragma once
// Encodes the encoder inputs of streams that lack theirs, within the time of a step. For encoder-decoder
// models only.
#include <cstdint>
#include <vector>

#include "engine/batching/live_streams.h"
#include "engine/batching/prefix_cache.h"
#include "engine/batching/step_pace.h"

namespace weft::engine {

/// Used by one thread.
class SourceReader {
 public:
  /// The arguments must outlive it.
  SourceReader(PrefixCache& cache, LiveStreams& live, StepPace& pace)
      : cache_(cache), live_(live), pace_(pace) {}

  /// A step begins, which has encoded nothing so far.
  void begin_step() {
    n_ = 0;
    ms_ = 0.0;
  }
  /// Encodes for step number `step`. False if that was cancelled. Throws what PrefixCache::read_source
  /// throws.
  bool read(std::int64_t step);
  /// Tokens that this step has encoded, and how long that took.
  int n() const { return n_; }
  double ms() const { return ms_; }

 private:
  PrefixCache& cache_;
  LiveStreams& live_;
  StepPace& pace_;
  int n_ = 0;
  double ms_ = 0.0;
};

}  // namespace weft::engine
