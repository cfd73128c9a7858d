#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <string>

#include "text/vocabulary_testing.h"
#include "weft/error.h"
#include "weft/tokenizer.h"

namespace weft::text {
namespace {

using testing::ElementsAre;

/// <s> 0, the bytes from 1 on, written as Python writes them.
Vocabulary rwkv_vocabulary() {
  Vocabulary v;
  v.kind = VocabularyKind::kRwkv;
  v.bos = v.eos = add_token(v, "<s>", TokenKind::kControl);
  for (int b = 0; b < 256; ++b) {
    char hex[8];
    std::snprintf(hex, sizeof hex, "\\x%02x", static_cast<unsigned>(b));
    add_token(v,
              b == '\n'             ? "\\n"
              : b == '\\'           ? "\\\\"
              : b > ' ' && b < 0x7F ? std::string(1, static_cast<char>(b))
                                    : hex,
              TokenKind::kNormal);
  }
  return v;
}

TEST(Rwkv, TakesTheLongestTokenAtEachPlace) {
  Vocabulary v = rwkv_vocabulary();
  const Token ab = add_token(v, "ab", TokenKind::kNormal), abcd = add_token(v, "abcd", TokenKind::kNormal);
  const Token half = add_token(v, "\\xc3", TokenKind::kUnused),
              umlaut = add_token(v, "\\xc3\\xa4\\n", TokenKind::kNormal);
  v.tokens[static_cast<std::size_t>(half)] = "[PAD]";
  const Tokenizer t(v);
  EXPECT_THAT(t.encode("abcabcd"), ElementsAre(ab, 1 + 'c', abcd));
  EXPECT_THAT(t.encode("ä\nä<s>"), ElementsAre(umlaut, 1 + 0xC3, 1 + 0xA4, 1 + '<', 1 + 's', 1 + '>'));
  EXPECT_EQ(t.decode(t.encode("a\\ä\n\t")), "a\\ä\n\t");
  EXPECT_FALSE(t.adds_bos());
}

TEST(Rwkv, LiteralsAsPythonWritesThem) {
  EXPECT_EQ(bytes_of_literal(R"(a\t\n\r\\\'\x00\xfFé)"), std::string("a\t\n\r\\'\0\xFFé", 10));
  for (const char* damaged : {"\\", "\\x", "\\x1", "\\xzz", "a\\"})
    EXPECT_FALSE(bytes_of_literal(damaged).empty());
}

TEST(Rwkv, EveryByteMustHaveAToken) {
  Vocabulary v = rwkv_vocabulary();
  v.tokens[1 + 0x80] = "x80";
  EXPECT_THROW(Tokenizer{v}, Error);
}

}  // namespace
}  // namespace weft::text
