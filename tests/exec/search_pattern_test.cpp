// Patterns of users: their matches, their errors, and their bounded time.
#include "exec/search_pattern.h"

#include <gtest/gtest.h>

#include "weft/error.h"

namespace weft::exec {
namespace {

std::string refusal(const std::string& pattern, const std::string& text = "") {
  try {
    SearchPattern(pattern).found_in(text);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    return error.what();
  }
  return "";
}

TEST(SearchPattern, FindsPartsOfNames) {
  EXPECT_TRUE(SearchPattern("ffn_(up|down)").found_in("blk.3.ffn_down.weight"));
  EXPECT_TRUE(SearchPattern("^blk\\.[0-4]\\.").found_in("blk.3.ffn_down.weight"));
  EXPECT_FALSE(SearchPattern("^ffn").found_in("blk.3.ffn_down.weight"));
  EXPECT_TRUE(SearchPattern("").found_in(""));
  EXPECT_TRUE(SearchPattern("(b)(l)(k)").found_in("blk"));
  EXPECT_TRUE(SearchPattern("\xff.").found_in("a\xff\xfe"));  // Names of files may be invalid UTF-8.
}

TEST(SearchPattern, SaysWhatIsWrongAndWhere) {
  EXPECT_NE(refusal("a(b").find("'a(b' is not a regular expression: missing"), std::string::npos)
      << refusal("a(b");
  EXPECT_NE(refusal("a(b").find("character 4"), std::string::npos) << refusal("a(b");
  EXPECT_NE(refusal(std::string(100'000, '(')).find("not a regular expression"), std::string::npos);
}

TEST(SearchPattern, EndsWhateverPatternAndTextAre) {
  EXPECT_NE(refusal("(a+)+$", std::string(64, 'a') + "b").find("takes too long"), std::string::npos);
  EXPECT_NE(refusal("(?R)?a", std::string(1'000'000, 'b') + "a").find("takes too long"), std::string::npos);
  // Deep recursion of a naive matcher: a result or a refusal, and no stack overflow.
  const std::string answer = refusal("^(a|b)*c", std::string(5'000'000, 'a'));
  EXPECT_TRUE(answer.empty() || answer.find("takes too long") != std::string::npos) << answer;
}

}  // namespace
}  // namespace weft::exec
