#include "base/base64.h"

#include <gtest/gtest.h>

namespace weft::base {
namespace {

std::vector<std::byte> bytes_of(std::string_view text) {
  const auto* const data = reinterpret_cast<const std::byte*>(text.data());
  return {data, data + text.size()};
}

// The vectors of RFC 4648, section 10.
TEST(Base64, KnownTexts) {
  const std::pair<std::string_view, std::string_view> kTexts[] = {{"", ""},
                                                                  {"f", "Zg=="},
                                                                  {"fo", "Zm8="},
                                                                  {"foo", "Zm9v"},
                                                                  {"foob", "Zm9vYg=="},
                                                                  {"fooba", "Zm9vYmE="},
                                                                  {"foobar", "Zm9vYmFy"}};
  for (const auto& [text, letters] : kTexts) {
    EXPECT_EQ(to_base64(bytes_of(text)), letters);
    EXPECT_EQ(from_base64(letters), bytes_of(text));
    EXPECT_EQ(from_base64(letters.substr(0, letters.find('='))), bytes_of(text)) << "not padded";
  }
}

TEST(Base64, AllBytesInBothAlphabets) {
  std::vector<std::byte> all;
  for (int i = 0; i < 256; ++i) all.push_back(static_cast<std::byte>(i));
  std::string letters = to_base64(all);
  EXPECT_EQ(from_base64(letters), all);
  for (char& c : letters) c = c == '+' ? '-' : c == '/' ? '_' : c;
  EXPECT_EQ(from_base64(letters), all);
}

TEST(Base64, OtherTextsAreRefused) {
  for (const std::string_view text : {"Z", "Zm9vY", "Zm 9v", "Zm9*", "Z=m9"})
    EXPECT_FALSE(from_base64(text)) << text;
}

}  // namespace
}  // namespace weft::base
