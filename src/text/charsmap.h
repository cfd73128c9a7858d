#pragma once
// The normalisation that a SentencePiece model brings along: a table of texts and what each becomes,
// "compiled" to a trie in a double array (Aoe 1989, as packed by Darts-clone) and the replacements.
//
// Layout: bytes of the trie (u32), the trie (u32 units, little-endian), the replacements, each ended by a
// zero byte. A unit's low byte is the byte that leads to it, bit 31 says that it is a value and no node; bit
// 8 that a text ends here, with its value at the unit's offset; bits 10 to 30 are the offset, times 256 where
// bit 9 is set. The child for a byte b of the node at place p is at p ^ offset(p) ^ b, the value at p ^
// offset(p).
#include <bitset>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "text/vocabulary.h"

namespace weft::text {

/// Immutable.
class Charsmap {
 public:
  /// Far above what tables replace. A damaged trie may lead in circles: each step would read all of a text.
  static constexpr std::size_t kMaxSource = 256;

  /// An empty table changes nothing. Throws Error kInvalidFile where the parts do not fit. What a damaged
  /// trie makes of a text is not checked: places outside match nothing.
  explicit Charsmap(std::string_view bytes);

  struct Step {
    std::string_view text;  ///< What it becomes; may be empty. Valid UTF-8.
    std::size_t size;       ///< Bytes taken from the front.
  };
  /// The front of a text that is valid UTF-8 and not empty: the longest text of the table that it begins
  /// with, of kMaxSource bytes at most, else its first character as it is.
  Step front(std::string_view text) const;

 private:
  std::uint32_t unit(std::size_t at) const { return at < trie_.size() ? trie_[at] : kValue; }
  bool replacement(std::size_t at, std::string_view& text) const;

  static constexpr std::uint32_t kValue = std::uint32_t{1} << 31;
  std::vector<std::uint32_t> trie_;
  std::string replacements_;
  std::bitset<256> begins_;  ///< Bytes that some text of the table begins with.
};

/// SentencePiece's normalisation: the table, spaces removed or added, and U+2581 for each space. Immutable.
class SentencePieceForm {
 public:
  /// A vocabulary with steps of its own (Vocabulary::normalizers) needs only the last. Throws Error
  /// kInvalidFile where the table is damaged.
  explicit SentencePieceForm(const Vocabulary& vocabulary);

  /// Replaces `to`. Throws Error kInvalidArgument where the result has more than 4 GiB.
  void apply(std::string_view text, std::string& to) const;

 private:
  Charsmap charsmap_;
  bool add_space_prefix_, remove_extra_spaces_;
};

}  // namespace weft::text
