#pragma once
// Shows Markdown on a terminal piece by piece: headings, lists, quotes, code, bold and italic. Other syntax
// is shown as written. Only marks whose meaning depends on the next characters are held back. A style ends at
// the line's end at the latest, so an unclosed mark does little harm.
#include <functional>
#include <string>
#include <string_view>

namespace weft::cli {

class Markdown {
 public:
  /// `write` gets characters and complete escape sequences that set the whole style ("\033[0;1m": bold and
  /// nothing else). `breaks`: the line may be wrapped at words, as it is not code.
  explicit Markdown(std::function<void(std::string_view text, bool breaks)> write);

  /// Takes complete UTF-8 characters.
  void push(std::string_view text);
  /// Ends the document: writes pending characters. The next push() begins a line.
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
  char fence_ = '\0';  // Within a code block: the character of its fence.
  std::size_t fence_length_ = 0;
  std::size_t span_ = 0;       // Within a code span: its number of backticks.
  unsigned line_ = kPlain;     // Style of the whole line, of a heading.
  unsigned style_ = kPlain;    // Style at the reading position.
  unsigned written_ = kPlain;  // Style of the terminal.
  char before_ = '\n';         // The last byte that was written.
};

}  // namespace weft::cli
