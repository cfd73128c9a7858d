// The prefix index compared with a plain list of sequences.
#include "engine/batching/prefix_index.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace weft::engine {
namespace {

int common(std::span<const Token> a, std::span<const Token> b) {
  int n = 0;
  while (n < static_cast<int>(std::min(a.size(), b.size())) &&
         a[static_cast<std::size_t>(n)] == b[static_cast<std::size_t>(n)])
    ++n;
  return n;
}

TEST(PrefixIndex, MatchesALinearSearch) {
  constexpr int kHolders = 12;
  std::mt19937_64 random(1);
  PrefixIndex index(kHolders);
  std::vector<std::vector<Token>> texts(kHolders);
  std::size_t longest = 0;
  for (int step = 0; step < 50000; ++step) {
    const auto holder = static_cast<SeqId>(random() % kHolders);
    auto& text = texts[static_cast<std::size_t>(holder)];
    if (random() % 8 == 0) {
      index.remove(holder);
      text.clear();
    } else {
      // Few different tokens, so that sequences often share prefixes and diverge.
      std::vector<Token> more(random() % 5);
      for (Token& token : more) token = static_cast<Token>(random() % 3);
      index.append(holder, more);
      text.insert(text.end(), more.begin(), more.end());
      longest = std::max(longest, text.size());
    }
    std::vector<Token> wanted(random() % 12);
    for (Token& token : wanted) token = static_cast<Token>(random() % 3);
    if (random() % 2 == 0) {  // A prefix of an existing sequence, and more.
      const auto& like = texts[random() % kHolders];
      std::vector<Token> head(like.begin(), like.begin() + static_cast<std::ptrdiff_t>(
                                                               like.empty() ? 0 : random() % like.size()));
      wanted.insert(wanted.begin(), head.begin(), head.end());
    }
    int best = 0;
    for (const auto& other : texts) best = std::max(best, common(other, wanted));
    const PrefixIndex::Match match = index.find(wanted);
    ASSERT_EQ(match.n, best);
    ASSERT_EQ(match.holder < 0, best == 0);
    if (best > 0) {
      ASSERT_EQ(common(texts[static_cast<std::size_t>(match.holder)], wanted), best);
    }
    ASSERT_EQ(index.size(holder), static_cast<int>(text.size()));
    ASSERT_TRUE(index.text(holder, index.size(holder)) == text);
    ASSERT_LE(index.n_nodes(), 2 * kHolders);
    bool covered = false;
    for (SeqId other = 0; other < kHolders; ++other)
      covered |= other != holder && !text.empty() &&
                 common(texts[static_cast<std::size_t>(other)], text) == static_cast<int>(text.size());
    ASSERT_EQ(index.covered(holder), covered);
  }
  EXPECT_GT(longest, 30u);
}

TEST(PrefixIndex, TextsOfOtherAdaptersAreOtherTexts) {
  PrefixIndex index(4);
  const TextOrigin x = {{{0, 1.0f}}}, y = {{{0, 0.5f}}};
  const std::vector<Token> text = {1, 2, 3, 4};
  index.append(0, text, x);
  index.append(1, text, y);
  EXPECT_EQ(index.find(text, x).holder, 0);
  EXPECT_EQ(index.find(text, y).holder, 1);
  EXPECT_EQ(index.find(text).n, 0);
  EXPECT_FALSE(index.covered(0));
  EXPECT_FALSE(index.doubled(1));
  const SeqId both[] = {0, 1};
  EXPECT_EQ(index.n_tokens_of(both), 8);
  index.append(0, text, x);  // It continues with the same tokens.
  EXPECT_EQ(index.size(0), 8);
  index.remove(0);
  EXPECT_EQ(index.find(text, x).n, 0);
  EXPECT_EQ(index.find(text, y).n, 4);
  index.append(2, text, x);
  index.append(3, text, x);
  EXPECT_TRUE(index.doubled(2));
  index.clear();
  EXPECT_EQ(index.find(text, y).n, 0);
  EXPECT_EQ(index.n_nodes(), 0);
}

TEST(PrefixIndex, TextsAboutOtherSourcesAreOtherTexts) {
  PrefixIndex index(4);
  const TextOrigin x = {{}, {7, 8}}, longer = {{}, {7, 8, 9}}, adapted = {{{0, 1.0f}}, {7, 8}};
  const std::vector<Token> text = {1, 2, 3};
  EXPECT_EQ(index.find_any(x), -1);
  index.append(0, {}, x);  // There is a source, but no token yet.
  EXPECT_EQ(index.find_any(x), 0);
  EXPECT_EQ(index.size(0), 0);
  EXPECT_EQ(index.origin(0), x);
  EXPECT_EQ(index.find(text, x).n, 0);
  index.append(1, text, longer);
  index.append(0, text, x);
  index.append(0, text, x);
  EXPECT_EQ(index.text(0, 9), (std::vector<Token>{1, 2, 3, 1, 2, 3}));
  EXPECT_EQ(index.find(text, x).holder, 0);
  EXPECT_EQ(index.find(text, longer).holder, 1);
  EXPECT_EQ(index.find(text).n, 0);
  EXPECT_EQ(index.find(text, adapted).n, 0);
  EXPECT_EQ(index.find_any(adapted), -1);
  EXPECT_FALSE(index.covered(0));
  index.append(2, {}, x);
  EXPECT_TRUE(index.covered(2));
  EXPECT_FALSE(index.doubled(2));
  index.append(3, {}, x);
  EXPECT_TRUE(index.doubled(2));
  index.remove(0);
  index.remove(3);
  EXPECT_FALSE(index.covered(2));
  EXPECT_EQ(index.find_any(x), 2);
  index.append(2, text, x);
  EXPECT_EQ(index.find(text, x).holder, 2);
  index.remove(2);
  EXPECT_EQ(index.find_any(x), -1);
  EXPECT_EQ(index.origin(1), longer);
  index.append(0, {}, adapted);
  index.clear();
  EXPECT_EQ(index.n_nodes(), 0);
}

}  // namespace
}  // namespace weft::engine
