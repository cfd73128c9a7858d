#include "terminal/word_wrap.h"

#include <fmt/format.h>

#include <algorithm>
#include <cwchar>
#include <utility>

namespace weft::cli {
namespace {

constexpr int kTab = 8;

std::size_t length_of(char lead) {
  const auto byte = static_cast<unsigned char>(lead);
  return byte < 0xc0 ? 1 : byte < 0xe0 ? 2 : byte < 0xf0 ? 3 : 4;
}

// The columns of a character of valid UTF-8.
int width_of(std::string_view character) {
  const auto lead = static_cast<unsigned char>(character[0]);
  auto code = static_cast<char32_t>(character.size() == 1 ? lead : lead & (0x7f >> character.size()));
  for (const char c : character.substr(1)) code = code << 6 | (static_cast<unsigned char>(c) & 0x3f);
  if (code < 0x20 || code == 0x7f) return 0;
  const int width = ::wcwidth(static_cast<wchar_t>(code));
  return width < 0 ? 1 : width;
}

}  // namespace

WordWrap::WordWrap(std::function<void(std::string_view)> write, std::function<int()> columns)
    : write_(std::move(write)), columns_(std::move(columns)) {}

void WordWrap::push(std::string_view text) {
  // The last column stays free: terminals disagree where the cursor is after a character there.
  const int limit = std::max(columns_() - 1, kTab);
  std::string out;
  const auto begin_line = [&] {
    out += '\n';
    column_ = 0;
  };
  const auto end_word = [&] {
    word_ = style_;
    word_width_ = 0;
  };
  while (!text.empty()) {
    if (text[0] == '\033') {
      style_ = text.substr(0, std::min(text.find('m'), text.size() - 1) + 1);
      text.remove_prefix(style_.size());
      out += style_;
      word_ += style_;
      continue;
    }
    const std::string_view character = text.substr(0, length_of(text[0]));
    text.remove_prefix(character.size());
    if (character == "\n") {
      begin_line();
      end_word();
      continue;
    }
    const bool blank = character == " " || character == "\t";
    const int width = character == "\t" ? kTab - column_ % kTab : width_of(character);
    if (blank && column_ + width > limit) {
      begin_line();  // In the blank's place.
      end_word();
      continue;
    }
    // Scripts without blanks have wide characters, and break anywhere.
    if (blank || width > 1) end_word();
    if (column_ + width > limit) {
      if (word_width_ == column_) {  // Longer than a line: the terminal breaks it.
        end_word();
        column_ = 0;
      } else {
        if (word_width_ > 0) out += fmt::format("\033[{}D\033[K", word_width_);
        begin_line();
        out += word_;
        column_ = word_width_;
      }
    }
    out += character;
    column_ += width;
    if (!blank && width <= 1) {
      word_ += character;
      word_width_ += width;
    }
  }
  write_(out);
}

void WordWrap::push_lines(std::string_view text) {
  write_(text);
  column_ = 0;
  word_ = style_;
  word_width_ = 0;
}

}  // namespace weft::cli
