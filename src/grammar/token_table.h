#pragma once
// A vocabulary as grammars see it: the bytes of its tokens, a tree of them, its special tokens and its ends.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/to_size.h"
#include "grammar/special_tokens.h"
#include "grammar/token_trie.h"
#include "weft/tokenizer.h"

namespace weft::grammar {

/// Immutable. The tokenizer must outlive it.
class TokenTable {
 public:
  /// Masks of the short tokens cost most. The fewer bytes they look ahead, the more states share a mask.
  static constexpr std::size_t kShort = 20;

  explicit TokenTable(const Tokenizer& tokenizer);

  const Tokenizer& tokenizer() const { return tokenizer_; }
  const SpecialTokens& special() const { return special_; }
  /// Nearly all tokens are short: they have at most kShort bytes.
  const TokenTrie& short_tokens() const { return short_; }
  const TokenTrie& long_tokens() const { return long_; }
  int n_vocab() const { return tokenizer_.n_vocab(); }
  /// The bytes of a token. Empty for control tokens, end tokens and ids that do not exist.
  std::string_view bytes_of(Token token) const {
    if (token < 0 || token >= n_vocab()) return {};
    const auto i = to_size(token);
    return std::string_view(bytes_).substr(begins_[i], begins_[i + 1] - begins_[i]);
  }

  /// The tokens of the string in the middle of a longer one.
  std::vector<Token> encode(std::string_view text) const;

 private:
  std::string joined(const std::vector<Token>& tokens, std::size_t n) const;

  const Tokenizer& tokenizer_;
  SpecialTokens special_;
  std::string bytes_;
  std::vector<std::uint32_t> begins_;
  TokenTrie short_, long_;
};

}  // namespace weft::grammar
