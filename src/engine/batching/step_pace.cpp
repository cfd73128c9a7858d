#include "engine/batching/step_pace.h"

#include <algorithm>

namespace weft::engine {
namespace {

/// A prompt gets on by so many tokens in any case; pieces that are smaller say little about what they cost.
constexpr int kMinPiece = 16;
constexpr double kLikelyPromptMs = 0.1;

}  // namespace

int StepPace::prompt_budget(int n_decoding, int n_reading) const {
  if (n_decoding == 0 && (n_reading <= 1 || prompt_ms_ == 0.0)) return n_step_tokens_;
  if (!cost_.known() && prompt_ms_ == 0.0)
    return std::max(std::min(n_step_tokens_, n_ubatch_) - n_decoding, 1);
  // Where there were no steps without prompts yet, those with them say enough.
  const double ms = max_step_ms_ - cost_.ms_per_step();
  const double per_row = prompt_ms_ > 0.0 ? prompt_ms_ : kLikelyPromptMs;
  const double rows = std::max(ms / per_row, double{kMinPiece}) - n_decoding;
  const double budget =
      std::min(std::max(rows, double{kMinPiece}), static_cast<double>(n_step_tokens_ - n_decoding));
  return std::max(static_cast<int>(budget), 1);
}

int StepPace::max_rows_behind(int n_rows) const {
  // What is computed together ends together.
  const int together = (n_rows + n_ubatch_ - 1) / n_ubatch_ * n_ubatch_;
  const double in_time = prompt_ms_ > 0.0 ? max_step_ms_ / prompt_ms_ : 0.0;
  return std::max(together, static_cast<int>(std::min(in_time, static_cast<double>(n_step_tokens_))));
}

void StepPace::add(int n_rows, int n_decoding, double ms, double n_drawn) {
  if (n_rows == n_decoding) return cost_.add(n_rows, ms, n_drawn);
  if (n_rows - n_decoding < kMinPiece) return;
  const double per_row = std::max(0.0, ms - (n_decoding > 0 ? cost_.ms_per_step() : 0.0)) / n_rows;
  prompt_ms_ = prompt_ms_ == 0.0 ? per_row : 0.7 * prompt_ms_ + 0.3 * per_row;
}

}  // namespace weft::engine
