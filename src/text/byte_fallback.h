#pragma once
// Encodes characters without a token: as byte tokens if the vocabulary has tokens for their bytes (<0x00> to
// <0xFF>), otherwise as the unknown token. A run of such characters becomes one unknown token.
#include <array>
#include <string_view>
#include <vector>

#include "text/vocabulary.h"
#include "weft/types.h"

namespace weft::text {

/// Immutable.
class ByteFallback {
 public:
  /// Throws Error kInvalidFile if some character could be encoded by no token at all.
  explicit ByteFallback(const Vocabulary& vocabulary);

  /// Appends the ids of characters without a token. `after_unknown`: the token before is the unknown token
  /// and covers these characters, too. True if the last token is the unknown token then.
  bool encode(std::string_view text, bool after_unknown, std::vector<Token>& out) const;

 private:
  Token unk_;
  std::array<Token, 256> byte_ids_;
};

}  // namespace weft::text
