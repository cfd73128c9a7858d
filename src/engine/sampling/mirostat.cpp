#include "engine/sampling/mirostat.h"

#include <cmath>

#include "engine/sampling/steps.h"

namespace weft::engine {

Mirostat::Mirostat(int version, float tau, float eta, std::size_t n_vocab)
    : version_(version),
      tau_(static_cast<double>(tau)),
      eta_(static_cast<double>(eta)),
      n_vocab_(static_cast<double>(n_vocab)),
      mu_(2.0 * static_cast<double>(tau)) {}

void Mirostat::reset() { mu_ = 2.0 * tau_; }

// Version 1, algorithm 1: estimates the exponent s of a Zipf distribution from the m most probable tokens, by
// a least-squares fit. From s it computes how many tokens give a surprise of mu.
void Mirostat::cut_by_estimate(Candidates& candidates) const {
  constexpr std::size_t kEstimateFrom = 100;
  candidates.normalise();
  candidates.sort_first(kEstimateFrom);
  const auto list = candidates.list();
  double sum_products = 0.0, sum_squares = 0.0;
  for (std::size_t i = 0; i + 1 < std::min(kEstimateFrom, list.size()); ++i) {
    const auto p = static_cast<double>(list[i].probability),
               next = static_cast<double>(list[i + 1].probability);
    if (next <= 0.0) break;
    const double t = std::log(static_cast<double>(i + 2) / static_cast<double>(i + 1));
    sum_products += t * std::log(p / next);
    sum_squares += t * t;
  }
  if (sum_squares == 0.0) return;
  const double s = sum_products / sum_squares, epsilon = s - 1.0;
  const double k = std::pow(epsilon * std::pow(2.0, mu_) / (1.0 - std::pow(n_vocab_, -epsilon)), 1.0 / s);
  // If s is near 0 or 1 the result is NaN; then nothing is cut.
  if (std::isnan(k) || k >= static_cast<double>(candidates.size())) return;
  candidates.keep_top(std::max<std::size_t>(1, static_cast<std::size_t>(k)));
}

// Version 2, algorithm 2: drops tokens with a surprise above mu.
void Mirostat::cut_by_surprise(Candidates& candidates) const {
  candidates.normalise();
  candidates.keep_if([&](const Candidate& candidate) {
    return candidate.probability > 0.0f && -std::log2(static_cast<double>(candidate.probability)) <= mu_;
  });
}

std::size_t Mirostat::draw(Candidates& candidates, Random& random) {
  if (version_ == 1) {
    cut_by_estimate(candidates);
  } else {
    cut_by_surprise(candidates);
  }
  const std::size_t drawn = engine::draw(candidates, random);
  const float probability = candidates.list()[drawn].probability;
  surprise_ = probability > 0.0f ? -std::log2(static_cast<double>(probability)) : 0.0;
  return drawn;
}

void Mirostat::accept() { mu_ -= eta_ * (surprise_ - tau_); }

}  // namespace weft::engine
