#pragma once
// The normalisation of a SentencePiece model: a table of strings and their replacements. It is stored as a
// trie in a double array (Aoe 1989, as packed by Darts-clone), followed by the replacements.
//
// Layout: the trie's size in bytes (u32), the trie (u32 units, little-endian), and the replacements, each
// ended by a zero byte. The bits of a unit are:
// - 0 to 7: the byte that leads to it;
// - 8: a string of the table ends here, and its value is at the unit's offset;
// - 10 to 30: the offset, times 256 if bit 9 is set;
// - 31: the unit is a value, not a node.
// The child for a byte b of the node at place p is at p ^ offset(p) ^ b, the value at p ^ offset(p).
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
  /// Maximum length of a replaced string, far above the longest in real tables. Without it, a damaged trie
  /// with a cycle would read the whole input at each position.
  static constexpr std::size_t kMaxSource = 256;

  /// An empty table changes nothing. Throws Error kInvalidFile if the sizes of the parts do not fit. Other
  /// damage to the trie is not detected: units outside of it match nothing.
  explicit Charsmap(std::string_view bytes);

  struct Step {
    std::string_view text;  ///< The replacement; may be empty. Valid UTF-8.
    std::size_t size;       ///< Bytes taken from the front.
  };
  /// Normalises the front of a string that is valid UTF-8 and not empty. Takes the longest prefix in the
  /// table, of at most kMaxSource bytes. Otherwise takes the first character unchanged.
  Step front(std::string_view text) const;

 private:
  std::uint32_t unit(std::size_t at) const { return at < trie_.size() ? trie_[at] : kValue; }
  bool replacement(std::size_t at, std::string_view& text) const;

  static constexpr std::uint32_t kValue = std::uint32_t{1} << 31;
  std::vector<std::uint32_t> trie_;
  std::string replacements_;
  std::bitset<256> begins_;  ///< The first bytes of the table's strings.
};

/// SentencePiece's normalisation: the table, spaces removed or added, and U+2581 for each space. Immutable.
class SentencePieceForm {
 public:
  /// A vocabulary with its own steps (Vocabulary::normalizers) needs only the space marks. Throws Error
  /// kInvalidFile if the table is damaged.
  explicit SentencePieceForm(const Vocabulary& vocabulary);

  /// Replaces `to`. Throws Error kInvalidArgument if the result has more than 4 GiB.
  void apply(std::string_view text, std::string& to) const;

 private:
  Charsmap charsmap_;
  bool add_space_prefix_, remove_extra_spaces_;
};

}  // namespace weft::text
