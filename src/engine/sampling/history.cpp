#include "engine/sampling/history.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace weft::engine {

History::History(const SamplerParams& params, std::size_t n_vocab) : params_(params) {
  const bool neutral = params.repetition_penalty == 1.0f && params.frequency_penalty == 0.0f &&
                       params.presence_penalty == 0.0f;
  penalises_ = params.penalty_last_n != 0 && !neutral;
  has_dry_ = params.dry_multiplier > 0.0f && params.dry_base > 0.0f && params.dry_penalty_last_n != 0;
  if (penalises_) {
    counts_.resize(n_vocab);
    place_.resize(n_vocab);
  }
  if (has_dry_) longest_.resize(n_vocab);
}

std::size_t History::window(int n) const {
  return n < 0 ? text_.size() : std::min(text_.size(), static_cast<std::size_t>(n));
}

void History::accept(Token id) {
  if (!penalises_ && !has_dry_) return;
  text_.push_back(id);
  if (has_dry_) {  // All that apply_dry() will need.
    matches_.resize(text_.size());
    if (prolonging_.capacity() < text_.size()) prolonging_.reserve(2 * text_.size());
  }
  if (!penalises_) return;
  const auto index = [](Token token) { return static_cast<std::size_t>(token); };
  if (counts_[index(id)]++ == 0) {
    place_[index(id)] = present_.size();
    present_.push_back(id);
  }
  const auto n = static_cast<std::size_t>(params_.penalty_last_n);
  if (params_.penalty_last_n < 0 || text_.size() <= n) return;
  const Token left = from_end(n);
  if (--counts_[index(left)] > 0) return;
  present_[place_[index(left)]] = present_.back();
  place_[index(present_.back())] = place_[index(left)];
  present_.pop_back();
}

void History::clear() {
  text_.clear();
  for (Token id : present_) counts_[static_cast<std::size_t>(id)] = 0;
  present_.clear();
}

// Replaces the logit of each of `ids` (which are distinct) by change(id,
// logit).
template <class Change>
void History::change(Candidates& candidates, const std::vector<Token>& ids, Change change) const {
  if (ids.empty()) return;
  if (!candidates.is_list()) {
    const auto logits = candidates.editable_logits();
    for (Token id : ids) {
      float& logit = logits[static_cast<std::size_t>(id)];
      logit = change(id, clean_logit(logit));
    }
    return;
  }
  // A list may be much shorter than the text.
  for (Candidate& candidate : candidates.list()) candidate.logit = change(candidate.id, candidate.logit);
  candidates.order_changed();
}

void History::apply_penalties(Candidates& candidates) const {
  if (!penalises_) return;
  change(candidates, present_, [this](Token id, float logit) {
    const auto count = static_cast<float>(counts_[static_cast<std::size_t>(id)]);
    if (count == 0.0f) return logit;
    logit = logit <= 0.0f ? logit * params_.repetition_penalty : logit / params_.repetition_penalty;
    return clean_logit(logit - count * params_.frequency_penalty - params_.presence_penalty);
  });
}

// How many of the last n tokens come behind the last breaker.
std::size_t History::since_breaker(std::size_t n) const {
  const auto ends_here = [&](std::size_t i, const std::vector<Token>& breaker) {
    if (breaker.size() > n - i) return false;
    for (std::size_t j = 0; j < breaker.size(); ++j) {
      if (from_end(i + j) != breaker[breaker.size() - 1 - j]) return false;
    }
    return true;
  };
  for (std::size_t i = 0; i < n; ++i) {
    for (const auto& breaker : params_.dry_breakers) {
      if (ends_here(i, breaker)) return i;
    }
  }
  return n;
}

// With the text read backwards, matches_[i] is how many tokens from i on equal
// those from 0 on: the length of the copy of the text's end that ends i tokens
// earlier. The Z algorithm (Gusfield 1997): linear time.
void History::measure_repetitions(std::size_t n, std::size_t limit) {
  matches_[0] = n;
  std::size_t begin = 0,
              end = 0;  // The stretch found so far that reaches furthest.
  for (std::size_t i = 1; i < n; ++i) {
    std::size_t length = i < end ? std::min(end - i, matches_[i - begin]) : 0;
    while (i + length < n && from_end(length) == from_end(i + length)) ++length;
    matches_[i] = length;
    if (i + length > end) {
      begin = i;
      end = i + length;
    }
  }
  for (std::size_t i = 1; i < n; ++i) {
    const auto length = static_cast<std::int32_t>(std::min(matches_[i], limit));
    if (length == 0 || length < params_.dry_allowed_length) continue;
    std::int32_t& longest = longest_[static_cast<std::size_t>(from_end(i - 1))];
    if (longest == 0) prolonging_.push_back(from_end(i - 1));
    longest = std::max(longest, length);
  }
}

void History::apply_dry(Candidates& candidates) {
  if (!has_dry_) return;
  const std::size_t n = window(params_.dry_penalty_last_n);
  const std::size_t limit = n > 1 ? since_breaker(n) : 0;
  if (limit == 0) return;
  prolonging_.clear();
  measure_repetitions(n, limit);
  change(candidates, prolonging_, [this](Token id, float logit) {
    const std::int32_t length = longest_[static_cast<std::size_t>(id)];
    if (length == 0) return logit;
    const auto exponent = static_cast<double>(length - params_.dry_allowed_length);
    const double penalty = static_cast<double>(params_.dry_multiplier) *
                           std::pow(static_cast<double>(params_.dry_base), exponent);
    constexpr auto kLimit = static_cast<double>(std::numeric_limits<float>::max());
    return clean_logit(logit - static_cast<float>(std::min(penalty, kLimit)));
  });
  for (Token id : prolonging_) longest_[static_cast<std::size_t>(id)] = 0;
}

}  // namespace weft::engine
