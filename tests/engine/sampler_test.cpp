// The chain of steps compared with its definition: distributions computed by hand, or by a slow and simple
// reference that sorts everything and uses double. Frequencies of draws are tested by chi-square with fixed
// seeds.
#include "weft/sampler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <numeric>
#include <random>
#include <set>

#include "engine/allocation_counter.h"
#include "engine/sampler_testing.h"
#include "engine/sampling/best.h"
#include "engine/sampling/random.h"
#include "weft/error.h"

namespace weft {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(Sampler, NeutralValuesDoNothing) {
  const auto logits = random_logits(300, 1);
  expect_near(distribution(neutral(), logits), plain(logits));
  // With earlier tokens, too.
  SamplerParams params = neutral();
  params.penalty_last_n = -1;
  expect_near(distribution(params, logits, {5, 6, 5, 6, 5}), plain(logits));
  params.repetition_penalty = 2.0f;
  params.penalty_last_n = 0;
  params.dry_multiplier = 1.0f;
  params.dry_penalty_last_n = 0;
  expect_near(distribution(params, logits, {5, 6, 5, 6, 5}), plain(logits));
}

TEST(Sampler, GreedyTakesTheLargestAndTheLowestIdAmongEquals) {
  SamplerParams params;
  params.temperature = 0.0f;
  for (std::size_t n : {1u, 2u, 5u, 127u, 128u, 129u, 256u, 1000u, 4099u}) {
    for (unsigned seed = 0; seed < 20; ++seed) {
      auto logits = random_logits(n, seed, 20.0f);
      if (seed % 3 == 0) logits[seed % n] = kNan;
      if (seed % 5 == 0) logits[(seed * 7) % n] = kInf;
      std::size_t best = 0;
      const auto value = [&](std::size_t i) { return std::isnan(logits[i]) ? -kInf : logits[i]; };
      for (std::size_t i = 1; i < n; ++i) best = value(i) > value(best) ? i : best;
      Sampler sampler(params, static_cast<int>(n));
      EXPECT_EQ(sampler.sample(logits), static_cast<Token>(best)) << n << " " << seed;
      ASSERT_EQ(sampler.candidates().size(), 1u);
      EXPECT_EQ(sampler.candidates()[0].id, static_cast<Token>(best));
      EXPECT_EQ(sampler.candidates()[0].probability, 1.0f);
    }
  }
}

TEST(Sampler, GreedyStillPenalises) {
  SamplerParams params;
  params.temperature = -1.0f;
  params.repetition_penalty = 2.0f;
  Sampler sampler(params, 3);
  const std::vector<float> logits = {4.0f, 3.0f, -1.0f};
  EXPECT_EQ(sampler.sample(logits), 0);
  sampler.accept(0);
  EXPECT_EQ(sampler.sample(logits), 1);  // 4 / 2 < 3
  params.repetition_penalty = 1.0f;
  params.logit_bias = {{2, 100.0f}};
  EXPECT_EQ(Sampler(params, 3).sample(logits), 2);
}

TEST(Sampler, TemperatureDividesLogits) {
  const std::vector<float> logits = {1.0f, 2.0f, 4.0f};
  SamplerParams params = neutral();
  params.temperature = 0.5f;
  expect_near(distribution(params, logits), softmax({2.0, 4.0, 8.0}));
  params.temperature = 4.0f;
  expect_near(distribution(params, logits), softmax({0.25, 0.5, 1.0}));
  params.temperature = 1e-40f;  // Divisions overflow.
  expect_near(distribution(params, {100.0f, 100.5f, -50.0f}), {0.0, 1.0, 0.0});
  params.temperature = 1e9f;
  expect_near(distribution(params, logits), {1.0 / 3, 1.0 / 3, 1.0 / 3}, 1e-6);
}

TEST(Sampler, DynamicTemperatureFollowsTheEntropy) {
  const std::vector<float> logits = {1.0f, 2.0f, 4.0f, 0.0f};
  SamplerParams params = neutral();
  params.temperature = 1.0f;
  params.dynamic_temperature_range = 0.6f;
  params.dynamic_temperature_exponent = 2.0f;
  const auto p = plain(logits);
  double entropy = 0.0;
  for (double value : p) entropy -= value * std::log(value);
  const double temperature = 0.4 + 1.2 * std::pow(entropy / std::log(4.0), 2.0);
  expect_near(distribution(params, logits),
              softmax({1 / temperature, 2 / temperature, 4 / temperature, 0.0}));
  // A flat distribution gets the highest, a sharp one the lowest temperature.
  params.dynamic_temperature_range = 2.0f;
  expect_near(distribution(params, {0.0f, -1000.0f}), {1.0, 0.0});
}

TEST(Sampler, LogitBiasAddsAndBans) {
  SamplerParams params = neutral();
  params.logit_bias = {{0, 1.5f}, {0, 0.5f}, {2, -kInf}};
  expect_near(distribution(params, {1.0f, 2.0f, 90.0f}), restricted(softmax({3.0, 2.0, 0.0}), {0, 1}));
}

TEST(Sampler, OrderOfStepsMatters) {
  const auto logits = logits_of({0.5, 0.3, 0.15, 0.05});
  SamplerParams params = neutral();
  params.top_k = 2;
  params.top_p = 0.6f;
  // Two are left, 0.625 and 0.375: the first reaches 0.6.
  params.steps = {SamplerStep::kTopK, SamplerStep::kTopP};
  EXPECT_THAT(ids_left(params, logits), ElementsAre(0));
  params.steps = {SamplerStep::kTopP, SamplerStep::kTopK};
  EXPECT_THAT(ids_left(params, logits), ElementsAre(0, 1));

  params.temperature = 3.0f;
  params.top_k = 0;
  params.steps = {SamplerStep::kTemperature, SamplerStep::kTopP};
  EXPECT_THAT(ids_left(params, logits), ElementsAre(0, 1));
  params.steps = {SamplerStep::kTopP, SamplerStep::kTemperature};
  EXPECT_THAT(ids_left(params, logits), ElementsAre(0, 1));
  params.top_p = 0.45f;
  EXPECT_THAT(ids_left(params, logits), ElementsAre(0));
  params.steps = {SamplerStep::kTemperature, SamplerStep::kTopP};
  EXPECT_THAT(ids_left(params, logits), ElementsAre(0, 1));

  // Penalties after a cut change only the remaining tokens.
  params = neutral();
  params.top_k = 2;
  params.presence_penalty = 10.0f;
  params.steps = {SamplerStep::kTopK, SamplerStep::kPenalties};
  EXPECT_THAT(ids_left(params, logits, {0}), ElementsAre(1, 0));
  params.steps = {SamplerStep::kPenalties, SamplerStep::kTopK};
  EXPECT_THAT(ids_left(params, logits, {0}), ElementsAre(1, 2));
  params.steps = {};
  expect_near(distribution(params, logits, {0}), {0.5, 0.3, 0.15, 0.05});
}

TEST(Sampler, PenaltiesBehindACutEqualThoseBefore) {
  const auto logits = random_logits(50, 9);
  SamplerParams params = neutral();
  params.repetition_penalty = 1.7f;
  params.dry_multiplier = 0.5f;
  params.top_n_sigma = 1e6f;  // Cuts nothing but makes the list.
  const std::vector<Token> text = {1, 2, 3, 9, 1, 2, 3, 9, 1, 2};
  params.steps = {SamplerStep::kPenalties, SamplerStep::kDry, SamplerStep::kTopNSigma};
  const auto before = distribution(params, logits, text);
  params.steps = {SamplerStep::kTopNSigma, SamplerStep::kPenalties, SamplerStep::kDry};
  EXPECT_EQ(distribution(params, logits, text), before);
}

// Chi-square of counts against probabilities; the bound is the 99.99 % point for the degrees of freedom.
void expect_frequencies(const std::map<Token, int>& counts, const std::vector<double>& p, int n) {
  double chi_square = 0.0;
  int n_possible = 0;
  for (std::size_t i = 0; i < p.size(); ++i) {
    const auto found = counts.find(static_cast<Token>(i));
    const int count = found == counts.end() ? 0 : found->second;
    if (p[i] <= 0.0) {
      EXPECT_EQ(count, 0) << "id " << i;
      continue;
    }
    ++n_possible;
    chi_square += (count - n * p[i]) * (count - n * p[i]) / (n * p[i]);
  }
  const double freedom = n_possible - 1;
  // Wilson and Hilferty's approximation, 3.72 standard deviations.
  const double bound =
      freedom * std::pow(1.0 - 2.0 / (9.0 * freedom) + 3.72 * std::sqrt(2.0 / (9.0 * freedom)), 3.0);
  EXPECT_LT(chi_square, bound) << "with " << freedom << " degrees of freedom";
}

TEST(Sampler, DrawsAsOftenAsTheProbabilitiesSay) {
  const std::vector<double> p = {0.02, 0.3, 0.08, 0.0, 0.25, 0.35};
  auto logits = logits_of(p);
  for (int top_k : {0, 6, 3}) {
    SamplerParams params = neutral();
    params.seed = 42;
    params.top_k = top_k;
    Sampler sampler(params, 6);
    std::map<Token, int> counts;
    const int n = 50'000;
    for (int i = 0; i < n; ++i) ++counts[sampler.sample(logits)];
    expect_frequencies(counts, top_k == 3 ? restricted(p, {1, 4, 5}) : p, n);
  }
}

TEST(Sampler, DrawsFromALongTail) {
  const auto logits = random_logits(400, 21, 2.0f);
  SamplerParams params = neutral();
  params.seed = 7;
  Sampler sampler(params, 400);
  std::map<Token, int> counts;
  for (int i = 0; i < 60'000; ++i) ++counts[sampler.sample(logits)];
  expect_frequencies(counts, plain(logits), 60'000);
}

TEST(Sampler, TheSeedDecides) {
  const auto logits = random_logits(100, 2);
  const auto draws = [&](Sampler& sampler) {
    std::vector<Token> ids;
    for (int i = 0; i < 50; ++i) ids.push_back(sampler.sample(logits));
    return ids;
  };
  SamplerParams params = neutral();
  params.seed = 5;
  Sampler a(params, 100), b(params, 100);
  const auto first = draws(a);
  EXPECT_EQ(draws(b), first);
  EXPECT_NE(draws(a), first);
  a.reset();
  EXPECT_EQ(draws(a), first);
  params.seed = 6;
  Sampler c(params, 100);
  EXPECT_NE(draws(c), first);
  params.seed = SamplerParams::kRandomSeed;
  Sampler d(params, 100), e(params, 100);
  EXPECT_NE(d.seed(), e.seed());
  EXPECT_NE(d.seed(), SamplerParams::kRandomSeed);
  const auto random_draws = draws(d);
  d.reset();
  EXPECT_EQ(draws(d), random_draws);
  d.reset();
  Sampler moved = std::move(d);
  EXPECT_EQ(draws(moved), random_draws);
}

// The generator written out once more, from the published first outputs of splitmix64 for the seed 0.
TEST(Random, IsXoshiroSeededBySplitmix) {
  std::uint64_t s[4] = {0xe220a8397b1dcdafu, 0x6e789e6aa1b965f4u, 0x06c45d188009454fu, 0xf88bb8a8724c81ecu};
  const auto rotated = [](std::uint64_t x, int k) { return x << k | x >> (64 - k); };
  engine::Random random(0);
  for (int i = 0; i < 100; ++i) {
    const std::uint64_t expected = rotated(s[1] * 5, 7) * 9, t = s[1] << 17;
    s[2] ^= s[0], s[3] ^= s[1], s[1] ^= s[2], s[0] ^= s[3], s[2] ^= t, s[3] = rotated(s[3], 45);
    EXPECT_EQ(random.next(), expected);
  }
  engine::Random uniform(3);
  double sum = 0.0;
  for (int i = 0; i < 10'000; ++i) {
    const double value = uniform.uniform();
    ASSERT_GE(value, 0.0);
    ASSERT_LT(value, 1.0);
    sum += value;
  }
  EXPECT_NEAR(sum / 10'000, 0.5, 0.015);
}

TEST(Sampler, BadLogitsGiveAValidToken) {
  std::vector<SamplerParams> all(8, neutral());
  all[1].top_k = 2;
  all[2] = {};
  all[2].seed = 3;
  all[3].temperature = 0.0f;
  all[4].typical_p = 0.5f;
  all[4].top_p = 0.5f;
  all[5].top_n_sigma = 1.0f;
  all[5].xtc_probability = 1.0f;
  all[5].dynamic_temperature_range = 1.0f;
  all[6].mirostat = 1;
  all[7].mirostat = 2;
  for (std::size_t i = 0; i < all.size(); ++i) {
    SCOPED_TRACE(i);
    Sampler sampler(all[i], 5);
    for (int round = 0; round < 20; ++round) {
      for (const std::vector<float>& logits :
           {std::vector<float>(5, -kInf), std::vector<float>(5, kNan), std::vector<float>(5, kInf),
            std::vector<float>(5, 3e38f), std::vector<float>(5, -3e38f)}) {
        const Token id = sampler.sample(logits);
        EXPECT_GE(id, 0);
        EXPECT_LT(id, 5);
        sampler.accept(id);
      }
      EXPECT_EQ(sampler.sample(std::vector<float>{kNan, -kInf, 1.0f, kNan, -kInf}), 2);
      EXPECT_EQ(sampler.sample(std::vector<float>{kNan, 5.0f, 1.0f, kInf, -kInf}), 3);
    }
  }
}

TEST(Sampler, RejectsInvalidParameters) {
  const auto refused = [](const std::function<void(SamplerParams&)>& change) -> std::string {
    SamplerParams params;
    change(params);
    try {
      Sampler(params, 10);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
      return error.what();
    }
    return "accepted";
  };
  using P = SamplerParams;
  EXPECT_EQ(refused([](P&) {}), "accepted");
  EXPECT_THAT(refused([](P& p) { p.temperature = kNan; }), HasSubstr("temperature"));
  EXPECT_THAT(refused([](P& p) { p.temperature = kInf; }), HasSubstr("temperature"));
  EXPECT_THAT(refused([](P& p) { p.top_p = 1.5f; }), HasSubstr("top_p"));
  EXPECT_THAT(refused([](P& p) { p.top_p = -0.1f; }), HasSubstr("top_p"));
  EXPECT_THAT(refused([](P& p) { p.min_p = kNan; }), HasSubstr("min_p"));
  EXPECT_THAT(refused([](P& p) { p.typical_p = 2.0f; }), HasSubstr("typical_p"));
  EXPECT_THAT(refused([](P& p) { p.top_n_sigma = kNan; }), HasSubstr("top_n_sigma"));
  EXPECT_THAT(refused([](P& p) { p.xtc_probability = 1.1f; }), HasSubstr("xtc_probability"));
  EXPECT_THAT(refused([](P& p) { p.xtc_threshold = -1.0f; }), HasSubstr("xtc_threshold"));
  EXPECT_THAT(refused([](P& p) { p.mirostat = 3; }), HasSubstr("mirostat"));
  EXPECT_THAT(refused([](P& p) { p.mirostat_eta = kInf; }), HasSubstr("mirostat_eta"));
  EXPECT_THAT(refused([](P& p) { p.penalty_last_n = -2; }), HasSubstr("penalty_last_n"));
  EXPECT_THAT(refused([](P& p) { p.repetition_penalty = 0.0f; }), HasSubstr("repetition_penalty"));
  EXPECT_THAT(refused([](P& p) { p.frequency_penalty = kNan; }), HasSubstr("frequency_penalty"));
  EXPECT_THAT(refused([](P& p) { p.dry_multiplier = -1.0f; }), HasSubstr("dry_multiplier"));
  EXPECT_THAT(refused([](P& p) { p.dry_allowed_length = -1; }), HasSubstr("dry_allowed_length"));
  EXPECT_THAT(refused([](P& p) { p.dry_breakers = {"a", ""}; }), HasSubstr("breaker is empty"));
  EXPECT_THAT(refused([](P& p) { p.logit_bias = {{-1, 0.0f}}; }), HasSubstr("token -1"));
  EXPECT_THAT(refused([](P& p) { p.logit_bias = {{1, kNan}}; }), HasSubstr("logit bias"));
  EXPECT_THAT(refused([](P& p) { p.logit_bias = {{1, kInf}}; }), HasSubstr("logit bias"));
  EXPECT_THAT(refused([](P& p) { p.steps = {SamplerStep::kTopK, static_cast<SamplerStep>(99)}; }),
              HasSubstr("unknown step 99"));
  EXPECT_THAT(refused([](P& p) { p.steps.assign(1000, SamplerStep::kTopK); }), HasSubstr("1000 steps"));
  for (const float base : {0.0f, 0.5f, kNan})
    EXPECT_THAT(refused([=](P& p) { p.dry_base = base; }), HasSubstr("dry_base"));
  EXPECT_THAT(refused([](P& p) { p.dry_breakers.emplace(17, std::string(1000, 'a')); }),
              HasSubstr("17000 bytes"));
  EXPECT_EQ(refused([](P& p) { p.dry_breakers.emplace(16, std::string(1000, 'a')); }), "accepted");
  EXPECT_THAT(refused([](P& p) { p.logit_bias.assign(11, {1, 1.0f}); }), HasSubstr("11 entries"));
  const auto ban = [](int n) {
    return [n](P& p) {
      for (Token id = 0; id < n; ++id) p.logit_bias.emplace_back(id, -kInf);
    };
  };
  EXPECT_THAT(refused(ban(10)), HasSubstr("bans all"));
  EXPECT_EQ(refused(ban(9)), "accepted");
  EXPECT_THROW(Sampler(SamplerParams(), 0), Error);
  Sampler sampler(SamplerParams(), 10);
  EXPECT_THROW(sampler.sample(std::vector<float>(9)), Error);
  EXPECT_THROW(sampler.accept(10), Error);
  EXPECT_THROW(sampler.accept(-1), Error);
}

TEST(Sampler, NeverDrawsBannedTokens) {
  // Minus infinity and no number are all that the bias has left.
  const std::vector<float> logits = {1.0f, -kInf, kNan, 2.0f};
  for (const float temperature : {0.0f, 1.0f}) {
    SamplerParams params;
    params.temperature = temperature;
    params.logit_bias = {{0, -kInf}, {3, -kInf}};
    Sampler sampler(params, 4);
    EXPECT_THROW(sampler.sample(logits), Error);
    EXPECT_EQ(sampler.sample(std::vector<float>{1.0f, -3.0f, kNan, 2.0f}), 1);
    params.logit_bias = {{0, -3e38f}, {0, -3e38f}, {1, -3e38f}, {1, -3e38f}};  // As good as banned.
    Sampler twice(params, 4);
    EXPECT_EQ(twice.sample(std::vector<float>{1.0f, 1.0f, -kInf, -5.0f}), 3);
    EXPECT_THROW(twice.sample(std::vector<float>{1.0f, 1.0f, -kInf, kNan}), Error);
  }
}

TEST(Sampler, MovedFromSamplersThrow) {
  Sampler sampler({.seed = 5}, 4);
  Sampler other = std::move(sampler);
  EXPECT_EQ(other.seed(), 5u);
  const std::vector<float> logits(4);
  const std::vector<Best> best(4, Best{1, 0.0f});
  const std::function<void()> uses[] = {[&] { sampler.sample(logits); }, [&] { sampler.sample(best); },
                                        [&] { sampler.n_best(); },       [&] { sampler.accept(1); },
                                        [&] { sampler.reset(); },        [&] { sampler.seed(); },
                                        [&] { sampler.candidates(); }};
  for (const auto& use : uses) EXPECT_THROW(use(), Error);
  sampler = std::move(other);
  EXPECT_EQ(sampler.seed(), 5u);
}

TEST(Sampler, StepsHaveNames) {
  const std::vector<SamplerStep> all = SamplerParams().steps;
  std::string text;
  for (SamplerStep step : all) text += std::string(to_string(step)) + (text.size() % 2 == 0 ? ";" : ", ");
  EXPECT_EQ(parse_sampler_steps(text), all);
  EXPECT_EQ(parse_sampler_steps("top_k temperature"),
            (std::vector<SamplerStep>{SamplerStep::kTopK, SamplerStep::kTemperature}));
  EXPECT_EQ(
      parse_sampler_steps("typical;temp;typical_p"),
      (std::vector<SamplerStep>{SamplerStep::kTypical, SamplerStep::kTemperature, SamplerStep::kTypical}));
  EXPECT_EQ(parse_sampler_letters("edskypmxt"), all);
  EXPECT_TRUE(parse_sampler_letters("").empty());
  EXPECT_THAT([] { parse_sampler_letters("kq"); },
              testing::ThrowsMessage<Error>(HasSubstr("\"q\"; known are e (penalties)")));
  EXPECT_TRUE(parse_sampler_steps(" ;, ").empty());
  try {
    parse_sampler_steps("top_k;topp");
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("\"topp\""));
    EXPECT_THAT(error.what(), HasSubstr("typ_p"));
  }
}

// Mirostat 2 with the paper's algorithm written out over a sorted list.
TEST(Sampler, MirostatTwoFollowsTheSurprise) {
  const auto logits = random_logits(200, 4, 6.0f);
  SamplerParams params = neutral();
  params.mirostat = 2;
  params.mirostat_tau = 3.0f;
  params.mirostat_eta = 0.2f;
  params.top_k = 1;  // Replaced by mirostat.
  Sampler sampler(params, 200);
  const auto p = plain(logits);
  double mu = 6.0;
  for (int i = 0; i < 200; ++i) {
    std::set<std::size_t> kept;
    for (std::size_t id = 0; id < p.size(); ++id) {
      if (-std::log2(p[id]) <= mu) kept.insert(id);
    }
    if (kept.empty()) kept.insert(ranking(p).front());
    const auto expected = restricted(p, kept);
    const Token id = sampler.sample(logits);
    ASSERT_EQ(sampler.candidates().size(), kept.size()) << i;
    ASSERT_TRUE(kept.contains(static_cast<std::size_t>(id)));
    if (i % 3 == 2) continue;  // What is not accepted has no effect.
    sampler.accept(id);
    mu -= 0.2 * (-std::log2(expected[static_cast<std::size_t>(id)]) - 3.0);
  }
}

TEST(Sampler, MirostatHoldsTheSurpriseNearItsTarget) {
  for (int version : {1, 2}) {
    // Zipf's law, as the first version takes for granted.
    std::vector<float> logits(5000);
    for (std::size_t i = 0; i < logits.size(); ++i) logits[i] = -1.1f * std::log(static_cast<float>(i + 1));
    const auto p = plain(logits);
    SamplerParams params = neutral();
    params.mirostat = version;
    params.mirostat_tau = 4.0f;
    Sampler sampler(params, 5000);
    double surprise = 0.0;
    const int n = 2000;
    for (int i = 0; i < n; ++i) {
      const Token id = sampler.sample(logits);
      for (const Candidate& candidate : sampler.candidates()) {
        if (candidate.id == id) surprise -= std::log2(static_cast<double>(candidate.probability));
      }
      sampler.accept(id);
    }
    EXPECT_NEAR(surprise / n, 4.0, 0.1) << "version " << version;
  }
}

TEST(Sampler, PromptTokensDoNotMoveMirostat) {
  SamplerParams params = neutral();
  params.mirostat = 2;
  const auto logits = random_logits(100, 8);
  Sampler a(params, 100), b(params, 100);
  for (Token id = 0; id < 50; ++id) b.accept(id);
  for (int i = 0; i < 20; ++i) {
    const Token id = a.sample(logits);
    EXPECT_EQ(b.sample(logits), id);
    a.accept(id), b.accept(id);
  }
}

TEST(Sampler, DoesNotAllocateAfterTheFirstCall) {
  if (!test::kCountsAllocations) GTEST_SKIP() << "sanitizers bring their own operator new";
  const auto logits = random_logits(3000, 6);
  std::vector<SamplerParams> all(5);
  all[1] = neutral();
  all[1].typical_p = 0.9f;
  all[1].top_p = 0.9f;
  all[1].xtc_probability = 0.5f;
  all[2].mirostat = 1;
  all[3].temperature = 0.0f;
  all[4].top_k = 2000;
  for (SamplerParams& params : all) {
    params.seed = 1;
    params.repetition_penalty = 1.1f;
    params.dry_multiplier = 0.5f;
    params.logit_bias = {{1, 1.0f}};
    Sampler sampler(params, 3000);
    sampler.sample(logits);
    for (int i = 0; i < 100; ++i) {
      const long before = test::n_allocations();
      const Token id = sampler.sample(logits);
      EXPECT_EQ(test::n_allocations() - before, 0);
      sampler.accept(id);
    }
  }
}

TEST(Sampler, WeighsLittleBeforeItDraws) {
  if (!test::kCountsAllocations) GTEST_SKIP() << "sanitizers bring their own operator new";
  constexpr int kVocab = 262'144;
  SamplerParams params;
  params.repetition_penalty = 1.1f;
  params.dry_multiplier = 0.5f;
  params.mirostat = 2;
  const long before = test::n_allocated_bytes();
  Sampler sampler(params, kVocab);
  for (Token id = 0; id < 1000; ++id) sampler.accept(id);
  const long idle = test::n_allocated_bytes() - before;
  EXPECT_LT(idle, 32 << 10);
  // What it saved is taken when it draws: the count sees such things.
  sampler.sample(std::vector<float>(kVocab));
  EXPECT_GT(test::n_allocated_bytes() - before, kVocab);
}

/// The best of logits, as a context gives them.
std::vector<Best> best_of(const std::vector<float>& logits, std::size_t n) {
  std::vector<Best> best(n);
  engine::find_best(logits, best);
  return best;
}

TEST(Sampler, NBestSaysHowManySuffice) {
  const auto n_best = [](const std::function<void(SamplerParams&)>& change) {
    SamplerParams params;
    change(params);
    return Sampler(params, 100).n_best();
  };
  EXPECT_EQ(n_best([](auto&) {}), 40);  // The default chain begins with its top-k.
  EXPECT_EQ(n_best([](auto& p) { p.top_k = 7; }), 7);
  EXPECT_EQ(n_best([](auto& p) { p.top_k = 100; }), 0);  // That is all of them.
  EXPECT_EQ(n_best([](auto& p) { p.top_k = 0; }), 0);
  EXPECT_EQ(n_best([](auto& p) { p.temperature = 0.0f; }), 1);
  EXPECT_EQ(n_best([](auto& p) { p.temperature = 0.0f, p.mirostat = 2; }), 1);
  EXPECT_EQ(n_best([](auto& p) { p.mirostat = 2; }), 0);
  EXPECT_EQ(n_best([](auto& p) { p.typical_p = 0.5f; }), 40);  // Behind top-k.
  EXPECT_EQ(n_best([](auto& p) { p.top_n_sigma = 1.0f; }), 0);
  EXPECT_EQ(n_best([](auto& p) { p.repetition_penalty = 1.1f; }), 0);
  EXPECT_EQ(n_best([](auto& p) { p.dry_multiplier = 1.0f; }), 0);
  EXPECT_EQ(n_best([](auto& p) { p.logit_bias = {{1, 1.0f}}; }), 0);
  EXPECT_EQ(n_best([](auto& p) { p.temperature = 0.0f, p.presence_penalty = 0.1f; }), 0);
  const auto steps = [&](const char* text, float penalty) {
    return n_best([&](auto& p) { p.steps = parse_sampler_steps(text), p.repetition_penalty = penalty; });
  };
  EXPECT_EQ(steps("top_k;penalties", 1.1f), 40);
  EXPECT_EQ(steps("top_p;top_k", 1.0f), 0);
  EXPECT_EQ(steps("temperature;top_k", 1.0f), 0);
  EXPECT_EQ(steps("top_p;min_p", 1.0f), 0);
  EXPECT_EQ(steps("", 1.0f), 0);
}

TEST(Sampler, TheBestGiveTheDrawsOfAllLogits) {
  std::mt19937 random(17);
  for (int round = 0; round < 300; ++round) {
    SamplerParams params;
    params.seed = random() % 1000;
    params.top_k = 1 + static_cast<int>(random() % 50);
    if (round % 8 == 4) params.temperature = 0.0f;
    if (round % 5 == 0) params.typical_p = 0.7f;
    if (round % 6 == 0) params.xtc_probability = 0.5f;
    if (round % 7 == 0) params.dynamic_temperature_range = 0.3f;
    if (round % 8 == 0) {
      params.steps = parse_sampler_steps("top_k;penalties;dry;temperature");
      params.repetition_penalty = 1.3f;
      params.dry_multiplier = 0.8f;
    }
    constexpr int kVocab = 400;
    Sampler of_all(params, kVocab), of_best(params, kVocab);
    const int n = of_best.n_best();
    ASSERT_GT(n, 0) << round;
    for (int i = 0; i < 20; ++i) {
      std::vector<float> logits = random_logits(kVocab, random());
      for (float& logit : logits) {
        if (random() % 30 == 0) logit = kNan;
        if (random() % 30 == 0) logit = -kInf;
        if (i % 5 == 4 && random() % 100 == 0) logit = kInf;
      }
      if (i % 10 == 7) std::fill(logits.begin(), logits.end(), i == 7 ? kNan : -kInf);
      const Token token = of_all.sample(logits);
      // More than needed change nothing.
      ASSERT_EQ(of_best.sample(best_of(logits, static_cast<std::size_t>(n + i % 3))), token) << round;
      const auto a = of_all.candidates(), b = of_best.candidates();
      ASSERT_EQ(a.size(), b.size()) << round;
      for (std::size_t c = 0; c < a.size(); ++c) {
        EXPECT_EQ(a[c].id, b[c].id);
        EXPECT_EQ(a[c].logit, b[c].logit);
        EXPECT_EQ(a[c].probability, b[c].probability);
      }
      of_all.accept(token);
      of_best.accept(token);
    }
  }
}

/// Bits by chance, each with this share of ones.
std::vector<std::uint32_t> random_mask(std::size_t n_vocab, double share, std::mt19937& random) {
  std::vector<std::uint32_t> mask((n_vocab + 31) / 32);
  for (std::uint32_t& word : mask) {
    for (std::size_t bit = 0; bit < 32; ++bit)
      if (static_cast<double>(random() % 1000) < share * 1000.0) word |= 1u << bit;
    if (random() % 4 == 0) word = random() % 2 == 0 ? ~0u : 0u;
  }
  return mask;
}

bool is_allowed(std::span<const std::uint32_t> mask, Token id) {
  return (mask[static_cast<std::size_t>(id) / 32] >> static_cast<std::size_t>(id) % 32 & 1u) != 0;
}

TEST(Sampler, AMaskIsMinusInfinityInTheLogits) {
  std::mt19937 random(21);
  std::vector<SamplerParams> all(9);
  all[1] = neutral();
  all[2].temperature = 0.0f;
  all[3].repetition_penalty = 1.3f;
  all[4].logit_bias = {{3, 2.0f}, {20, -kInf}};
  all[5].mirostat = 1;
  all[6].mirostat = 2;
  all[7].typical_p = 0.5f;
  all[7].top_k = 0;
  all[8].dynamic_temperature_range = 0.5f;
  all[8].xtc_probability = 0.5f;
  for (SamplerParams& params : all) {
    params.seed = 4;
    for (const int n_vocab : {33, 64, 1000}) {
      Sampler masked(params, n_vocab), banned(params, n_vocab), of_best(params, n_vocab);
      int n_of_best = 0;
      for (int i = 0; i < 60; ++i) {
        const auto logits = random_logits(static_cast<std::size_t>(n_vocab), random(), 4.0f);
        auto mask = random_mask(logits.size(), i % 3 == 0 ? 0.1 : 0.9, random);
        mask[0] |= 1u;
        std::vector<float> by_hand = logits;
        for (Token id = 0; id < n_vocab; ++id)
          if (!is_allowed(mask, id)) by_hand[static_cast<std::size_t>(id)] = -kInf;
        const Token drawn = masked.sample(logits, mask);
        EXPECT_TRUE(is_allowed(mask, drawn));
        ASSERT_EQ(drawn, banned.sample(by_hand));
        EXPECT_TRUE(
            std::ranges::equal(masked.candidates(), banned.candidates(), {}, &Candidate::id, &Candidate::id));
        // The best suffice only if enough of them are allowed; otherwise they change nothing.
        if (of_best.n_best() > 0) {
          const std::size_t n = std::min<std::size_t>(logits.size(), 64);
          if (const auto token = of_best.sample(best_of(logits, n), mask)) {
            ASSERT_EQ(*token, drawn);
            ++n_of_best;
          } else {
            ASSERT_EQ(of_best.sample(logits, mask), drawn);
          }
        }
        for (Sampler* sampler : {&masked, &banned, &of_best}) sampler->accept(drawn);
      }
      if (of_best.n_best() == 1) {
        EXPECT_GT(n_of_best, 30);
      }
    }
  }
}

TEST(Sampler, AMaskThatLeavesNothingIsRefused) {
  const std::vector<float> logits = {1.0f, -kInf, kNan, 2.0f};
  for (const float temperature : {0.0f, 1.0f}) {
    SamplerParams params;
    params.temperature = temperature;
    params.top_k = 2;
    Sampler sampler(params, 4);
    const auto draw = [&](std::uint32_t bits) { return sampler.sample(logits, std::vector{bits}); };
    EXPECT_THROW(draw(0), Error);
    EXPECT_THROW(draw(0b0110), Error);    // Nothing that has a chance.
    EXPECT_THROW(draw(~0b1111u), Error);  // No token at all.
    EXPECT_EQ(draw(0b0111), 0);
    EXPECT_EQ(draw(0b1110), 3);
    EXPECT_THROW(sampler.sample(logits, std::vector<std::uint32_t>(2)), Error);
    EXPECT_THROW(sampler.sample(logits, std::vector<std::uint32_t>()), Error);
    const std::vector<Best> best = best_of(logits, 4);
    EXPECT_EQ(sampler.sample(best, std::vector<std::uint32_t>{0}), std::nullopt);
    EXPECT_EQ(sampler.sample(best, std::vector<std::uint32_t>{0b0110}), std::nullopt);
    EXPECT_THROW(sampler.sample(best, std::vector<std::uint32_t>(2)), Error);
    params.logit_bias = {{3, -kInf}};
    Sampler biased(params, 4);
    EXPECT_THROW(biased.sample(logits, std::vector<std::uint32_t>{0b1000}), Error);
    EXPECT_THROW(biased.sample(best, std::vector<std::uint32_t>{0b0111}), Error);
  }
}

TEST(Sampler, TooFewOfTheBestAreRefused) {
  SamplerParams params;
  params.top_k = 3;
  Sampler sampler(params, 10);
  const std::vector<Best> best = {{1, 3.0f}, {2, 2.0f}, {10, 1.0f}};
  EXPECT_THROW(sampler.sample(std::span(best).first(2)), Error);
  EXPECT_THROW(sampler.sample(best), Error);  // Token 10 does not exist.
  EXPECT_THROW(Sampler(neutral(), 10).sample(std::span(best).first(2)), Error);
}

}  // namespace
}  // namespace weft
