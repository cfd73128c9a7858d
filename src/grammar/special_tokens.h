#pragma once
// The control tokens of a vocabulary by their spellings. Tags in grammars refer to them.
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "weft/tokenizer.h"

namespace weft::grammar {

/// Immutable.
class SpecialTokens {
 public:
  explicit SpecialTokens(const Tokenizer& tokenizer);

  struct Match {
    Token token = kNoToken;
    std::size_t size = 0;
  };
  /// The longest one that `text` begins with.
  Match at_begin_of(std::string_view text) const;
  /// The special tokens that occur in `text`.
  std::vector<std::pair<Token, std::string_view>> within(std::string_view text) const;

 private:
  std::vector<std::pair<std::string, Token>> sorted_;  // By text.
};

}  // namespace weft::grammar
