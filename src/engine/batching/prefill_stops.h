#pragma once
// The lengths at which a stream's prefill stops, because other streams share the prefix of that length.
#include <algorithm>

namespace weft::engine {

class PrefillStops {
 public:
  /// The prefix that becomes a snapshot; 0: none.
  int snapshot() const { return snapshot_; }
  void set_snapshot(int n) { snapshot_ = n; }

  /// The next step computes no token after the first n; 0: no limit.
  int next() const { return next_; }
  void clear_next() { next_ = 0; }
  /// Another limit: the smallest one counts.
  void add(int n) { next_ = next_ == 0 ? n : std::min(next_, n); }
  /// How many of the `n` tokens after the first `n_computed` the next step may compute.
  int limit(int n_computed, int n) const { return next_ > n_computed ? std::min(n, next_ - n_computed) : n; }

 private:
  int snapshot_ = 0;
  int next_ = 0;
};

}  // namespace weft::engine
