#include "terminal/edit_buffer.h"

#include <algorithm>
#include <cctype>
#include <utility>

#include "terminal/graphemes.h"

namespace weft::cli {
namespace {

// Letters, digits, and all that is not ASCII.
bool is_word(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return byte >= 0x80 || std::isalnum(byte) != 0 || c == '_';
}

}  // namespace

void EditBuffer::set(std::string text) {
  text_ = std::move(text);
  cursor_ = text_.size();
}

void EditBuffer::insert(std::string_view text) {
  const std::string valid = valid_utf8(text);
  text_.insert(cursor_, valid);
  // A combining mark joins the cluster before it.
  cursor_ = cluster_bounds(text_, cursor_ + valid.size()).at;
}

std::size_t EditBuffer::before() const { return cluster_bounds(text_, cursor_).before; }
std::size_t EditBuffer::after() const { return cluster_bounds(text_, cursor_).after; }

std::size_t EditBuffer::word_before() const {
  std::size_t at = cursor_;
  while (at > 0 && !is_word(text_[at - 1])) --at;
  while (at > 0 && is_word(text_[at - 1])) --at;
  return at;
}

std::size_t EditBuffer::word_after() const {
  std::size_t at = cursor_;
  while (at < text_.size() && !is_word(text_[at])) ++at;
  while (at < text_.size() && is_word(text_[at])) ++at;
  return at;
}

std::size_t EditBuffer::line_begin() const {
  const std::size_t newline = cursor_ == 0 ? std::string::npos : text_.rfind('\n', cursor_ - 1);
  return newline == std::string::npos ? 0 : newline + 1;
}

std::size_t EditBuffer::line_end() const { return std::min(text_.find('\n', cursor_), text_.size()); }

void EditBuffer::move_home() { cursor_ = line_begin(); }
void EditBuffer::move_end() { cursor_ = line_end(); }
void EditBuffer::kill_before() { kill(line_begin(), cursor_); }
void EditBuffer::kill_after() { kill(cursor_, line_end()); }

void EditBuffer::erase(std::size_t begin, std::size_t end) {
  text_.erase(begin, end - begin);
  // Separate clusters may have become one.
  cursor_ = cluster_bounds(text_, begin).at;
}

void EditBuffer::kill(std::size_t begin, std::size_t end) {
  if (begin == end) return;
  killed_ = text_.substr(begin, end - begin);
  erase(begin, end);
}

void EditBuffer::transpose() {
  if (cursor_ == text_.size()) move_left();
  const std::size_t begin = before(), end = after();
  if (begin == cursor_ || end == cursor_) return move_to_end();
  std::rotate(text_.begin() + static_cast<std::ptrdiff_t>(begin),
              text_.begin() + static_cast<std::ptrdiff_t>(cursor_),
              text_.begin() + static_cast<std::ptrdiff_t>(end));
  cursor_ = end;
}

}  // namespace weft::cli
