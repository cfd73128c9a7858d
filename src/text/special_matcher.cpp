#include "text/special_matcher.h"

#include <algorithm>
#include <utility>

#include "text/characters.h"
#include "text/utf8.h"

namespace weft::text {
namespace {

/// Whether no word character is next to [begin, end).
bool stands_alone(std::string_view text, std::size_t begin, std::size_t end) {
  std::size_t before = begin;
  while (before > 0 && (static_cast<unsigned char>(text[--before]) & 0xC0) == 0x80) {
  }
  const bool joined = before < begin && is_word(first_char(text.substr(before)).code);
  return !joined && (end == text.size() || !is_word(first_char(text.substr(end)).code));
}

}  // namespace

SpecialMatcher::SpecialMatcher(const TokenTexts& texts, std::vector<Token> ids,
                               std::span<const Token> single_words)
    : texts_(&texts), sorted_(std::move(ids)), single_words_(single_words.begin(), single_words.end()) {
  std::sort(single_words_.begin(), single_words_.end());
  std::erase_if(sorted_,
                [&](Token id) { return texts[id].empty() || valid_prefix(texts[id]) != texts[id].size(); });
  const auto same = [&](Token a, Token b) { return texts[a] == texts[b]; };
  std::stable_sort(sorted_.begin(), sorted_.end(), [&](Token a, Token b) { return texts[a] < texts[b]; });
  sorted_.erase(std::unique(sorted_.begin(), sorted_.end(), same), sorted_.end());
  for (std::size_t i = 0; i < sorted_.size(); ++i) {
    Range& range = first_byte_[static_cast<unsigned char>(texts[sorted_[i]][0])];
    if (range.end == 0) range.begin = i;
    range.end = i + 1;
  }
}

SpecialMatcher::Match SpecialMatcher::find(std::string_view text, std::size_t from) const {
  if (sorted_.empty()) return {text.size(), 0, kNoToken};
  for (std::size_t begin = from; begin < text.size(); ++begin) {
    const Range first = first_byte_[static_cast<unsigned char>(text[begin])];
    if (first.end == 0) continue;
    // The range of tokens that begin with the bytes read so far; the shortest comes first.
    auto low = sorted_.begin() + static_cast<std::ptrdiff_t>(first.begin);
    auto high = sorted_.begin() + static_cast<std::ptrdiff_t>(first.end);
    Token found = kNoToken;
    for (std::size_t size = 1; low != high; ++size) {
      if ((*texts_)[*low].size() == size) found = *low++;
      if (begin + size == text.size()) break;
      const auto next = static_cast<unsigned char>(text[begin + size]);
      const auto byte = [&](Token id) { return static_cast<unsigned char>((*texts_)[id][size]); };
      low = std::partition_point(low, high, [&](Token id) { return byte(id) < next; });
      high = std::partition_point(low, high, [&](Token id) { return byte(id) == next; });
    }
    if (found == kNoToken) continue;
    const std::size_t size = (*texts_)[found].size();
    const bool single = std::binary_search(single_words_.begin(), single_words_.end(), found);
    if (!single || stands_alone(text, begin, begin + size)) return {begin, size, found};
    begin += size - 1;
  }
  return {text.size(), 0, kNoToken};
}

}  // namespace weft::text
