#pragma once
// How much a batcher's step may take on: while streams wait for a token, prompts are cut so that a step takes
// about as long as it may. What steps cost is learned from them.
//
// Where a context's steps overlap (Context::batch_size), prompts go in batches of several: as long as that
// keeps nobody waiting, or within the time that it may.
#include "engine/batching/speculation.h"
#include "weft/batcher.h"

namespace weft::engine {

class StepPace {
 public:
  /// `params` are filled in; `n_ubatch` tokens are computed at a time.
  StepPace(const BatcherParams& params, int n_ubatch)
      : n_ubatch_(n_ubatch), n_step_tokens_(params.n_step_tokens), max_step_ms_(params.max_step_ms) {}

  /// Tokens of prompts that a step may take on besides `n_decoding` rows of streams that decode; at least 1.
  /// A single prompt that nobody waits beside has all of a step.
  int prompt_budget(int n_decoding, int n_reading = 1) const;
  /// Tokens that a step may have in which the first n_rows end a prompt: its stream waits for its first token
  /// from there on. At least n_rows.
  int max_rows_behind(int n_rows) const;
  /// A step of `n_rows`, of which `n_decoding` were no prompt's, took so long and drew so many tokens.
  void add(int n_rows, int n_decoding, double ms, double n_drawn);
  /// Of steps without prompts.
  const StepCost& cost() const { return cost_; }

 private:
  const int n_ubatch_;
  const int n_step_tokens_;
  const double max_step_ms_;
  StepCost cost_;
  double prompt_ms_ = 0.0;  // A prompt's token; 0: not known yet.
};

}  // namespace weft::engine
