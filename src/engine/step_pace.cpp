#include "engine/step_pace.h"

#include <algorithm>

namespace weft::engine {
namespace {

/// A prompt gets on by so many tokens in any case; pieces that are smaller say little about what they cost.
constexpr int kMinPiece = 16;
constexpr double kLikelyPromptMs = 0.1;

}  // namespace

int StepPace::prompt_budget(const BatcherParams& params, int n_decoding) const {
  int budget = params.n_step_tokens - n_decoding;
  if (n_decoding > 0 && cost_.known()) {
    const double ms = params.max_step_ms - cost_.ms_per_step();
    const double per_row = prompt_ms_ > 0.0 ? prompt_ms_ : kLikelyPromptMs;
    const double rows = std::max(ms / per_row, double{kMinPiece}) - n_decoding;
    budget = std::min(budget, static_cast<int>(std::max(rows, double{kMinPiece})));
  }
  return std::max(budget, 1);
}

void StepPace::add(int n_rows, int n_decoding, double ms, double n_drawn) {
  if (n_rows == n_decoding) return cost_.add(n_rows, ms, n_drawn);
  if (n_rows - n_decoding < kMinPiece) return;
  const double per_row = std::max(0.0, ms - (n_decoding > 0 ? cost_.ms_per_step() : 0.0)) / n_rows;
  prompt_ms_ = prompt_ms_ == 0.0 ? per_row : 0.7 * prompt_ms_ + 0.3 * per_row;
}

}  // namespace weft::engine
