#pragma once
// Tokens that a request bans: always (logit_bias, allowed_token_ids, bad_words of one token), or after others
// (longer bad_words). The batcher gets them as a constraint, together with the request's grammar.
#include <memory>
#include <vector>

#include "weft/batcher.h"

namespace weft::server {

class GrammarFault;

/// Makes the constraints of `params` leave out banned tokens: those with a bias of minus infinity, and last
/// tokens of `words`. A word has two tokens or more. Its last one is banned where the others were just
/// generated. Does nothing where the sampler's bias suffices. If a completion fails because no token is left,
/// `fault` has the request's error; it is created if needed.
void ban_tokens(RequestParams& params, std::vector<std::vector<Token>> words, int n_vocab,
                std::shared_ptr<GrammarFault>& fault);

}  // namespace weft::server
