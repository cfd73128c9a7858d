#pragma once
// Banned strings of one completion (RequestParams::banned_strings), and its drawn tokens that may begin one.
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "engine/string_matcher.h"
#include "weft/batcher.h"

namespace weft::engine {

/// Tokens are held from the one with the first byte of a possible banned string. Each has the tokens that are
/// banned at its place. Without strings no token is held.
class BannedStrings {
 public:
  explicit BannedStrings(std::span<const std::string> strings);

  /// Takes the next drawn token and its bytes. If they complete a banned string, drops the tokens from the
  /// string's first one on, and bans that one in its place. Returns the number of dropped tokens.
  int push(OutputToken token, std::string_view bytes);
  /// The held tokens, oldest first.
  std::span<const Token> held() const { return held_; }
  /// How many of the held tokens are certain: no banned string can begin in them.
  std::size_t n_certain() const;
  /// Removes the oldest held token.
  OutputToken take();
  /// Tokens that must not be drawn next.
  std::span<const Token> banned_next() const { return banned_next_; }

 private:
  struct Place {
    OutputToken token;
    std::size_t n_bytes = 0;
    StringMatcher::State before;     ///< Of the matcher.
    std::vector<Token> banned = {};  ///< At this place.
  };
  int go_back(std::size_t n_bytes);

  std::vector<std::size_t> sizes_;  // Of the strings.
  StringMatcher matcher_;
  std::vector<Place> places_;
  std::vector<Token> held_;  // The tokens of places_.
  std::vector<Token> banned_next_;
};

}  // namespace weft::engine
