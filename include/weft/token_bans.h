#pragma once
// Token bans of a request: words that its completions never contain, and the only tokens that they may
// contain. vLLM calls them bad_words and allowed_token_ids.
//
//   weft::TokenBans bans;
//   bans.add_word("knit", model->tokenizer());
//   weft::ban_tokens(params, std::move(bans), model->tokenizer());
//   batcher.submit(prompt, params);
#include <cstddef>
#include <functional>
#include <string_view>
#include <vector>

#include "weft/batcher.h"
#include "weft/tokenizer.h"

#pragma GCC visibility push(default)

namespace weft {

struct TokenBans {
  /// Sequences of tokens that a completion never contains. The last token of a sequence is banned where the
  /// others were just generated.
  std::vector<std::vector<Token>> sequences = {};
  /// The only tokens that may be generated; without an end token in it, completions end by their length.
  /// Empty: all tokens.
  std::vector<Token> allowed = {};
  /// Called if a mask has no token left, by the thread that makes it, before the completion ends with kError.
  /// It may also be called for a draft that is dropped. Null: not called.
  std::function<void()> on_none_left = nullptr;

  static constexpr std::size_t kMaxWordTokens = 256;  ///< Each step compares all of them.

  /// Adds the sequences of a word: as it is, and after a space. Throws Error kInvalidArgument for a word
  /// without tokens, or with more than kMaxWordTokens.
  void add_word(std::string_view word, const Tokenizer& tokenizer);
};

/// Adds the bans to params.sampler.logit_bias and to params.constraint. So call it after both are set. A
/// constraint also gets the bans of logit_bias, so that its masks lack banned tokens. Throws Error
/// kInvalidArgument for tokens outside of the vocabulary.
void ban_tokens(RequestParams& params, TokenBans bans, const Tokenizer& tokenizer);

}  // namespace weft

#pragma GCC visibility pop
