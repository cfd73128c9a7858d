#pragma once
// What the text so far does to logits: penalties for repeated tokens, and DRY
// for repeated sequences.
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/sampling/candidates.h"
#include "weft/sampler.h"

namespace weft::engine {

class History {
 public:
  /// `params` must outlive it.
  History(const SamplerParams& params, std::size_t n_vocab);

  // Whether the parameters ask for it, whatever the text is.
  bool penalises() const { return penalises_; }
  bool has_dry() const { return has_dry_; }

  void accept(Token id);
  void clear();

  /// For a token that occurs c > 0 times among the last n: its logit is divided
  /// by the repetition penalty (multiplied where negative; Keskar et al. 2019),
  /// then loses c times the frequency penalty and once the presence penalty.
  void apply_penalties(Candidates& candidates) const;
  /// DRY (p-e-w, text-generation-webui 2024): a token that would prolong a
  /// repetition of length m >= allowed, that is one which followed an earlier
  /// copy of the last m tokens, loses multiplier * base^(m - allowed). A
  /// repetition does not reach back beyond a breaker.
  void apply_dry(Candidates& candidates);

 private:
  template <class Change>
  void change(Candidates& candidates, const std::vector<Token>& ids, Change change) const;
  std::size_t window(int n) const;
  Token from_end(std::size_t i) const { return text_[text_.size() - 1 - i]; }
  std::size_t since_breaker(std::size_t n) const;
  void measure_repetitions(std::size_t n, std::size_t limit);

  const SamplerParams& params_;
  bool penalises_ = false;
  bool has_dry_ = false;
  std::vector<Token> text_;

  // Of the last penalty_last_n tokens: how often each occurs, and which do
  // (with their places in that list).
  std::vector<std::int32_t> counts_;
  std::vector<Token> present_;
  std::vector<std::size_t> place_;

  std::vector<std::size_t> matches_;   // Scratch, as long as the text: see measure_repetitions.
  std::vector<std::int32_t> longest_;  // By token: the longest repetition that
                                       // it would prolong; 0 between calls.
  std::vector<Token> prolonging_;      // Those with longest_ > 0.
};

}  // namespace weft::engine
