#include "engine/string_matcher.h"

namespace weft::engine {

StringMatcher::StringMatcher(std::span<const std::string> strings) : nodes_(1) {
  for (std::size_t i = 0; i < strings.size(); ++i) {
    if (strings[i].empty()) continue;
    Index at = kRoot;
    for (const char byte : strings[i]) {
      Index to = child(at, byte);
      if (to == kRoot) {
        to = static_cast<Index>(nodes_.size());
        nodes_.push_back({.sibling = nodes_[at].child, .depth = nodes_[at].depth + 1, .byte = byte});
        nodes_[at].child = to;
      }
      at = to;
    }
    if (nodes_[at].ends < 0) nodes_[at].ends = static_cast<std::int32_t>(i);
  }
  link();
}

/// Suffixes are shorter than their nodes, so nodes are walked by their depth.
void StringMatcher::link() {
  std::vector<Index> order = {kRoot};
  for (std::size_t i = 0; i < order.size(); ++i) {
    const Index parent = order[i];
    for (Index to = nodes_[parent].child; to != kRoot; to = nodes_[to].sibling) {
      if (parent != kRoot) nodes_[to].suffix = next(nodes_[parent].suffix, nodes_[to].byte);
      if (nodes_[to].ends < 0) nodes_[to].ends = nodes_[nodes_[to].suffix].ends;
      order.push_back(to);
    }
  }
}

StringMatcher::Index StringMatcher::child(Index of, char byte) const {
  Index at = nodes_[of].child;
  while (at != kRoot && nodes_[at].byte != byte) at = nodes_[at].sibling;
  return at;
}

StringMatcher::Index StringMatcher::next(Index from, char byte) const {
  while (true) {
    if (const Index to = child(from, byte); to != kRoot || from == kRoot) return to;
    from = nodes_[from].suffix;
  }
}

int StringMatcher::push(char byte) {
  at_ = next(at_, byte);
  return nodes_[at_].ends;
}

}  // namespace weft::engine
