// Lines broken at words, as a terminal shows them.
#include "terminal/word_wrap.h"

#include <gtest/gtest.h>

#include <clocale>
#include <vector>

namespace weft::cli {
namespace {

/// The screen of a terminal that knows newlines, backward motion and erasure to the line's end. Multi-byte
/// characters count as one column.
std::vector<std::string> shown(const std::string& written) {
  std::vector<std::vector<std::string>> lines(1);
  for (std::size_t i = 0; i < written.size();) {
    if (written[i] == '\n') {
      lines.emplace_back();
      ++i;
    } else if (written.compare(i, 3, "\033[K") == 0) {
      i += 3;  // Nothing is after the cursor.
    } else if (written[i] == '\033') {
      std::size_t used = 0;
      const int n = std::stoi(written.substr(i + 2), &used);
      EXPECT_EQ(written[i + 2 + used], 'D');
      lines.back().resize(lines.back().size() - static_cast<std::size_t>(n));
      i += 3 + used;
    } else {
      std::size_t n = 1;
      while (i + n < written.size() && (static_cast<unsigned char>(written[i + n]) & 0xc0) == 0x80) ++n;
      lines.back().push_back(written.substr(i, n));
      i += n;
    }
  }
  std::vector<std::string> result;
  for (const auto& line : lines) {
    result.emplace_back();
    for (const std::string& character : line) result.back() += character;
    while (result.back().ends_with(' ')) result.back().pop_back();  // Nobody sees these.
  }
  return result;
}

/// `text` in pieces of `step` bytes (of ASCII) on a terminal of 20 columns, of which 19 are used.
std::vector<std::string> wrapped(const std::string& text, std::size_t step) {
  std::string written;
  WordWrap wrap([&](std::string_view out) { written += out; }, [] { return 20; });
  for (std::size_t i = 0; i < text.size(); i += step) wrap.push(text.substr(i, step));
  return shown(written);
}

using Lines = std::vector<std::string>;

TEST(WordWrap, WrapsAtWordsInAnyPieces) {
  for (const std::size_t step : {1, 2, 3, 7, 100}) {
    EXPECT_EQ(wrapped("The history of bread begins with grain", step),
              (Lines{"The history of", "bread begins with", "grain"}));
    EXPECT_EQ(wrapped("a\n  indented text stays\n\nb", step),
              (Lines{"a", "  indented text", "stays", "", "b"}));
    // The word fills the line, and the space after it ends the line.
    EXPECT_EQ(wrapped("abcdefghijklmnopqrs tuv", step), (Lines{"abcdefghijklmnopqrs", "tuv"}));
  }
}

TEST(WordWrap, KeepsWordsLongerThanALine) {
  const std::string address = "https://example.org/a/very/long/address";
  EXPECT_EQ(wrapped(address, 1), (Lines{address}));
  EXPECT_EQ(wrapped("see " + address, 5), (Lines{"see", address}));
}

TEST(WordWrap, BreaksScriptsWithoutBlanksAnywhere) {
  std::setlocale(LC_CTYPE, "C.UTF-8");
  std::string written;
  WordWrap wrap([&](std::string_view out) { written += out; }, [] { return 20; });
  for (int i = 0; i < 10; ++i) wrap.push("面");  // Of two columns each.
  EXPECT_EQ(shown(written), (Lines{"面面面面面面面面面", "面"}));
}

}  // namespace
}  // namespace weft::cli
