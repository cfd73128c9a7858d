// The unigram model, its trie and its normalisation. Vocabularies made by SentencePiece are in tests/engine.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/charsmap.h"
#include "text/token_trie.h"
#include "text/utf8.h"
#include "text/vocabulary_testing.h"
#include "weft/error.h"
#include "weft/tokenizer.h"

namespace weft::text {
namespace {

using testing::ElementsAre;

constexpr Tokenizer::EncodeOptions kPlain = {.add_special = false, .parse_special = false};

/// <pad> 0, </s> 1, <unk> 2, then the given tokens from 3 on.
Vocabulary unigram_vocabulary(const std::vector<std::pair<std::string, float>>& tokens) {
  Vocabulary v;
  v.kind = VocabularyKind::kUnigram;
  add_token(v, "<pad>", TokenKind::kControl);
  v.eos = add_token(v, "</s>", TokenKind::kControl);
  v.unk = add_token(v, "<unk>", TokenKind::kUnknown);
  for (const auto& [text, score] : tokens) add_token(v, text, TokenKind::kNormal, score);
  v.add_space_prefix = false;
  return v;
}

TEST(Unigram, TakesTheBestSumOfScores) {
  // a 3, b 4, c 5, ab 6, bc 7
  const Tokenizer t(unigram_vocabulary({{"a", -2}, {"b", -2}, {"c", -2}, {"ab", -3}, {"bc", -1}}));
  EXPECT_THAT(t.encode("abc", kPlain), ElementsAre(3, 7));  // -3, not ab c with -5.
  EXPECT_THAT(t.encode("abab", kPlain), ElementsAre(6, 6));
  EXPECT_THAT(t.encode("abc"), ElementsAre(3, 7, 1));  // Ends with </s> unless the file says otherwise.
  EXPECT_THAT(t.encode("", kPlain), ElementsAre());
  EXPECT_EQ(t.decode(t.encode("abcab")), "abcab");
}

TEST(Unigram, OfEqualWaysTheOneThatEndsLonger) {
  const Tokenizer t(unigram_vocabulary({{"a", -1}, {"aa", -2}, {"aaa", -4}}));
  EXPECT_THAT(t.encode("aa", kPlain), ElementsAre(4));
  EXPECT_THAT(t.encode("aaa", kPlain), ElementsAre(3, 4));
}

TEST(Unigram, UnknownCharacters) {
  Vocabulary v = unigram_vocabulary({{"a", -2}, {"▁", -3}});
  EXPECT_THAT(Tokenizer(v).encode("éèaé é", kPlain), ElementsAre(2, 3, 2, 4, 2));
  // The score of unknown characters is 10 below the worst token that prompts can contain; unused tokens do
  // not count.
  add_token(v, "unused", TokenKind::kUnused, -10000);
  const Token pair = add_token(v, "éa", TokenKind::kNormal, -14.5f);
  EXPECT_THAT(Tokenizer(v).encode("éa unused", kPlain), ElementsAre(pair, 4, 2));
  v.scores[static_cast<std::size_t>(pair)] = -30;
  EXPECT_THAT(Tokenizer(v).encode("éa", kPlain), ElementsAre(pair));
  v.unk = kNoToken;
  EXPECT_THROW(Tokenizer{v}, Error);
}

TEST(Unigram, SpacesAsTheFileSays) {
  Vocabulary v = unigram_vocabulary({{"a", -1}, {"▁a", -1}, {"▁", -1}});
  v.add_space_prefix = true;
  EXPECT_THAT(Tokenizer(v).encode("a  a ", kPlain), ElementsAre(4, 5, 4, 5));
  EXPECT_EQ(Tokenizer(v).decode(std::vector<Token>{4, 4}), "a a");
  v.remove_extra_spaces = true;
  EXPECT_THAT(Tokenizer(v).encode("  a  a ", kPlain), ElementsAre(4, 4));
  EXPECT_THAT(Tokenizer(v).encode("   ", kPlain), ElementsAre());
  v.add_space_prefix = false;
  EXPECT_THAT(Tokenizer(v).encode(" a  a ", kPlain), ElementsAre(3, 4));
}

TEST(Unigram, ScoresThatAreNoLogarithmsEndNothing) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const Tokenizer t(unigram_vocabulary({{"a", -kInfinity}, {"b", kInfinity}, {"ab", 5}}));
  EXPECT_EQ(t.decode(t.encode("aabbab")), "aabbab");
}

TEST(TokenTrie, FindsAllTokensThatATextBeginsWith) {
  TokenTexts texts;
  for (const char* text : {"", "a", "abc", "b", "abd", "a"}) texts.add(text);
  const TokenTrie trie(texts, {0, 1, 2, 3, 4, 5});
  const auto found = [&](std::string_view text) {
    std::vector<Token> tokens;
    TokenTrie::Node node = TokenTrie::kRoot;
    for (const char c : text) {
      node = trie.child(node, c);
      if (node == TokenTrie::kNone) break;
      if (trie.token(node) != kNoToken) tokens.push_back(trie.token(node));
    }
    return tokens;
  };
  EXPECT_THAT(found("abcd"), ElementsAre(1, 2));
  EXPECT_THAT(found("abd"), ElementsAre(1, 4));
  EXPECT_THAT(found("ba"), ElementsAre(3));
  EXPECT_THAT(found("c"), ElementsAre());
  EXPECT_EQ(trie.token(TokenTrie::kRoot), kNoToken);
  EXPECT_EQ(TokenTrie(texts, {}).child(TokenTrie::kRoot, 'a'), TokenTrie::kNone);
}

std::string u32(std::uint32_t value) {
  std::string bytes;
  for (int i = 0; i < 4; ++i) bytes += static_cast<char>(value >> 8 * i);
  return bytes;
}

/// One rule that replaces "a". The root's offset is 0, so the node is at 'a'; the node's offset leads to the
/// value.
std::string one_rule(std::string_view replacement, std::uint32_t value = 0) {
  constexpr std::uint32_t kOffset = 'a' ^ 1;  // The value is at 1.
  std::string trie;
  for (std::uint32_t i = 0; i <= 'a'; ++i)
    trie += u32(i == 'a' ? kOffset << 10 | 1u << 8 | 'a' : i == 1 ? 1u << 31 | value : 0);
  return u32(static_cast<std::uint32_t>(trie.size())) + trie + std::string(replacement) + '\0';
}

TEST(Charsmap, ReplacesWhatItKnows) {
  const Charsmap map(one_rule("äx"));
  EXPECT_EQ(map.front("ab").text, "äx");
  EXPECT_EQ(map.front("ab").size, 1u);
  EXPECT_EQ(map.front("éa").text, "é");
  EXPECT_EQ(map.front("éa").size, 2u);
  EXPECT_EQ(Charsmap("").front("ab").text, "a");
  EXPECT_EQ(Charsmap(one_rule("")).front("a").text, "");
}

/// The node that "a" leads to is its own child.
TEST(Charsmap, ATrieThatLeadsInCirclesIsLeft) {
  constexpr std::uint32_t kEnds = 1u << 8;
  std::string trie;
  for (std::uint32_t i = 0; i <= 'a'; ++i) trie += u32(i == 'a' ? 'a' | kEnds | 'a' << 10 : 0);
  const Charsmap map(u32(static_cast<std::uint32_t>(trie.size())) + trie + std::string("b\0", 2));
  const Charsmap::Step step = map.front(std::string(10 * Charsmap::kMaxSource, 'a'));
  EXPECT_EQ(step.text, "b");
  EXPECT_EQ(step.size, Charsmap::kMaxSource);
  EXPECT_EQ(map.front("aaa").size, 3u);
}

TEST(Charsmap, DamagedTablesAreNamedOrMatchNothing) {
  for (const std::string& bytes : {std::string("abc"), u32(8) + "1234", u32(2) + "12", u32(0) + "\xFF"})
    EXPECT_THROW(Charsmap{bytes}, Error) << bytes.size();
  EXPECT_EQ(Charsmap(one_rule("xy", 1000)).front("a").text, "a");  // Points past the replacements,
  EXPECT_EQ(Charsmap(one_rule("ä", 1)).front("a").text, "a");      // into a character,
  EXPECT_EQ(Charsmap(one_rule(std::string(1000, 'x'))).front("a").text, "a");  // to one without an end.
  std::mt19937 random(1);
  for (int i = 0; i < 2000; ++i) {
    std::string trie;
    for (int n = static_cast<int>(random() % 400); n > 0; --n)
      trie += u32(static_cast<std::uint32_t>(random() >> random() % 32));
    const Charsmap map(u32(static_cast<std::uint32_t>(trie.size())) + trie + std::string("ä\0b\0", 5));
    for (std::string_view rest = "aä中🦙abc zz"; !rest.empty();) {
      const Charsmap::Step step = map.front(rest);
      ASSERT_TRUE(step.size > 0 && step.size <= rest.size());
      ASSERT_EQ(valid_prefix(step.text), step.text.size());
      rest.remove_prefix(step.size);
      ASSERT_EQ(valid_prefix(rest), rest.size());
    }
  }
}

}  // namespace
}  // namespace weft::text
