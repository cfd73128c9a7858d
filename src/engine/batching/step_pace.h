#pragma once
// How many tokens of prompts a step computes. While sequences decode, a step takes about
// BatcherParams::max_step_ms. Where steps take long without any prompt, prompts get as much time again.
// Otherwise a slow or busy machine would compute prompts in small pieces, each at the fixed cost of a step.
// Without sequences that decode, only the batch size limits a step. What steps cost is learned from them.
//
// If a context's steps overlap (Context::batch_size), a batch may hold the prompt tokens of several steps:
// while no sequence decodes, or within max_step_ms.
#include "engine/batching/speculation.h"
#include "weft/batcher.h"

namespace weft::engine {

class StepPace {
 public:
  /// `params` are filled in; `n_ubatch` tokens are computed at a time.
  StepPace(const BatcherParams& params, int n_ubatch)
      : n_ubatch_(n_ubatch), n_step_tokens_(params.n_step_tokens), max_step_ms_(params.max_step_ms) {}

  /// Tokens of prompts that a step may compute in addition to `n_decoding` rows of sequences that decode; at
  /// least 1. `in_background`: other requests may come, so the step takes about max_step_ms at most.
  int prompt_budget(int n_decoding, bool in_background = false) const;
  /// The next step should have no prompts: none of the last steps measured decoding alone.
  bool wants_plain_step() const { return n_mixed_ >= kMaxMixed; }
  /// Maximum tokens of a step whose first n_rows end a prompt: that stream waits for its first token from
  /// then on. At least n_rows.
  int max_rows_behind(int n_rows) const;
  /// Records a step of `n_rows`, of which `n_decoding` belong to decoding sequences. It took `ms` and
  /// generated `n_drawn` tokens.
  void add(int n_rows, int n_decoding, double ms, double n_drawn);
  /// Records an encoder input of `n` tokens. It was computed apart from a step, in `ms`.
  void add_source(int n, double ms) { add_prompts(n, ms); }
  /// The cost of steps without prompts.
  const StepCost& cost() const { return cost_; }

 private:
  static constexpr int kMaxMixed = 64;

  void add_prompts(double n, double ms);
  double prompt_ms() const { return rows_ > 0.0 ? rows_ms_ / rows_ : 0.0; }

  const int n_ubatch_;
  const int n_step_tokens_;
  const double max_step_ms_;
  StepCost cost_;
  double plain_ms_ = 0.0;              ///< Recent time of a step without prompts; 0: not known yet.
  double rows_ = 0.0, rows_ms_ = 0.0;  ///< Decaying sums over prompts, without plain_ms_.
  int n_mixed_ = 0;  ///< Steps with prompts and decoding since the last one without prompts.
};

}  // namespace weft::engine
