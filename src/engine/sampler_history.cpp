#include "engine/sampler_history.h"

#include <algorithm>
#include <cmath>

namespace weft::engine {
namespace {

constexpr std::size_t kWholeText = SIZE_MAX;

std::size_t kept(int n) { return n < 0 ? kWholeText : static_cast<std::size_t>(n); }

}  // namespace

History::History(const SamplerParams& params, int n_vocab)
    : max_kept_(std::max(kept(params.penalty_last_n), params.dry_multiplier != 0.0f ? kept(params.dry_penalty_last_n) : 0)),
      count_(static_cast<std::size_t>(n_vocab)) {
  if (max_kept_ != kWholeText) text_.reserve(2 * max_kept_ + 1);
}

void History::accept(Token id) {
  if (max_kept_ == 0) return;
  // Room for twice what is looked at: the older half goes at once, not a token at a time.
  if (max_kept_ != kWholeText && text_.size() >= 2 * max_kept_)
    text_.erase(text_.begin(), text_.end() - static_cast<std::ptrdiff_t>(max_kept_));
  text_.push_back(id);
}

void History::clear() { text_.clear(); }

std::span<const Token> History::last(int n) const {
  return std::span(text_).last(std::min(kept(n), text_.size()));
}

void History::penalise(const SamplerParams& p, std::span<float> logits) {
  if (p.repetition_penalty == 1.0f && p.frequency_penalty == 0.0f && p.presence_penalty == 0.0f) return;
  const std::span<const Token> text = last(p.penalty_last_n);
  for (const Token id : text) ++count_[static_cast<std::size_t>(id)];
  for (const Token id : text) {
    std::int32_t& count = count_[static_cast<std::size_t>(id)];
    if (count == 0) continue;
    float& logit = logits[static_cast<std::size_t>(id)];
    // As in arXiv 1909.05858, with the sign looked at so that the penalty always lowers.
    logit = logit > 0.0f ? logit / p.repetition_penalty : logit * p.repetition_penalty;
    logit -= static_cast<float>(count) * p.frequency_penalty + p.presence_penalty;
    count = 0;
  }
}

int History::length_since_breaker(std::span<const Token> text, const SamplerParams& params) const {
  for (std::size_t n = 0; n < text.size(); ++n) {
    const std::span<const Token> before = text.first(text.size() - n);
    for (const std::vector<Token>& breaker : params.dry_breakers) {
      if (breaker.empty() || breaker.size() > before.size()) continue;
      if (std::equal(breaker.begin(), breaker.end(), before.end() - static_cast<std::ptrdiff_t>(breaker.size())))
        return static_cast<int>(n);
    }
  }
  return static_cast<int>(text.size());
}

void History::dry(const SamplerParams& p, std::span<float> logits) {
  if (p.dry_multiplier == 0.0f || p.dry_base < 1.0f) return;
  const std::span<const Token> text = last(p.dry_penalty_last_n);
  const int n = static_cast<int>(text.size());
  const int limit = length_since_breaker(text, p);
  if (n <= p.dry_allowed_length || limit < p.dry_allowed_length) return;

  // matches_[i]: how long the text's end and the text's part that ends i tokens earlier are alike (the Z function of
  // the reversed text, linear in its length).
  const auto reversed = [&](int i) { return text[static_cast<std::size_t>(n - 1 - i)]; };
  matches_.assign(static_cast<std::size_t>(n), 0);
  for (int i = 1, left = 0, right = 0; i < n; ++i) {
    std::int32_t& z = matches_[static_cast<std::size_t>(i)];
    if (i < right) z = std::min(right - i, matches_[static_cast<std::size_t>(i - left)]);
    while (i + z < n && reversed(z) == reversed(i + z)) ++z;
    if (i + z > right) {
      left = i;
      right = i + z;
    }
  }
  // The token after each such part would lengthen the repetition; the longest one counts.
  for (int i = 1; i < n; ++i) {
    std::int32_t& longest = count_[static_cast<std::size_t>(reversed(i - 1))];
    longest = std::max(longest, std::min(matches_[static_cast<std::size_t>(i)], limit));
  }
  const float max_exponent = std::log(3.0e38f) / std::max(std::log(p.dry_base), 1e-6f);
  for (const Token id : text) {
    std::int32_t& longest = count_[static_cast<std::size_t>(id)];
    if (longest >= p.dry_allowed_length) {
      const float exponent = std::min(static_cast<float>(longest - p.dry_allowed_length), max_exponent);
      logits[static_cast<std::size_t>(id)] -= p.dry_multiplier * std::pow(p.dry_base, exponent);
    }
    longest = 0;
  }
}

}  // namespace weft::engine
