#include "grammar/tag_matcher.h"

namespace weft::grammar {

TagMatcher::TagMatcher(std::span<const std::string_view> tags, Budget& budget) : nodes_(1) {
  for (std::uint32_t i = 0; i < tags.size(); ++i) {
    NodeIndex node = 0;
    for (const char c : tags[i]) {
      const auto byte = static_cast<std::uint8_t>(c);
      if (nodes_[node].next[byte] == 0) {
        budget.add_states(1);
        nodes_[node].next[byte] = static_cast<NodeIndex>(nodes_.size());
        const std::size_t depth = nodes_[node].depth + 1;
        nodes_.emplace_back();
        nodes_.back().depth = depth;
      }
      node = nodes_[node].next[byte];
    }
    nodes_[node].tags.push_back(i);
  }

  // Level by level: a node's fallback, which is shorter, is complete before the node is.
  struct Open {
    NodeIndex node, fallback;
  };
  std::vector<Open> level, below;
  for (const NodeIndex child : nodes_[0].next)
    if (child != 0) level.push_back({child, 0});
  while (!level.empty()) {
    below.clear();
    for (const auto& [n, fallback] : level) {
      Node& node = nodes_[n];
      const Node& other = nodes_[fallback];
      budget.spend(256);
      node.tags.insert(node.tags.end(), other.tags.begin(), other.tags.end());
      for (std::size_t byte = 0; byte < 256; ++byte) {
        if (node.next[byte] != 0) {
          below.push_back({node.next[byte], other.next[byte]});
        } else {
          node.next[byte] = other.next[byte];
        }
      }
    }
    level.swap(below);
  }
}

}  // namespace weft::grammar
