#include "text/jinja/text.h"

#include <algorithm>

#include "text/jinja/limits.h"
#include "text/utf8.h"

namespace weft::text::jinja {

void Text::append(std::string_view bytes, bool from_template) {
  if (bytes.empty()) return;
  if (bytes.size() > kMaxTextBytes - size()) {
    throw Problem("a string grows beyond " + std::to_string(kMaxTextBytes) + " bytes");
  }
  if (empty()) {
    first_ = from_template;
  } else if (this->from_template(size() - 1) != from_template) {
    flips_.push_back(size());
  }
  bytes_ += bytes;
}

void Text::append(const Text& other, std::size_t begin, std::size_t end) {
  auto flip = std::upper_bound(other.flips_.begin(), other.flips_.end(), begin);
  bool origin = other.first_ != ((flip - other.flips_.begin()) % 2 != 0);
  while (begin < end) {
    const std::size_t stop = flip == other.flips_.end() ? end : std::min(*flip++, end);
    append(other.bytes().substr(begin, stop - begin), origin);
    begin = stop;
    origin = !origin;
  }
}

Text Text::slice(std::size_t begin, std::size_t end) const {
  Text result;
  result.append(*this, begin, end);
  return result;
}

bool Text::from_template(std::size_t position) const {
  if (flips_.empty() || position >= flips_.back()) return first_ != (flips_.size() % 2 != 0);
  const auto flip = std::upper_bound(flips_.begin(), flips_.end(), position);
  return first_ != ((flip - flips_.begin()) % 2 != 0);
}

Character character_at(std::string_view bytes, std::size_t position) {
  const auto lead = static_cast<unsigned char>(bytes[position]);
  if (lead < 0x80) return {lead, 1};
  const Utf8Char read = first_char(bytes.substr(position));
  if (read.status != Utf8Status::kValid) return {kBadByte, 1};
  return {read.code, read.size};
}

std::size_t previous_character(std::string_view bytes, std::size_t position) {
  for (std::size_t n = 2; n <= std::min<std::size_t>(4, position); ++n) {
    if (character_at(bytes.substr(0, position), position - n).n_bytes == n) return position - n;
  }
  return position - 1;
}

std::size_t count_characters(std::string_view bytes) {
  std::size_t count = 0;
  for (std::size_t i = 0; i < bytes.size(); i += character_at(bytes, i).n_bytes) ++count;
  return count;
}

std::size_t character_position(std::string_view bytes, std::size_t index) {
  std::size_t i = 0;
  while (index-- > 0 && i < bytes.size()) i += character_at(bytes, i).n_bytes;
  return i;
}

bool is_space(char32_t code) {
  return (code >= 0x09 && code <= 0x0D) || (code >= 0x1C && code <= 0x20) || code == 0x85 || code == 0xA0 ||
         code == 0x1680 || (code >= 0x2000 && code <= 0x200A) || code == 0x2028 || code == 0x2029 ||
         code == 0x202F || code == 0x205F || code == 0x3000;
}

}  // namespace weft::text::jinja
