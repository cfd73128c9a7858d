#pragma once
// The line that is being typed, its cursor, and the edits of keys. It knows no terminal. Every edit and move
// is by grapheme clusters.
#include <cstddef>
#include <string>
#include <string_view>

namespace weft::cli {

class EditBuffer {
 public:
  /// UTF-8.
  const std::string& text() const { return text_; }
  /// The byte offset of a cluster, or the size of the line.
  std::size_t cursor() const { return cursor_; }
  bool empty() const { return text_.empty(); }

  /// Replaces the line and moves the cursor to its end.
  void set(std::string text);
  /// Inserts at the cursor and moves it past the insertion. Drops bytes that are not UTF-8.
  void insert(std::string_view text);

  void move_left() { cursor_ = before(); }
  void move_right() { cursor_ = after(); }
  void move_word_left() { cursor_ = word_before(); }
  void move_word_right() { cursor_ = word_after(); }
  /// To the start and the end of the cursor's line, if there are several lines.
  void move_home();
  void move_end();
  void move_to_end() { cursor_ = text_.size(); }

  void erase_before() { erase(before(), cursor_); }
  void erase_after() { erase(cursor_, after()); }
  /// Swaps the cluster before the cursor and the one at it, and moves on.
  void transpose();

  // yank() inserts what these erased last.
  void kill_word_before() { kill(word_before(), cursor_); }
  void kill_word_after() { kill(cursor_, word_after()); }
  void kill_before();  ///< To the start of the line.
  void kill_after();   ///< To the end of the line.
  void yank() { insert(killed_); }

 private:
  std::size_t before() const;
  std::size_t after() const;
  std::size_t word_before() const;
  std::size_t word_after() const;
  std::size_t line_begin() const;
  std::size_t line_end() const;
  void erase(std::size_t begin, std::size_t end);
  void kill(std::size_t begin, std::size_t end);

  std::string text_;
  std::size_t cursor_ = 0;
  std::string killed_;
};

}  // namespace weft::cli
