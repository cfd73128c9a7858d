#include "text/utf8.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace weft::text {

Utf8Char first_char(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return {Utf8Status::kValid, 1, lead};
  if (lead < 0xC2 || lead > 0xF4) return {Utf8Status::kInvalid, 1, 0};
  const std::size_t size = char_size(text[0]);
  // The second byte's range is what excludes overlong forms, surrogates and values above U+10FFFF.
  unsigned char low = 0x80, high = 0xBF;
  if (lead == 0xE0) low = 0xA0;
  if (lead == 0xED) high = 0x9F;
  if (lead == 0xF0) low = 0x90;
  if (lead == 0xF4) high = 0x8F;
  char32_t code = lead & (0x7Fu >> size);
  for (std::size_t i = 1; i < size; ++i) {
    if (i == text.size()) return {Utf8Status::kIncomplete, i, 0};
    if (byte(i) < low || byte(i) > high) return {Utf8Status::kInvalid, i, 0};
    code = code << 6 | (byte(i) & 0x3Fu);
    low = 0x80;
    high = 0xBF;
  }
  return {Utf8Status::kValid, size, code};
}

std::size_t valid_prefix(std::string_view text) {
  std::size_t at = 0;
  while (at < text.size()) {
    std::uint64_t eight;
    if (at + sizeof(eight) <= text.size()) {
      std::memcpy(&eight, text.data() + at, sizeof(eight));
      if ((eight & 0x8080808080808080u) == 0) {
        at += sizeof(eight);
        continue;
      }
    }
    const Utf8Char c = first_char(text.substr(at));
    if (c.status != Utf8Status::kValid) break;
    at += c.size;
  }
  return at;
}

std::string repaired(std::string_view text) {
  std::string result;
  result.reserve(text.size() + kReplacement.size());
  while (!text.empty()) {
    const std::size_t valid = valid_prefix(text);
    result += text.substr(0, valid);
    text.remove_prefix(valid);
    if (text.empty()) break;
    result += kReplacement;
    text.remove_prefix(first_char(text).size);
  }
  return result;
}

std::string with_space_marks(std::string_view text) {
  std::string marked;
  for (std::size_t done = 0; done < text.size();) {
    const std::size_t space = std::min(text.find(' ', done), text.size());
    marked += text.substr(done, space - done);
    if (space < text.size()) marked += kSpaceMark;
    done = space + 1;
  }
  return marked;
}

void append_utf8(std::string& text, char32_t code) {
  const auto tail = [&](int shift) { text += static_cast<char>(0x80 | (code >> shift & 0x3F)); };
  if (code < 0x80) {
    text += static_cast<char>(code);
  } else if (code < 0x800) {
    text += static_cast<char>(0xC0 | code >> 6);
    tail(0);
  } else if (code < 0x10000) {
    text += static_cast<char>(0xE0 | code >> 12);
    tail(6);
    tail(0);
  } else {
    text += static_cast<char>(0xF0 | code >> 18);
    tail(12);
    tail(6);
    tail(0);
  }
}

}  // namespace weft::text
