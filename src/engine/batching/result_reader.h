#pragma once
// Reads the results of a step: counts computed tokens, draws the streams' tokens and checks their drafts.
#include "engine/batching/drafts.h"
#include "engine/batching/live_streams.h"
#include "engine/batching/mask_maker.h"
#include "engine/batching/prefix_cache.h"
#include "engine/batching/step_batch.h"
#include "engine/batching/step_pace.h"

namespace weft::engine {

/// Used by one thread.
class ResultReader {
 public:
  /// The arguments must outlive it. `masks` has the masks of the batch.
  ResultReader(const Context& context, PrefixCache& cache, LiveStreams& live, StepPace& pace, Drafts& drafts,
               const MaskMaker& masks, BatcherStats& counters)
      : context_(context),
        cache_(cache),
        live_(live),
        pace_(pace),
        drafts_(drafts),
        masks_(masks),
        counters_(counters) {}

  /// Reads the results of a batch that took `decode_ms`, and removes the streams that have ended. Does
  /// nothing for an empty batch. A failure of a stream's sampler or constraint ends that stream only. Throws
  /// for lack of memory; is_unsure() is true then if the cache may differ from the streams.
  void read(const StepBatch& batch, double decode_ms);
  /// The last read() has thrown: the cache may not match the streams' tokens.
  bool is_unsure() const { return unsure_; }
  void clear_unsure() { unsure_ = false; }

 private:
  void read(const StepBatch& batch, const Share& share);
  /// Draws a stream's tokens from the step's logits: one, and one more for each accepted draft token.
  void draw(const StepBatch& batch, const Share& share);
  /// Times of `n_drawn` tokens that the stream has drawn in this step.
  void count_times(Stream& stream, int n_drawn);

  const Context& context_;
  PrefixCache& cache_;
  LiveStreams& live_;
  StepPace& pace_;
  Drafts& drafts_;
  const MaskMaker& masks_;
  BatcherStats& counters_;
  bool unsure_ = false;
};

}  // namespace weft::engine
