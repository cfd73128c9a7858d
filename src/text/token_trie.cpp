#include "text/token_trie.h"

#include <cstddef>

namespace weft::text {

TokenTrie::TokenTrie(const TokenTexts& texts, std::vector<Token> ids) {
  std::erase_if(ids, [&](Token id) { return texts[id].empty(); });
  std::sort(ids.begin(), ids.end(), [&](Token a, Token b) {
    const int order = texts[a].compare(texts[b]);
    return order != 0 ? order < 0 : a < b;
  });

  // Level by level: the tokens below a node are a range of the sorted ones.
  struct Range {
    std::size_t begin, end;
  };
  std::vector<Range> level = {{0, ids.size()}}, next;
  bytes_.push_back(0);
  for (std::size_t depth = 0; !level.empty(); ++depth) {
    next.clear();
    for (auto [at, end] : level) {
      tokens_.push_back(depth > 0 && texts[ids[at]].size() == depth ? ids[at] : kNoToken);
      while (at < end && texts[ids[at]].size() == depth) ++at;
      children_.push_back(static_cast<std::uint32_t>(bytes_.size()));
      while (at < end) {
        const char byte = texts[ids[at]][depth];
        const std::size_t begin = at;
        while (at < end && texts[ids[at]][depth] == byte) ++at;
        bytes_.push_back(static_cast<unsigned char>(byte));
        next.push_back({begin, at});
      }
    }
    level.swap(next);
  }
  children_.push_back(static_cast<std::uint32_t>(bytes_.size()));
}

}  // namespace weft::text
