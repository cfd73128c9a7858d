#include "engine/sampler_steps.h"

#include <algorithm>
#include <cmath>

namespace weft::engine {
namespace {

bool before(const Candidate& a, const Candidate& b) { return a.logit != b.logit ? a.logit > b.logit : a.id < b.id; }

}  // namespace

void Candidates::sort() {
  if (sorted) return;
  std::sort(list.begin(), list.end(), before);
  sorted = true;
}

void Candidates::softmax() {
  sort();
  const float largest = list.front().logit;
  if (std::isinf(largest)) {
    // All are impossible, or some are certain: equal shares for the equally large.
    std::size_t n = 0;
    while (n < list.size() && list[n].logit == largest) ++n;
    for (std::size_t i = 0; i < list.size(); ++i) list[i].probability = i < n ? 1.0f / static_cast<float>(n) : 0.0f;
    return;
  }
  double sum = 0.0;
  for (Candidate& c : list) {
    c.probability = std::exp(c.logit - largest);
    sum += c.probability;
  }
  for (Candidate& c : list) c.probability = static_cast<float>(c.probability / sum);
}

void Candidates::keep_first(std::size_t n) { list.resize(std::clamp<std::size_t>(n, 1, list.size())); }

double Candidates::entropy() const {
  double h = 0.0;
  for (const Candidate& c : list)
    if (c.probability > 0.0f) h -= c.probability * std::log(static_cast<double>(c.probability));
  return h;
}

void top_k(Candidates& c, int k) {
  if (k <= 0 || static_cast<std::size_t>(k) >= c.list.size()) return;
  if (!c.sorted) {
    std::nth_element(c.list.begin(), c.list.begin() + k, c.list.end(), before);
    c.keep_first(static_cast<std::size_t>(k));
  }
  c.sort();
  c.keep_first(static_cast<std::size_t>(k));
}

void top_p(Candidates& c, float p) {
  if (p >= 1.0f) return;
  c.softmax();
  double sum = 0.0;
  for (std::size_t i = 0; i < c.list.size(); ++i) {
    sum += c.list[i].probability;
    if (sum >= p) return c.keep_first(i + 1);
  }
}

void min_p(Candidates& c, float p) {
  if (p <= 0.0f) return;
  float largest = c.list.front().logit;
  for (const Candidate& x : c.list) largest = std::max(largest, x.logit);
  if (std::isinf(largest)) return;
  const float lowest = largest + std::log(p);
  std::erase_if(c.list, [&](const Candidate& x) { return x.logit < lowest; });
}

void typical(Candidates& c, float p) {
  if (p >= 1.0f) return;
  c.softmax();
  const double entropy = c.entropy();
  const auto distance = [&](const Candidate& x) {
    return std::abs(-std::log(std::max(static_cast<double>(x.probability), 1e-300)) - entropy);
  };
  std::sort(c.list.begin(), c.list.end(), [&](const Candidate& a, const Candidate& b) {
    const double da = distance(a), db = distance(b);
    return da != db ? da < db : before(a, b);
  });
  c.sorted = false;
  double sum = 0.0;
  for (std::size_t i = 0; i < c.list.size(); ++i) {
    sum += c.list[i].probability;
    if (sum >= p) return c.keep_first(i + 1);
  }
}

void top_n_sigma(Candidates& c, float n) {
  if (n <= 0.0f) return;
  double sum = 0.0, largest = -HUGE_VAL;
  std::size_t count = 0;
  for (const Candidate& x : c.list) {
    if (!std::isfinite(x.logit)) continue;
    sum += x.logit;
    largest = std::max<double>(largest, x.logit);
    ++count;
  }
  if (count == 0) return;
  const double mean = sum / static_cast<double>(count);
  double squares = 0.0;
  for (const Candidate& x : c.list)
    if (std::isfinite(x.logit)) squares += (x.logit - mean) * (x.logit - mean);
  const double lowest = largest - n * std::sqrt(squares / static_cast<double>(count));
  std::erase_if(c.list, [&](const Candidate& x) { return x.logit < lowest; });
}

void xtc(Candidates& c, float probability, float threshold, double draw) {
  if (probability <= 0.0f || threshold > 0.5f || draw >= probability) return;
  c.softmax();
  std::size_t n = 0;
  while (n < c.list.size() && c.list[n].probability >= threshold) ++n;
  if (n >= 2) c.list.erase(c.list.begin(), c.list.begin() + static_cast<std::ptrdiff_t>(n) - 1);
}

void temperature(Candidates& c, float t) {
  if (t <= 0.0f) return top_k(c, 1);
  for (Candidate& x : c.list) x.logit /= t;
}

void dynamic_temperature(Candidates& c, float t, float range, float exponent) {
  if (range <= 0.0f) return temperature(c, t);
  if (c.list.size() <= 1) return;
  c.softmax();
  const double share = c.entropy() / std::log(static_cast<double>(c.list.size()));
  const float low = std::max(0.0f, t - range), high = t + range;
  temperature(c, low + (high - low) * static_cast<float>(std::pow(share, exponent)));
}

}  // namespace weft::engine
