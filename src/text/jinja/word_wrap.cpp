#include "text/jinja/word_wrap.h"

#include <algorithm>
#include <string_view>

#include "base/to_size.h"
#include "text/jinja/strings.h"

namespace weft::text::jinja {
namespace {

/// A stretch of the line that is not broken, or a part of one.
struct Chunk {
  std::size_t begin = 0, end = 0;  // Bytes.
  std::int64_t n_characters = 0;
  bool empty() const { return begin == end; }
};

/// Splits a line into chunks: white space, words, parts of words that end with a hyphen, dashes between
/// words.
class Chunks {
 public:
  Chunks(std::string_view line, bool break_on_hyphens) : line_(line), break_on_hyphens_(break_on_hyphens) {}

  /// The next chunk; an empty one at the line's end.
  Chunk take() {
    Chunk chunk{position_, position_, 0};
    const auto advance = [&] {
      chunk.end += character_at(line_, chunk.end).n_bytes;
      ++chunk.n_characters;
    };
    if (is_separator(chunk.end)) {
      while (is_separator(chunk.end)) advance();
    } else if (const std::size_t n = dash_at(chunk.end); n > 0) {
      chunk.end += n;
      chunk.n_characters = static_cast<std::int64_t>(n);
    } else if (chunk.end < line_.size()) {
      do advance();
      while (!ends_at(chunk));
    }
    position_ = chunk.end;
    return chunk;
  }

 private:
  std::string_view at(std::size_t i) const {
    return i < line_.size() ? line_.substr(i, character_at(line_, i).n_bytes) : std::string_view();
  }
  std::string_view before(std::size_t i) const {
    return i > 0 ? at(previous_character(line_, i)) : std::string_view();
  }
  bool is_hyphen(std::size_t i) const { return i < line_.size() && line_[i] == '-'; }
  bool is_separator(std::size_t i) const {
    return i < line_.size() && std::string_view("\t\n\v\f\r ").find(line_[i]) != std::string_view::npos;
  }

  // Classes of single characters; false for an empty one:
  static bool is_word(std::string_view c) { return c == "_" || is_alnum(c); }
  static bool is_letter(std::string_view c) { return is_word(c) && !is_digit(c); }
  static bool is_word_or_mark(std::string_view c) {
    return is_word(c) || (!c.empty() && std::string_view("!\"'&.,?").find(c) != std::string_view::npos);
  }

  /// Hyphens that are a dash between two words; 0 where there is none.
  std::size_t dash_at(std::size_t i) const {
    if (!break_on_hyphens_ || !is_hyphen(i) || !is_word_or_mark(before(i))) return 0;
    const std::size_t end = std::min(line_.find_first_not_of('-', i), line_.size());
    return end - i >= 2 && is_word(at(end)) ? end - i : 0;
  }

  /// Whether a word, or a part of it, ends after the chunk's last character. Includes a final hyphen in the
  /// chunk.
  bool ends_at(Chunk& chunk) const {
    const std::size_t i = chunk.end;
    if (break_on_hyphens_ && parts_behind(i)) {
      ++chunk.end;
      ++chunk.n_characters;
      return true;
    }
    return i == line_.size() || is_separator(i) || dash_at(i) > 0;
  }

  /// Whether there is a hyphen after which a word may be broken. On both sides it needs two letters, or a
  /// letter, a hyphen and a letter.
  bool parts_behind(std::size_t i) const {
    if (!is_hyphen(i) || !is_letter(before(i))) return false;
    const std::size_t letter = previous_character(line_, i);
    const bool begins =
        is_letter(before(letter)) || (letter > 0 && is_hyphen(letter - 1) && is_letter(before(letter - 1)));
    if (!begins || !is_letter(at(i + 1))) return false;
    std::size_t next = i + 1 + at(i + 1).size();
    if (is_hyphen(next)) ++next;
    return is_letter(at(next));
  }

  const std::string_view line_;
  const bool break_on_hyphens_;
  std::size_t position_ = 0;
};

/// The part of a too long word that fits on a line with `n_left` characters left.
Chunk first_part(std::string_view line, const Chunk& word, std::int64_t n_left, bool break_on_hyphens) {
  const std::string_view bytes = line.substr(word.begin, word.end - word.begin);
  std::size_t n_bytes = character_position(bytes, to_size(n_left));
  const std::size_t hyphen = bytes.substr(0, n_bytes).rfind('-');
  // A word is not broken after hyphens alone.
  if (break_on_hyphens && hyphen != std::string_view::npos &&
      bytes.substr(0, hyphen).find_first_not_of('-') != std::string_view::npos) {
    n_bytes = hyphen + 1;
    n_left = static_cast<std::int64_t>(count_characters(bytes.substr(0, n_bytes)));
  }
  return {word.begin, word.begin + n_bytes, n_left};
}

}  // namespace

std::vector<Text> wrap_words(Budget& budget, const Text& line, const WrapStyle& style) {
  if (style.width < 1) throw Problem("lines must have a width of at least 1 character");
  budget.spend(1 + line.size() / 16);  // Table look-ups for each character: slower than copying.
  const std::string_view bytes = line.bytes();
  const auto is_space = [&](const Chunk& chunk) {
    return is_blank(bytes.substr(chunk.begin, chunk.end - chunk.begin));
  };
  std::vector<Text> lines;
  Chunks chunks(bytes, style.break_on_hyphens);
  Chunk next = chunks.take();
  while (!next.empty()) {
    if (!lines.empty() && is_space(next)) next = chunks.take();
    const std::size_t begin = next.begin;
    std::int64_t n_left = style.width;
    Chunk last;
    for (; !next.empty() && next.n_characters <= n_left; next = chunks.take()) {
      last = next;
      n_left -= next.n_characters;
    }
    if (next.n_characters > style.width) {
      if (style.break_long_words) {
        last = first_part(bytes, next, n_left, style.break_on_hyphens);
        next.begin = last.end;
        next.n_characters -= last.n_characters;
      } else if (next.begin == begin) {
        last = next;
        next = chunks.take();
      }
    }
    const std::size_t end = is_space(last) ? last.begin : last.end;
    if (end <= begin) continue;
    budget.spend();
    lines.push_back(line.slice(begin, end));
  }
  return lines;
}

}  // namespace weft::text::jinja
