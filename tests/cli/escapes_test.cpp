// Escapes of the command line, as llama.cpp reads them.
#include "options/escapes.h"

#include <gtest/gtest.h>

namespace weft::cli {
namespace {

TEST(Escapes, AreReplaced) {
  EXPECT_EQ(unescape(R"(a\nb)"), "a\nb");
  EXPECT_EQ(unescape(R"(\r\t\\\'\")"), "\r\t\\'\"");
  EXPECT_EQ(unescape(R"(\x41\x0a\xe2\x82\xac)"), "A\n\xe2\x82\xac");
  EXPECT_EQ(unescape(R"(\xFf)"), "\xff");
  EXPECT_EQ(unescape(R"(\\n)"), "\\n");
  EXPECT_EQ(unescape(R"(<|im_end|>\n<|im_start|>assistant\n)"), "<|im_end|>\n<|im_start|>assistant\n");
}

TEST(Escapes, OtherBackslashesStay) {
  for (const char* text : {R"(C:\Users)", R"(\alpha + \beta)", R"(\d+\.)", R"(\x4)", R"(\xg0)", R"(\x+1)",
                           R"(\)", R"(end\)", R"(\0)", R"(\u00e9)"})
    EXPECT_EQ(unescape(text), text);
}

TEST(Escapes, AreReadOnlyWhereWanted) {
  EXPECT_EQ(read_escapes(std::string(R"(a\nb)"), false), R"(a\nb)");
  EXPECT_EQ(read_escapes(std::vector<std::string>{R"(\n)", "b"}, true),
            (std::vector<std::string>{"\n", "b"}));
}

}  // namespace
}  // namespace weft::cli
