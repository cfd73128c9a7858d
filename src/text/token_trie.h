#pragma once
// A trie of the tokens' bytes: finds the tokens that a string begins with.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "text/token_texts.h"
#include "weft/types.h"

namespace weft::text {

/// Immutable. The children of a node lie side by side, ordered by their bytes; nine bytes a node.
class TokenTrie {
 public:
  using Node = std::uint32_t;
  static constexpr Node kRoot = 0;  ///< Never a token: empty strings are not in the trie.
  static constexpr Node kNone = ~Node{0};

  /// Contains the tokens in `ids`; for equal strings, the lowest id.
  TokenTrie(const TokenTexts& texts, std::vector<Token> ids);

  /// The node one byte further, or kNone.
  Node child(Node node, char byte) const {
    const std::uint32_t begin = children_[node], end = children_[node + 1];
    if (begin == end) return kNone;
    const void* const found = std::memchr(&bytes_[begin], static_cast<unsigned char>(byte), end - begin);
    return found == nullptr ? kNone
                            : static_cast<Node>(static_cast<const unsigned char*>(found) - bytes_.data());
  }
  /// The token that ends here, or kNoToken.
  Token token(Node node) const { return tokens_[node]; }

 private:
  std::vector<std::uint32_t> children_;  ///< Per node its first child; the next node's ends the list.
  std::vector<unsigned char> bytes_;     ///< Per node the byte that leads to it.
  std::vector<Token> tokens_;
};

}  // namespace weft::text
