#include "engine/sampling/history.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/to_size.h"

namespace weft::engine {

namespace {

// Tokens beyond all windows are dropped in batches of this size.
constexpr std::size_t kForgottenTogether = 1024;

/// Unless the parameters name others.
const std::vector<std::string>& usual_breakers() {
  static const std::vector<std::string> breakers = {"\n", ":", "\"", "*"};
  return breakers;
}

}  // namespace

History::History(const SamplerParams& params, std::size_t n_vocab, const Tokenizer* tokenizer)
    : params_(params), tokenizer_(tokenizer), n_vocab_(n_vocab) {
  const bool neutral = params.repetition_penalty == 1.0f && params.frequency_penalty == 0.0f &&
                       params.presence_penalty == 0.0f;
  penalises_ = params.penalty_last_n != 0 && !neutral;
  has_dry_ = params.dry_multiplier > 0.0f && params.dry_penalty_last_n != 0;
  if (has_dry_ && tokenizer != nullptr)
    breakers_.emplace(params.dry_breakers ? *params.dry_breakers : usual_breakers());
}

std::size_t History::window(int n) const { return n < 0 ? text_.size() : std::min(text_.size(), to_size(n)); }

void History::accept(Token id) {
  if (!penalises_ && !has_dry_) return;
  text_.push_back(id);
  since_breaker_ = breakers_ && ends_breaker(id) ? 0 : since_breaker_ + 1;
  forget_beginning();
  if (dry_applied_) make_room();
}

bool History::ends_breaker(Token id) {
  bool ends = false;
  for (const char byte : tokenizer_->piece(id, true)) ends |= breakers_->push(byte) >= 0;
  return ends;
}

void History::forget_beginning() {
  const std::size_t needed = std::max(penalises_ ? window(params_.penalty_last_n) : 0,
                                      has_dry_ ? window(params_.dry_penalty_last_n) : 0);
  const std::size_t kept = needed + Sampler::kMaxRetracted;  // Windows move back with retract().
  if (text_.size() < kept + std::max(needed, kForgottenTogether)) return;
  if (!counts_.empty()) count_window();
  const std::size_t n = text_.size() - kept;
  text_.erase(text_.begin(), text_.begin() + static_cast<std::ptrdiff_t>(n));
  count_begin_ -= std::min(n, count_begin_);
  count_end_ -= std::min(n, count_end_);
}

void History::retract(std::size_t n) {
  if (n == 0 || text_.empty()) return;
  text_.resize(text_.size() - std::min(n, text_.size()));
  clear_counts();
  if (!breakers_) return;
  breakers_->reset();
  since_breaker_ = 0;
  for (const Token id : text_) since_breaker_ = ends_breaker(id) ? 0 : since_breaker_ + 1;
}

void History::clear_counts() {
  for (Token id : present_) counts_[to_size(id)] = {};
  present_.clear();
  count_begin_ = count_end_ = 0;
}

void History::clear() {
  text_.clear();
  clear_counts();
  since_breaker_ = 0;
  if (breakers_) breakers_->reset();
}

void History::count_window() {
  if (counts_.empty()) {
    counts_.resize(n_vocab_);
    present_.reserve(n_vocab_);
  }
  const auto count_of = [&](Token id) -> Count& { return counts_[to_size(id)]; };
  for (; count_end_ < text_.size(); ++count_end_) {
    const Token id = text_[count_end_];
    if (count_of(id).n++ > 0) continue;
    count_of(id).place = static_cast<std::uint32_t>(present_.size());
    present_.push_back(id);
  }
  for (; count_begin_ < text_.size() - window(params_.penalty_last_n); ++count_begin_) {
    Count& left = count_of(text_[count_begin_]);
    if (--left.n > 0) continue;
    present_[left.place] = present_.back();
    count_of(present_.back()).place = left.place;
    present_.pop_back();
  }
}

// Replaces the logit of each of `ids` (which are distinct) by change(id,
// logit).
template <class Change>
void History::change(Candidates& candidates, const std::vector<Token>& ids, Change change) const {
  if (ids.empty()) return;
  if (!candidates.is_list()) {
    const auto logits = candidates.editable_logits();
    for (Token id : ids) {
      float& logit = logits[to_size(id)];
      logit = change(id, clean_logit(logit));
    }
    return;
  }
  // A list may be much shorter than the history.
  for (Candidate& candidate : candidates.list()) candidate.logit = change(candidate.id, candidate.logit);
  candidates.order_changed();
}

void History::apply_penalties(Candidates& candidates) {
  if (!penalises_) return;
  count_window();
  change(candidates, present_, [this](Token id, float logit) {
    const auto count = static_cast<float>(counts_[to_size(id)].n);
    if (count == 0.0f) return logit;
    logit = logit <= 0.0f ? logit * params_.repetition_penalty : logit / params_.repetition_penalty;
    return clean_logit(logit - count * params_.frequency_penalty - params_.presence_penalty);
  });
}

// Allocates all scratch memory of apply_dry().
void History::make_room() {
  const std::size_t n = text_.size();
  if (matches_.size() >= n) return;
  matches_.resize(2 * n);
  prolonging_.reserve(2 * n);
}

// In the reversed history, matches_[i] is the number of tokens from i on that equal the tokens from 0 on. It
// is the length of the copy of the history's end that ends i tokens earlier. The Z algorithm (Gusfield 1997):
// linear time.
void History::measure_repetitions(std::size_t n, std::size_t limit) {
  matches_[0] = n;
  std::size_t begin = 0,
              end = 0;  // The match found so far that reaches farthest.
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
    std::int32_t& longest = longest_[to_size(from_end(i - 1))];
    if (longest == 0) prolonging_.push_back(from_end(i - 1));
    longest = std::max(longest, length);
  }
}

void History::apply_dry(Candidates& candidates) {
  if (!has_dry_) return;
  if (!dry_applied_) longest_.resize(n_vocab_);
  dry_applied_ = true;
  make_room();
  const std::size_t n = window(params_.dry_penalty_last_n);
  const std::size_t limit = n > 1 ? std::min(n, since_breaker_) : 0;
  if (limit == 0) return;
  prolonging_.clear();
  measure_repetitions(n, limit);
  change(candidates, prolonging_, [this](Token id, float logit) {
    const std::int32_t length = longest_[to_size(id)];
    if (length == 0) return logit;
    const auto exponent = static_cast<double>(length - params_.dry_allowed_length);
    const double penalty = static_cast<double>(params_.dry_multiplier) *
                           std::pow(static_cast<double>(params_.dry_base), exponent);
    constexpr auto kLimit = static_cast<double>(std::numeric_limits<float>::max());
    return clean_logit(logit - static_cast<float>(std::min(penalty, kLimit)));
  });
  for (Token id : prolonging_) longest_[to_size(id)] = 0;
}

}  // namespace weft::engine
