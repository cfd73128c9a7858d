// Expressions of tokenizer.json: their matches, and that their work is linear in the input.
#include "text/pattern.h"

#include <gtest/gtest.h>

#include <string>

#include "weft/error.h"

namespace weft::text {
namespace {

TEST(Pattern, FindsMatchesInLongInputs) {
  std::string text;
  for (int i = 0; i < 20'000; ++i) text += "word 12  ";
  EXPECT_EQ(Pattern::of_expression(" {2,}").find(text).size(), 20'000u);
  EXPECT_EQ(Pattern::of_expression(R"(\s+(?!\S)|\s+)").find(std::string(100'000, ' ')).size(), 1u);
  EXPECT_EQ(Pattern::of_expression(R"( ?\p{L}+| ?\p{N}{1,3}|\s+(?!\S)|\s+)").find(text).size(), 60'000u);
  EXPECT_EQ(Pattern::of_expression(R"(\p{L}+)").find(std::string(200'000, 'a')).size(), 1u);
}

/// Few steps at each position, but too many in total.
TEST(Pattern, RefusesExpressionsWhoseWorkGrowsWithTheSquare) {
  for (const char* expression : {"(?=.*b)a", "(?=.*+b)a", "a*b(?<!c)|(?=(?:a|aa)*b)a", "(?=a*a*b)a"})
    EXPECT_THROW(Pattern::of_expression(expression).find(std::string(20'000, 'a')), Error) << expression;
}

}  // namespace
}  // namespace weft::text
