#pragma once
// Draws the edited line on a terminal that may be narrower than it.
//
// Terminals disagree about the widths of joined characters, so the code does not rely on column counts. Rows
// end before the terminal would wrap them, and the cursor is placed by writing the characters before it
// again.
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace weft::cli {

class ScreenLines {
 public:
  struct Prompt {
    std::string text;   ///< With its escape sequences.
    int n_columns = 0;  ///< Its width.
  };

  /// Returns the output that draws `text` over the last drawing, with the cursor at byte `cursor` of it.
  std::string draw(const Prompt& prompt, std::string_view text, std::size_t cursor, int n_columns,
                   int n_rows);
  /// Returns the output that moves the cursor to a new line after the last row. The next draw() begins there.
  std::string leave();
  /// Call when the terminal's width changes, which wraps the rows that are now too long.
  void resize(int n_columns);
  /// Call when the screen is cleared and the cursor at its top.
  void forget() { drawn_ = {}; }

 private:
  struct Drawn {
    std::vector<int> widths;  ///< Of the rows.
    std::size_t cursor_row = 0;
    int cursor_column = 0;
  };
  /// Finds where rows begin, as far as the cursor and a screen beyond it. Rows before the first change since
  /// the last drawing stay as they are.
  void lay_out(std::string_view text, std::size_t cursor, int prompt_columns, int limit, std::size_t n_rows);
  std::size_t row_of(std::size_t byte) const;

  Drawn drawn_;
  std::string text_;                 ///< The last argument of lay_out().
  std::vector<std::size_t> starts_;  ///< The first byte of each row of text_.
  int prompt_columns_ = 0;
  int limit_ = 0;
  std::size_t first_row_ = 0;  ///< The first row shown, if the screen has fewer rows.
};

}  // namespace weft::cli
