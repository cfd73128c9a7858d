#include "grammar/token_trie.h"

#include <algorithm>

#include "base/to_size.h"

namespace weft::grammar {

TokenTrie::TokenTrie(std::vector<Entry> entries) {
  std::erase_if(entries, [](const Entry& e) { return e.bytes.empty() || e.bytes.size() > kMaxDepth; });
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    const int order = a.bytes.compare(b.bytes);
    return order != 0 ? order < 0 : a.token < b.token;
  });
  nodes_.push_back({0, 0, 0, 0});
  tokens_.reserve(entries.size());
  std::vector<std::uint32_t> path = {0};  // Nodes of the previous entry.
  std::string_view before;
  const auto close = [&](std::size_t depth) {
    for (; path.size() > depth + 1; path.pop_back())
      nodes_[path.back()].behind = static_cast<std::uint32_t>(nodes_.size());
  };
  for (const Entry& entry : entries) {
    const auto common =
        to_size(std::mismatch(before.begin(), before.end(), entry.bytes.begin(), entry.bytes.end()).first -
                before.begin());
    close(common);
    for (std::size_t i = common; i < entry.bytes.size(); ++i) {
      path.push_back(static_cast<std::uint32_t>(nodes_.size()));
      nodes_.push_back({0, static_cast<std::uint32_t>(tokens_.size()), static_cast<std::uint16_t>(i + 1),
                        static_cast<std::uint8_t>(entry.bytes[i])});
    }
    tokens_.push_back(entry.token);
    before = entry.bytes;
    max_depth_ = std::max(max_depth_, before.size());
  }
  close(0);
  nodes_[0].behind = static_cast<std::uint32_t>(nodes_.size());
  nodes_.push_back(
      {static_cast<std::uint32_t>(nodes_.size()) + 1, static_cast<std::uint32_t>(tokens_.size()), 0, 0});
  nodes_.shrink_to_fit();  // Many are kept, and bytes() counts no room beyond the nodes.
}

std::size_t TokenTrie::child(std::size_t n, std::uint8_t byte) const {
  for (std::size_t c = n + 1; c < nodes_[n].behind; c = nodes_[c].behind)
    if (nodes_[c].byte >= byte) return nodes_[c].byte == byte ? c : 0;
  return 0;
}

}  // namespace weft::grammar
