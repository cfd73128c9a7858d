#pragma once
// Reads a source character by character and describes positions for messages.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/to_size.h"
#include "grammar/budget.h"
#include "text/utf8.h"

namespace weft::grammar {

/// The position of the byte `at`, for messages.
inline std::string line_and_column(std::string_view source, std::size_t at) {
  std::size_t line = 1, begin = 0;
  for (std::size_t i = 0; i < at; ++i) {
    if (source[i] != '\n') continue;
    ++line;
    begin = i + 1;
  }
  return "line " + std::to_string(line) + ", column " + std::to_string(at - begin + 1);
}

class Reader {
 public:
  explicit Reader(std::string_view source) : source_(source) {}
  Reader(const Reader& other, std::size_t at) : source_(other.source_), at_(at) {}

  bool at_end() const { return at_ == source_.size(); }
  std::size_t position() const { return at_; }
  std::string_view source() const { return source_; }
  char peek(std::size_t ahead = 0) const {
    return at_ + ahead < source_.size() ? source_[at_ + ahead] : '\0';
  }
  bool starts_with(std::string_view text) const { return source_.substr(at_).starts_with(text); }
  void skip(std::size_t n = 1) { at_ += n; }
  bool take(char c) {
    if (at_end() || source_[at_] != c) return false;
    ++at_;
    return true;
  }
  /// Nothing where the source is not valid UTF-8.
  std::optional<char32_t> character() {
    if (at_end()) return std::nullopt;
    const text::Utf8Char c = text::first_char(source_.substr(at_));
    if (c.status != text::Utf8Status::kValid) return std::nullopt;
    at_ += c.size;
    return c.code;
  }
  /// Exactly n hexadecimal digits.
  std::optional<char32_t> hexadecimal(int n) {
    char32_t value = 0;
    for (int i = 0; i < n; ++i) {
      const char c = peek(to_size(i));
      const int digit = c >= '0' && c <= '9'   ? c - '0'
                        : c >= 'a' && c <= 'f' ? c - 'a' + 10
                        : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                               : -1;
      if (digit < 0) return std::nullopt;
      value = value << 4 | static_cast<char32_t>(digit);
    }
    skip(to_size(n));
    return value;
  }
  /// A number without sign; too large ones are cut off at a billion.
  std::optional<int> number() {
    if (peek() < '0' || peek() > '9') return std::nullopt;
    constexpr int kMost = 1'000'000'000;
    std::int64_t value = 0;
    for (; peek() >= '0' && peek() <= '9'; skip())
      value = std::min<std::int64_t>(kMost, value * 10 + (peek() - '0'));
    return static_cast<int>(value);
  }

 private:
  std::string_view source_;
  std::size_t at_ = 0;
};

}  // namespace weft::grammar
