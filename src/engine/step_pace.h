#pragma once
// How much a batcher's step may take on: while streams decode, prompts are cut so that a step takes about as
// long as it may. What steps cost is learned from them.
#include "engine/speculation.h"
#include "weft/batcher.h"

namespace weft::engine {

class StepPace {
 public:
  /// Tokens of prompts that a step may take on besides `n_decoding` rows of streams that decode; at least 1.
  int prompt_budget(const BatcherParams& params, int n_decoding) const;
  /// A step of `n_rows`, of which `n_decoding` were no prompt's, took so long and drew so many tokens.
  void add(int n_rows, int n_decoding, double ms, double n_drawn);
  /// Of steps without prompts.
  const StepCost& cost() const { return cost_; }

 private:
  StepCost cost_;
  double prompt_ms_ = 0.0;  // A prompt's token; 0: not known yet.
};

}  // namespace weft::engine
