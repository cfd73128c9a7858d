#pragma once
// When a stream is served: its place in the order, and what decides whether it takes part in a step.
#include <cstdint>
#include <optional>
#include <utility>

#include "engine/batching/request.h"

namespace weft::engine {

class Schedule {
 public:
  /// The lowest key goes first: by rank, then by order.
  using Key = std::pair<std::int64_t, std::int64_t>;
  explicit Schedule(Key key) : key_(key) {}
  Key key() const { return key_; }

  /// Streams that have passed it in the queue.
  int n_passed() const { return n_passed_; }
  void pass() { ++n_passed_; }

  /// The last step that computed a part of its prompt.
  std::int64_t served_at() const { return served_at_; }
  void serve(std::int64_t step) { served_at_ = step; }

  /// When it drew its last token.
  Clock::time_point last_token() const { return last_token_; }
  void set_last_token(Clock::time_point now) { last_token_ = now; }

  /// Its client has paused it.
  bool paused() const { return paused_since_.has_value(); }
  /// Does nothing for a stream that is paused already.
  void pause(Clock::time_point now) {
    if (!paused_since_) paused_since_ = now;
  }
  void resume() { paused_since_.reset(); }
  /// Whether it has been paused for this long.
  bool paused_for(double ms, Clock::time_point now) const {
    return paused_since_ && ms_between(*paused_since_, now) >= ms;
  }

  /// It runs in the background, and other running streams have work. LiveStreams decides it for each step.
  bool yields() const { return yields_; }
  void set_yields(bool yields) { yields_ = yields; }
  /// It takes part in no step.
  bool rests() const { return paused() || yields_; }

  /// Steps with this stream have failed. It runs alone until a step with it succeeds.
  bool is_suspect() const { return is_suspect_; }
  void set_suspect(bool is_suspect) { is_suspect_ = is_suspect; }

 private:
  Key key_;
  int n_passed_ = 0;
  std::int64_t served_at_ = 0;
  Clock::time_point last_token_;
  std::optional<Clock::time_point> paused_since_;
  bool yields_ = false;
  bool is_suspect_ = false;
};

}  // namespace weft::engine
