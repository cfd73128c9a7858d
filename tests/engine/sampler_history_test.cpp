// Penalties for what the text has already, against their definitions.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "engine/allocation_counter.h"
#include "engine/sampler_testing.h"
#include "engine/sampling/dry_breakers.h"

namespace weft {
namespace {

TEST(Sampler, PenaltiesByHand) {
  SamplerParams params = neutral();
  params.repetition_penalty = 2.0f;
  params.frequency_penalty = 0.25f;
  params.presence_penalty = 0.5f;
  const std::vector<float> logits = {4.0f, -1.0f, 0.0f, 3.0f};
  // Token 0 three times, token 1 once, token 2 twice.
  const std::vector<Token> text = {0, 0, 1, 2, 0, 2};
  expect_near(logits_left(params, logits, text), {2.0 - 0.75 - 0.5, -2.0 - 0.25 - 0.5, 0.0 - 0.5 - 0.5, 3.0});
  params.penalty_last_n = 3;  // 2 0 2
  expect_near(logits_left(params, logits, text), {2.0 - 0.25 - 0.5, -1.0, -1.0, 3.0});
  params.penalty_last_n = -1;
  expect_near(logits_left(params, logits, text), {0.75, -2.75, -1.0, 3.0});
}

TEST(Sampler, PenaltyWindowSlides) {
  std::mt19937 random(5);
  const std::size_t n_vocab = 12;
  for (int last_n : {1, 2, 7, 64, -1}) {
    SamplerParams params = neutral();
    params.penalty_last_n = last_n;
    params.frequency_penalty = 1.0f;
    Sampler sampler(params, static_cast<int>(n_vocab));
    const std::vector<float> logits(n_vocab, 0.0f);
    std::vector<Token> text;
    for (int i = 0; i < 150; ++i) {
      text.push_back(static_cast<Token>(random() % n_vocab));
      sampler.accept(text.back());
      if (i == 70) {
        sampler.reset();
        text.clear();
      }
      sampler.sample(logits);
      std::vector<double> expected(n_vocab, 0.0), actual(n_vocab, 0.0);
      const std::size_t n =
          last_n < 0 ? text.size() : std::min(text.size(), static_cast<std::size_t>(last_n));
      for (std::size_t j = text.size() - n; j < text.size(); ++j)
        expected[static_cast<std::size_t>(text[j])] -= 1.0;
      for (const Candidate& candidate : sampler.candidates()) {
        actual[static_cast<std::size_t>(candidate.id)] = static_cast<double>(candidate.logit);
      }
      expect_near(actual, expected);
    }
  }
}

// The definition, word by word: for each earlier place, how long a copy of the text's end ends there.
std::vector<double> dry_by_definition(const SamplerParams& params, std::size_t n_vocab,
                                      std::vector<Token> text) {
  if (params.dry_penalty_last_n >= 0 && text.size() > static_cast<std::size_t>(params.dry_penalty_last_n)) {
    text.erase(text.begin(), text.end() - params.dry_penalty_last_n);
  }
  std::size_t limit = text.size();  // Tokens behind the last breaker.
  for (const auto& breaker : params.dry_breakers) {
    for (std::size_t end = breaker.size(); end <= text.size(); ++end) {
      if (std::equal(breaker.begin(), breaker.end(),
                     text.begin() + static_cast<std::ptrdiff_t>(end - breaker.size()))) {
        limit = std::min(limit, text.size() - end);
      }
    }
  }
  std::vector<double> penalty(n_vocab, 0.0);
  for (std::size_t next = 1; next < text.size(); ++next) {
    std::size_t length = 0;  // Of text[.. next) and text[.. size) in common.
    while (length < next && text[next - 1 - length] == text[text.size() - 1 - length]) ++length;
    length = std::min(length, limit);
    if (length == 0 || static_cast<int>(length) < params.dry_allowed_length) continue;
    double& worst = penalty[static_cast<std::size_t>(text[next])];
    worst = std::max(worst, static_cast<double>(params.dry_multiplier) *
                                std::pow(static_cast<double>(params.dry_base),
                                         static_cast<double>(length) - params.dry_allowed_length));
  }
  for (double& value : penalty) value = -value;
  return penalty;
}

TEST(Sampler, DryByHand) {
  SamplerParams params = neutral();
  params.dry_multiplier = 0.5f;
  params.dry_base = 2.0f;
  const std::vector<float> logits(6, 0.0f);
  // "1 2 3 4 ... 1 2 3": 4 would prolong a repetition of three, by 0.5 * 2^(3 - 2).
  expect_near(logits_left(params, logits, {1, 2, 3, 4, 0, 1, 2, 3}), {0, 0, 0, 0, -1.0, 0});
  // The longest counts: 5 behind "2 3", 4 behind "1 2 3".
  expect_near(logits_left(params, logits, {1, 2, 3, 4, 0, 2, 3, 5, 1, 2, 3}), {0, 0, 0, 0, -1.0, -0.5});
  params.dry_allowed_length = 4;
  expect_near(logits_left(params, logits, {1, 2, 3, 4, 0, 1, 2, 3}), {0, 0, 0, 0, 0, 0});
  params.dry_allowed_length = 1;
  params.dry_breakers = {{2}};  // Only "3" is behind the breaker.
  expect_near(logits_left(params, logits, {1, 2, 3, 4, 0, 1, 2, 3}), {0, 0, 0, 0, -0.5, 0});
  params.dry_breakers = {{2, 3}};
  expect_near(logits_left(params, logits, {1, 2, 3, 4, 0, 1, 2, 3}), {0, 0, 0, 0, 0, 0});
  params.dry_breakers = {{3, 2}};
  expect_near(logits_left(params, logits, {1, 2, 3, 4, 0, 1, 2, 3}), {0, 0, 0, 0, -2.0, 0});
  params.dry_penalty_last_n = 4;  // 0 1 2 3: nothing repeats.
  expect_near(logits_left(params, logits, {1, 2, 3, 4, 0, 1, 2, 3}), {0, 0, 0, 0, 0, 0});
}

TEST(DryBreakers, FindTheShortestThatEndsHere) {
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    std::vector<std::vector<Token>> breakers(random() % 30);
    for (auto& breaker : breakers) {
      breaker.resize(1 + random() % 4);
      for (Token& token : breaker) token = static_cast<Token>(random() % 5);
    }
    const engine::DryBreakers known(breakers);
    std::vector<Token> text;
    for (int i = 0; i < 60; ++i) {
      std::size_t shortest = 0;
      for (const auto& breaker : breakers) {
        const bool ends =
            text.size() >= breaker.size() && std::equal(breaker.rbegin(), breaker.rend(), text.rbegin());
        if (ends && (shortest == 0 || breaker.size() < shortest)) shortest = breaker.size();
      }
      ASSERT_EQ(known.shortest_at_end(text), shortest);
      text.push_back(static_cast<Token>(random() % 6));
    }
  }
}

TEST(Sampler, ALongTextIsForgottenWhereNoWindowReaches) {
  std::mt19937 random(13);
  constexpr int kVocab = 5;
  SamplerParams params = neutral();
  params.penalty_last_n = 9;
  params.frequency_penalty = 0.5f;
  params.dry_multiplier = 0.25f;
  params.dry_penalty_last_n = 30;
  params.dry_breakers = {{0, 1}, {3}};
  // One is asked at times, and others only after so many tokens.
  Sampler always(params, kVocab);
  const std::vector<float> logits = {0.5f, 0.1f, 0.2f, 0.3f, 0.4f};
  std::vector<Token> text;
  for (int i = 0; i < 6000; ++i) {
    text.push_back(static_cast<Token>(random() % kVocab));
    always.accept(text.back());
    if (i % 97 != 0 && i % 1024 > 2) continue;
    Sampler late(params, kVocab), of_end(params, kVocab);
    for (const Token token : text) late.accept(token);
    for (const Token token : std::span(text).last(std::min<std::size_t>(text.size(), 30)))
      of_end.accept(token);
    for (Sampler* sampler : {&always, &late, &of_end}) sampler->sample(logits);
    EXPECT_TRUE(std::ranges::equal(always.candidates(), of_end.candidates(), {}, &Candidate::logit,
                                   &Candidate::logit))
        << i;
    EXPECT_TRUE(
        std::ranges::equal(late.candidates(), of_end.candidates(), {}, &Candidate::logit, &Candidate::logit))
        << i;
  }
}

TEST(Sampler, DryOfRandomTexts) {
  std::mt19937 random(11);
  const std::size_t n_vocab = 4;
  for (int round = 0; round < 300; ++round) {
    SamplerParams params = neutral();
    params.dry_multiplier = 0.25f;
    params.dry_base = 1.25f;
    params.dry_allowed_length = static_cast<int>(random() % 4);
    params.dry_penalty_last_n = round % 3 == 0 ? -1 : static_cast<int>(1 + random() % 40);
    if (round % 2 == 0) params.dry_breakers = {{0, 1, 1}, {3, 3}};
    std::vector<Token> text(random() % 60);
    for (Token& id : text) id = static_cast<Token>(random() % n_vocab);
    const std::vector<float> logits(n_vocab, 0.0f);
    expect_near(logits_left(params, logits, text), dry_by_definition(params, n_vocab, text), 1e-3);
  }
}

TEST(Sampler, DryOfALongRepetitionStaysFinite) {
  SamplerParams params = neutral();
  params.dry_multiplier = 1.0f;
  params.dry_base = 4.0f;
  Sampler sampler(params, 2);
  for (int i = 0; i < 20'000; ++i) sampler.accept(0);
  EXPECT_EQ(sampler.sample(std::vector<float>{50.0f, 0.0f}), 1);
}

// However long a text becomes, it takes the memory of what windows reach.
TEST(Sampler, AnEndlessTextTakesNoMoreMemory) {
  if (!test::kCountsAllocations) GTEST_SKIP() << "sanitizers bring their own operator new";
  SamplerParams params = neutral();
  params.penalty_last_n = 64;
  params.frequency_penalty = 0.5f;
  params.dry_multiplier = 0.25f;
  params.dry_penalty_last_n = 64;
  Sampler sampler(params, 10);
  const std::vector<float> logits(10);
  const auto accept = [&](int n) {
    for (int i = 0; i < n; ++i) {
      sampler.accept(i % 7);
      if (i % 100 == 0) sampler.sample(logits);
    }
  };
  accept(10'000);
  const long before = test::n_allocated_bytes();
  accept(500'000);
  EXPECT_EQ(test::n_allocated_bytes() - before, 0);
}

}  // namespace
}  // namespace weft
