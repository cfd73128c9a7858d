#pragma once
// Finds tags in free content, byte by byte: the automaton of Aho and Corasick.
#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "grammar/budget.h"

namespace weft::grammar {

/// Immutable. A node is the longest end of the input that is a prefix of a tag.
class TagMatcher {
 public:
  using NodeIndex = std::uint32_t;

  TagMatcher(std::span<const std::string_view> tags, Budget& budget);

  std::size_t size() const { return nodes_.size(); }
  NodeIndex next(NodeIndex node, std::uint8_t byte) const { return nodes_[node].next[byte]; }
  std::size_t depth(NodeIndex node) const { return nodes_[node].depth; }
  /// The tags that end here, by number.
  const std::vector<std::uint32_t>& tags_at(NodeIndex node) const { return nodes_[node].tags; }

 private:
  struct Node {
    std::array<NodeIndex, 256> next{};
    std::size_t depth = 0;
    std::vector<std::uint32_t> tags;
  };
  std::vector<Node> nodes_;
};

}  // namespace weft::grammar
