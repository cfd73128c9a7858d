#pragma once
// Latency histograms: counts in ranges, from which percentiles follow.
#include <array>
#include <cstdint>

#pragma GCC visibility push(default)

namespace weft {

/// Counts of milliseconds in ranges that grow by the square root of two, from below 0.25 ms to beyond an
/// hour.
struct LatencyHistogram {
  static constexpr int kRanges = 50;
  std::array<std::int64_t, kRanges> counts = {};
  std::int64_t n = 0;
  double sum_ms = 0.0;

  /// The upper end of a range; of the last one infinity.
  static double end_ms(int range);
  void add(double ms);
  /// The value below which `share` (0 to 1) of all lie, interpolated within its range; 0 without any.
  double percentile_ms(double share) const;
};

}  // namespace weft

#pragma GCC visibility pop
