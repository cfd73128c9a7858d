// The merging engine against the definition: look at all pairs, merge the best, start again.
#include "text/merger.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace weft::text {
namespace {

/// Pairs by their characters, as in SentencePiece: ranks may be equal, and lower than the ranks of the parts.
struct TextPairs {
  std::map<std::string, Pair, std::less<>> pairs;
  std::size_t ranks = 0;
  Pair find(std::string_view word, const Symbol& left, const Symbol&, std::size_t end) const {
    const auto found = pairs.find(word.substr(left.begin, end - left.begin));
    return found == pairs.end() ? Pair{} : found->second;
  }
  std::size_t n_ranks() const { return ranks; }
};

std::vector<std::string> merged(Merger<TextPairs>& merger, const std::string& word) {
  std::vector<Symbol>& symbols = merger.symbols();
  symbols.clear();
  for (std::size_t i = 0; i < word.size(); ++i)
    symbols.push_back({static_cast<std::uint32_t>(i), kNoToken, {}});
  merger.merge(word);
  std::vector<std::string> parts;
  for (std::size_t i = 0; i < symbols.size(); ++i) {
    const std::size_t end = i + 1 < symbols.size() ? symbols[i + 1].begin : word.size();
    parts.push_back(word.substr(symbols[i].begin, end - symbols[i].begin));
  }
  return parts;
}

std::vector<std::string> by_definition(const TextPairs& pairs, const std::string& word) {
  std::vector<std::string> parts;
  for (const char c : word) parts.emplace_back(1, c);
  for (;;) {
    std::size_t best = parts.size();
    std::uint32_t rank = kNoRank;
    for (std::size_t i = 0; i + 1 < parts.size(); ++i) {
      const auto found = pairs.pairs.find(parts[i] + parts[i + 1]);
      if (found != pairs.pairs.end() && found->second.rank < rank) {
        rank = found->second.rank;
        best = i;
      }
    }
    if (best == parts.size()) return parts;
    parts[best] += parts[best + 1];
    parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(best) + 1);
  }
}

TextPairs random_pairs(std::mt19937& random, std::size_t n, std::size_t n_ranks, bool ordered) {
  TextPairs pairs;
  pairs.ranks = n_ranks;
  std::vector<std::string> known = {"a", "b", "c"};
  for (std::size_t i = 0; i < n; ++i) {
    const std::string text = known[random() % known.size()] + known[random() % known.size()];
    const auto rank = static_cast<std::uint32_t>(ordered ? i : random() % n_ranks);
    if (pairs.pairs.emplace(text, Pair{rank, static_cast<Token>(i)}).second) known.push_back(text);
  }
  return pairs;
}

TEST(Merger, FollowsTheDefinition) {
  std::mt19937 random(5);
  for (int round = 0; round < 600; ++round) {
    // Ordered as in trained vocabularies; in any order; in any order with many equal ranks.
    const std::size_t n = 1 + random() % 40;
    const TextPairs pairs = random_pairs(random, n, round % 3 == 2 ? 4 : n, round % 3 == 0);
    Merger<TextPairs> merger(pairs);
    for (int i = 0; i < 4; ++i) {  // The same merger again: it must leave nothing behind.
      std::string word;
      for (std::size_t length = random() % 150; length > 0; --length)
        word += static_cast<char>('a' + random() % 3);
      ASSERT_EQ(merged(merger, word), by_definition(pairs, word)) << word;
    }
  }
}

TEST(Merger, WorkGrowsWithTheWord) {
  std::mt19937 random(6);
  for (int round = 0; round < 6; ++round) {
    const TextPairs pairs = random_pairs(random, 60, round % 3 == 2 ? 4 : 60, round % 3 == 0);
    const auto steps = [&](std::size_t size) {
      std::string word;
      std::mt19937 letters(7);
      for (std::size_t i = 0; i < size; ++i) word += round < 3 ? 'a' : static_cast<char>('a' + letters() % 3);
      Merger<TextPairs> merger(pairs);
      merged(merger, word);
      return static_cast<double>(merger.steps());
    };
    const double few = steps(1 << 12), many = steps(1 << 16);
    EXPECT_LT(many, 16.5 * few) << round;
    EXPECT_LT(many, 8.0 * (1 << 16)) << round;  // A place is looked at a few times, however long the word.
  }
}

}  // namespace
}  // namespace weft::text
