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
/// The mean of the differences a[i] - b[i], in which common errors cancel.
Estimate mean_difference(std::span<const double> a, std::span<const double> b);
struct Interval {
  double least = 0.0;
  double most = 0.0;
};
/// The 95 % interval of a share found in n >= 1 trials, by Wilson's score.
Interval interval_of_share(double share, std::size_t n);
/// The value that `fraction` (0 to 1) of at least one sorted number are below, interpolated linearly.
double percentile(std::span<const double> sorted, double fraction);

}  // namespace weft::cli
