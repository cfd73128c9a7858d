#include "terminal/screen_lines.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/to_size.h"
#include "terminal/graphemes.h"

namespace weft::cli {
namespace {

constexpr std::string_view kEraseRow = "\033[K";    // From the cursor on.
constexpr std::string_view kEraseBelow = "\033[J";  // From the cursor on.

/// Bytes that are cut into clusters together.
constexpr std::size_t kPiece = 4096;

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

bool is_newline(std::string_view cluster) { return cluster == "\n" || cluster == "\r\n"; }

/// Returns the clusters of a row as shown, without newlines.
std::string shown_row(std::string_view text) {
  std::string row;
  const std::vector<std::size_t> starts = grapheme_starts(text);
  for (std::size_t i = 0; i + 1 < starts.size(); ++i) {
    const std::string_view cluster = text.substr(starts[i], starts[i + 1] - starts[i]);
    if (!is_newline(cluster)) row += shown(cluster);
  }
  return row;
}

/// Calls f(byte, cluster) for each cluster from a byte on, until it returns false.
template <class F>
void for_each_cluster(std::string_view text, std::size_t from, F f) {
  while (from < text.size()) {
    const std::string_view piece = text.substr(from, kPiece);
    std::vector<std::size_t> starts = grapheme_starts(piece);
    // The last cluster may continue after the piece.
    if (from + piece.size() < text.size() && starts.size() > 2) starts.pop_back();
    for (std::size_t i = 0; i + 1 < starts.size(); ++i)
      if (!f(from + starts[i], piece.substr(starts[i], starts[i + 1] - starts[i]))) return;
    from += starts.back();
  }
}

}  // namespace

std::size_t ScreenLines::row_of(std::size_t byte) const {
  const auto after = std::upper_bound(starts_.begin(), starts_.end(), byte);
  return to_size(after - starts_.begin()) - 1;
}

// A cursor at a row's end moves to the next row only if a cluster follows.
void ScreenLines::lay_out(std::string_view text, std::size_t cursor, int prompt_columns, int limit,
                          std::size_t n_rows) {
  if (prompt_columns != prompt_columns_ || limit != limit_) starts_.clear();
  prompt_columns_ = prompt_columns;
  limit_ = limit;
  const auto changed = std::ranges::mismatch(text, text_).in1 - text.begin();
  // A cluster that changes may be the last one of the row before.
  while (starts_.size() > 1 && starts_.back() >= to_size(changed)) starts_.pop_back();
  if (starts_.size() > 1) starts_.pop_back();
  if (starts_.empty()) starts_.push_back(0);
  text_ = text;

  int width = starts_.size() == 1 ? prompt_columns : 0;
  std::size_t n_after = 0;  // Rows that begin after the cursor.
  for_each_cluster(text, starts_.back(), [&](std::size_t at, std::string_view cluster) {
    const bool ends = is_newline(cluster);
    const int columns = ends ? 0 : columns_of_shown(shown(cluster));
    if (ends || (width > 0 && width + columns > limit)) {
      starts_.push_back(ends ? at + cluster.size() : at);
      width = 0;
      if (starts_.back() > cursor && ++n_after > n_rows) return false;
    }
    width += columns;
    return true;
  });
}

std::string ScreenLines::draw(const Prompt& prompt, std::string_view text, std::size_t cursor, int n_columns,
                              int n_rows) {
  // The last column stays free: after a character there, terminals disagree about the cursor.
  const auto n_on_screen = to_size(std::max(n_rows, 1));
  lay_out(text, cursor, prompt.n_columns, std::max(n_columns - 1, 2), n_on_screen);
  const std::size_t cursor_row = row_of(cursor);
  const std::size_t n_shown = std::min(starts_.size(), n_on_screen);
  first_row_ = std::min({first_row_, cursor_row, starts_.size() - n_shown});
  first_row_ = std::max(first_row_, cursor_row + 1 < n_shown ? 0 : cursor_row + 1 - n_shown);

  std::string out = "\r" + up(drawn_.cursor_row);
  drawn_.widths.clear();
  for (std::size_t i = first_row_; i < first_row_ + n_shown; ++i) {
    if (i > first_row_) out += "\r\n";
    if (i == 0) out += prompt.text;
    const std::size_t end = i + 1 < starts_.size() ? starts_[i + 1] : text.size();
    const std::string row = shown_row(text.substr(starts_[i], end - starts_[i]));
    out += row + std::string(kEraseRow);
    drawn_.widths.push_back((i == 0 ? prompt.n_columns : 0) + columns_of_shown(row));
  }
  out += kEraseBelow;
  drawn_.cursor_row = cursor_row - first_row_;
  out += up(n_shown - 1 - drawn_.cursor_row) + "\r";
  if (cursor_row == 0) out += prompt.text;
  const std::string before = shown_row(text.substr(starts_[cursor_row], cursor - starts_[cursor_row]));
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
    n_rows += to_size(std::max(drawn_.widths[i] - 1, 0) / std::max(n_columns, 1)) + 1;
  // The cursor's own row may be broken before the cursor.
  drawn_.cursor_row = n_rows + to_size(drawn_.cursor_column / std::max(n_columns, 1));
}

}  // namespace weft::cli
