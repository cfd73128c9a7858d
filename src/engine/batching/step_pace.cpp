#include "engine/batching/step_pace.h"

#include <algorithm>

namespace weft::engine {
namespace {

/// Prompts advance by at least this many tokens per step.
constexpr int kMinPiece = 16;
constexpr double kLikelyPromptMs = 0.1;
/// Weight of earlier steps: a few steps suffice to learn a new speed.
constexpr double kPaceDecay = 0.8;
/// A step that exceeds its expected time by more than this factor counts as this factor: the process was
/// probably suspended.
constexpr double kMostSurprise = 4.0;
/// At least this share of a step with prompts is counted for the prompts, because the time of the rest
/// varies, too.
constexpr double kLeastShare = 0.1;

}  // namespace

int StepPace::prompt_budget(int n_decoding, bool in_background) const {
  if (n_decoding == 0 && !in_background) return n_step_tokens_;
  if (plain_ms_ == 0.0 && rows_ == 0.0) return std::max(std::min(n_step_tokens_, n_ubatch_) - n_decoding, 1);
  const double ms = std::max(max_step_ms_ - plain_ms_, plain_ms_);
  const double rows = ms / (rows_ > 0.0 ? prompt_ms() : kLikelyPromptMs);
  const double budget =
      std::min(std::max(rows, double{kMinPiece}), static_cast<double>(n_step_tokens_ - n_decoding));
  return std::max(static_cast<int>(budget), 1);
}

int StepPace::max_rows_behind(int n_rows) const {
  // Rows of the same ubatch end together.
  const int together = (n_rows + n_ubatch_ - 1) / n_ubatch_ * n_ubatch_;
  const double in_time = rows_ > 0.0 ? max_step_ms_ / prompt_ms() : 0.0;
  return std::max(together, static_cast<int>(std::min(in_time, static_cast<double>(n_step_tokens_))));
}

void StepPace::add(int n_rows, int n_decoding, double ms, double n_drawn) {
  if (n_rows == n_decoding) {
    n_mixed_ = 0;
    cost_.add(n_rows, ms, n_drawn);
    plain_ms_ = plain_ms_ == 0.0 ? ms : (plain_ms_ + std::min(ms, kMostSurprise * plain_ms_)) / 2;
    return;
  }
  if (n_decoding > 0) ++n_mixed_;
  add_prompts(n_rows - n_decoding, std::max(ms - plain_ms_, kLeastShare * ms));
}

void StepPace::add_prompts(double n, double ms) {
  if (rows_ > 0.0) ms = std::min(ms, kMostSurprise * prompt_ms() * n);
  rows_ = kPaceDecay * rows_ + n;
  rows_ms_ = kPaceDecay * rows_ms_ + ms;
}

}  // namespace weft::engine
