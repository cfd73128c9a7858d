#pragma once
// The output of one stream that was not delivered yet, and its end. Nothing here throws except for lack of
// memory.
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "weft/batcher.h"
#include "weft/generate.h"

namespace weft::engine {

/// How a stream has ended. The first end counts.
class Ending {
 public:
  bool done() const { return done_; }
  StopReason reason() const { return reason_; }
  /// The message, for its only delivery.
  std::string take_error() { return std::exchange(error_, {}); }
  bool not_numbers() const { return not_numbers_; }
  /// The end was delivered.
  bool delivered() const { return delivered_; }
  /// Marks it as delivered, if the stream has ended.
  void deliver() { delivered_ = done_; }

  /// False if the stream has ended before.
  bool end(StopReason reason) noexcept;
  /// Ends with kError. The message is lost if an allocation fails.
  bool fail(std::string_view why, bool not_numbers = false) noexcept;
  /// Replaces the reason of an end that was not delivered.
  void set_reason(StopReason reason) { reason_ = reason; }

 private:
  bool done_ = false;
  bool delivered_ = false;
  StopReason reason_ = StopReason::kEnd;
  std::string error_;
  bool not_numbers_ = false;
};

/// The sum of embeddings, in double precision.
class PooledEmbedding {
 public:
  void add(std::span<const float> embedding);
  int n() const { return n_; }
  /// Empty if there are none.
  std::vector<float> mean() const;

 private:
  std::vector<double> sum_;
  int n_ = 0;
};

/// What a stream has produced since its last delivery. Only the embedding is delivered with the end.
struct NewOutput {
  std::string text;
  std::vector<OutputToken> tokens;
  std::vector<OutputToken> prompt;
  /// The last prompt token whose logprob was found; the first token has none.
  int n_prompt_found = 0;
  PooledEmbedding pooled;
  bool in_outbox = false;  ///< Used by Outbox.

  bool empty() const { return text.empty() && tokens.empty() && prompt.empty(); }
};

}  // namespace weft::engine
