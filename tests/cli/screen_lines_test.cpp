// What the line editor writes to terminals, on a terminal that gives clusters the columns that it likes.
#include "terminal/screen_lines.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "terminal/graphemes.h"

namespace weft::cli {
namespace {

/// A screen that obeys what ScreenLines writes: \r, \n, moves up, and both erasures.
class Screen {
 public:
  Screen(int n_columns, std::function<int(std::string_view)> columns_of)
      : n_columns_(n_columns), columns_of_(std::move(columns_of)) {}

  void write(std::string_view text) {
    while (!text.empty()) {
      if (text.starts_with("\033[")) {
        const std::size_t end = text.find_first_not_of("0123456789;", 2);
        obey(text[end], text.substr(2, end - 2));
        text.remove_prefix(end + 1);
        continue;
      }
      const std::string_view cluster = text.substr(0, grapheme_starts(text)[1]);
      text.remove_prefix(cluster.size());
      put(cluster);
    }
  }

  std::vector<std::string> lines() const {
    std::vector<std::string> lines;
    for (const auto& row : rows_) {
      std::string line;
      for (const std::string& cell : row) line += cell;
      lines.push_back(line);
    }
    while (!lines.empty() && lines.back().empty()) lines.pop_back();
    return lines;
  }
  std::size_t row() const { return row_; }
  std::size_t column() const { return column_; }

 private:
  void put(std::string_view cluster) {
    if (cluster.find('\n') != std::string_view::npos) {
      column_ = cluster.starts_with('\r') ? 0 : column_;
      ++row_;
    } else if (cluster == "\r") {
      column_ = 0;
    } else {
      const auto width = static_cast<std::size_t>(columns_of_(cluster));
      ASSERT_LT(column_ + width, static_cast<std::size_t>(n_columns_)) << "the last column is not left free";
      auto& row = rows_.at(row_);
      if (row.size() < column_ + width) row.resize(column_ + width, " ");
      row[column_] = cluster;
      for (std::size_t i = 1; i < width; ++i) row[column_ + i] = "";
      column_ += width;
    }
    if (rows_.size() <= row_) rows_.resize(row_ + 1);
  }
  void obey(char command, std::string_view number) {
    if (command == 'A') {
      const auto n = static_cast<std::size_t>(std::stoi(std::string(number)));
      ASSERT_GE(row_, n) << "it moves above what it drew";
      row_ -= n;
    } else if (command == 'K' || command == 'J') {
      auto& row = rows_.at(row_);
      row.resize(std::min(row.size(), column_));
      if (command == 'J') rows_.resize(row_ + 1);
    }
  }

  int n_columns_;
  std::function<int(std::string_view)> columns_of_;
  std::vector<std::vector<std::string>> rows_ = std::vector<std::vector<std::string>>(1);
  std::size_t row_ = 0, column_ = 0;
};

int joined_columns(std::string_view cluster) { return std::min(grapheme_columns(cluster), 2); }

const ScreenLines::Prompt kPrompt = {"> ", 2};

TEST(ScreenLines, CursorMatchesTheTerminal) {
  const std::string family = "👨‍👩‍👧‍👦";
  const std::string text = "a" + family + "b";
  for (const auto& columns_of : {joined_columns, grapheme_columns}) {  // Both kinds of terminals.
    Screen screen(80, columns_of);
    ScreenLines lines;
    screen.write(lines.draw(kPrompt, text, text.size(), 80, 24));
    EXPECT_EQ(screen.lines(), (std::vector<std::string>{"> " + text}));
    EXPECT_EQ(screen.column(), static_cast<std::size_t>(4 + columns_of(family)));
    screen.write(lines.draw(kPrompt, text, 1 + family.size(), 80, 24));
    EXPECT_EQ(screen.column(), static_cast<std::size_t>(3 + columns_of(family)));
    screen.write(lines.draw(kPrompt, "ab", 1, 80, 24));  // The emoji is erased.
    EXPECT_EQ(screen.lines(), (std::vector<std::string>{"> ab"}));
    EXPECT_EQ(screen.column(), 3u);
  }
}

TEST(ScreenLines, BreaksRowsBeforeTheTerminalDoes) {
  Screen screen(10, joined_columns);
  ScreenLines lines;
  const std::string text = "abcdefghijklmno漢字漢字漢";
  for (std::size_t n = 1; n <= 15; ++n) screen.write(lines.draw(kPrompt, text.substr(0, n), n, 10, 24));
  screen.write(lines.draw(kPrompt, text, text.size(), 10, 24));
  EXPECT_EQ(screen.lines(), (std::vector<std::string>{"> abcdefg", "hijklmno", "漢字漢字", "漢"}));
  EXPECT_EQ(screen.row(), 3u);
  screen.write(lines.draw(kPrompt, text, 8, 10, 24));
  EXPECT_EQ(screen.row(), 1u);
  EXPECT_EQ(screen.column(), 1u);
  screen.write(lines.draw(kPrompt, "abc", 0, 10, 24));
  EXPECT_EQ(screen.lines(), (std::vector<std::string>{"> abc"}));
  EXPECT_EQ(screen.column(), 2u);
}

TEST(ScreenLines, ShowsTheLinesOfAPasteAndNoControlCharacters) {
  Screen screen(40, joined_columns);
  ScreenLines lines;
  const std::string text = "one\n\ttwo\033[2J\x7f\u009b";
  screen.write(lines.draw(kPrompt, text, text.size(), 40, 24));
  EXPECT_EQ(screen.lines(), (std::vector<std::string>{"> one", "    two^[[2J^??"}));
  screen.write(lines.leave());
  EXPECT_EQ(screen.row(), 2u);
  EXPECT_EQ(screen.column(), 0u);
}

/// The drawn rows do not depend on earlier drawings.
TEST(ScreenLines, ChangesOfALongTextGiveTheRowsOfTheWholeText) {
  std::string text;
  for (int i = 0; i < 700; ++i)
    text += i % 17 == 0   ? "漢字 "
            : i % 29 == 0 ? "e\u0301\n"
            : i % 31 == 0 ? "👨‍👩‍👧‍👦"
                          : "word ";
  const auto starts = grapheme_starts(text);
  ScreenLines changed;
  Screen screen(20, joined_columns);
  std::string now = text;
  std::size_t n = 7;
  for (int step = 0; step < 60; ++step) {
    n = (n * 7919 + 104729) % starts.size();
    const std::size_t cursor = starts[n];
    now = text;
    if (step % 3 == 1) now.erase(cursor);
    if (step % 3 == 2) now.insert(cursor, "x\ny");
    screen.write(changed.draw(kPrompt, now, cursor, 20, 6));
    ScreenLines fresh;
    Screen other(20, joined_columns);
    other.write(fresh.draw(kPrompt, now, cursor, 20, 6));
    // The visible rows may differ, the cursor's row may not.
    EXPECT_EQ(screen.lines().at(screen.row()), other.lines().at(other.row())) << step;
    EXPECT_EQ(screen.column(), other.column()) << step;
    EXPECT_EQ(screen.lines().size(), other.lines().size()) << step;
  }
}

TEST(ScreenLines, ATextTallerThanTheScreenScrollsWithTheCursor) {
  Screen screen(40, joined_columns);
  ScreenLines lines;
  const std::string text = "1\n2\n3\n4\n5";
  screen.write(lines.draw(kPrompt, text, text.size(), 40, 3));
  EXPECT_EQ(screen.lines(), (std::vector<std::string>{"3", "4", "5"}));
  screen.write(lines.draw(kPrompt, text, 0, 40, 3));
  EXPECT_EQ(screen.lines(), (std::vector<std::string>{"> 1", "2", "3"}));
  EXPECT_EQ(screen.row(), 0u);
}

TEST(ScreenLines, DrawsTheLineOnceAfterAResize) {
  // Wider: the rows stay as they are, as each ends with a newline.
  Screen screen(80, joined_columns);
  ScreenLines lines;
  const std::string text = "abcdefghijklmno";
  screen.write(lines.draw(kPrompt, text, text.size(), 10, 24));
  lines.resize(80);
  screen.write(lines.draw(kPrompt, text, text.size(), 80, 24));
  EXPECT_EQ(screen.lines(), (std::vector<std::string>{"> " + text}));
  // Narrower: the terminal breaks the row in two, and the cursor is in the second.
  lines = {};
  (void)lines.draw(kPrompt, text, text.size(), 80, 24);
  lines.resize(10);
  Screen narrow(10, joined_columns);
  narrow.write("\n");
  narrow.write(lines.draw(kPrompt, text, text.size(), 10, 24));
  EXPECT_EQ(narrow.lines(), (std::vector<std::string>{"> abcdefg", "hijklmno"}));
}

}  // namespace
}  // namespace weft::cli
