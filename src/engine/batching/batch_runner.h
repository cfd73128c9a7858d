#pragma once
// Runs batches, several at a time if the devices can. The batcher has one over its context.
#include "weft/context.h"

namespace weft::engine {

class BatchRunner {
 public:
  virtual ~BatchRunner() = default;
  /// As Context::decode.
  virtual DecodeStatus decode(const Batch& batch) = 0;
  /// The number of batches in flight that keeps all devices busy. 1: batches do not overlap.
  virtual int n_at_once() const = 0;
  /// Like decode(), but returns while the batch is in flight; finish() provides its results. After kCacheFull
  /// the batch was not begun, and earlier ones are still in flight.
  virtual DecodeStatus begin(const Batch& batch) = 0;
  /// Waits for the oldest batch in flight and provides its results.
  virtual DecodeStatus finish() = 0;
  /// Ends the batches in flight without results.
  virtual void drop_begun() noexcept = 0;
};

}  // namespace weft::engine
