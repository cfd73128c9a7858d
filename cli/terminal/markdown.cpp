#include "terminal/markdown.h"

#include <algorithm>
#include <cctype>
#include <utility>

namespace weft::cli {
namespace {

bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }
bool is_ascii_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; }
bool is_word_byte(char c) { return is_ascii_word(c) || (static_cast<unsigned char>(c) & 0x80U) != 0; }

constexpr std::string_view kSpecial = "*_`\\\n";

}  // namespace

Markdown::Markdown(std::function<void(std::string_view, bool)> write) : write_(std::move(write)) {}

void Markdown::push(std::string_view text) {
  text_ += text;
  while (!text_.empty() && step()) {
  }
}

void Markdown::finish() {
  ended_ = true;
  while (!text_.empty() && step()) {
  }
  ended_ = false;
  style_ = line_ = kPlain;
  emit("");
  line_begins_ = code_line_begins_ = true;
  fence_ = '\0';
  span_ = 0;
  before_ = '\n';
}

// Consumes some input. Returns false if that needs more input.
bool Markdown::step() {
  if (fence_ != '\0') return read_code_line();
  if (line_begins_) return begin_line();
  if (span_ > 0) return read_code_span();
  return read_inline();
}

std::size_t Markdown::run_of(char c, std::size_t at) const {
  std::size_t n = 0;
  while (at + n < text_.size() && text_[at + n] == c) ++n;
  return n;
}

bool Markdown::begin_line() {
  std::size_t indent = 0;
  while (indent < text_.size() && (text_[indent] == ' ' || text_[indent] == '\t')) ++indent;
  if (indent > 0) {
    if (waits(indent)) return false;
    emit(text_.substr(0, indent));
    take(indent);
    return true;
  }
  if (!read_mark()) return false;
  return true;
}

// Reads a mark at the beginning of a line, after its indentation.
bool Markdown::read_mark() {
  const char c = text_[0];
  const std::size_t n = run_of(c, 0);
  const auto is_inline = [&] {
    line_begins_ = false;
    return true;
  };
  switch (c) {
    case '#':
      if (waits(n)) return false;
      if (n > 6 || next(n) != ' ') return is_inline();
      line_ = n == 1 ? kBold | kUnderlined : kBold;
      take(n + 1);
      return is_inline();
    case '`':
    case '~':
      if (n >= 3) return read_fence(n);
      return waits(n) ? false : is_inline();
    case '>':
      if (waits(1)) return false;
      emit("│ ", kDim);
      take(1);
      if (!text_.empty() && text_[0] == ' ') take(1);
      return true;
    case '-':
    case '*':
    case '_':
    case '+': {
      if (waits(n)) return false;
      if (n >= 3 && c != '+') {
        std::size_t end = n;
        while (end < text_.size() && text_[end] == ' ') ++end;
        if (waits(end)) return false;
        if (next(end) == '\n') {
          emit("────────────────────────", kDim);
          take(end);
          return is_inline();
        }
      }
      if (n == 1 && c != '_' && next(1) == ' ') {
        emit("• ");
        take(2);
      }
      return is_inline();
    }
    default:
      return is_inline();
  }
}

// Begins a code block; drops the fence and the language's name after it.
bool Markdown::read_fence(std::size_t n) {
  const std::size_t end = text_.find('\n', n);
  if (end == std::string::npos && !ended_) return false;
  const std::string_view line = std::string_view(text_).substr(0, std::min(end, text_.size()));
  if (text_[0] == '`' && line.find('`', n) != std::string_view::npos) {
    line_begins_ = false;  // A span of code.
    return true;
  }
  fence_ = text_[0];
  fence_length_ = n;
  code_line_begins_ = true;
  take(std::min(line.size() + 1, text_.size()));
  return true;
}

bool Markdown::read_code_line() {
  if (code_line_begins_) {
    std::size_t at = 0;
    while (at < text_.size() && text_[at] == ' ') ++at;
    if (waits(at)) return false;
    const std::size_t n = run_of(fence_, at);
    if (n > 0) {
      std::size_t end = at + n;
      if (waits(end)) return false;
      while (end < text_.size() && text_[end] == ' ') ++end;
      if (waits(end)) return false;
      if (n >= fence_length_ && next(end) == '\n') {
        fence_ = '\0';
        line_begins_ = true;
        take(std::min(end + 1, text_.size()));
        return true;
      }
    }
    code_line_begins_ = false;
  }
  const std::size_t end = std::min(text_.find('\n'), text_.size());
  if (end > 0) emit(text_.substr(0, end), kCode);
  const bool line_ends = end < text_.size();
  take(end);
  if (!line_ends) return true;
  end_line();
  code_line_begins_ = true;
  return true;
}

void Markdown::end_line() {
  style_ = line_ = kPlain;
  span_ = 0;
  emit("");  // Lines end without a style.
  write_("\n", fence_ == '\0');
  before_ = '\n';
  take(1);
  line_begins_ = true;
}

bool Markdown::read_inline() {
  switch (text_[0]) {
    case '\n':
      end_line();
      return true;
    case '*':
    case '_':
      return read_emphasis(text_[0]);
    case '`': {
      const std::size_t n = run_of('`', 0);
      if (waits(n)) return false;
      span_ = n;
      take(n);
      return true;
    }
    case '\\':
      if (waits(1)) return false;
      if (std::ispunct(static_cast<unsigned char>(next(1))) != 0) take(1);
      emit(text_.substr(0, 1));
      take(1);
      return true;
    default: {
      const std::size_t end = std::min(text_.find_first_of(kSpecial), text_.size());
      emit(text_.substr(0, end));
      take(end);
      return true;
    }
  }
}

// One mark: italic; two: bold; three: both.
bool Markdown::read_emphasis(char mark) {
  const std::size_t n = run_of(mark, 0);
  if (waits(n)) return false;
  const char after = next(n);
  const unsigned style = n == 1 ? kItalic : n == 2 ? kBold : n == 3 ? kBold | kItalic : kPlain;
  // 2*3, 2**10 and snake_case are not emphasis. Emphasis within words is allowed in scripts without spaces.
  const bool within = mark == '_' ? is_word_byte(before_) && is_word_byte(after)
                                  : is_ascii_word(before_) && is_ascii_word(after);
  const bool closes = style != kPlain && (style_ & style) == style && !is_space(before_);
  const bool opens = style != kPlain && (style_ & style) == 0 && !is_space(after);
  if ((closes && (mark == '*' || !within)) || (opens && !within)) {
    style_ ^= style;
  } else {
    emit(text_.substr(0, n));
  }
  take(n);
  return true;
}

bool Markdown::read_code_span() {
  const std::size_t end = std::min(text_.find_first_of("`\n"), text_.size());
  if (end > 0) {
    emit(text_.substr(0, end), kCode);
    take(end);
    return true;
  }
  if (text_[0] == '\n') {
    end_line();
    return true;
  }
  const std::size_t n = run_of('`', 0);
  if (waits(n)) return false;
  if (n == span_) {
    span_ = 0;
  } else {
    emit(text_.substr(0, n), kCode);
  }
  take(n);
  return true;
}

void Markdown::emit(std::string_view text, unsigned more) {
  const unsigned style = style_ | line_ | more;
  if (style != written_) {
    std::string sequence = "\033[0";
    if ((style & kBold) != 0) sequence += ";1";
    if ((style & kDim) != 0) sequence += ";2";
    if ((style & kItalic) != 0) sequence += ";3";
    if ((style & kUnderlined) != 0) sequence += ";4";
    if ((style & kCode) != 0) sequence += ";36";
    write_(sequence + "m", true);
    written_ = style;
  }
  if (text.empty()) return;
  write_(text, fence_ == '\0');
  before_ = text.back();
}

}  // namespace weft::cli
