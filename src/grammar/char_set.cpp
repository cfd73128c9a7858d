#include "grammar/char_set.h"

#include <algorithm>
#include <string>

#include "text/utf8.h"

namespace weft::grammar {
namespace {

constexpr char32_t kFirstSurrogate = 0xD800, kLastSurrogate = 0xDFFF;

/// All of whose encodings have the same length.
void append_of_one_size(CharRange range, int size, std::vector<Utf8Range>& out) {
  // Split so that in each part all bytes after the first differing one run from 0x80 to 0xBF.
  for (int tail = 1; tail < size; ++tail) {
    const char32_t mask = (char32_t{1} << (6 * tail)) - 1;
    if ((range.low & ~mask) == (range.high & ~mask)) continue;
    if ((range.low & mask) != 0) {
      append_of_one_size({range.low, range.low | mask}, size, out);
      append_of_one_size({(range.low | mask) + 1, range.high}, size, out);
      return;
    }
    if ((range.high & mask) != mask) {
      append_of_one_size({range.low, (range.high & ~mask) - 1}, size, out);
      append_of_one_size({range.high & ~mask, range.high}, size, out);
      return;
    }
  }
  std::string low, high;
  text::append_utf8(low, range.low);
  text::append_utf8(high, range.high);
  Utf8Range result{};
  result.size = size;
  for (std::size_t i = 0; i < low.size(); ++i)
    result.bytes[i] = {static_cast<std::uint8_t>(low[i]), static_cast<std::uint8_t>(high[i])};
  out.push_back(result);
}

}  // namespace

CharSet::CharSet(std::initializer_list<CharRange> ranges) {
  for (const CharRange& range : ranges) add(range.low, range.high);
}

CharSet CharSet::all() { return CharSet({{0, kLastCharacter}}); }

void CharSet::add(char32_t low, char32_t high) {
  ranges_.push_back({low, std::min(high, kLastCharacter)});
  sorted_ = false;
}

void CharSet::add(const CharSet& other) {
  for (const CharRange& range : other.ranges()) add(range.low, range.high);
}

const std::vector<CharRange>& CharSet::ranges() const {
  if (sorted_) return ranges_;
  std::sort(ranges_.begin(), ranges_.end(),
            [](const CharRange& a, const CharRange& b) { return a.low < b.low; });
  std::vector<CharRange> merged;
  for (const CharRange& range : ranges_) {
    if (!merged.empty() && range.low <= merged.back().high + 1) {
      merged.back().high = std::max(merged.back().high, range.high);
    } else {
      merged.push_back(range);
    }
  }
  ranges_ = std::move(merged);
  sorted_ = true;
  return ranges_;
}

CharSet CharSet::negated() const {
  CharSet result;
  char32_t next = 0;
  for (const CharRange& range : ranges()) {
    if (range.low > next) result.add(next, range.low - 1);
    next = range.high + 1;
  }
  if (next <= kLastCharacter) result.add(next, kLastCharacter);
  return result;
}

CharSet CharSet::without(const CharSet& other) const {
  CharSet outside = negated();
  outside.add(other);
  return outside.negated();
}

bool CharSet::contains(char32_t c) const {
  return std::any_of(ranges().begin(), ranges().end(),
                     [&](const CharRange& range) { return range.low <= c && c <= range.high; });
}

void append_utf8_ranges(CharRange range, std::vector<Utf8Range>& out) {
  struct Part {
    char32_t low, high;
    int size;
  };
  constexpr Part kParts[] = {{0, 0x7F, 1},
                             {0x80, 0x7FF, 2},
                             {0x800, kFirstSurrogate - 1, 3},
                             {kLastSurrogate + 1, 0xFFFF, 3},
                             {0x10000, kLastCharacter, 4}};
  for (const Part& part : kParts) {
    const CharRange cut = {std::max(range.low, part.low), std::min(range.high, part.high)};
    if (cut.low <= cut.high) append_of_one_size(cut, part.size, out);
  }
}

}  // namespace weft::grammar
