#include "text/utf8.h"

#include <gtest/gtest.h>

#include <string>

namespace weft::text {
namespace {

TEST(Utf8, EveryCharacterComesBack) {
  for (char32_t c = 0; c <= 0x10FFFF; ++c) {
    if (c >= 0xD800 && c < 0xE000) continue;
    std::string text;
    append_utf8(text, c);
    const Utf8Char read = first_char(text + "x");
    ASSERT_EQ(read.status, Utf8Status::kValid) << static_cast<unsigned>(c);
    ASSERT_EQ(read.code, c);
    ASSERT_EQ(read.size, text.size());
    ASSERT_EQ(char_size(text[0]), text.size());
    ASSERT_EQ(valid_prefix(text), text.size());
    for (std::size_t n = 1; n < text.size(); ++n) {
      const Utf8Char half = first_char(std::string_view(text).substr(0, n));
      ASSERT_EQ(half.status, Utf8Status::kIncomplete) << static_cast<unsigned>(c);
      ASSERT_EQ(half.size, n);
    }
  }
}

// Table 3-8 and 3-11 of the Unicode standard, chapter 3.9.
TEST(Utf8, MaximalSubpartsAreReplaced) {
  const std::string r(kReplacement);
  EXPECT_EQ(repaired("\xC0\xAF\xE0\x80\xBF\xF0\x81\x82\x41"), r + r + r + r + r + r + r + r + "A");
  EXPECT_EQ(repaired("\xED\xA0\x80\xED\xBF\xBF\xED\xAF\x41"), r + r + r + r + r + r + r + r + "A");
  EXPECT_EQ(repaired("\xF4\x91\x92\x93\xFF\x41\x80\xBF\x42"), r + r + r + r + r + "A" + r + r + "B");
  EXPECT_EQ(repaired("\xE1\x80\xE2\xF0\x91\x92\xF1\xBF\x41"), r + r + r + r + "A");
  EXPECT_EQ(repaired("eight or more ASCII bytes, then half: \xE4\xB8"),
            "eight or more ASCII bytes, then half: " + r);
  EXPECT_EQ(repaired(""), "");
  EXPECT_EQ(valid_prefix("12345678\x80"), 8u);
}

}  // namespace
}  // namespace weft::text
