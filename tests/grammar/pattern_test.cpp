#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "grammar_testing.h"

namespace weft::grammar {
namespace {

using testing::HasSubstr;

bool matches(const std::string& pattern, std::string_view text) {
  return allows(Grammar::regex(pattern, patient()), text);
}
std::string pattern_refusal(const std::string& pattern) {
  return error_of([&] { (void)compiled(Grammar::regex(pattern, patient())); });
}

TEST(Pattern, MatchesTheWholeText) {
  EXPECT_TRUE(matches("a|bc", "bc"));
  EXPECT_FALSE(matches("a|bc", "abc"));
  EXPECT_TRUE(matches("^(a|b)c$", "bc"));
  EXPECT_TRUE(matches("(?:a|(?<name>b))+?c*?", "abcc"));
  EXPECT_TRUE(matches("a{2}b{1,}c{0,2}", "aabbcc"));
  EXPECT_FALSE(matches("a{2}b{1,}c{0,2}", "aabccc"));
  EXPECT_TRUE(matches("x{,2}", "x{,2}"));
  EXPECT_TRUE(matches("", ""));
}

TEST(Pattern, Classes) {
  EXPECT_TRUE(matches(R"(\d\D\w\W\s\S)", "1a_- x"));
  EXPECT_FALSE(matches(R"(\d)", "\xD9\xA3"));  // An Arabic digit is none here.
  EXPECT_TRUE(matches(R"([^a-c\d]+)", "xyz\xC3\xA9"));
  EXPECT_FALSE(matches(R"([^a-c\d]+)", "xb"));
  EXPECT_TRUE(matches(R"([\w.-]+@[\w-]+)", "a.b-c@d-e"));
  EXPECT_TRUE(matches(R"([\]a-]+)", "]a-"));
  EXPECT_TRUE(matches(".", "\xF0\x9F\x98\x80"));
  EXPECT_FALSE(matches(".", "\n"));
  EXPECT_FALSE(matches(".", "\xF0\x9F\x98"));
  EXPECT_FALSE(matches("[^a]", "\xED\xA0\x80"));  // No surrogates.
  EXPECT_FALSE(matches("[^a]", "\xC0\x80"));      // No overlong forms.
}

TEST(Pattern, Escapes) {
  EXPECT_TRUE(matches(R"(\t\n\r\f\v\0\x41\u00e9\u{1F600}\cJ\.\/\-\$)",
                      std::string("\t\n\r\f\v\0A\xC3\xA9\xF0\x9F\x98\x80\n./-$", 18)));
  EXPECT_TRUE(matches(R"(\uD83D\uDE00)", "\xF0\x9F\x98\x80"));
  EXPECT_TRUE(matches(R"(\p{Lu}\p{L}+\P{L})", "\xC3\x89t\xC3\xA9!"));
  EXPECT_FALSE(matches(R"(\p{Lu})", "a"));
}

TEST(Pattern, RejectsNonRegularExpressions) {
  EXPECT_THAT(pattern_refusal("(a)\\1"), HasSubstr("backreferences"));
  EXPECT_THAT(pattern_refusal("(?=a)b"), HasSubstr("lookaround"));
  EXPECT_THAT(pattern_refusal("(?<!a)b"), HasSubstr("lookaround"));
  EXPECT_THAT(pattern_refusal("\\bword"), HasSubstr("word boundaries"));
  EXPECT_THAT(pattern_refusal("a^b"), HasSubstr("^"));
  EXPECT_THAT(pattern_refusal("a$b"), HasSubstr("$"));
  EXPECT_THAT(pattern_refusal("(^a)*"), HasSubstr("repeated"));
}

TEST(Pattern, SaysWhereItIsWrong) {
  EXPECT_THAT(pattern_refusal("ab(c"), HasSubstr("byte 4"));
  EXPECT_THAT(pattern_refusal("a)"), HasSubstr("unmatched"));
  EXPECT_THAT(pattern_refusal("[z-a]"), HasSubstr("swap"));
  EXPECT_THAT(pattern_refusal("[a"), HasSubstr("]"));
  EXPECT_THAT(pattern_refusal("*a"), HasSubstr("nothing to repeat"));
  EXPECT_THAT(pattern_refusal("a**"), HasSubstr("nothing to repeat"));
  EXPECT_THAT(pattern_refusal("\\"), HasSubstr("backslash"));
  EXPECT_THAT(pattern_refusal("\\q"), HasSubstr("unknown escape"));
  EXPECT_THAT(pattern_refusal("\\p{Nope}"), HasSubstr("unknown property"));
  EXPECT_THAT(pattern_refusal("\xC3"), HasSubstr("UTF-8"));
  EXPECT_THAT(pattern_refusal("a{3,2}"), HasSubstr("second number"));
  EXPECT_THAT(pattern_refusal(std::string(60000, '(')), HasSubstr("nested deeper"));
  EXPECT_THAT(pattern_refusal("[^\\s\\S]"), HasSubstr("matches no text"));
  EXPECT_TRUE(matches("(a*)*b", "aab"));
  EXPECT_NE(error_of([&] { (void)small_compiler().compile(Grammar::regex("(a|b)*a(a|b){40}")); }), "");
}

}  // namespace
}  // namespace weft::grammar
