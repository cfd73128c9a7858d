#pragma once
// What a sampler knows of the text so far, and the steps that look at it: repetition, frequency and presence
// penalties, and DRY ("don't repeat yourself": tokens that would lengthen a repetition are made less likely).
#include <cstdint>
#include <span>
#include <vector>

#include "weft/sampler.h"

namespace weft::engine {

class History {
 public:
  History(const SamplerParams& params, int n_vocab);

  void accept(Token id);
  void clear();

  /// Changes the logits of tokens of the text, and of no others.
  void penalise(const SamplerParams& params, std::span<float> logits);
  void dry(const SamplerParams& params, std::span<float> logits);

 private:
  std::span<const Token> last(int n) const;
  /// Tokens since the last breaker, which bounds how long a repetition can be.
  int length_since_breaker(std::span<const Token> text, const SamplerParams& params) const;

  std::size_t max_kept_;               // Tokens that any step looks at.
  std::vector<Token> text_;
  std::vector<std::int32_t> count_;    // By token: scratch of a step, zero between steps.
  std::vector<std::int32_t> matches_;  // Scratch of DRY.
};

}  // namespace weft::engine
