// Steps that cut, against their definitions.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "engine/sampler_testing.h"
#include "engine/sampling/candidates.h"

namespace weft {
namespace {

using ::testing::ElementsAre;

TEST(Sampler, TopKIsTheHeadOfTheSortedList) {
  for (std::size_t n : {1u, 10u, 200u, 5000u}) {
    const auto logits = random_logits(n, static_cast<unsigned>(n), 2.0f);
    const auto p = plain(logits);
    const auto order = ranking(p);
    for (std::size_t k : {1u, 2u, 40u, 199u, 1500u, 4999u, 9999u}) {
      SamplerParams params = neutral();
      params.top_k = static_cast<int>(k);
      const std::vector<std::size_t> expected(order.begin(),
                                              order.begin() + static_cast<std::ptrdiff_t>(std::min(k, n)));
      EXPECT_EQ(ids_left(params, logits), std::vector<Token>(expected.begin(), expected.end()))
          << n << " " << k;
      expect_near(distribution(params, logits), restricted(p, {expected.begin(), expected.end()}));
    }
  }
}

TEST(Sampler, TopPKeepsTheOneThatReachesIt) {
  const auto logits = logits_of({0.1, 0.4, 0.05, 0.25, 0.2});
  SamplerParams params = neutral();
  params.top_p = 0.6f;
  EXPECT_THAT(ids_left(params, logits), ElementsAre(1, 3));
  params.top_p = 0.66f;
  EXPECT_THAT(ids_left(params, logits), ElementsAre(1, 3, 4));
  params.top_p = 0.0f;
  EXPECT_THAT(ids_left(params, logits), ElementsAre(1));
  expect_near(distribution(params, logits), {0, 1, 0, 0, 0});
}

TEST(Sampler, TopPOfManyIsTheShortestHead) {
  for (float top_p : {0.1f, 0.5f, 0.9f, 0.999f}) {
    const auto logits = random_logits(3000, 7);
    const auto p = plain(logits);
    std::set<std::size_t> kept;
    double sum = 0.0;
    for (std::size_t id : ranking(p)) {
      if (sum >= static_cast<double>(top_p)) break;
      kept.insert(id);
      sum += p[id];
    }
    SamplerParams params = neutral();
    params.top_p = top_p;
    const auto ids = ids_left(params, logits);
    // The sums differ in their last digits, so the end may be off by one.
    EXPECT_NEAR(static_cast<double>(ids.size()), static_cast<double>(kept.size()), 1.0);
    EXPECT_GT(ids.size(), 64u);
    for (std::size_t i = 0; i + 1 < ids.size(); ++i)
      EXPECT_TRUE(kept.contains(static_cast<std::size_t>(ids[i])));
  }
}

TEST(Sampler, MinPIsRelativeToTheBest) {
  const auto logits = logits_of({0.1, 0.4, 0.05, 0.25, 0.2});
  SamplerParams params = neutral();
  params.min_p = 0.3f;  // At least 0.12.
  EXPECT_THAT(ids_left(params, logits), ElementsAre(1, 3, 4));
  expect_near(distribution(params, logits), restricted({0.1, 0.4, 0.05, 0.25, 0.2}, {1, 3, 4}));
  params.min_p = 1.0f;
  EXPECT_THAT(ids_left(params, logits), ElementsAre(1));
}

/// Logits of a vocabulary: from flat to a few that dominate; `special` rows also have NaN and infinities.
std::vector<float> any_logits(std::size_t size, float spread, int special, std::mt19937& random) {
  std::vector<float> logits(size, 1.0f);
  std::normal_distribution<float> normal;
  for (float& x : logits) {
    x += spread * normal(random);
    if (special > 0 && random() % 7 == 0) x = std::nanf("");
    if (special > 0 && random() % 7 == 0) x = -kInf;
  }
  if (special == 2) logits[size / 2] = kInf;
  if (special == 3) std::fill(logits.begin(), logits.end(), -kInf);
  return logits;
}

TEST(Candidates, CutAllLogitsAsTheyCutAList) {
  std::mt19937 random(9);
  for (const std::size_t size : {1, 2, 15, 128, 129, 5000})
    for (const float spread : {0.0f, 0.5f, 3.0f, 20.0f})
      for (const int special : {0, 1, 2, 3}) {
        const std::vector<float> logits = any_logits(size, spread, special, random);
        const std::string where =
            std::to_string(size) + " logits, " + std::to_string(spread) + ", " + std::to_string(special);
        engine::Candidates cut(size), whole(size);
        for (const float p : {1e-30f, 0.05f, 0.5f, 1.0f}) {
          cut.start(logits);
          whole.start(logits);
          whole.list();
          for (engine::Candidates* candidates : {&cut, &whole})
            candidates->keep_at_least(candidates->max_logit() + std::log(p));
          EXPECT_TRUE(std::ranges::equal(cut.list(), whole.list(), {}, &Candidate::id, &Candidate::id))
              << where << ", min-p " << p;
        }
        whole.start(logits);
        whole.normalise();
        whole.sort_first(size);
        for (const double p : {0.0, 0.1, 0.5, 0.95, 0.9999}) {
          cut.start(logits);
          cut.keep_mass(p);
          double mass = 0.0, before = 0.0;
          for (std::size_t i = 0; i < cut.size(); ++i) {
            before = mass;
            mass += static_cast<double>(whole.list()[i].probability);
            EXPECT_EQ(cut.list()[i].id, whole.list()[i].id) << where << ", top-p " << p;
          }
          // As far as sums of floats go.
          EXPECT_GE(mass, p - 1e-6) << where;
          EXPECT_LT(before, p + 1e-6) << where;
        }
      }
}

TEST(Sampler, TypicalKeepsWhatIsNearTheEntropy) {
  const std::vector<double> p = {0.5, 0.2, 0.15, 0.1, 0.05};
  // H = 1.3333 nats; |-ln p - H| = 0.640, 0.276, 0.564, 0.969, 1.662
  SamplerParams params = neutral();
  params.typical_p = 0.1f;
  EXPECT_THAT(ids_left(params, logits_of(p)), ElementsAre(1));
  params.typical_p = 0.3f;
  EXPECT_THAT(ids_left(params, logits_of(p)), ElementsAre(1, 2));
  params.typical_p = 0.5f;
  EXPECT_THAT(ids_left(params, logits_of(p)), ElementsAre(0, 1, 2));
  expect_near(distribution(params, logits_of(p)), restricted(p, {0, 1, 2}));
}

TEST(Sampler, TypicalOfMany) {
  const auto logits = random_logits(2000, 3, 12.0f);
  const auto p = plain(logits);
  double entropy = 0.0;
  for (double value : p) entropy -= value * std::log(value);
  std::vector<std::size_t> order(p.size());
  std::iota(order.begin(), order.end(), 0u);
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return std::fabs(-std::log(p[a]) - entropy) < std::fabs(-std::log(p[b]) - entropy);
  });
  SamplerParams params = neutral();
  params.typical_p = 0.7f;
  const auto ids = ids_left(params, logits);
  double sum = 0.0;
  std::size_t n_expected = 0;
  while (sum <= 0.7) sum += p[order[n_expected++]];
  EXPECT_NEAR(static_cast<double>(ids.size()), static_cast<double>(n_expected), 2.0);
  EXPECT_GT(ids.size(), 64u);
  double mass = 0.0;
  for (Token id : ids) mass += p[static_cast<std::size_t>(id)];
  EXPECT_NEAR(mass, sum, 0.01);
  EXPECT_TRUE(std::is_sorted(ids.begin(), ids.end(), [&](Token a, Token b) {
    const auto x = static_cast<std::size_t>(a), y = static_cast<std::size_t>(b);
    return logits[x] > logits[y] || (logits[x] == logits[y] && a < b);
  }));
}

TEST(Sampler, TopNSigmaCountsDeviationsFromTheBest) {
  // Mean 2, standard deviation sqrt(50 / 5) = 3.162.
  const std::vector<float> logits = {8.0f, 1.0f, 2.0f, 0.0f, -1.0f};
  SamplerParams params = neutral();
  params.top_n_sigma = 1.8f;  // From 8 - 5.69 = 2.31.
  EXPECT_THAT(ids_left(params, logits), ElementsAre(0));
  params.top_n_sigma = 2.0f;  // From 1.68.
  EXPECT_THAT(ids_left(params, logits), ElementsAre(0, 2));
  params.top_n_sigma = 2.6f;  // From -0.22.
  EXPECT_THAT(ids_left(params, logits), ElementsAre(0, 2, 1, 3));
  // What cannot be drawn does not count.
  EXPECT_THAT(ids_left(params, {8.0f, -kInf, 1.0f, 2.0f, kNan, 0.0f, -1.0f}), ElementsAre(0, 3, 2, 5));
}

TEST(Sampler, XtcDropsAllButTheLeastOfTheTopChoices) {
  const std::vector<double> p = {0.3, 0.1, 0.25, 0.05, 0.2, 0.1};
  SamplerParams params = neutral();
  params.xtc_probability = 1.0f;
  params.xtc_threshold = 0.15f;
  EXPECT_THAT(ids_left(params, logits_of(p)), ElementsAre(4, 1, 5, 3));
  params.xtc_threshold = 0.28f;  // One top choice stays.
  EXPECT_THAT(ids_left(params, logits_of(p)), ElementsAre(0, 2, 4, 1, 5, 3));
  params.xtc_threshold = 0.6f;
  EXPECT_EQ(ids_left(params, logits_of(p)).size(), 6u);
}

TEST(Sampler, XtcHappensAsOftenAsItShould) {
  SamplerParams params = neutral();
  params.xtc_probability = 0.3f;
  params.xtc_threshold = 0.15f;
  const auto logits = logits_of({0.4, 0.3, 0.3});
  Sampler sampler(params, 3);
  int n_cut = 0;
  const int n = 20'000;
  for (int i = 0; i < n; ++i) {
    sampler.sample(logits);
    n_cut += sampler.candidates().size() == 1 ? 1 : 0;
  }
  EXPECT_NEAR(n_cut, 0.3 * n, 4.0 * std::sqrt(n * 0.3 * 0.7));
}

}  // namespace
}  // namespace weft
