#include "text/pre_tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "text/utf8.h"
#include "weft/error.h"

namespace weft::text {
namespace {

std::vector<std::string> split(std::string_view name, std::string_view text) {
  const Splitter splitter(find_pre_tokenizer(name).patterns);
  Splitter::Session session(splitter);
  std::vector<std::string> pieces;
  std::size_t begin = 0;
  for (const std::uint32_t end : session.split(text)) {
    pieces.emplace_back(text.substr(begin, end - begin));
    begin = end;
  }
  return pieces;
}

using testing::ElementsAre;

// What the tokenizers package finds with the patterns as models publish them.
TEST(PreTokenizer, CutsAsTheOriginals) {
  std::ifstream file(WEFT_TEST_DATA "/tokenizers/splits.json");
  const auto vectors = nlohmann::json::parse(file);
  const auto texts = vectors["texts"].get<std::vector<std::string>>();
  ASSERT_GE(vectors["pieces"].size(), 26u);
  ASSERT_GE(texts.size(), 150u);
  for (const auto& [name, lines] : vectors["pieces"].items()) {
    ASSERT_EQ(lines.size(), texts.size());
    for (std::size_t i = 0; i < texts.size(); ++i) {
      std::string sizes;
      for (const std::string& piece : split(name, texts[i]))
        sizes += (sizes.empty() ? "" : " ") + std::to_string(piece.size());
      EXPECT_EQ(sizes, lines[i].get<std::string>()) << name << ": " << texts[i];
    }
  }
}

TEST(PreTokenizer, ThreesFromTheEnd) {
  EXPECT_THAT(split("superbpe", "1234567 12 123"), ElementsAre("1", "234", "567", " ", "12", " ", "123"));
  EXPECT_THAT(split("tiny_aya", "1234567 1234a"), ElementsAre("1", "234", "567", " ", "123", "4", "a"));
}

// What Python's regex package finds with the published patterns.
TEST(PreTokenizer, CutsAsPublished) {
  const std::string text = "I'Ll say  it's 12345\n\n  ok!!\t";
  EXPECT_THAT(split("gpt-2", text),
              ElementsAre("I", "'", "Ll", " say", " ", " it", "'s", " 12345", "\n\n ", " ok", "!!", "\t"));
  EXPECT_THAT(split("llama-bpe", text), ElementsAre("I", "'Ll", " say", " ", " it", "'s", " ", "123", "45",
                                                    "\n\n", " ", " ok", "!!", "\t"));
  EXPECT_THAT(split("qwen2", text), ElementsAre("I", "'Ll", " say", " ", " it", "'s", " ", "1", "2", "3", "4",
                                                "5", "\n\n", " ", " ok", "!!", "\t"));
  EXPECT_THAT(split("smollm", text), ElementsAre("I", "'", "Ll", " say", " ", " it", "'s", " ", "1", "2", "3",
                                                 "4", "5", "\n\n ", " ok", "!!", "\t"));
  EXPECT_THAT(split("falcon", text), ElementsAre("I", "'", "Ll", " say", " ", " it", "'", "s", " ", "123",
                                                 "45", "\n\n ", " ok", "!!", "\t"));
  EXPECT_THAT(split("deepseek-coder", "x = \"a\";\n  7 中文"),
              ElementsAre("x", " =", " \"", "a", "\";", "\n", "  ", "7", " ", "中文"));
  EXPECT_THAT(split("gpt-4o", "CamelCaseABC's HTTPServer//\n"),
              ElementsAre("Camel", "Case", "ABC's", " HTTPServer", "//\n"));
}

TEST(PreTokenizer, WhiteSpaceIsUnicodes) {
  // U+00A0 and U+3000 are white space, U+180E is not (any more).
  EXPECT_THAT(split("gpt-2", "a\u00A0b"), ElementsAre("a", "\u00A0", "b"));
  EXPECT_THAT(split("gpt-2", "a\u3000\u3000b"), ElementsAre("a", "\u3000", "\u3000", "b"));
  EXPECT_THAT(split("gpt-2", "a \u180Eb"), ElementsAre("a", " \u180E", "b"));
}

TEST(PreTokenizer, UnknownNamesAreRefused) {
  EXPECT_NO_THROW(find_pre_tokenizer(""));
  try {
    find_pre_tokenizer("unheard-of");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUnsupported);
    EXPECT_THAT(error.what(), testing::HasSubstr("unheard-of"));
  }
}

TEST(PreTokenizer, PiecesMakeUpTheText) {
  const std::vector<std::string> parts = {"a",  "B",  "é",  "中", "1", "½",  " ",      "  ",    "\n",
                                          "\r", "\t", "'s", "!",  "…", "🦙", "\u0308", "\u00A0"};
  std::mt19937 random(8);
  for (const std::string_view name : pre_tokenizer_names()) {
    const Splitter splitter(find_pre_tokenizer(name).patterns);
    Splitter::Session session(splitter);
    EXPECT_TRUE(session.split("").empty());
    for (int round = 0; round < 200; ++round) {
      std::string text;
      for (std::size_t n = 1 + random() % 20; n > 0; --n) text += parts[random() % parts.size()];
      std::uint32_t begin = 0;
      for (const std::uint32_t end : session.split(text)) {
        ASSERT_LT(begin, end) << name;
        ASSERT_EQ(valid_prefix(std::string_view(text).substr(begin, end - begin)), end - begin)
            << name << ": " << text;
        begin = end;
      }
      ASSERT_EQ(begin, text.size()) << name;
    }
  }
}

// A pattern that takes quadratic time for one of these would not come back within minutes.
TEST(PreTokenizer, LongRunsTakeLinearTime) {
  constexpr std::size_t kSize = 1 << 18;
  const std::vector<std::string> runs = {"a",    "A",   "é", "中", "7",      " ", "\n",
                                         "\r\n", " \n", "!", "🦙", "\u0308", "aA"};
  std::vector<std::string_view> seen;
  for (const std::string_view name : pre_tokenizer_names()) {
    const auto& patterns = find_pre_tokenizer(name).patterns;
    if (!seen.empty() && patterns == find_pre_tokenizer(seen.back()).patterns) continue;
    seen.push_back(name);
    const Splitter splitter(patterns);
    Splitter::Session session(splitter);
    const auto expect_whole = [&](const std::string& text, const std::string& what) {
      EXPECT_EQ(session.split(text).back(), text.size()) << name << ", " << what;
    };
    for (const std::string& run : runs) {
      std::string text;
      while (text.size() < kSize) text += run;
      expect_whole(text, run + "...");
      expect_whole(text + "x", run + "...x");
    }
    // Neither a letter nor punctuation takes the last of these spaces: what looks for the end tries them all.
    expect_whole(std::string(4 * kSize, ' ') + "7", "spaces, then a digit");
  }
}

}  // namespace
}  // namespace weft::text
