// Markdown on a terminal, split into pieces in any way.
#include "terminal/markdown.h"

#include <gtest/gtest.h>

#include <cstring>
#include <regex>
#include <string>
#include <vector>

#include "terminal/word_wrap.h"

namespace weft::cli {
namespace {

/// `text` in pieces of `step` bytes, with styles as words: <b> bold, <i> italic, <u> underlined, <d> dim, <c>
/// code, <> none.
std::string shown(const std::string& text, std::size_t step) {
  std::string out;
  Markdown markdown([&](std::string_view piece, bool) { out += piece; });
  for (std::size_t i = 0; i < text.size(); i += step) markdown.push(text.substr(i, step));
  markdown.finish();
  const std::pair<const char*, const char*> kNames[] = {
      {";36", "c"}, {";1", "b"}, {";2", "d"}, {";3", "i"}, {";4", "u"}};
  for (const auto& [code, name] : kNames) {
    for (std::size_t at = 0; (at = out.find(code, at)) != std::string::npos;)
      out.replace(at, std::strlen(code), name);
  }
  out = std::regex_replace(out, std::regex("\033\\[0([a-z]*)m"), "<$1>");
  return out;
}

void expect_shown(const std::string& text, const std::string& expected) {
  for (const std::size_t step : {1, 2, 3, 5, 1000}) EXPECT_EQ(shown(text, step), expected) << step;
}

TEST(Markdown, BoldItalicAndCode) {
  expect_shown("a **bold** word", "a <b>bold<> word");
  expect_shown("*one* _two_ ***both***", "<i>one<> <i>two<> <bi>both<>");
  expect_shown("__so__ too, **and *within* it**", "<b>so<> too, <b>and <bi>within<b> it<>");
  expect_shown("`code *as it is*` and ``a `tick` ``", "<c>code *as it is*<> and <c>a `tick` <>");
}

TEST(Markdown, KeepsOtherCharacters) {
  for (const char* text :
       {"2 * 3 * 4", "2*3*4", "2**10", "snake_case_name", "a\n\nb", "1. one\n2. two", "#no heading",
        "-no item", "| a | b |", "a - b", "**", "", "no newline at the end\n", "####### seven"})
    expect_shown(text, text);
  expect_shown(R"(\*not\* \n)", R"(*not* \n)");
}

TEST(Markdown, LinesThatBeginWithAMark) {
  expect_shown("# Title\ntext", "<bu>Title<>\ntext");
  expect_shown("## A `b` c\n", "<b>A <bc>b<b> c<>\n");
  expect_shown("- one\n  * **two**\n+ three\n", "• one\n  • <b>two<>\n• three\n");
  expect_shown("> said", "<d>│ <>said");
  expect_shown("a\n---\nb", "a\n<d>────────────────────────<>\nb");
  expect_shown("**bold** first", "<b>bold<> first");
  expect_shown("***all*** first", "<bi>all<> first");
}

TEST(Markdown, BlocksOfCodeStayAsTheyAre) {
  expect_shown("so:\n```python\n# no heading\nif a*b*c:\n    pass\n\n```\nthen",
               "so:\n<c># no heading<>\n<c>if a*b*c:<>\n<c>    pass<>\n\nthen");
  expect_shown("~~~~\n```\n~~~\n~~~~\n*i*", "<c>```<>\n<c>~~~<>\n<i>i<>");
  expect_shown("```\nnever closed", "<c>never closed<>");
  expect_shown("```a``` is a span", "<c>a<> is a span");
}

TEST(Markdown, AStyleThatIsNeverClosedEndsWithItsLine) {
  expect_shown("**open\nnext", "<b>open<>\nnext");
  expect_shown("`open\nnext", "<c>open<>\nnext");
}

TEST(Markdown, LinesOfCodeAreNotBroken) {
  std::string code, text;
  Markdown markdown([&](std::string_view piece, bool breaks) { (breaks ? text : code) += piece; });
  markdown.push("words\n```\na long line\n```\nmore");
  markdown.finish();
  EXPECT_EQ(code, "a long line\n");
  EXPECT_NE(text.find("more"), std::string::npos);
}

TEST(Markdown, HoldsBackOnlyAmbiguousMarks) {
  std::string out;
  Markdown markdown([&](std::string_view piece, bool) { out += piece; });
  markdown.push("some text *");
  EXPECT_EQ(out, "some text ");
  markdown.push(" more");
  EXPECT_EQ(out, "some text * more");
}

// A word that goes to the next line takes its styles along.
TEST(Markdown, StylesAreWrappedWithTheirWords) {
  std::string out;
  WordWrap wrap([&](std::string_view piece) { out += piece; }, [] { return 20; });
  Markdown markdown(
      [&](std::string_view piece, bool breaks) { breaks ? wrap.push(piece) : wrap.push_lines(piece); });
  for (const char c : std::string("fifteen letters **bold**word")) markdown.push(std::string(1, c));
  markdown.finish();
  const std::size_t line = out.rfind('\n');
  ASSERT_NE(line, std::string::npos);
  EXPECT_EQ(out.substr(line + 1), "\033[0;1mbold\033[0mword");
}

}  // namespace
}  // namespace weft::cli
