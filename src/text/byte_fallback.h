#pragma once
// What becomes of characters that no token is written with: their bytes where the vocabulary has tokens for
// all 256 (<0x00> to <0xFF>), else the unknown token, once for all in a row.
#include <array>
#include <string_view>
#include <vector>

#include "text/vocabulary.h"
#include "weft/types.h"

namespace weft::text {

/// Immutable.
class ByteFallback {
 public:
  /// Throws Error kInvalidFile where a character could become no token at all.
  explicit ByteFallback(const Vocabulary& vocabulary);

  /// Appends the ids of characters that are no token. `after_unknown`: the token before stands for some, too.
  /// True if the last one appended, or that one, is the unknown token.
  bool encode(std::string_view text, bool after_unknown, std::vector<Token>& out) const;

 private:
  Token unk_;
  std::array<Token, 256> byte_ids_;
};

}  // namespace weft::text
