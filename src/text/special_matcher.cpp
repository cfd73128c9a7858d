#include "text/special_matcher.h"

#include <algorithm>
#include <utility>

#include "text/utf8.h"

namespace weft::text {

SpecialMatcher::SpecialMatcher(const TokenTexts& texts, std::vector<Token> ids)
    : texts_(&texts), sorted_(std::move(ids)) {
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
    // The range of those that share what was read; the shortest stands first in it.
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
    if (found != kNoToken) return {begin, (*texts_)[found].size(), found};
  }
  return {text.size(), 0, kNoToken};
}

}  // namespace weft::text
