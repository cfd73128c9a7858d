#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "grammar_testing.h"

namespace weft::grammar {
namespace {

using testing::HasSubstr;

std::string gbnf_refusal(const std::string& source, const GrammarLimits& limits = patient()) {
  return error_of([&] { (void)small_compiler().compile(Grammar::gbnf(source, limits), limits); });
}

TEST(Gbnf, ReadsAllOfItsSyntax) {
  const Grammar g = Grammar::gbnf(R"gbnf(
# A comment.
root  ::= greeting (", " name)* "!"  # behind a rule
greeting ::= "Hi" | "Hello"
           | [A-C] [^a-z\]] . # a class, a negated one, any character
name ::= (
    [a-z]{2,3}
    | "\x41\u00e9\U0001F600\n\t\"\\" )
)gbnf");
  EXPECT_TRUE(allows(g, "Hi!"));
  EXPECT_TRUE(allows(g, "Hello, ab, abc!"));
  EXPECT_TRUE(allows(g, "B?\xC3\xA9!"));
  EXPECT_FALSE(allows(g, "B]x!"));
  EXPECT_TRUE(allows(g, "Hi, A\xC3\xA9\xF0\x9F\x98\x80\n\t\"\\!"));
  EXPECT_FALSE(allows(g, "Hi, abcd!"));
  EXPECT_FALSE(allows(g, "Hi, a!"));
}

TEST(Gbnf, Repeats) {
  const Grammar g = Grammar::gbnf(R"(root ::= "a"{2} "b"{1,} "c"{,2} "d"+ "e"* "f"?)");
  EXPECT_TRUE(allows(g, "aabd"));
  EXPECT_TRUE(allows(g, "aabbbccdddeef"));
  EXPECT_FALSE(allows(g, "aabcccd"));
  EXPECT_FALSE(allows(g, "abd"));
}

TEST(Gbnf, RecursesAsDeeplyAsTheTextDoes) {
  const Grammar g = Grammar::gbnf(R"gbnf(root ::= "(" root? ")" | "[" (root ("," root)*)? "]")gbnf");
  EXPECT_TRUE(allows(g, "([(),[()]])"));
  EXPECT_FALSE(allows(g, "([)]"));
  std::string deep;
  for (int i = 0; i < 3000; ++i) deep += "(";
  for (int i = 0; i < 3000; ++i) deep += ")";
  EXPECT_TRUE(allows(g, deep));
  deep.pop_back();
  EXPECT_FALSE(allows(g, deep));
}

TEST(Gbnf, SpecialTokensAreTheirOwnSymbols) {
  const auto c = compiled(Grammar::gbnf("root ::= <call> \"ab\""))->constraint();
  const std::vector<Token> first = allowed_tokens(*c);
  ASSERT_EQ(first.size(), 1u);
  EXPECT_EQ(small_tokenizer().text(first[0]), "<call>");
}

TEST(Gbnf, LoopsThatReadNothingEnd) {
  EXPECT_TRUE(allows(Grammar::gbnf(R"(root ::= ("a"*)* "b")"), "aaab"));
  EXPECT_TRUE(allows(Grammar::gbnf(R"(root ::= (("a"?)+)* "b")"), "aab"));
  const Grammar g = Grammar::gbnf("root ::= e e x e\ne ::= \"\" | e2\ne2 ::= \"\"\nx ::= \"x\" root?");
  EXPECT_TRUE(allows(g, "xx"));
  EXPECT_TRUE(compiled(Grammar::gbnf("root ::= \"a\"*"))->allows_text(""));
}

TEST(Gbnf, RightRecursionOverLongTexts) {
  const Grammar g = Grammar::gbnf("root ::= line root | line\nline ::= [a-z]+ \"\\n\"");
  std::string text;
  for (int i = 0; i < 5000; ++i) text += "ab\n";
  EXPECT_TRUE(allows(g, text));
  const auto c = compiled(g)->constraint();
  for (int i = 0; i < 5000; ++i) {
    c->accept('a');
    c->accept('\n');
  }
  EXPECT_FALSE(allowed_tokens(*c).empty());
}

TEST(Gbnf, RefusesLeftRecursion) {
  EXPECT_THAT(gbnf_refusal("root ::= root \"a\" | \"b\""), HasSubstr("left recursion"));
  EXPECT_THAT(gbnf_refusal("root ::= a\na ::= b \"x\"\nb ::= e a | \"y\"\ne ::= \"z\"?"),
              HasSubstr("left recursion"));
}

TEST(Gbnf, SaysWhereItIsWrong) {
  EXPECT_THAT(gbnf_refusal("a ::= \"x\""), HasSubstr("no rule \"root\""));
  EXPECT_THAT(gbnf_refusal("root ::= a"), HasSubstr("no rule \"a\""));
  EXPECT_THAT(gbnf_refusal("root ::= \"x"), HasSubstr("line 1, column 12"));
  EXPECT_THAT(gbnf_refusal("root ::= \"x\"\nroot ::= \"y\""), HasSubstr("defined twice"));
  EXPECT_THAT(gbnf_refusal("root ::= \n  [b-a]"), HasSubstr("line 2"));
  EXPECT_THAT(gbnf_refusal("root ::= \"\\q\""), HasSubstr("unknown escape"));
  EXPECT_THAT(gbnf_refusal("root ::= * \"a\""), HasSubstr("before *"));
  EXPECT_THAT(gbnf_refusal("root ::= \"a\"{3,1}"), HasSubstr("second number"));
  EXPECT_THAT(gbnf_refusal("root ::= (\"a\""), HasSubstr("expected )"));
  EXPECT_THAT(gbnf_refusal("root = \"a\""), HasSubstr("expected ::="));
  EXPECT_THAT(gbnf_refusal("root ::= \"\xFF\""), HasSubstr("UTF-8"));
  EXPECT_THAT(gbnf_refusal("root ::= \"a\" root"), HasSubstr("matches no text"));
}

// What ends other engines.
TEST(Gbnf, HostileGrammarsAreErrors) {
  EXPECT_THAT(gbnf_refusal("root ::= " + std::string(60000, '(')), HasSubstr("nested deeper"));
  std::string chain = "root ::= r0\n";
  for (int i = 0; i < 5000; ++i) chain += "r" + std::to_string(i) + " ::= r" + std::to_string(i + 1) + "\n";
  EXPECT_TRUE(allows(Grammar::gbnf(chain + "r5000 ::= \"end\"", patient()), "end"));
  std::string circle = chain + "r5000 ::= r0 | \"x\"";
  EXPECT_THAT(gbnf_refusal(circle), HasSubstr("left recursion"));
  EXPECT_THAT(gbnf_refusal("root ::= ((([a-z]{1000}){1000}){1000}){1000}"), HasSubstr("states"));
  EXPECT_THAT(gbnf_refusal("root ::= \"\"{1000000000}"), HasSubstr("states"));
  EXPECT_NE(gbnf_refusal("root ::= (\"a\" | \"b\")* \"a\" (\"a\" | \"b\"){30}"), "");  // 2^30 states.
  EXPECT_THAT(gbnf_refusal("root ::= \"" + std::string(2 << 20, 'x') + "\""), HasSubstr("bytes"));
  // Parses of a string that double with each rule.
  std::string doubling = "root ::= r0\n";
  for (int i = 0; i < 40; ++i) {
    const std::string next = std::to_string(i + 1);
    doubling += "r" + std::to_string(i) + " ::= r" + next + " \"a\" | q" + next + " \"b\"\nq" +
                std::to_string(i) + " ::= r" + next + " \"c\" | q" + next + " \"d\"\n";
  }
  doubling += "r40 ::= \"x\" root?\nq40 ::= \"y\" root?";
  EXPECT_NE(error_of([&] { (void)small_compiler().compile(Grammar::gbnf(doubling))->constraint(); }), "");
}

TEST(Gbnf, AmbiguousTextsEndInErrorsNotInTime) {
  const auto c = compiled(Grammar::gbnf(R"(root ::= "a" root root | "a" root | "")"))->constraint();
  const std::string error = error_of([&] {
    for (int i = 0; i < 20000; ++i) c->accept('a');
  });
  EXPECT_THAT(error, testing::AnyOf(HasSubstr("ambiguous"), HasSubstr("nested too deeply"), std::string()));
}

}  // namespace
}  // namespace weft::grammar
