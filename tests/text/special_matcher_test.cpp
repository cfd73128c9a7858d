#include "text/special_matcher.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <random>
#include <string>
#include <vector>

namespace weft::text {
namespace {

struct Set {
  explicit Set(const std::vector<std::string>& list) {
    std::vector<Token> ids;
    for (const std::string& text : list) {
      ids.push_back(static_cast<Token>(texts.size()));
      texts.add(text);
    }
    matcher.emplace(texts, ids);
  }
  TokenTexts texts;
  std::optional<SpecialMatcher> matcher;
};

TEST(SpecialMatcher, LeftmostThenLongest) {
  const Set set({"<a>", "<a>b", "a", "\n", "\n\n\n", "<a><"});
  const auto match = set.matcher->find("xx<a>bc", 0);
  EXPECT_EQ(match.begin, 2u);
  EXPECT_EQ(match.id, 1);
  EXPECT_EQ(match.size, 4u);
  EXPECT_EQ(set.matcher->find("<a><a>b", 0).id, 5);
  EXPECT_EQ(set.matcher->find("<a><a>b", 4).id, 2);
  EXPECT_EQ(set.matcher->find("\n\n", 0).id, 3);  // The longer one does not fit.
  EXPECT_EQ(set.matcher->find("\n\n\n\n", 0).id, 4);
  EXPECT_EQ(set.matcher->find("nothing: <A>", 9).id, kNoToken);
  EXPECT_EQ(set.matcher->find("nothing: <A>", 9).begin, 12u);
  EXPECT_EQ(set.matcher->find("", 0).id, kNoToken);
}

TEST(SpecialMatcher, TextsThatWouldCutCharactersAreNeverFound) {
  const Set set({"", "\xA9", "\xC3", "é"});
  EXPECT_EQ(set.matcher->find("aé", 0).id, 3);
  EXPECT_EQ(set.matcher->find("aè©", 0).id, kNoToken);
}

TEST(SpecialMatcher, AgreesWithSearchingEachText) {
  std::mt19937 random(3);
  const auto word = [&](std::size_t longest) {
    std::string text;
    for (std::size_t n = 1 + random() % longest; n > 0; --n) text += static_cast<char>('a' + random() % 3);
    return text;
  };
  for (int round = 0; round < 2000; ++round) {
    std::vector<std::string> list;
    for (std::size_t n = random() % 8; n > 0; --n)
      if (const std::string w = word(5); std::find(list.begin(), list.end(), w) == list.end())
        list.push_back(w);
    const Set set(list);
    const std::string text = word(20);
    SpecialMatcher::Match wanted{text.size(), 0, kNoToken};
    for (std::size_t i = 0; i < list.size(); ++i) {
      const std::size_t at = text.find(list[i]);
      if (at < wanted.begin || (at == wanted.begin && list[i].size() > wanted.size))
        wanted = {at, list[i].size(), static_cast<Token>(i)};
    }
    const auto found = set.matcher->find(text, 0);
    ASSERT_EQ(found.id, wanted.id) << text;
    ASSERT_EQ(found.begin, wanted.begin);
    ASSERT_EQ(found.size, wanted.size);
  }
}

}  // namespace
}  // namespace weft::text
