#pragma once
// Markdown that comes piece by piece, as a terminal shows it: headings, lists, quotes, code, bold and italic.
// What it does not know stays as it is written. Held back are only marks whose meaning the next characters
// tell, and a style lasts to its line's end at most, so a mark that is never closed costs little.
#include <functional>
#include <string>
#include <string_view>

namespace weft::cli {

class Markdown {
 public:
  /// `write` gets text and escape sequences, each whole and absolute ("\033[0;1m": bold and nothing else),
  /// and whether the text's lines may be broken at words: those of code may not.
  explicit Markdown(std::function<void(std::string_view text, bool breaks)> write);

  /// Whole characters of UTF-8.
  void push(std::string_view text);
  /// The text has ended: writes what was held back. The next text begins a line.
  void finish();

 private:
  enum Style : unsigned {
    kPlain = 0,
    kBold = 1,
    kItalic = 2,
    kUnderlined = 4,
    kDim = 8,
    kCode = 16,
  };

  bool step();
  bool begin_line();
  bool read_mark();
  bool read_fence(std::size_t at);
  bool read_code_line();
  bool read_inline();
  bool read_emphasis(char mark);
  bool read_code_span();
  bool waits(std::size_t at) const { return at >= text_.size() && !ended_; }
  char next(std::size_t at) const { return at < text_.size() ? text_[at] : '\n'; }
  std::size_t run_of(char c, std::size_t at) const;
  void toggle(unsigned style);
  void emit(std::string_view text, unsigned more = kPlain);
  void take(std::size_t n) { text_.erase(0, n); }
  void end_line();

  std::function<void(std::string_view, bool)> write_;
  std::string text_;  // Not read yet.
  bool ended_ = false;
  bool line_begins_ = true;
  bool code_line_begins_ = true;
  char fence_ = '\0';  // Within a block of code: what it is fenced with ...
  std::size_t fence_length_ = 0;
  std::size_t span_ = 0;       // Within a span of code: the ticks that it began with.
  unsigned line_ = kPlain;     // Of the whole line: a heading's.
  unsigned style_ = kPlain;    // Of what is read.
  unsigned written_ = kPlain;  // That the terminal has.
  char before_ = '\n';         // The last byte that was written.
};

}  // namespace weft::cli
