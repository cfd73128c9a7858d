#pragma once
// Models that fill in the middle (FIM): the tokens that mark the parts of such a prompt.
#include "weft/model.h"
#include "weft/types.h"

#pragma GCC visibility push(default)

namespace weft {

/// kNoToken where the model has none.
struct InfillTokens {
  Token prefix = kNoToken;
  Token suffix = kNoToken;
  /// Before the answer. Models without it (Codestral) read the suffix first, and continue the prefix.
  Token middle = kNoToken;
  Token repository = kNoToken;  ///< Before a repository's name.
  Token separator = kNoToken;   ///< Before a file's name.

  bool can_infill() const { return prefix != kNoToken && suffix != kNoToken; }
};

/// As the file names them (tokenizer.ggml.fim_pre_token_id, ...), else as families spell them. Reads nothing
/// of the file that is not in memory.
InfillTokens find_infill_tokens(const Model& model);

}  // namespace weft

#pragma GCC visibility pop
