#include "grammar/special_tokens.h"

#include <algorithm>

namespace weft::grammar {

SpecialTokens::SpecialTokens(const Tokenizer& tokenizer) {
  for (Token id = 0; id < tokenizer.n_vocab(); ++id) {
    const std::string_view text = tokenizer.text(id);
    if (tokenizer.kind(id) == TokenKind::kControl && !text.empty()) sorted_.emplace_back(text, id);
  }
  std::sort(sorted_.begin(), sorted_.end());
}

SpecialTokens::Match SpecialTokens::at_begin_of(std::string_view text) const {
  for (std::size_t size = text.size(); size > 0; --size) {
    const std::string_view head = text.substr(0, size);
    const auto at = std::lower_bound(sorted_.begin(), sorted_.end(), head,
                                     [](const auto& entry, std::string_view t) { return entry.first < t; });
    if (at != sorted_.end() && at->first == head) return {at->second, size};
  }
  return {};
}

std::vector<std::pair<Token, std::string_view>> SpecialTokens::within(std::string_view text) const {
  std::vector<std::pair<Token, std::string_view>> found;
  for (const auto& [written, token] : sorted_)
    if (text.find(written) != std::string_view::npos) found.emplace_back(token, written);
  return found;
}

}  // namespace weft::grammar
