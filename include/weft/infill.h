#pragma once
// Fill-in-the-middle (FIM): the tokens that mark the parts of an infill prompt.
// Any thread may call the function. It does not fail.
#include "weft/model.h"
#include "weft/types.h"

#pragma GCC visibility push(default)

namespace weft {

/// kNoToken where the model has none.
struct InfillTokens {
  Token prefix = kNoToken;
  Token suffix = kNoToken;
  /// Marks the start of the completion. Models without it (Codestral) have the suffix first and continue the
  /// prefix.
  Token middle = kNoToken;
  Token repository = kNoToken;  ///< Before the name of a repository.
  Token separator = kNoToken;   ///< Before the name of a file.

  bool can_infill() const { return prefix != kNoToken && suffix != kNoToken; }
};

/// Finds the tokens by the file's keys (tokenizer.ggml.fim_pre_token_id, ...), or else by the spellings of
/// known families. Uses only the loaded vocabulary.
InfillTokens find_infill_tokens(const Model& model);

}  // namespace weft

#pragma GCC visibility pop
