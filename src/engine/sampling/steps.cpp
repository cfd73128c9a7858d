#include "engine/sampling/steps.h"

#include <cmath>
#include <limits>

namespace weft::engine {
namespace {

double entropy(std::span<const Candidate> list) {
  double sum = 0.0;
  for (const Candidate& candidate : list) {
    const auto p = static_cast<double>(candidate.probability);
    if (p > 0.0) sum -= p * std::log(p);
  }
  return sum;
}

}  // namespace

void cut_top_p(Candidates& candidates, float p) { candidates.keep_mass(static_cast<double>(p)); }

void cut_min_p(Candidates& candidates, float p) {
  candidates.keep_at_least(candidates.max_logit() + std::log(p));
}

void cut_typical(Candidates& candidates, float mass) {
  candidates.normalise();
  const auto list = candidates.list();
  const double expected = entropy(list);
  const auto oddity = [&](const Candidate& candidate) {
    if (candidate.probability <= 0.0f) return std::numeric_limits<double>::infinity();
    return std::fabs(-std::log(static_cast<double>(candidate.probability)) - expected);
  };
  const auto more_typical = [&](const Candidate& a, const Candidate& b) {
    const double x = oddity(a), y = oddity(b);
    return x < y || (x == y && a.id < b.id);
  };
  double sum = 0.0;
  std::size_t n_kept = list.size();
  for (std::size_t begin = 0, portion = 64; begin < list.size() && n_kept == list.size(); portion *= 4) {
    const std::size_t end = std::min(begin + portion, list.size());
    const auto at = [&](std::size_t i) { return list.begin() + static_cast<std::ptrdiff_t>(i); };
    if (end < list.size()) std::nth_element(at(begin), at(end), list.end(), more_typical);
    std::sort(at(begin), at(end), more_typical);
    for (; begin < end && n_kept == list.size(); ++begin) {
      sum += static_cast<double>(list[begin].probability);
      if (sum > static_cast<double>(mass)) n_kept = begin + 1;
    }
  }
  candidates.order_changed();
  candidates.truncate(n_kept);
  candidates.sort_first(n_kept);
}

void cut_top_n_sigma(Candidates& candidates, float n) {
  double sum = 0.0, sum_of_squares = 0.0, count = 0.0;
  for (const Candidate& candidate : candidates.list()) {
    if (!std::isfinite(candidate.logit)) continue;
    const auto logit = static_cast<double>(candidate.logit);
    sum += logit;
    sum_of_squares += logit * logit;
    count += 1.0;
  }
  if (count == 0.0) return;
  const double mean = sum / count;
  const double deviation = std::sqrt(std::max(0.0, sum_of_squares / count - mean * mean));
  const double least = static_cast<double>(candidates.max_logit()) - static_cast<double>(n) * deviation;
  candidates.keep_if(
      [&](const Candidate& candidate) { return static_cast<double>(candidate.logit) >= least; });
}

void cut_xtc(Candidates& candidates, float probability, float threshold, Random& random) {
  if (random.uniform() >= static_cast<double>(probability)) return;
  candidates.normalise();
  const Candidate* least = nullptr;  // Of the top choices.
  std::size_t n_top = 0;
  for (const Candidate& candidate : candidates.list()) {
    if (candidate.probability < threshold) continue;
    ++n_top;
    if (!least || goes_before(*least, candidate)) least = &candidate;
  }
  if (n_top < 2) return;
  const Token kept = least->id;
  candidates.keep_if(
      [&](const Candidate& candidate) { return candidate.probability < threshold || candidate.id == kept; });
}

void apply_temperature(Candidates& candidates, float temperature) {
  constexpr float kLimit = std::numeric_limits<float>::max();
  const float max = candidates.max_logit();
  // Where the division overflows, the best stays at 0: only differences count.
  const float shift = std::fabs(max) / temperature < kLimit ? 0.0f : max;
  if (!std::isfinite(shift)) return;
  for (Candidate& candidate : candidates.list()) candidate.logit = (candidate.logit - shift) / temperature;
}

void apply_dynamic_temperature(Candidates& candidates, float temperature, float range, float exponent) {
  const float lowest = std::max(0.0f, temperature - range), highest = temperature + range;
  if (candidates.size() < 2) return;
  candidates.normalise();
  const double most = std::log(static_cast<double>(candidates.size()));
  const double part = std::pow(entropy(candidates.list()) / most, static_cast<double>(exponent));
  const auto chosen =
      static_cast<float>(static_cast<double>(lowest) + static_cast<double>(highest - lowest) * part);
  if (chosen > 0.0f) return apply_temperature(candidates, chosen);
  candidates.keep_top(1);
}

std::size_t draw(Candidates& candidates, Random& random) {
  candidates.normalise();
  const auto list = candidates.list();
  double sum = 0.0;
  for (const Candidate& candidate : list) sum += static_cast<double>(candidate.probability);
  const double target = random.uniform() * sum;
  double passed = 0.0;
  std::size_t last = 0;
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (list[i].probability <= 0.0f) continue;
    last = i;
    passed += static_cast<double>(list[i].probability);
    if (passed > target) return i;
  }
  return last;
}

}  // namespace weft::engine
