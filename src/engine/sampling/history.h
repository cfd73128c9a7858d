#pragma once
// Changes logits by the tokens so far: penalties for repeated tokens, and DRY for repeated sequences. Until
// the first use it holds only the tokens.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "engine/sampling/candidates.h"
#include "engine/string_matcher.h"
#include "weft/sampler.h"
#include "weft/tokenizer.h"

namespace weft::engine {

class History {
 public:
  /// The arguments must outlive it. Without a tokenizer DRY has no breakers.
  History(const SamplerParams& params, std::size_t n_vocab, const Tokenizer* tokenizer);

  // Whether the parameters ask for it.
  bool penalises() const { return penalises_; }
  bool has_dry() const { return has_dry_; }

  void accept(Token id);
  /// Removes the last `n` tokens. Takes time linear in the history.
  void retract(std::size_t n);
  void clear();

  /// Changes the logit of each token that occurs c > 0 times among the last n. It is divided by the
  /// repetition penalty (multiplied where negative; Keskar et al. 2019). Then c times the frequency penalty
  /// and once the presence penalty are subtracted.
  void apply_penalties(Candidates& candidates);
  /// DRY (p-e-w, text-generation-webui 2024): a token that followed an earlier copy of the last m tokens
  /// would prolong a repetition of length m. If m >= allowed, its logit loses multiplier * base^(m -
  /// allowed). A repetition does not reach back beyond the token in which a breaker ends. Takes time linear
  /// in the number of tokens.
  void apply_dry(Candidates& candidates);

 private:
  template <class Change>
  void change(Candidates& candidates, const std::vector<Token>& ids, Change change) const;
  std::size_t window(int n) const;
  Token from_end(std::size_t i) const { return text_[text_.size() - 1 - i]; }
  void forget_beginning();
  void count_window();
  void make_room();
  bool ends_breaker(Token id);
  void clear_counts();
  void measure_repetitions(std::size_t n, std::size_t limit);

  const SamplerParams& params_;
  const Tokenizer* const tokenizer_;
  const std::size_t n_vocab_;
  bool penalises_ = false;
  bool has_dry_ = false;
  std::vector<Token> text_;  // Its first tokens are dropped once no window reaches them.

  // How often each token occurs in text_[count_begin_ .. count_end_), and which tokens do, with their places
  // in that list. It follows the window of the penalties when they are applied.
  struct Count {
    std::int32_t n = 0;
    std::uint32_t place = 0;
  };
  std::vector<Count> counts_;  // By token; empty before the first use.
  std::vector<Token> present_;
  std::size_t count_begin_ = 0, count_end_ = 0;

  bool dry_applied_ = false;
  std::optional<StringMatcher> breakers_;  // Has read all tokens so far. Null: no breakers.
  std::size_t since_breaker_ = 0;          // Tokens after the last one in which a breaker ended.
  std::vector<std::size_t> matches_;       // Scratch, one per token of text_: see measure_repetitions.
  std::vector<std::int32_t> longest_;      // By token: the longest repetition that it would prolong; 0
                                           // between calls.
  std::vector<Token> prolonging_;          // Tokens with longest_ > 0.
};

}  // namespace weft::engine
