#include "quality/statistics.h"

#include <algorithm>
#include <cmath>

namespace weft::cli {

Estimate mean_of(std::span<const double> numbers) {
  if (numbers.empty()) return {};
  const auto n = static_cast<double>(numbers.size());
  double sum = 0.0, squares = 0.0;
  for (const double number : numbers) sum += number;
  const double mean = sum / n;
  for (const double number : numbers) squares += (number - mean) * (number - mean);
  return {mean, n < 2.0 ? 0.0 : std::sqrt(squares / (n * (n - 1.0)))};
}

Estimate mean_difference(std::span<const double> a, std::span<const double> b) {
  std::vector<double> differences(std::min(a.size(), b.size()));
  for (std::size_t i = 0; i < differences.size(); ++i) differences[i] = a[i] - b[i];
  return mean_of(differences);
}

Interval interval_of_share(double share, std::size_t n) {
  constexpr double kDeviations = 1.959963984540054;  // Of 95 % of a normal distribution.
  const double trials = static_cast<double>(n), z = kDeviations * kDeviations / trials;
  const double middle = (share + z / 2.0) / (1.0 + z);
  const double half = std::sqrt(z * (share * (1.0 - share) + z / 4.0)) / (1.0 + z);
  return {middle - half, middle + half};
}

double percentile(std::span<const double> sorted, double fraction) {
  const double place = std::clamp(fraction, 0.0, 1.0) * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(place);
  const std::size_t above = std::min(below + 1, sorted.size() - 1);
  const double part = place - static_cast<double>(below);
  return (1.0 - part) * sorted[below] + part * sorted[above];
}

}  // namespace weft::cli
