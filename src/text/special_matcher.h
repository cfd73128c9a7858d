#pragma once
// Finds tokens that are written out in a string: at each place the longest, from left to right.
#include <array>
#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include "text/token_texts.h"
#include "weft/types.h"

namespace weft::text {

class SpecialMatcher {
 public:
  /// `texts` must outlive the matcher. Token strings that are empty or not valid UTF-8 are never found, so
  /// that a match in valid UTF-8 never cuts a character. If tokens have equal strings, the first in `ids` is
  /// found. Tokens in `single_words` count only where no word character is next to them. The search continues
  /// after a match that does not count.
  SpecialMatcher(const TokenTexts& texts, std::vector<Token> ids, std::span<const Token> single_words = {});

  struct Match {
    std::size_t begin;  ///< The string's size where nothing is found; `id` is kNoToken then.
    std::size_t size;
    Token id;
  };
  /// The first match at `from` or later. Reads each byte once, plus at most the longest token's bytes where
  /// one could begin.
  Match find(std::string_view text, std::size_t from) const;

 private:
  struct Range {
    std::size_t begin = 0, end = 0;
  };
  const TokenTexts* texts_;
  std::vector<Token> sorted_;            ///< By their strings.
  std::array<Range, 256> first_byte_{};  ///< By byte: the tokens that begin with it.
  std::vector<Token> single_words_;      ///< Ascending.
};

}  // namespace weft::text
