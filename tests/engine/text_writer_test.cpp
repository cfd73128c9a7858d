// String matching and stop strings against their definitions, however tokens cut them.
#include "engine/text_writer.h"

#include <gtest/gtest.h>

#include <random>

#include "text/vocabulary_testing.h"

namespace weft::engine {
namespace {

std::vector<std::string> random_strings(std::mt19937& random, std::size_t n) {
  std::vector<std::string> strings(n);
  for (std::string& text : strings)
    for (std::size_t i = 1 + random() % 5; i > 0; --i) text += static_cast<char>('a' + random() % 3);
  return strings;
}

TEST(StringMatcher, FindsTheLongestStringThatEndsAndHowMuchIsOpen) {
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    const std::vector<std::string> strings = random_strings(random, random() % 6);
    StringMatcher matcher(strings);
    std::string text;
    for (int i = 0; i < 60; ++i) {
      text += static_cast<char>('a' + random() % 3);
      int longest = -1;
      std::size_t n_open = 0;
      for (std::size_t s = 0; s < strings.size(); ++s) {
        const std::string& one = strings[s];
        if (text.ends_with(one) &&
            (longest < 0 || one.size() > strings[static_cast<std::size_t>(longest)].size()))
          longest = static_cast<int>(s);
        for (std::size_t n = 1; n <= one.size(); ++n)
          if (text.ends_with(one.substr(0, n))) n_open = std::max(n_open, n);
      }
      ASSERT_EQ(matcher.push(text.back()), longest) << text;
      ASSERT_EQ(matcher.n_open(), n_open) << text;
    }
    matcher.reset();
    EXPECT_EQ(matcher.n_open(), 0u);
  }
}

TEST(StringMatcher, TakesTimeLinearInItsStringsAndTheStream) {
  const std::string as(50'000, 'a');
  StringMatcher matcher(std::vector<std::string>{as + "b", as + "c", ""});
  for (int i = 0; i < 500'000; ++i) ASSERT_EQ(matcher.push('a'), -1);
  EXPECT_EQ(matcher.n_open(), as.size());
  EXPECT_EQ(matcher.push('c'), 1);
}

/// What is written of `text` and which stop string is found, where it comes in pieces.
std::pair<std::string, int> filtered(const std::vector<std::string>& stops, const std::string& text,
                                     std::mt19937& random) {
  StopFilter filter(stops);
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t n = std::min<std::size_t>(1 + random() % 4, text.size() - at);
    if (filter.push(text.substr(at, n), out)) return {out, filter.found()};
    at += n;
  }
  filter.finish(out);
  return {out, filter.found()};
}

TEST(StopFilter, TheFirstStopThatIsCompleteCountsHoweverTheTextIsCut) {
  std::mt19937 random(3);
  for (int round = 0; round < 300; ++round) {
    const std::vector<std::string> stops = random_strings(random, 1 + random() % 4);
    std::string text;
    for (int i = 0; i < 30; ++i) text += static_cast<char>('a' + random() % 4);
    std::size_t end = text.size() + 1;  // Of the match that ends first.
    int found = -1;
    for (std::size_t s = 0; s < stops.size(); ++s) {
      const std::size_t at = text.find(stops[s]);
      if (at == std::string::npos) continue;
      const std::size_t here = at + stops[s].size();
      if (here > end || (here == end && stops[s].size() <= stops[static_cast<std::size_t>(found)].size()))
        continue;
      end = here;
      found = static_cast<int>(s);
    }
    const std::string before =
        found < 0 ? text : text.substr(0, end - stops[static_cast<std::size_t>(found)].size());
    for (int cut = 0; cut < 5; ++cut)
      ASSERT_EQ(filtered(stops, text, random), std::pair(before, found)) << text;
  }
}

/// The completion of these tokens, and the index of the stop string.
std::pair<std::string, int> written(const Tokenizer& tokenizer, const std::vector<Token>& tokens,
                                    const std::vector<std::string>& stops, bool special = false) {
  TextWriter writer(tokenizer, special, stops);
  std::string out;
  for (const Token token : tokens)
    if (writer.push(token, out)) return {out, writer.found()};
  writer.finish(out);
  return {out, writer.found()};
}

TEST(TextWriter, FindsEachPartOfATextInEachKindOfVocabulary) {
  const std::string text = "Hi: né\n\n你 a";
  text::Vocabulary spm = text::spm_vocabulary({"▁", "Hi", ":", "▁n", "a"});
  text::Vocabulary bpe = text::bpe_vocabulary({{"H", "i"}, {"Hi", ":"}, {"\n", "\n"}, {" ", "n"}});
  for (const Tokenizer& tokenizer : {Tokenizer(spm), Tokenizer(bpe)}) {
    const std::vector<Token> tokens = tokenizer.encode(text, {.add_special = false});
    std::string whole;  // SentencePiece's has a space in front.
    for (const Token token : tokens) whole += tokenizer.piece(token);
    for (std::size_t begin = 0; begin < whole.size(); ++begin)
      for (std::size_t n = 1; begin + n <= whole.size(); ++n) {
        const std::string stop = whole.substr(begin, n);
        // Clients send valid UTF-8, never half a character.
        const auto goes_on = [](char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; };
        if (goes_on(stop[0]) || (begin + n < whole.size() && goes_on(whole[begin + n]))) continue;
        ASSERT_EQ(written(tokenizer, tokens, {"none of it", stop}),
                  std::pair(whole.substr(0, whole.find(stop)), 1))
            << stop;
      }
  }
}

TEST(TextWriter, FindsControlTokensThatAreNotShown) {
  text::Vocabulary v = text::bpe_vocabulary({});
  const Token end_of_turn = add_token(v, "<|im_end|>", TokenKind::kControl);
  const Token other = add_token(v, "<|other|>", TokenKind::kControl);
  v.eos = end_of_turn;
  const Tokenizer tokenizer(v);
  const std::vector<Token> tokens = {'a', '\n', other, '\n', 'b', end_of_turn, 'c'};
  EXPECT_EQ(written(tokenizer, tokens, {}), std::pair(std::string("a\n\nbc"), -1));
  EXPECT_EQ(written(tokenizer, tokens, {"<|im_end|>"}), std::pair(std::string("a\n\nb"), 0));
  EXPECT_EQ(written(tokenizer, tokens, {"b<|im_end|>"}), std::pair(std::string("a\n\n"), 0));
  EXPECT_EQ(written(tokenizer, tokens, {"b<|im_end|>c"}), std::pair(std::string("a\n\n"), 0));
  EXPECT_EQ(written(tokenizer, tokens, {"<|im_end|>x"}), std::pair(std::string("a\n\nbc"), -1));
  // A control token outside of all stop strings does not interrupt a match.
  EXPECT_EQ(written(tokenizer, tokens, {"\n\n"}), std::pair(std::string("a"), 0));
  // Where control tokens are shown, end tokens are not.
  EXPECT_EQ(written(tokenizer, tokens, {"<|im_end|>"}, true), std::pair(std::string("a\n<|other|>\nb"), 0));
  EXPECT_EQ(written(tokenizer, tokens, {"other"}, true), std::pair(std::string("a\n<|"), 0));
}

TEST(TextWriter, NeverShowsEndTokens) {
  text::Vocabulary v = text::bpe_vocabulary({});
  // User-defined tokens are shown, but these also end a file of code.
  const Token separator = add_token(v, "<|file_sep|>", TokenKind::kUserDefined);
  const Tokenizer tokenizer(v);
  ASSERT_TRUE(tokenizer.is_end(separator));
  const std::vector<Token> tokens = {'a', separator, 'b'};
  for (const bool special : {false, true}) {
    EXPECT_EQ(written(tokenizer, tokens, {}, special), std::pair(std::string("ab"), -1));
    EXPECT_EQ(written(tokenizer, tokens, {"<|file_sep|>"}, special), std::pair(std::string("a"), 0));
  }
}

/// What `tokens` become where the first n_min complete no stop string, and the index of the stop string.
std::pair<std::string, int> written_at_least(const Tokenizer& tokenizer, const std::vector<Token>& tokens,
                                             int n_min, const std::vector<std::string>& stops) {
  TextWriter writer(tokenizer, false, stops, 0, n_min);
  std::string out;
  for (const Token token : tokens)
    if (writer.push(token, out)) return {out, writer.found()};
  writer.finish(out);
  return {out, writer.found()};
}

TEST(TextWriter, TheFirstTokensCompleteNoStopString) {
  const Tokenizer tokenizer(text::bpe_vocabulary({}));
  const std::vector<Token> tokens = {'a', 'b', 'c', 'a', 'b', 'c'};
  const auto at_least = [&](int n_min, const std::vector<std::string>& stops) {
    return written_at_least(tokenizer, tokens, n_min, stops);
  };
  using Result = std::pair<std::string, int>;
  for (const int n_min : {0, 1}) EXPECT_EQ(at_least(n_min, {"ab"}), Result("", 0));
  for (const int n_min : {2, 3, 4}) EXPECT_EQ(at_least(n_min, {"ab"}), Result("abc", 0));
  for (const int n_min : {5, 6, 9}) EXPECT_EQ(at_least(n_min, {"ab"}), Result("abcabc", -1));
  // A stop string may begin within the minimum, also inside another one.
  EXPECT_EQ(at_least(2, {"none", "abc"}), Result("", 1));
  EXPECT_EQ(at_least(2, {"ab", "bca"}), Result("a", 1));
  EXPECT_EQ(at_least(1, {"a", "ab"}), Result("", 1));
}

TEST(TextWriter, CharactersAtTheEndOfTheMinimumCompleteNoStopString) {
  const Tokenizer tokenizer(text::bpe_vocabulary({}));
  const std::vector<Token> half = {'a', 0xC3};  // It is written as U+FFFD.
  EXPECT_EQ(written(tokenizer, half, {"\uFFFD"}).second, 0);
  EXPECT_EQ(written_at_least(tokenizer, half, 1, {"\uFFFD"}).second, 0);
  EXPECT_EQ(written_at_least(tokenizer, half, 2, {"\uFFFD"}), std::pair(std::string("a\uFFFD"), -1));
}

}  // namespace
}  // namespace weft::engine
