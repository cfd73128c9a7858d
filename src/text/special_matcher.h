#pragma once
// Finds tokens that are written out in a text: at each place the longest, from left to right.
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
  /// `texts` must outlive the matcher. Texts that are empty or not valid UTF-8 are never found, so that a
  /// match in valid UTF-8 never cuts a character. Of equal texts the first in `ids` is found. Tokens in `single_words` count only where no word character
  /// is next to them. The search continues after a match that does not count.
  SpecialMatcher(const TokenTexts& texts, std::vector<Token> ids, std::span<const Token> single_words = {});

  struct Match {
    std::size_t begin;  ///< The text's size where nothing is found; `id` is kNoToken then.
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
  std::vector<Token> sorted_;            ///< By text.
  std::array<Range, 256> first_byte_{};  ///< Those that begin with a byte.
  std::vector<Token> single_words_;      ///< Ascending.
};

}  // namespace weft::text
