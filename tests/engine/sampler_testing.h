#pragma once
// What tests of samplers share: distributions as a chain leaves them, and by definition.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <set>
#include <vector>

#include "weft/sampler.h"

namespace weft {

inline constexpr float kInf = std::numeric_limits<float>::infinity();
inline const float kNan = std::nanf("");

// No step does anything, temperature 1: the plain distribution.
inline SamplerParams neutral() {
  SamplerParams params;
  params.seed = 1;
  params.temperature = 1.0f;
  params.top_k = 0;
  params.top_p = 1.0f;
  params.min_p = 0.0f;
  return params;
}

inline std::vector<float> logits_of(const std::vector<double>& probabilities) {
  std::vector<float> logits;
  for (double p : probabilities) logits.push_back(static_cast<float>(std::log(p)));
  return logits;
}

inline std::vector<Token> ids_left(const SamplerParams& params, const std::vector<float>& logits,
                                   const std::vector<Token>& text = {}) {
  Sampler sampler(params, static_cast<int>(logits.size()));
  for (Token id : text) sampler.accept(id);
  sampler.sample(logits);
  std::vector<Token> ids;
  for (const Candidate& candidate : sampler.candidates()) ids.push_back(candidate.id);
  return ids;
}

// Probability by id after the whole chain; 0 for cut tokens.
inline std::vector<double> distribution(const SamplerParams& params, const std::vector<float>& logits,
                                        const std::vector<Token>& text = {}) {
  Sampler sampler(params, static_cast<int>(logits.size()));
  for (Token id : text) sampler.accept(id);
  sampler.sample(logits);
  std::vector<double> probabilities(logits.size(), 0.0);
  for (const Candidate& candidate : sampler.candidates()) {
    probabilities[static_cast<std::size_t>(candidate.id)] = static_cast<double>(candidate.probability);
  }
  return probabilities;
}

// Logits of the remaining tokens by id; `shift` is added so that differences compare.
inline std::vector<double> logits_left(const SamplerParams& params, const std::vector<float>& logits,
                                       const std::vector<Token>& text, const Tokenizer* tokenizer = nullptr) {
  Sampler sampler =
      tokenizer != nullptr ? Sampler(params, *tokenizer) : Sampler(params, static_cast<int>(logits.size()));
  for (Token id : text) sampler.accept(id);
  sampler.sample(logits);
  std::vector<double> result(logits.size(), -1e30);
  for (const Candidate& candidate : sampler.candidates()) {
    result[static_cast<std::size_t>(candidate.id)] = static_cast<double>(candidate.logit);
  }
  return result;
}

inline std::vector<double> softmax(const std::vector<double>& logits) {
  const double max = *std::max_element(logits.begin(), logits.end());
  std::vector<double> p;
  for (double logit : logits) p.push_back(std::exp(logit - max));
  const double sum = std::accumulate(p.begin(), p.end(), 0.0);
  for (double& value : p) value /= sum;
  return p;
}

// Keeps `kept` of a distribution and scales it to 1.
inline std::vector<double> restricted(const std::vector<double>& p, const std::set<std::size_t>& kept) {
  std::vector<double> result(p.size(), 0.0);
  double sum = 0.0;
  for (std::size_t i : kept) sum += p[i];
  for (std::size_t i : kept) result[i] = p[i] / sum;
  return result;
}

inline void expect_near(const std::vector<double>& actual, const std::vector<double>& expected,
                        double tolerance = 1e-6) {
  ASSERT_EQ(actual.size(), expected.size());
  for (std::size_t i = 0; i < actual.size(); ++i)
    EXPECT_NEAR(actual[i], expected[i], tolerance) << "id " << i;
}

inline std::vector<float> random_logits(std::size_t n, unsigned seed, float scale = 3.0f) {
  std::mt19937 random(seed);
  std::vector<float> logits(n);
  // Multiples of 1/16, so that there are ties.
  for (float& logit : logits)
    logit = std::floor(static_cast<float>(random() % 1000) / 1000.0f * scale * 16.0f) / 16.0f;
  return logits;
}

inline std::vector<double> plain(const std::vector<float>& logits) {
  return softmax(std::vector<double>(logits.begin(), logits.end()));
}

// Ids by falling probability, the lower id first among equals.
inline std::vector<std::size_t> ranking(const std::vector<double>& p) {
  std::vector<std::size_t> ids(p.size());
  std::iota(ids.begin(), ids.end(), 0u);
  std::stable_sort(ids.begin(), ids.end(), [&](std::size_t a, std::size_t b) { return p[a] > p[b]; });
  return ids;
}

}  // namespace weft
