#pragma once
// Means with their errors, and percentiles.
#include <cstddef>
#include <span>
#include <vector>

namespace weft::cli {

struct Estimate {
  double value = 0.0;
  double error = 0.0;  ///< The standard error; 0 of fewer than two numbers.
};

Estimate mean_of(std::span<const double> numbers);
/// Of the mean of the differences a[i] - b[i]: what both share cancels.
Estimate mean_difference(std::span<const double> a, std::span<const double> b);
struct Interval {
  double least = 0.0;
  double most = 0.0;
};
/// Where a share that was found in n trials lies with 95 %, by Wilson's score; n is at least 1.
Interval interval_of_share(double share, std::size_t n);
/// Of sorted numbers, at least one: `fraction` of them are below, from 0 to 1; between two in proportion.
double percentile(std::span<const double> sorted, double fraction);

}  // namespace weft::cli
