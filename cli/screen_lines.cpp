#include "screen_lines.h"

#include <fmt/format.h>

#include <algorithm>

#include "graphemes.h"

namespace weft::cli {
namespace {

constexpr std::string_view kEraseRow = "\033[K";    // From the cursor on.
constexpr std::string_view kEraseBelow = "\033[J";  // From the cursor on.

struct Row {
  std::string text;
  int width = 0;
  std::size_t first = 0;  ///< Byte of the whole text.
};

std::string up(std::size_t n_rows) { return n_rows == 0 ? "" : fmt::format("\033[{}A", n_rows); }

// Control characters must not reach the terminal.
std::string shown(std::string_view cluster) {
  const auto byte = static_cast<unsigned char>(cluster[0]);
  if (cluster == "\t") return "    ";
  if (byte < 0x20) return {'^', static_cast<char>(byte + '@')};
  if (byte == 0x7f) return "^?";
  const bool is_c1 = byte == 0xc2 && cluster.size() > 1 && static_cast<unsigned char>(cluster[1]) < 0xa0;
  return is_c1 ? "?" : std::string(cluster);
}

int columns_of_shown(const std::string& text) {
  int columns = 0;
  const std::vector<std::size_t> starts = grapheme_starts(text);
  for (std::size_t i = 0; i + 1 < starts.size(); ++i)
    columns += grapheme_columns(std::string_view(text).substr(starts[i], starts[i + 1] - starts[i]));
  return columns;
}

// The cursor's row begins with its own bytes, so a cursor at a row's end stands in the next one only where a
// cluster follows.
std::vector<Row> rows_of(std::string_view text, int prompt_columns, int limit) {
  std::vector<Row> rows(1);
  rows[0].width = prompt_columns;
  const std::vector<std::size_t> starts = grapheme_starts(text);
  for (std::size_t i = 0; i + 1 < starts.size(); ++i) {
    const std::string_view cluster = text.substr(starts[i], starts[i + 1] - starts[i]);
    if (cluster == "\n" || cluster == "\r\n") {
      rows.push_back({.first = starts[i + 1]});
      continue;
    }
    const std::string piece = shown(cluster);
    const int width = columns_of_shown(piece);
    if (rows.back().width > 0 && rows.back().width + width > limit) rows.push_back({.first = starts[i]});
    rows.back().text += piece;
    rows.back().width += width;
  }
  return rows;
}

// Of a row, what stands before the byte `cursor` of the text.
std::string before_cursor(std::string_view text, const Row& row, std::size_t cursor) {
  std::string before;
  const std::string_view part = text.substr(row.first, cursor - row.first);
  const std::vector<std::size_t> starts = grapheme_starts(part);
  for (std::size_t i = 0; i + 1 < starts.size(); ++i)
    before += shown(part.substr(starts[i], starts[i + 1] - starts[i]));
  return before;
}

}  // namespace

std::string ScreenLines::draw(const Prompt& prompt, std::string_view text, std::size_t cursor, int n_columns,
                              int n_rows) {
  // The last column stays free: after a character there, terminals disagree about the cursor.
  const std::vector<Row> rows = rows_of(text, prompt.n_columns, std::max(n_columns - 1, 2));
  std::size_t cursor_row = rows.size() - 1;
  while (cursor_row > 0 && rows[cursor_row].first > cursor) --cursor_row;
  const auto n_shown = std::min(rows.size(), static_cast<std::size_t>(std::max(n_rows, 1)));
  first_row_ = std::min({first_row_, cursor_row, rows.size() - n_shown});
  first_row_ = std::max(first_row_, cursor_row + 1 < n_shown ? 0 : cursor_row + 1 - n_shown);

  std::string out = "\r" + up(drawn_.cursor_row);
  drawn_.widths.clear();
  for (std::size_t i = first_row_; i < first_row_ + n_shown; ++i) {
    if (i > first_row_) out += "\r\n";
    if (i == 0) out += prompt.text;
    out += rows[i].text;
    out += kEraseRow;
    drawn_.widths.push_back(rows[i].width);
  }
  out += kEraseBelow;
  drawn_.cursor_row = cursor_row - first_row_;
  out += up(n_shown - 1 - drawn_.cursor_row) + "\r";
  if (cursor_row == 0) out += prompt.text;
  const std::string before = before_cursor(text, rows[cursor_row], cursor);
  drawn_.cursor_column = (cursor_row == 0 ? prompt.n_columns : 0) + columns_of_shown(before);
  return out + before;
}

std::string ScreenLines::leave() {
  std::string out;
  for (std::size_t i = drawn_.cursor_row; i < drawn_.widths.size(); ++i) out += "\r\n";
  drawn_ = {};
  first_row_ = 0;
  return out;
}

void ScreenLines::resize(int n_columns) {
  std::size_t n_rows = 0;
  for (std::size_t i = 0; i < drawn_.cursor_row; ++i)
    n_rows += static_cast<std::size_t>(std::max(drawn_.widths[i] - 1, 0) / std::max(n_columns, 1)) + 1;
  // The cursor's own row may be broken before the cursor.
  drawn_.cursor_row = n_rows + static_cast<std::size_t>(drawn_.cursor_column / std::max(n_columns, 1));
}

}  // namespace weft::cli
