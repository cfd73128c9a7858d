#pragma once
// Latency histograms, for percentiles. Plain data: one thread at a time.
#include <array>
#include <cstdint>

#pragma GCC visibility push(default)

namespace weft {

/// A histogram of latencies. Its ranges grow by the square root of two, from below 0.25 ms to beyond an hour.
struct LatencyHistogram {
  static constexpr int kRanges = 50;
  std::array<std::int64_t, kRanges> counts = {};
  std::int64_t n = 0;
  double sum_ms = 0.0;

  /// The upper end of a range. The last range ends at infinity.
  static double end_ms(int range);
  void add(double ms);
  /// The percentile: `share` (0 to 1) of all values lie below it. It is interpolated within its range. 0: no
  /// values.
  double percentile_ms(double share) const;
};

}  // namespace weft

#pragma GCC visibility pop
