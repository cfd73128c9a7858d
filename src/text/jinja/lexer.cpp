#include "text/jinja/lexer.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <optional>

#include "text/jinja/limits.h"
#include "text/utf8.h"

namespace weft::text::jinja {
namespace {

bool is_ascii_digit(char c) { return c >= '0' && c <= '9'; }
bool is_name_start(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
         static_cast<unsigned char>(c) >= 0x80;
}
bool is_name_part(char c) { return is_name_start(c) || is_ascii_digit(c); }

std::string normalise_newlines(std::string_view source) {
  std::string result;
  for (std::size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\r') {
      if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
      result += '\n';
    } else {
      result += source[i];
    }
  }
  if (!result.empty() && result.back() == '\n') result.pop_back();
  return result;
}

class Lexer {
 public:
  explicit Lexer(std::string_view source) : source_(normalise_newlines(source)) {}

  std::vector<Token> run() {
    while (position_ < source_.size()) read_data();
    add(TokenKind::kEnd, {});
    return std::move(tokens_);
  }

 private:
  [[noreturn]] void fail(const std::string& what) const { throw SyntaxProblem(what, line_); }

  void add(TokenKind kind, std::string text) { tokens_.push_back({kind, std::move(text), line_}); }
  bool at(std::string_view what, std::size_t position) const {
    return std::string_view(source_).substr(std::min(position, source_.size())).starts_with(what);
  }
  bool at(std::string_view what) const { return at(what, position_); }
  void advance_to(std::size_t position) {
    line_ += static_cast<int>(std::count(source_.begin() + static_cast<std::ptrdiff_t>(position_),
                                         source_.begin() + static_cast<std::ptrdiff_t>(position), '\n'));
    position_ = position;
  }
  std::size_t after_spaces(std::size_t position) const {
    while (position < source_.size()) {
      const Character character = character_at(source_, position);
      if (!is_space(character.code)) break;
      position += character.n_bytes;
    }
    return position;
  }

  // Text up to the next tag, then the tag.
  void read_data() {
    const std::size_t begin = position_;
    std::size_t tag = source_.find('{', begin);
    while (tag != std::string::npos && !at("{%", tag) && !at("{{", tag) && !at("{#", tag)) {
      tag = source_.find('{', tag + 1);
    }
    if (tag == std::string::npos) {
      add_data(begin, source_.size(), '+', false);
      return advance_to(source_.size());
    }
    const char type = source_[tag + 1];
    add_data(begin, tag, sign_at(tag + 2), type != '{');
    advance_to(tag);
    if (type == '#') return read_comment();
    if (type == '%' && read_raw()) return;
    read_tag(type == '%');
  }

  char sign_at(std::size_t position) const {
    const bool has_sign = position < source_.size() && (source_[position] == '-' || source_[position] == '+');
    return has_sign ? source_[position] : ' ';
  }

  // `sign` is the whitespace control sign of the following tag; it may remove spaces at the end.
  void add_data(std::size_t begin, std::size_t end, char sign, bool strips_line) {
    const std::string_view data = std::string_view(source_).substr(begin, end - begin);
    std::size_t kept = data.size();
    if (sign == '-') {
      while (kept > 0) {
        const std::size_t previous = previous_character(data, kept);
        if (!is_space(character_at(data, previous).code)) break;
        kept = previous;
      }
    } else if (sign != '+' && strips_line) {
      const std::size_t newline = data.rfind('\n');
      const std::size_t line_begin = newline == std::string_view::npos ? 0 : newline + 1;
      if ((line_begin > 0 || at_line_start_) && after_spaces(begin + line_begin) >= end) kept = line_begin;
    }
    if (kept > 0) add(TokenKind::kData, std::string(data.substr(0, kept)));
  }

  // After the end of a tag ("%}" at `position`, with a sign before it): skips the white space that belongs to
  // it.
  void finish_tag(std::size_t position, char sign, bool trims_newline) {
    std::size_t end = position + 2;
    if (sign == '-') {
      end = after_spaces(end);
    } else if (sign != '+' && trims_newline && at("\n", end)) {
      ++end;
    }
    at_line_start_ = end > 0 && source_[end - 1] == '\n';
    advance_to(end);
  }

  void read_comment() {
    const std::size_t begin = position_ + 2 + (sign_at(position_ + 2) != ' ' ? 1 : 0);
    const std::size_t end = source_.find("#}", begin);
    if (end == std::string::npos) fail("a comment {# is not closed");
    finish_tag(end, end > begin ? sign_at(end - 1) : ' ', true);
  }

  // {% raw %} ... {% endraw %}; false for any other tag.
  bool read_raw() {
    const auto word = [&](std::size_t tag, std::string_view name) -> std::optional<std::size_t> {
      const std::size_t begin = after_spaces(tag + 2 + (sign_at(tag + 2) != ' ' ? 1 : 0));
      if (!at(name, begin)) return std::nullopt;
      return after_spaces(begin + name.size());
    };
    const auto opened = word(position_, "raw");
    if (!opened || !(at("%}", *opened) || at("-%}", *opened))) return false;
    const char open_sign = sign_at(*opened);
    finish_tag(*opened + (open_sign == '-' ? 1 : 0), open_sign, false);
    for (std::size_t tag = source_.find("{%", position_); tag != std::string::npos;
         tag = source_.find("{%", tag + 1)) {
      const auto closed = word(tag, "endraw");
      if (!closed) continue;
      const char sign = sign_at(*closed);
      const std::size_t end = *closed + (sign != ' ' ? 1 : 0);
      if (!at("%}", end)) continue;
      add_data(position_, tag, sign_at(tag + 2), true);
      advance_to(tag);
      finish_tag(end, sign, true);
      return true;
    }
    fail("{% raw %} is not closed");
  }

  void read_tag(bool block) {
    add(block ? TokenKind::kBlockBegin : TokenKind::kVariableBegin, {});
    advance_to(position_ + 2 + (sign_at(position_ + 2) != ' ' ? 1 : 0));
    const std::string_view close = block ? "%}" : "}}";
    std::string brackets;  // Open brackets; the tag's end is recognised only outside of them.
    while (position_ < source_.size()) {
      if (brackets.empty()) {
        char sign = sign_at(position_);
        if (sign == '+' && !block) sign = ' ';
        const std::size_t end = position_ + (sign != ' ' ? 1 : 0);
        if (at(close, end)) {
          add(block ? TokenKind::kBlockEnd : TokenKind::kVariableEnd, {});
          return finish_tag(end, sign, block);
        }
      }
      read_token(brackets);
    }
  }

  void read_token(std::string& brackets) {
    const char c = source_[position_];
    if (is_space(character_at(source_, position_).code)) return advance_to(after_spaces(position_));
    if (is_ascii_digit(c)) return read_number();
    if (is_name_start(c)) return read_name();
    if (c == '\'' || c == '"') return read_string(c);
    constexpr std::array<std::string_view, 24> kOperators = {"//", "**", "==", "!=", ">=", "<=", "+", "-",
                                                             "/",  "*",  "%",  "~",  "[",  "]",  "(", ")",
                                                             "{",  "}",  ">",  "<",  "=",  ".",  ":", "|"};
    std::string_view found;
    for (std::string_view name : kOperators) {
      if (found.empty() && at(name)) found = name;
    }
    if (found.empty() && (c == ',' || c == ';')) found = c == ',' ? "," : ";";
    if (found.empty()) fail(std::string("unexpected character '") + c + "'");
    match_brackets(c, brackets);
    add(TokenKind::kOperator, std::string(found));
    advance_to(position_ + found.size());
  }

  void match_brackets(char c, std::string& brackets) const {
    if (c == '(') brackets += ')';
    if (c == '[') brackets += ']';
    if (c == '{') brackets += '}';
    if (c != ')' && c != ']' && c != '}') return;
    if (brackets.empty()) fail(std::string("unexpected '") + c + "'");
    if (brackets.back() != c) fail(std::string("unexpected '") + c + "', expected '" + brackets.back() + "'");
    brackets.pop_back();
  }

  void read_name() {
    std::size_t end = position_;
    while (end < source_.size() && is_name_part(source_[end])) ++end;
    add(TokenKind::kName, source_.substr(position_, end - position_));
    advance_to(end);
  }

  std::size_t after_digits(std::size_t position) const {
    while (position < source_.size() &&
           (is_ascii_digit(source_[position]) || (source_[position] == '_' && position + 1 < source_.size() &&
                                                  is_ascii_digit(source_[position + 1])))) {
      ++position;
    }
    return position;
  }

  // 0x1F, 0o17, 0b1: as a decimal number.
  bool read_prefixed_number() {
    if (source_[position_] != '0' || position_ + 2 >= source_.size()) return false;
    const char letter = static_cast<char>(source_[position_ + 1] | 0x20);
    const int base = letter == 'x' ? 16 : letter == 'o' ? 8 : letter == 'b' ? 2 : 0;
    const auto is_digit_here = [&](char c) {
      const int digit = is_ascii_digit(c)                        ? c - '0'
                        : (c | 0x20) >= 'a' && (c | 0x20) <= 'f' ? (c | 0x20) - 'a' + 10
                                                                 : 99;
      return digit < base;
    };
    std::size_t end = position_ + 2;
    std::string digits;
    while (end < source_.size() && (is_digit_here(source_[end]) || source_[end] == '_'))
      digits += source_[end++];
    std::erase(digits, '_');
    if (digits.empty()) return false;
    std::int64_t value = 0;
    if (std::from_chars(digits.data(), digits.data() + digits.size(), value, base).ec != std::errc()) {
      fail("the number " + source_.substr(position_, end - position_) +
           " does not fit into 64 bits; write it as a float, or as a string");
    }
    add(TokenKind::kInteger, std::to_string(value));
    advance_to(end);
    return true;
  }

  void read_number() {
    if (read_prefixed_number()) return;
    std::size_t end = after_digits(position_);
    bool whole = true;
    const bool after_dot = position_ > 0 && source_[position_ - 1] == '.';  // a.0.1 has two indices.
    const auto digit_at = [&](std::size_t i) { return i < source_.size() && is_ascii_digit(source_[i]); };
    if (!after_dot && at(".", end) && digit_at(end + 1)) {
      end = after_digits(end + 1);
      whole = false;
    }
    if (!after_dot && (at("e", end) || at("E", end))) {
      const std::size_t exponent = end + 1 + (sign_at(end + 1) != ' ' ? 1 : 0);
      if (digit_at(exponent)) {
        end = after_digits(exponent);
        whole = false;
      }
    }
    std::string text = source_.substr(position_, end - position_);
    std::erase(text, '_');
    add(whole ? TokenKind::kInteger : TokenKind::kFloat, std::move(text));
    advance_to(end);
  }

  void read_string(char quote) {
    std::string value;
    std::size_t i = position_ + 1;
    while (i < source_.size() && source_[i] != quote) {
      if (source_[i] == '\\' && i + 1 < source_.size()) {
        i = read_escape(i + 1, value);
      } else {
        value += source_[i++];
      }
    }
    if (i >= source_.size()) fail("a string is not closed");
    add(TokenKind::kString, std::move(value));
    advance_to(i + 1);
  }

  // Python's escapes; `i` is the position after the backslash. Returns the position after the escape.
  std::size_t read_escape(std::size_t i, std::string& value) const {
    constexpr std::string_view kFrom = "nrtabfv\\'\"", kTo = "\n\r\t\a\b\f\v\\'\"";
    const char c = source_[i];
    if (const std::size_t known = kFrom.find(c); known != std::string_view::npos) {
      value += kTo[known];
      return i + 1;
    }
    if (c == '\n') return i + 1;
    if (c >= '0' && c <= '7') {
      char32_t code = 0;
      std::size_t end = i;
      while (end < source_.size() && end < i + 3 && source_[end] >= '0' && source_[end] <= '7') {
        code = code * 8 + static_cast<char32_t>(source_[end++] - '0');
      }
      append_utf8(value, code);
      return end;
    }
    const std::size_t n_digits = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
    if (c == 'N') fail("\\N{...} in strings is not supported; write the character itself");
    if (n_digits == 0) {
      value += '\\';
      return i;
    }
    char32_t code = read_hexadecimal(i + 1, n_digits);
    std::size_t end = i + 1 + n_digits;
    if (code >= 0xD800 && code < 0xDC00 && at("\\u", end)) {  // A pair of surrogates.
      const char32_t low = read_hexadecimal(end + 2, 4);
      if (low >= 0xDC00 && low < 0xE000) {
        code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
        end += 6;
      }
    }
    const bool valid = code <= 0x10FFFF && (code < 0xD800 || code >= 0xE000);
    append_utf8(value, valid ? code : 0xFFFD);
    return end;
  }

  char32_t read_hexadecimal(std::size_t begin, std::size_t n_digits) const {
    char32_t code = 0;
    for (std::size_t i = begin; i < begin + n_digits; ++i) {
      const char c = i < source_.size() ? source_[i] : ' ';
      const char lower = static_cast<char>(c | 0x20);
      if (is_ascii_digit(c)) {
        code = code * 16 + static_cast<char32_t>(c - '0');
      } else if (lower >= 'a' && lower <= 'f') {
        code = code * 16 + static_cast<char32_t>(lower - 'a' + 10);
      } else {
        fail("an escape in a string is cut short");
      }
    }
    return code;
  }

  const std::string source_;
  std::size_t position_ = 0;
  int line_ = 1;
  bool at_line_start_ = true;  // The source read so far is empty or ends with a newline.
  std::vector<Token> tokens_;
};

}  // namespace

std::vector<Token> tokenize(std::string_view source) { return Lexer(source).run(); }

}  // namespace weft::text::jinja
