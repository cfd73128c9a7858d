#pragma once
// Text that comes piece by piece to a terminal, broken into lines at words: nothing is held back, and a word
// that turns out not to fit is taken back and begun again in the next line.
#include <functional>
#include <string>
#include <string_view>

namespace weft::cli {

class WordWrap {
 public:
  /// `write` gets what goes to the terminal, `columns` tells its width.
  WordWrap(std::function<void(std::string_view)> write, std::function<int()> columns);

  /// Whole characters of UTF-8; the text begins at the left edge. Styles ("\033[0;1m") come whole, and each
  /// says all: a word that is begun again has those that it had.
  void push(std::string_view text);
  /// Lines that are not broken: from the left edge, and up to the end of a line.
  void push_lines(std::string_view text);

 private:
  std::function<void(std::string_view)> write_;
  std::function<int()> columns_;
  int column_ = 0;
  std::string style_;  // The last one.
  std::string word_;   // What stands of the word at the line's end, from the style on that it begins with ...
  int word_width_ = 0;
};

}  // namespace weft::cli
