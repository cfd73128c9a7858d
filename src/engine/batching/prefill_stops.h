#pragma once
// The lengths at which a stream's prefill stops, because other streams may share the prefix of that length.
#include <algorithm>
#include <span>
#include <utility>
#include <vector>

namespace weft::engine {

class PrefillStops {
 public:
  /// The prefixes that become snapshots.
  std::span<const int> snapshots() const { return snapshots_; }
  void set_snapshots(std::vector<int> lengths) { snapshots_ = std::move(lengths); }

  /// The next step computes no token after the first n; 0: no limit.
  int next() const { return next_; }
  void clear_next() { next_ = 0; }
  /// Another limit: the smallest one counts.
  void add(int n) { next_ = next_ == 0 ? n : std::min(next_, n); }
  /// How many of the `n` tokens after the first `n_computed` the next step may compute.
  int limit(int n_computed, int n) const { return next_ > n_computed ? std::min(n, next_ - n_computed) : n; }

 private:
  std::vector<int> snapshots_;
  int next_ = 0;
};

}  // namespace weft::engine
