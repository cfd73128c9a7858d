#pragma once
// Which tokens end a generation, and which tokens are special although their file gives them another type.
//
// A generation ends at
// - the ids that the file names (Vocabulary::eos, eot, eom, ends),
// - tokens that are known by name to end a turn, a document, or a file of code that is filled in,
// - the special token that the chat template writes after an assistant's message or after its tool calls.
//
// A normal token counts as special if merges never produce its string. The decision depends on the file and
// its template only, never on a prompt.
#include <vector>

#include "text/token_texts.h"
#include "text/vocabulary.h"
#include "weft/types.h"

namespace weft::text {

/// The ids, ascending. Tokens that mark turns become control tokens in `vocabulary.kinds`, which has an entry
/// for each token; each change is noted. `index` finds the vocabulary's tokens.
std::vector<Token> find_ends(Vocabulary& vocabulary, const TokenIndex& index);

}  // namespace weft::text
