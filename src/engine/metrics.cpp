#include "weft/metrics.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/to_size.h"

namespace weft {

double LatencyHistogram::end_ms(int range) {
  if (range >= kRanges - 1) return std::numeric_limits<double>::infinity();
  return 0.25 * std::exp2(0.5 * range);
}

void LatencyHistogram::add(double ms) {
  ++n;
  sum_ms += ms;
  const int range = ms < 0.25 ? 0 : static_cast<int>(std::floor(2.0 * std::log2(ms / 0.25))) + 1;
  ++counts[to_size(std::clamp(range, 0, kRanges - 1))];
}

double LatencyHistogram::percentile_ms(double share) const {
  const double wanted = std::clamp(share, 0.0, 1.0) * static_cast<double>(n);
  double before = 0.0;
  for (int range = 0; range < kRanges; ++range) {
    const auto here = static_cast<double>(counts[to_size(range)]);
    if (here > 0.0 && before + here >= wanted) {
      const double begin = range == 0 ? 0.0 : end_ms(range - 1);
      const double end = range == kRanges - 1 ? 2.0 * begin : end_ms(range);
      return begin + (end - begin) * std::clamp((wanted - before) / here, 0.0, 1.0);
    }
    before += here;
  }
  return 0.0;
}

}  // namespace weft
