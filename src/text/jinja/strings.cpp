#include "text/jinja/strings.h"

#include <utf8proc.h>

#include <algorithm>
#include <utility>

#include "text/utf8.h"

namespace weft::text::jinja {
namespace {

// Knuth-Morris-Pratt: a naive search takes time n * m on hostile inputs.
std::size_t find_linear(std::string_view text, std::string_view what, std::size_t from) {
  std::vector<std::size_t> border(what.size() + 1, 0);  // border[i]: longest border of the first i bytes.
  for (std::size_t i = 1, k = 0; i < what.size(); ++i) {
    while (k > 0 && what[i] != what[k]) k = border[k];
    if (what[i] == what[k]) ++k;
    border[i + 1] = k;
  }
  for (std::size_t i = from, k = 0; i < text.size(); ++i) {
    while (k > 0 && text[i] != what[k]) k = border[k];
    if (text[i] == what[k]) ++k;
    if (k == what.size()) return i + 1 - k;
  }
  return kNotFound;
}

utf8proc_category_t category(char32_t code) {
  return code == kBadByte ? UTF8PROC_CATEGORY_CN : utf8proc_category(static_cast<utf8proc_int32_t>(code));
}
bool is_letter(char32_t code) {
  const utf8proc_category_t kind = category(code);
  return kind >= UTF8PROC_CATEGORY_LU && kind <= UTF8PROC_CATEGORY_LO;
}
bool is_cased(char32_t code) {
  const utf8proc_category_t kind = category(code);
  return kind >= UTF8PROC_CATEGORY_LU && kind <= UTF8PROC_CATEGORY_LT;
}

enum class Case { kUpper, kLower, kTitle };

// Appends the character at `i` of `text` in another case (the simple mapping: one character stays one
// character).
void append_in_case(Text& out, const Text& text, std::size_t i, Character character, Case to) {
  if (character.code == kBadByte) return out.append(text, i, i + 1);
  constexpr char32_t kSharpS = 0xDF;
  if (character.code == kSharpS && to != Case::kLower) {
    return out.append(to == Case::kUpper ? "SS" : "Ss", text.from_template(i));
  }
  const auto code = static_cast<utf8proc_int32_t>(character.code);
  const utf8proc_int32_t mapped = to == Case::kUpper   ? utf8proc_toupper(code)
                                  : to == Case::kLower ? utf8proc_tolower(code)
                                                       : utf8proc_totitle(code);
  std::string bytes;
  append_utf8(bytes, static_cast<char32_t>(mapped));
  out.append(bytes, text.from_template(i));
}

// `choose(code)` returns the case of each character in turn.
template <class Choose>
Text map_case(Budget& budget, const Text& text, Choose choose) {
  budget.spend(text.size() / 16);  // Table look-ups for each character: slower than copying.
  Text out;
  for (std::size_t i = 0; i < text.size();) {
    const Character character = character_at(text.bytes(), i);
    append_in_case(out, text, i, character, choose(character.code));
    i += character.n_bytes;
  }
  return out;
}

template <class Holds>
bool all_characters(std::string_view text, Holds holds) {
  for (std::size_t i = 0; i < text.size();) {
    const Character character = character_at(text, i);
    if (!holds(character.code)) return false;
    i += character.n_bytes;
  }
  return !text.empty();
}

bool has_only_case(std::string_view text, utf8proc_category_t wanted) {
  bool found = false;
  const bool fits = all_characters(text, [&](char32_t code) {
    found = found || category(code) == wanted;
    return !is_cased(code) || category(code) == wanted;
  });
  return fits && found;
}

}  // namespace

std::size_t find(Budget& budget, std::string_view text, std::string_view what, std::size_t from) {
  constexpr std::size_t kShort = 8;
  if (from > text.size()) return kNotFound;
  budget.spend_bytes(what.size());
  if (what.size() > kShort) return find_linear(text, what, from);
  const std::size_t at = text.find(what, from);
  return at == std::string_view::npos ? kNotFound : at;
}

std::size_t find_last(Budget& budget, std::string_view text, std::string_view what) {
  const std::string reversed_text(text.rbegin(), text.rend()), reversed_what(what.rbegin(), what.rend());
  const std::size_t at = find(budget, reversed_text, reversed_what);
  return at == kNotFound ? kNotFound : text.size() - what.size() - at;
}

std::vector<std::size_t> find_all(Budget& budget, std::string_view text, std::string_view what,
                                  std::size_t limit) {
  budget.spend_bytes(text.size());
  std::vector<std::size_t> found;
  std::size_t at = 0;
  while (found.size() < limit) {
    at = find(budget, text, what, at);
    if (at == kNotFound) break;
    found.push_back(at);
    budget.spend_values(found.size() % kValuesPerStep == 0 ? kValuesPerStep : 0);
    if (what.empty() && at == text.size()) break;
    at += what.empty() ? character_at(text, at).n_bytes : what.size();
  }
  return found;
}

Text strip(Budget& budget, const Text& text, Side side, std::optional<std::string_view> characters) {
  constexpr std::size_t kMaxSet = 256;  // Each character is looked up in the set.
  if (characters && characters->size() > kMaxSet) throw Problem("strip: more than 256 bytes of characters");
  budget.spend_bytes(text.size());
  const std::string_view bytes = text.bytes();
  const auto goes = [&](std::size_t position, Character character) {
    if (!characters) return is_space(character.code);
    return characters->find(bytes.substr(position, character.n_bytes)) != std::string_view::npos;
  };
  std::size_t begin = 0, end = bytes.size();
  while (side != Side::kRight && begin < end) {
    const Character character = character_at(bytes, begin);
    if (!goes(begin, character)) break;
    begin += character.n_bytes;
  }
  while (side != Side::kLeft && end > begin) {
    const std::size_t start = previous_character(bytes, end);
    if (!goes(start, character_at(bytes, start))) break;
    end = start;
  }
  return text.slice(begin, end);
}

Text replace(Budget& budget, const Text& text, std::string_view what, const Text& with, std::size_t limit) {
  Text out;
  std::size_t done = 0;
  for (std::size_t at : find_all(budget, text.bytes(), what, limit)) {
    out.append(text, done, at);
    out.append(with);
    done = at + what.size();
  }
  out.append(text, done, text.size());
  return out;
}

std::vector<Text> split(Budget& budget, const Text& text, std::string_view separator, std::size_t limit) {
  std::vector<Text> parts;
  std::size_t done = 0;
  for (std::size_t at : find_all(budget, text.bytes(), separator, limit)) {
    budget.spend();
    parts.push_back(text.slice(done, at));
    done = at + separator.size();
  }
  parts.push_back(text.slice(done, text.size()));
  return parts;
}

std::vector<Text> split_last(Budget& budget, const Text& text, std::string_view separator,
                             std::size_t limit) {
  // Searches from the right by searching the reversed string.
  const std::string_view bytes = text.bytes();
  const std::string mirrored(bytes.rbegin(), bytes.rend()),
      mirrored_separator(separator.rbegin(), separator.rend());
  std::vector<Text> parts;
  std::size_t end = text.size();
  for (std::size_t at : find_all(budget, mirrored, mirrored_separator, limit)) {
    budget.spend();
    parts.push_back(text.slice(text.size() - at, end));
    end = text.size() - at - separator.size();
  }
  parts.push_back(text.slice(0, end));
  std::reverse(parts.begin(), parts.end());
  return parts;
}

std::vector<Text> split_at_space(Budget& budget, const Text& text, std::size_t limit) {
  std::vector<Text> parts;
  Text rest = strip(budget, text, Side::kLeft);
  std::size_t i = 0, begin = 0;
  const std::string_view bytes = rest.bytes();
  while (i < bytes.size()) {
    const Character character = character_at(bytes, i);
    if (is_space(character.code) && parts.size() < limit) {
      budget.spend();
      parts.push_back(rest.slice(begin, i));
      while (i < bytes.size() && is_space(character_at(bytes, i).code)) i += character_at(bytes, i).n_bytes;
      begin = i;
    } else {
      i += character.n_bytes;
    }
  }
  if (begin < bytes.size()) parts.push_back(rest.slice(begin, bytes.size()));
  return parts;
}

std::vector<Text> split_last_at_space(Budget& budget, const Text& text, std::size_t limit) {
  const std::string_view bytes = text.bytes();
  const auto skip_space = [&](std::size_t end) {
    while (end > 0 && is_space(character_at(bytes, previous_character(bytes, end)).code)) {
      end = previous_character(bytes, end);
    }
    return end;
  };
  std::vector<Text> parts;
  std::size_t end = skip_space(bytes.size()), i = end;
  while (i > 0) {
    const std::size_t start = previous_character(bytes, i);
    if (is_space(character_at(bytes, start).code) && parts.size() < limit) {
      budget.spend();
      parts.push_back(text.slice(i, end));
      i = end = skip_space(start);
    } else {
      i = start;
    }
  }
  if (end > 0) parts.push_back(text.slice(0, end));
  std::reverse(parts.begin(), parts.end());
  return parts;
}

std::vector<Text> split_lines(Budget& budget, const Text& text, bool keep_ends) {
  const std::string_view bytes = text.bytes();
  const auto ends_line = [](char32_t code) {
    return (code >= 0x0A && code <= 0x0D) || (code >= 0x1C && code <= 0x1E) || code == 0x85 ||
           code == 0x2028 || code == 0x2029;
  };
  std::vector<Text> lines;
  std::size_t begin = 0;
  for (std::size_t i = 0; i < bytes.size();) {
    const Character character = character_at(bytes, i);
    const std::size_t end = i;
    i += character.n_bytes;
    if (!ends_line(character.code)) continue;
    if (character.code == '\r' && i < bytes.size() && bytes[i] == '\n') ++i;
    budget.spend();
    lines.push_back(text.slice(begin, keep_ends ? i : end));
    begin = i;
  }
  if (begin < bytes.size()) lines.push_back(text.slice(begin, bytes.size()));
  return lines;
}

Text upper(Budget& budget, const Text& text) {
  return map_case(budget, text, [](char32_t) { return Case::kUpper; });
}
Text lower(Budget& budget, const Text& text) {
  return map_case(budget, text, [](char32_t) { return Case::kLower; });
}

Text capitalize(Budget& budget, const Text& text) {
  bool first = true;
  return map_case(budget, text,
                  [&](char32_t) { return std::exchange(first, false) ? Case::kTitle : Case::kLower; });
}

Text title(Budget& budget, const Text& text) {
  bool inside = false;
  return map_case(budget, text, [&](char32_t code) {
    const bool was_inside = std::exchange(inside, is_cased(code));
    return was_inside ? Case::kLower : Case::kTitle;
  });
}

Text swap_case(Budget& budget, const Text& text) {
  return map_case(budget, text, [](char32_t code) {
    const auto one = static_cast<utf8proc_int32_t>(code);
    return code != kBadByte && utf8proc_tolower(one) != one ? Case::kLower : Case::kUpper;
  });
}

Text title_words(Budget& budget, const Text& text) {
  bool inside = false;
  return map_case(budget, text, [&](char32_t code) {
    const bool separates =
        is_space(code) || code == '-' || code == '(' || code == '{' || code == '[' || code == '<';
    const bool was_inside = std::exchange(inside, !separates);
    return was_inside ? Case::kLower : Case::kUpper;
  });
}

bool is_upper(std::string_view text) { return has_only_case(text, UTF8PROC_CATEGORY_LU); }
bool is_lower(std::string_view text) { return has_only_case(text, UTF8PROC_CATEGORY_LL); }
bool is_digit(std::string_view text) {
  return all_characters(text, [](char32_t code) { return category(code) == UTF8PROC_CATEGORY_ND; });
}
bool is_alpha(std::string_view text) { return all_characters(text, is_letter); }
bool is_alnum(std::string_view text) {
  return all_characters(text, [](char32_t code) {
    const utf8proc_category_t kind = category(code);
    return is_letter(code) || (kind >= UTF8PROC_CATEGORY_ND && kind <= UTF8PROC_CATEGORY_NO);
  });
}
bool is_blank(std::string_view text) { return all_characters(text, is_space); }

}  // namespace weft::text::jinja
