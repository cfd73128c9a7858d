// What is put together from parts, and what its constraints say of tokens.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "grammar_testing.h"

namespace weft::grammar {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Token find(std::string_view bytes) {
  for (Token t = 0; t < small_tokenizer().n_vocab(); ++t)
    if (small_tokenizer().piece(t, true) == bytes) return t;
  return kNoToken;
}
bool has(const std::vector<Token>& tokens, std::string_view bytes) {
  return std::find(tokens.begin(), tokens.end(), find(bytes)) != tokens.end();
}

/// What fill() says must be what allows() says, token by token.
void expect_consistent(TokenConstraint& constraint, std::span<const Token> draft = {}) {
  const std::vector<Token> tokens = allowed_tokens(constraint, draft);
  for (Token t = 0; t < small_tokenizer().n_vocab(); ++t)
    ASSERT_EQ(constraint.allows(draft, t), std::binary_search(tokens.begin(), tokens.end(), t))
        << "token " << t << " \"" << small_tokenizer().piece(t, true) << '"';
}

TEST(Compose, PartsAreReadInTheirOrder) {
  const Grammar g = Grammar::sequence({Grammar::literal("ab"),
                                       Grammar::choice({Grammar::literal("x"), Grammar::literal("yz")}),
                                       Grammar::repeat(Grammar::literal("!"), 1, 3)});
  EXPECT_TRUE(allows(g, "abx!"));
  EXPECT_TRUE(allows(g, "abyz!!!"));
  EXPECT_FALSE(allows(g, "abyz!!!!"));
  EXPECT_FALSE(allows(g, "abyz"));
  EXPECT_FALSE(allows(g, "abxyz!"));
}

TEST(Compose, NothingIsAllowedIsAnError) {
  EXPECT_THAT(error_of([] { compiled(Grammar::choice({})); }), HasSubstr("matches no text"));
  EXPECT_THAT(error_of([] { Grammar::repeat(Grammar::literal("a"), 3, 2); }), HasSubstr("second number"));
  EXPECT_THAT(error_of([] { Grammar::tag(""); }), HasSubstr("tag"));
}

TEST(Compose, NestsDeeplyOrSaysSo) {
  Grammar g = Grammar::literal("a");
  const std::string error = error_of([&] {
    for (int i = 0; i < 100000; ++i) g = Grammar::repeat(g, 0, 1);
  });
  EXPECT_THAT(error, HasSubstr("nested deeper"));
  EXPECT_TRUE(allows(g, "a"));
}

TEST(Constraint, MasksHoldTokensThatCrossParts) {
  const auto g = compiled(Grammar::json_schema(
      R"({"type":"object","properties":{"name":{"type":"string"}},"required":["name"]})"));
  const auto c = g->constraint();
  EXPECT_THAT(allowed_tokens(*c), ElementsAre(find("{"), find("{\"")));
  expect_consistent(*c);
  c->accept(find("{\""));
  c->accept(find("name"));
  EXPECT_THAT(allowed_tokens(*c), testing::UnorderedElementsAre(find("\""), find("\": "), find("\": \"")));
  c->accept(find("\": \""));
  const std::vector<Token> inside = allowed_tokens(*c);
  EXPECT_TRUE(has(inside, "hello world"));
  EXPECT_TRUE(has(inside, "\"}"));
  EXPECT_FALSE(has(inside, "\", \""));  // No property follows.
  EXPECT_FALSE(has(inside, "\n\n"));
  EXPECT_FALSE(has(inside, "<call>"));
  EXPECT_TRUE(has(inside, "<user>"));
  expect_consistent(*c);
  c->accept(find("\"}"));
  EXPECT_THAT(allowed_tokens(*c), ElementsAre(find("<eos>")));
  c->accept(find("<eos>"));
  EXPECT_THAT(allowed_tokens(*c), ElementsAre(find("<eos>")));
  EXPECT_THAT(error_of([&] { c->accept(find("a")); }), HasSubstr("does not match the grammar"));
}

TEST(Constraint, DraftsContinueTheSequence) {
  const auto g = compiled(Grammar::regex("(ab|abc)*!"));
  const auto c = g->constraint();
  const std::vector<Token> draft = {find("ab"), find("abc"), find("a")};
  EXPECT_THAT(allowed_tokens(*c, draft), ElementsAre(find("b")));
  expect_consistent(*c, draft);
  expect_consistent(*c, std::span(draft).first(1));
  EXPECT_TRUE(c->allows(std::span(draft).first(2), find("!")));
  EXPECT_FALSE(c->allows(draft, find("!")));
  const std::vector<Token> other = {find("abc"), find("!")};
  EXPECT_THAT(allowed_tokens(*c, other), ElementsAre(find("<eos>")));
  c->accept(find("abc"));
  c->accept(find("!"));
  EXPECT_THAT(allowed_tokens(*c), ElementsAre(find("<eos>")));
  const std::vector<Token> wrong = {find("a")};
  EXPECT_FALSE(c->allows(wrong, find("b")));
  EXPECT_THAT(error_of([&] { (void)allowed_tokens(*c, wrong); }), HasSubstr("does not allow"));
}

TEST(Constraint, TagsAreSpecialTokensWhereThereAreSome) {
  const auto g =
      compiled(Grammar::sequence({Grammar::tag("<call>"), Grammar::literal("ab"), Grammar::tag("<none>")}));
  const auto c = g->constraint();
  EXPECT_THAT(allowed_tokens(*c), ElementsAre(find("<call>")));
  c->accept(find("<call>"));
  EXPECT_THAT(allowed_tokens(*c), ElementsAre(Token{'a'}, find("ab")));
  c->accept(find("ab"));
  EXPECT_THAT(allowed_tokens(*c), ElementsAre(find("<")));
  EXPECT_TRUE(g->allows_text("<call>ab<none>"));
}

TEST(FreeText, AllowsEverythingUntilATag) {
  const auto g =
      compiled(Grammar::free_text({{"<call>", Grammar::literal("ab")}, {"<tool>", Grammar::literal("12")}}));
  const auto c = g->constraint();
  const std::vector<Token> free = allowed_tokens(*c);
  EXPECT_TRUE(has(free, "<call>"));
  EXPECT_TRUE(has(free, "<eos>"));
  EXPECT_TRUE(has(free, "hello world"));
  EXPECT_TRUE(has(free, "<tool"));
  EXPECT_FALSE(has(free, "<|unused|>"));
  EXPECT_FALSE(has(free, "</call>"));
  expect_consistent(*c);
  for (const std::string_view token : {"hello world", "<tool", " the", "<tool", ">"}) c->accept(find(token));
  EXPECT_THAT(allowed_tokens(*c), ElementsAre(Token{'1'}, find("12"), find("123")));
  expect_consistent(*c);
  c->accept(find("12"));
  EXPECT_TRUE(has(allowed_tokens(*c), "<eos>"));
  c->accept(find("<call>"));
  EXPECT_THAT(allowed_tokens(*c), ElementsAre(Token{'a'}, find("ab"), find("abc")));
  EXPECT_TRUE(g->allows_text("x<call>aby<tool>12<call>ab"));
  EXPECT_FALSE(g->allows_text("x<call>a"));
  EXPECT_FALSE(g->allows_text("x<call>"));
}

TEST(FreeText, CountsItsTags) {
  const Grammar g = Grammar::free_text({{"<a>", Grammar::literal("1")}}, 1, 2);
  EXPECT_FALSE(allows(g, "text"));
  EXPECT_TRUE(allows(g, "text<a>1"));
  EXPECT_TRUE(allows(g, "<<a>1<<a>1 end <"));
  EXPECT_FALSE(allows(g, "<a>1<a>1<a>1"));
  EXPECT_FALSE(allows(g, "<a>1<a>1<a>"));
  const Grammar any = Grammar::free_text({{"<a>", Grammar::literal("1")}}, 2);
  EXPECT_FALSE(allows(any, "<a>1"));
  EXPECT_TRUE(allows(any, "<a>1<a>1 <a>1<a>1"));
}

TEST(FreeText, TagsThatBeginAlikeAndStandInEachOther) {
  const Grammar g = Grammar::free_text(
      {{"<ab>", Grammar::literal("1")}, {"<ac", Grammar::literal("2")}, {"b>", Grammar::literal("3")}});
  EXPECT_TRUE(allows(g, "<ab>1"));
  EXPECT_TRUE(allows(g, "<ab>3"));  // "b>" ends there, too.
  EXPECT_TRUE(allows(g, "<<ac2"));
  EXPECT_TRUE(allows(g, "<a<ac2 b>3 <a"));
  EXPECT_FALSE(allows(g, "<ab>2"));
}

TEST(FreeText, UntilATag) {
  const Grammar g = Grammar::sequence({Grammar::until("</call>"), Grammar::literal("ab")});
  const auto compiled_grammar = compiled(g);
  EXPECT_TRUE(compiled_grammar->allows_text("think </cal </call>ab"));
  EXPECT_FALSE(compiled_grammar->allows_text("think"));
  EXPECT_FALSE(compiled_grammar->allows_text("x</call>y</call>ab"));
  const auto c = compiled_grammar->constraint();
  c->accept(find("hello world"));
  EXPECT_FALSE(has(allowed_tokens(*c), "<eos>"));
  c->accept(find("</call>"));
  EXPECT_THAT(allowed_tokens(*c), ElementsAre(Token{'a'}, find("ab")));
}

TEST(Forced, ReturnsTokensWithoutAlternative) {
  const auto g = compiled(
      Grammar::sequence({Grammar::literal("{\"name\": "), Grammar::regex("[a-z]+"), Grammar::tag("<call>")}));
  const auto c = g->constraint();
  std::vector<Token> tokens;
  c->forced({}, tokens);
  ASSERT_FALSE(tokens.empty());
  std::string text;
  for (const Token token : tokens) {
    EXPECT_TRUE(c->allows({}, token));
    c->accept(token);
    text += small_tokenizer().piece(token);
  }
  EXPECT_TRUE(std::string_view("{\"name\": ").starts_with(text)) << text;
  tokens.clear();
  const auto d =
      compiled(Grammar::sequence({Grammar::literal("12345"), Grammar::tag("<call>"), Grammar::literal("?")}))
          ->constraint();
  d->forced({}, tokens);
  text.clear();
  for (const Token token : tokens) text += small_tokenizer().piece(token, true);
  EXPECT_EQ(text, "12345<call>?");
}

TEST(Forced, StopsBeforeAmbiguousTokens) {
  const auto g = compiled(Grammar::regex("xa(b|c|bc)"));
  std::vector<Token> tokens;
  g->constraint()->forced({}, tokens);
  EXPECT_THAT(tokens, ElementsAre(Token{'x'}));  // "a" may become "ab".
}

}  // namespace
}  // namespace weft::grammar
