// Work is linear in the input, on a small stack.
#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "text/small_stack.h"
#include "text/vocabulary_testing.h"
#include "weft/tokenizer.h"

namespace weft {
namespace {

using text::Vocabulary;

/// Merges for runs of up to 64 equal characters and for a few words, as in real vocabularies.
std::vector<std::pair<std::string, std::string>> run_merges() {
  std::vector<std::pair<std::string, std::string>> merges;
  for (const std::string run : {"a", " ", "\n", "!", "7"})
    for (std::size_t n = 1; n <= 32; n *= 2) {
      std::string half;
      for (std::size_t i = 0; i < n; ++i) half += run;
      merges.emplace_back(half, half);
    }
  merges.emplace_back("\xF0", "\x9F");
  merges.emplace_back("\xF0\x9F", "\xA6");
  merges.emplace_back("\xF0\x9F\xA6", "\x99");
  return merges;
}

Vocabulary runs_bpe(std::string pre) { return text::bpe_vocabulary(run_merges(), std::move(pre)); }

Vocabulary runs_spm() {
  std::vector<std::string> texts;
  for (const auto& [left, right] : run_merges())
    if (left[0] != ' ' && left[0] != '\xF0') texts.push_back(left + right);
  for (std::string spaces = "▁▁"; spaces.size() <= 192; spaces += spaces) texts.push_back(spaces);
  for (const char* one : {"🦙", "▁a", "▁", "a", "\n", "!", "7"}) texts.emplace_back(one);
  return text::spm_vocabulary(texts);
}

Vocabulary runs_unigram() {
  Vocabulary v = runs_spm();
  v.kind = text::VocabularyKind::kUnigram;
  return v;
}

std::vector<std::pair<std::string, Vocabulary>> vocabularies() {
  std::vector<std::pair<std::string, Vocabulary>> all;
  for (const char* pre : {"gpt-2", "llama-bpe", "deepseek-llm"}) all.emplace_back(pre, runs_bpe(pre));
  all.emplace_back("spm", runs_spm());
  all.emplace_back("unigram", runs_unigram());
  all.emplace_back("wordpiece", text::wordpiece_vocabulary({"▁a", "a", "▁!", "▁7", "7"}));
  return all;
}

/// Inputs of each kind, with roughly `size` bytes.
std::vector<std::pair<std::string, std::string>> texts(std::size_t size) {
  std::vector<std::pair<std::string, std::string>> all;
  for (const auto& [name, unit] : std::vector<std::pair<std::string, std::string>>{{"letters", "a"},
                                                                                   {"spaces", " "},
                                                                                   {"newlines", "\n"},
                                                                                   {"emoji", "🦙"},
                                                                                   {"digits", "7"},
                                                                                   {"punctuation", "!"},
                                                                                   {"words", "aaa a! "},
                                                                                   {"control", "<|"}}) {
    std::string text;
    while (text.size() < size) text += unit;
    all.emplace_back(name, std::move(text));
  }
  all.emplace_back("spaces, then a letter", std::string(size, ' ') + "a");
  std::string mixed;
  const std::vector<std::string> units = {"a", " ", "\n", "🦙", "!", "7", "aaaa", "é", "\t"};
  for (unsigned x = 1; mixed.size() < size; x = x * 1664525u + 1013904223u)
    mixed += units[(x >> 16) % units.size()];
  all.emplace_back("mixed", std::move(mixed));
  return all;
}

constexpr std::size_t kSmallStack = 256 << 10;

TEST(TokenizerLimits, AMegabyteOfAnythingOnASmallStack) {
  for (auto& [name, vocabulary] : vocabularies()) {
    const bool lossless = name != "wordpiece";
    test::run_on_stack_of(kSmallStack, [&, name = name] {
      const Tokenizer tokenizer(std::move(vocabulary));
      for (const auto& [what, text] : texts(1 << 20)) {
        const std::vector<Token> tokens =
            tokenizer.encode(text, {.add_special = false, .parse_special = true});
        if (lossless) {
          EXPECT_TRUE(tokenizer.decode(tokens) == text) << name << ", " << what;
        }
      }
    });
  }
}

// Ten megabytes without a place to split. Superlinear or recursive algorithms would not finish. The longest
// merge of 64 characters determines the number of tokens.
TEST(TokenizerLimits, RunsOfTenMegabytesOfACharacterClass) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  constexpr std::size_t kSize = std::size_t{1} << 20;
#else
  constexpr std::size_t kSize = std::size_t{10} << 20;
#endif
  const struct {
    const char* unit;
    std::size_t n_tokens;
  } runs[] = {{"a", kSize / 64},
              {" ", kSize / 64},
              {"\n", kSize / 64},
              {"!", kSize / 64},
              {"7", kSize / 3 * 2 + (kSize % 3 + 1) / 2},  // Cut into threes: "77" and "7".
              {"🦙", kSize / 4}};
  test::run_on_stack_of(kSmallStack, [&] {
    const Tokenizer tokenizer(runs_bpe("llama-bpe"));
    for (const auto& [unit, n_tokens] : runs) {
      std::string text;
      while (text.size() < kSize) text += unit;
      const std::vector<Token> tokens = tokenizer.encode(text, {.add_special = false});
      EXPECT_EQ(tokens.size(), n_tokens) << unit;
      EXPECT_TRUE(tokenizer.decode(tokens) == text) << unit;
    }
  });
}

// Threads share the cache of pieces, and all get the same tokens in any order.
TEST(TokenizerLimits, ThreadsShareATokenizer) {
  for (auto& [name, vocabulary] : vocabularies()) {
    const Tokenizer tokenizer(vocabulary);
    const auto all = texts(1 << 12);
    std::vector<std::vector<std::vector<Token>>> results(4);
    std::vector<std::thread> threads;
    for (auto& result : results)
      threads.emplace_back([&] {
        for (const auto& [what, text] : all) result.push_back(tokenizer.encode(text));
      });
    for (std::thread& thread : threads) thread.join();
    const Tokenizer fresh(std::move(vocabulary));
    for (std::size_t i = 0; i < all.size(); ++i)
      for (const auto& result : results)
        EXPECT_EQ(result[i], fresh.encode(all[i].second)) << name << ", " << all[i].first;
  }
}

TEST(TokenizerLimits, WorkGrowsAsTheText) {
  for (const auto& [name, v] : vocabularies()) {
    text::TokenTexts token_texts, pieces;
    std::vector<Token> ids;
    for (const std::string& token : v.tokens) {
      ids.push_back(static_cast<Token>(ids.size()));
      token_texts.add(token);
      std::string bytes;
      pieces.add(text::bytes_of_alphabet(token, bytes) ? bytes : token);
    }
    const text::TokenIndex index(token_texts, ids);
    const text::TokenSet set{token_texts, index};
    const auto encoder = v.kind == text::VocabularyKind::kBpe       ? text::make_bpe_encoder(v, set, pieces)
                         : v.kind == text::VocabularyKind::kSpm     ? text::make_spm_encoder(v, set)
                         : v.kind == text::VocabularyKind::kUnigram ? text::make_unigram_encoder(v, set)
                                                                    : text::make_wordpiece_encoder(v, set);
    // A unigram model looks at each place for all tokens that begin there, as far as the longest goes.
    const double per_byte =
        v.kind == text::VocabularyKind::kUnigram ? static_cast<double>(token_texts.longest() + 1) : 8.0;
    const auto few = texts(1 << 16), many = texts(1 << 18);
    for (std::size_t i = 0; i < few.size(); ++i) {
      const auto steps = [&](const std::string& text) {
        const auto session = encoder->session();
        std::vector<Token> out;
        session->encode(text, out);
        return static_cast<double>(session->steps());
      };
      const double small = steps(few[i].second), large = steps(many[i].second);
      EXPECT_LE(large, 4.2 * small + 1000) << name << ", " << few[i].first;
      EXPECT_LE(large, per_byte * static_cast<double>(many[i].second.size())) << name << ", " << few[i].first;
    }
  }
}

}  // namespace
}  // namespace weft
