#pragma once
// Sets of characters and their UTF-8 encodings.
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace weft::grammar {

inline constexpr char32_t kLastCharacter = 0x10FFFF;

struct CharRange {
  char32_t low = 0, high = 0;  ///< Both included.
  bool operator==(const CharRange&) const = default;
};

/// A set of Unicode characters without surrogates, which no valid string contains.
class CharSet {
 public:
  CharSet() = default;
  CharSet(std::initializer_list<CharRange> ranges);
  static CharSet all();

  void add(char32_t low, char32_t high);
  void add(char32_t one) { add(one, one); }
  void add(const CharSet& other);
  CharSet negated() const;
  CharSet without(const CharSet& other) const;
  bool contains(char32_t c) const;
  bool empty() const { return ranges().empty(); }

  /// Ascending, neither touching nor overlapping.
  const std::vector<CharRange>& ranges() const;

 private:
  mutable std::vector<CharRange> ranges_;
  mutable bool sorted_ = true;
};

/// A sequence of byte ranges: the UTF-8 of characters that differ within them only.
struct Utf8Range {
  struct Bytes {
    std::uint8_t low, high;
  };
  Bytes bytes[4];
  int size;
};

/// Appends the UTF-8 of a range of characters. Surrogates are left out.
void append_utf8_ranges(CharRange range, std::vector<Utf8Range>& out);

}  // namespace weft::grammar
