// Penalties for tokens of the sequence, compared with their definitions.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "engine/allocation_counter.h"
#include "engine/sampler_testing.h"
#include "text/vocabulary_testing.h"
#include "weft/error.h"

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

using Breakers = std::vector<std::string>;

/// A token for each string.
Tokenizer tokenizer_of(const std::vector<std::string>& texts) {
  text::Vocabulary v;
  v.pre = "gpt-2";
  for (const std::string& one : texts) add_token(v, text::alphabet(one), TokenKind::kNormal);
  return Tokenizer(std::move(v));
}

/// Tokens after the last one in which a breaker ends.
std::size_t since_breaker(const Breakers& breakers, const Tokenizer& tokenizer, std::span<const Token> text) {
  std::string before;
  std::size_t n = 0;
  for (const Token id : text) {
    const std::size_t begin = before.size();
    before += tokenizer.piece(id, true);
    bool ends = false;
    for (const std::string& breaker : breakers)
      for (std::size_t end = begin + 1; end <= before.size(); ++end)
        ends = ends || std::string_view(before).substr(0, end).ends_with(breaker);
    n = ends ? 0 : n + 1;
  }
  return n;
}

// The literal definition: for each earlier position, the length of the copy of the sequence's suffix that
// ends there.
std::vector<double> dry_by_definition(const SamplerParams& params, const Tokenizer& tokenizer,
                                      std::vector<Token> text) {
  const auto n_vocab = static_cast<std::size_t>(tokenizer.n_vocab());
  const std::size_t since = since_breaker(params.dry_breakers.value_or(Breakers()), tokenizer, text);
  if (params.dry_penalty_last_n >= 0 && text.size() > static_cast<std::size_t>(params.dry_penalty_last_n)) {
    text.erase(text.begin(), text.end() - params.dry_penalty_last_n);
  }
  const std::size_t limit = std::min(text.size(), since);
  std::vector<double> penalty(n_vocab, 0.0);
  for (std::size_t next = 1; next < text.size(); ++next) {
    std::size_t length = 0;  // Common suffix of [.. next) and [.. size).
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
  // The longest counts: 5 after "2 3", 4 after "1 2 3".
  expect_near(logits_left(params, logits, {1, 2, 3, 4, 0, 2, 3, 5, 1, 2, 3}), {0, 0, 0, 0, -1.0, -0.5});
  params.dry_allowed_length = 4;
  expect_near(logits_left(params, logits, {1, 2, 3, 4, 0, 1, 2, 3}), {0, 0, 0, 0, 0, 0});
  params.dry_allowed_length = 1;
  const Tokenizer letters = tokenizer_of({"a", "b", "c", "d", "e", "f"});
  const auto with = [&](Breakers breakers) {
    params.dry_breakers = std::move(breakers);
    return logits_left(params, logits, {1, 2, 3, 4, 0, 1, 2, 3}, &letters);
  };
  expect_near(with({"c"}), {0, 0, 0, 0, -0.5, 0});  // Only "3" follows the breaker.
  expect_near(with({"cd"}), {0, 0, 0, 0, 0, 0});
  expect_near(with({"dc"}), {0, 0, 0, 0, -2.0, 0});
  expect_near(with({}), {0, 0, 0, 0, -2.0, 0});
  params.dry_penalty_last_n = 4;  // 0 1 2 3: nothing repeats.
  expect_near(with({}), {0, 0, 0, 0, 0, 0});
}

/// Whether "z" is penalised after "x y BREAK z x y BREAK", where BREAK are these tokens.
bool breaks(const Tokenizer& tokenizer, const std::vector<Token>& marks,
            std::optional<Breakers> breakers = std::nullopt) {
  SamplerParams params = neutral();
  params.dry_multiplier = 100.0f;
  params.dry_allowed_length = 1;
  params.dry_breakers = std::move(breakers);
  const auto token = [&](const char* text) {
    for (Token id = 0; id < tokenizer.n_vocab(); ++id)
      if (tokenizer.piece(id) == text) return id;
    ADD_FAILURE() << "there is no token " << text;
    return kNoToken;
  };
  std::vector<Token> text = {token("x"), token("y")};
  text.insert(text.end(), marks.begin(), marks.end());
  text.push_back(token("z"));
  text.insert(text.end(), text.begin(), text.end() - 1);
  const std::vector<float> logits(static_cast<std::size_t>(tokenizer.n_vocab()));
  return logits_left(params, logits, text, &tokenizer)[static_cast<std::size_t>(token("z"))] == 0.0;
}

// Vocabularies write newlines in many ways, also inside longer tokens.
TEST(Sampler, DryBreakersMatchInsideAndAcrossTokensOfEachVocabulary) {
  text::Vocabulary bpe =
      text::bpe_vocabulary({{":", "\n"}, {")", "\n"}, {".", "\n"}, {"\n", "\n"}, {" ", "\""}, {"\r", "\n"}});
  const Token of_merge = 256;
  const Tokenizer b(bpe);
  for (Token id = of_merge; id < b.n_vocab(); ++id) EXPECT_TRUE(breaks(b, {id})) << b.piece(id);
  EXPECT_TRUE(breaks(b, {'\n'}));
  EXPECT_FALSE(breaks(b, {'.'}));
  EXPECT_FALSE(breaks(b, {'\n'}, Breakers()));

  text::Vocabulary spm = text::spm_vocabulary({"▁", "x", "y", "z", "▁:", "**", "▁\"", "▁User", ":"});
  const Token user = static_cast<Token>(spm.tokens.size()) - 2;
  const Token turn = add_token(spm, "<|turn|>", TokenKind::kControl);
  const Tokenizer s(spm);
  EXPECT_TRUE(breaks(s, {3 + '\n'})) << "a byte token";
  for (const char* text : {"▁:", "**", "▁\""}) EXPECT_TRUE(breaks(s, {s.find(text)})) << text;
  EXPECT_FALSE(breaks(s, {s.find("▁User")}));
  EXPECT_TRUE(breaks(s, {user, user + 1}, Breakers{"User:"}));
  EXPECT_FALSE(breaks(s, {user + 1, user}, Breakers{"User:"}));
  EXPECT_TRUE(breaks(s, {user}, Breakers{" User"})) << "with the space that the token has";
  EXPECT_TRUE(breaks(s, {turn}, Breakers{"<|turn|>"})) << "a control token";
  EXPECT_TRUE(breaks(s, {3 + 0xC3, 3 + 0xA9}, Breakers{"é"})) << "a character in bytes";

  text::Vocabulary unigram = spm;
  unigram.kind = text::VocabularyKind::kUnigram;
  EXPECT_TRUE(breaks(Tokenizer(unigram), {s.find("▁:")}));
  EXPECT_TRUE(breaks(Tokenizer(unigram), {s.find("**")}, Breakers{"*"}));

  text::Vocabulary pieces = text::wordpiece_vocabulary({"x", "y", "z", "▁:", "▁user"});
  const Tokenizer w(pieces);
  EXPECT_TRUE(breaks(w, {w.find("▁:")}));
  EXPECT_FALSE(breaks(w, {w.find("▁user")}));

  text::Vocabulary world;
  world.kind = text::VocabularyKind::kRwkv;
  constexpr std::string_view kHex = "0123456789abcdef";
  for (std::size_t i = 0; i < 256; ++i)
    add_token(world, std::string("\\x") + kHex[i / 16] + kHex[i % 16], TokenKind::kNormal);
  for (const char* text : {"\\n\\n", "::", " \""}) add_token(world, text, TokenKind::kNormal);
  const Tokenizer r(world);
  for (const Token id : {Token{'\n'}, Token{':'}, 256, 257, 258}) EXPECT_TRUE(breaks(r, {id})) << id;
  EXPECT_FALSE(breaks(r, {Token{'.'}}));
}

// T5 has no token for a newline.
TEST(Sampler, DryBreakersWithoutATokenAreAccepted) {
  const Tokenizer no_newline = tokenizer_of({"x", "y", "z"});
  EXPECT_TRUE(no_newline.encode("\n", {.add_special = false}).empty());
  EXPECT_FALSE(breaks(no_newline, {}));
  SamplerParams params;
  params.dry_multiplier = 1.0f;
  params.dry_breakers = Breakers{"\n"};
  EXPECT_NO_THROW(Sampler(params, no_newline));
  EXPECT_THROW(Sampler(params, 3), Error) << "it knows no texts";
  params.dry_breakers = Breakers();
  EXPECT_NO_THROW(Sampler(params, 3));
  params.dry_multiplier = 0.0f;
  params.dry_breakers = Breakers{"\n"};
  EXPECT_NO_THROW(Sampler(params, 3)) << "DRY is off";
}

TEST(Sampler, ALongTextIsForgottenWhereNoWindowReaches) {
  std::mt19937 random(13);
  constexpr int kVocab = 5;
  SamplerParams params = neutral();
  params.penalty_last_n = 9;
  params.frequency_penalty = 0.5f;
  params.dry_multiplier = 0.25f;
  params.dry_penalty_last_n = 30;
  const Tokenizer letters = tokenizer_of({"a", "b", "c", "d", "e"});
  params.dry_breakers = Breakers{"ab", "d"};
  // One samples now and then, the others only after many tokens.
  Sampler always(params, letters);
  const std::vector<float> logits = {0.5f, 0.1f, 0.2f, 0.3f, 0.4f};
  std::vector<Token> text;
  for (int i = 0; i < 6000; ++i) {
    text.push_back(static_cast<Token>(random() % kVocab));
    always.accept(text.back());
    if (i % 97 != 0 && i % 1024 > 2) continue;
    Sampler late(params, letters), of_end(params, letters);
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
  const Tokenizer tokenizer = tokenizer_of({"a", "ab", "bb", "cda"});
  const std::vector<float> logits(4, 0.0f);
  for (int round = 0; round < 300; ++round) {
    SamplerParams params = neutral();
    params.dry_multiplier = 0.25f;
    params.dry_base = 1.25f;
    params.dry_allowed_length = static_cast<int>(random() % 4);
    params.dry_penalty_last_n = round % 3 == 0 ? -1 : static_cast<int>(1 + random() % 40);
    params.dry_breakers = round % 2 == 0 ? Breakers{"abb", "bba", "acd", "dac"} : Breakers{};
    std::vector<Token> text(random() % 60);
    for (Token& id : text) id = static_cast<Token>(random() % 4);
    expect_near(logits_left(params, logits, text, &tokenizer), dry_by_definition(params, tokenizer, text),
                1e-3);
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

// The memory does not grow with the sequence, only with the windows.
TEST(Sampler, RetractedTokensWereNeverAccepted) {
  std::mt19937 random(7);
  const int n_vocab = 12;
  for (const int last_n : {3, 64, -1}) {
    SamplerParams params = neutral();
    params.penalty_last_n = last_n;
    params.frequency_penalty = 1.0f;
    params.dry_multiplier = 1.0f;
    Sampler sampler(params, n_vocab);
    std::vector<Token> text;
    const std::vector<float> logits(static_cast<std::size_t>(n_vocab), 0.0f);
    for (int i = 0; i < 3000; ++i) {
      text.push_back(static_cast<Token>(random() % static_cast<unsigned>(n_vocab)));
      sampler.accept(text.back());
      if (i % 3 == 0) sampler.sample(logits);
      if (random() % 9 != 0) continue;
      const auto n = std::min<std::size_t>(random() % 6, text.size());
      text.resize(text.size() - n);
      sampler.retract(static_cast<int>(n));
    }
    Sampler other(params, n_vocab);
    for (const Token token : text) other.accept(token);
    sampler.sample(logits);
    other.sample(logits);
    std::vector<double> expected(static_cast<std::size_t>(n_vocab)), actual(expected);
    for (const Candidate& one : other.candidates())
      expected[static_cast<std::size_t>(one.id)] = static_cast<double>(one.logit);
    for (const Candidate& one : sampler.candidates())
      actual[static_cast<std::size_t>(one.id)] = static_cast<double>(one.logit);
    expect_near(actual, expected);
    EXPECT_THROW(sampler.retract(Sampler::kMaxRetracted + 1), Error);
    EXPECT_THROW(sampler.retract(-1), Error);
  }
}

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
