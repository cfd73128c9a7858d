#include "engine/sampling/dry_breakers.h"

#include <algorithm>
#include <ranges>

namespace weft::engine {

DryBreakers::DryBreakers(std::span<const std::vector<Token>> breakers) {
  std::vector<std::vector<Token>> reversed(breakers.begin(), breakers.end());
  for (std::vector<Token>& breaker : reversed) std::ranges::reverse(breaker);
  std::ranges::sort(reversed);
  begin_.push_back(0);
  for (const std::vector<Token>& breaker : reversed) {
    tokens_.insert(tokens_.end(), breaker.begin(), breaker.end());
    begin_.push_back(static_cast<std::uint32_t>(tokens_.size()));
  }
}

std::size_t DryBreakers::shortest_at_end(std::span<const Token> text) const {
  // Those that the last `depth` tokens begin, all of them longer than that.
  std::size_t first = 0, end = size();
  for (std::size_t depth = 0; first < end && depth < text.size(); ++depth) {
    const Token token = text[text.size() - 1 - depth];
    const auto at_depth = [&](std::size_t i) { return tokens_[begin_[i] + depth]; };
    const auto alike = std::ranges::equal_range(std::views::iota(first, end), token, {}, at_depth);
    if (alike.empty()) return 0;
    first = alike.front();
    end = alike.back() + 1;
    if (length(first) == depth + 1) return depth + 1;
  }
  return 0;
}

}  // namespace weft::engine
