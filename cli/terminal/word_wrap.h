#pragma once
// Wraps streamed output at words. All characters are written at once; a word that does not fit is erased and
// written again on the next line.
#include <functional>
#include <string>
#include <string_view>

namespace weft::cli {

class WordWrap {
 public:
  /// `write` writes to the terminal, `columns` returns its width.
  WordWrap(std::function<void(std::string_view)> write, std::function<int()> columns);

  /// Takes complete UTF-8 characters; the first begins at the left edge. Styles ("\033[0;1m") come as
  /// complete sequences that set everything, so a word can be written again with its styles.
  void push(std::string_view text);
  /// Writes lines without wrapping, from the left edge up to the end of a line.
  void push_lines(std::string_view text);

 private:
  std::function<void(std::string_view)> write_;
  std::function<int()> columns_;
  int column_ = 0;
  std::string style_;  // The last one.
  std::string word_;   // The written part of the last word, with the style that it begins with.
  int word_width_ = 0;
};

}  // namespace weft::cli
