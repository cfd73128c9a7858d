#pragma once
// Tokens as a tree of their bytes.
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "weft/types.h"

namespace weft::grammar {

/// Immutable. Nodes are numbered in preorder, children by byte. Tokens are in the order of the nodes where
/// they end. Node 0 is the empty string.
class TokenTrie {
 public:
  struct Entry {
    std::string_view bytes;  ///< Not empty; needed while the tree is built only.
    Token token;
  };
  struct Node {
    std::uint32_t behind;  ///< The first node that is not below this one.
    std::uint32_t tokens;  ///< Index of the first token that ends at this node or a later one.
    std::uint16_t depth;   ///< Bytes up to here.
    std::uint8_t byte;     ///< The last of them.
  };
  static constexpr std::size_t kMaxDepth = 0xFFFF;

  TokenTrie() : TokenTrie(std::vector<Entry>()) {}
  explicit TokenTrie(std::vector<Entry> entries);

  std::size_t size() const { return nodes_.size() - 1; }
  const Node& operator[](std::size_t n) const { return nodes_[n]; }
  std::size_t max_depth() const { return max_depth_; }
  /// The tokens that end at a node.
  std::span<const Token> tokens_at(std::size_t n) const { return tokens_between(n, n + 1); }
  /// The tokens that end at a node or below it.
  std::span<const Token> tokens_below(std::size_t n) const { return tokens_between(n, nodes_[n].behind); }
  /// The node below `n` by one byte, or 0.
  std::size_t child(std::size_t n, std::uint8_t byte) const;
  std::size_t n_tokens() const { return tokens_.size(); }
  std::size_t bytes() const { return nodes_.size() * sizeof(Node) + tokens_.size() * sizeof(Token); }

 private:
  std::span<const Token> tokens_between(std::size_t first, std::size_t last) const {
    return std::span(tokens_).subspan(nodes_[first].tokens, nodes_[last].tokens - nodes_[first].tokens);
  }

  std::vector<Node> nodes_;  // Plus a sentinel, which ends the last one.
  std::vector<Token> tokens_;
  std::size_t max_depth_ = 0;
};

}  // namespace weft::grammar
