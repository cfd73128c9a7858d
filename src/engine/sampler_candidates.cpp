#include "engine/sampler_candidates.h"

#include <array>
#include <cmath>
#include <limits>

#include "base/check.h"

namespace weft::engine {
namespace {

constexpr float kLowest = -std::numeric_limits<float>::infinity();

// The largest of a block of logits; NaN counts as nothing. Several chains, so
// that it becomes vector instructions.
constexpr std::size_t kBlock = 128;
float block_max(const float* values) {
  constexpr std::size_t kLanes = 32;
  std::array<float, kLanes> lanes;
  lanes.fill(kLowest);
  for (std::size_t i = 0; i < kBlock; i += kLanes) {
    for (std::size_t j = 0; j < kLanes; ++j) lanes[j] = values[i + j] > lanes[j] ? values[i + j] : lanes[j];
  }
  float result = kLowest;
  for (float lane : lanes) result = lane > result ? lane : result;
  return result;
}

// Above this many, selecting in a list is cheaper than a heap.
constexpr std::size_t kMaxHeap = 1024;

}  // namespace

float clean_logit(float logit) {
  if (std::isnan(logit)) return kLowest;
  return std::min(logit, std::numeric_limits<float>::max());
}

std::size_t argmax(std::span<const float> values) {
  float best = kLowest;
  std::size_t begin = 0, i = 0;
  for (; i + kBlock <= values.size(); i += kBlock) {
    const float here = block_max(values.data() + i);
    if (here > best) {
      best = here;
      begin = i;
    }
  }
  // Within the block that has it; the first value equal to it is the answer.
  std::size_t result = 0;
  if (best > kLowest) {
    for (result = begin; values[result] != best;) ++result;
  }
  for (; i < values.size(); ++i) {
    if (values[i] > best) {
      best = values[i];
      result = i;
    }
  }
  return result;
}

Candidates::Candidates(std::size_t n_vocab) {
  list_.reserve(n_vocab + 1);
  copy_.reserve(n_vocab);
}

void Candidates::start(std::span<const float> logits) {
  logits_ = logits;
  is_list_ = false;
  list_.clear();
  n_sorted_ = 0;
}

void Candidates::start(std::span<const Best> best) {
  is_list_ = true;
  list_.clear();
  for (const Best& one : best) list_.push_back({one.id, clean_logit(one.logit), 0.0f});
  n_sorted_ = list_.size();
}

std::span<float> Candidates::editable_logits() {
  WEFT_CHECK(!is_list_);
  if (logits_.data() != copy_.data()) {
    copy_.assign(logits_.begin(), logits_.end());
    logits_ = copy_;
  }
  return copy_;
}

std::span<Candidate> Candidates::list() {
  if (!is_list_) {
    is_list_ = true;
    list_.resize(logits_.size());
    for (std::size_t i = 0; i < logits_.size(); ++i) {
      list_[i] = {static_cast<Token>(i), clean_logit(logits_[i]), 0.0f};
    }
  }
  return list_;
}

// One pass over the logits. `list_` is a heap with the worst of the best n so
// far at its front.
void Candidates::collect_top(std::size_t n) {
  std::size_t i = 0;
  for (; i < n; ++i) list_.push_back({static_cast<Token>(i), clean_logit(logits_[i]), 0.0f});
  std::make_heap(list_.begin(), list_.end(), goes_before);
  const auto offer = [&](std::size_t at) {
    // Ids rise, so an equal logit never replaces one.
    const float logit = clean_logit(logits_[at]);
    if (!(logit > list_.front().logit)) return;
    std::pop_heap(list_.begin(), list_.end(), goes_before);
    list_.back() = {static_cast<Token>(at), logit, 0.0f};
    std::push_heap(list_.begin(), list_.end(), goes_before);
  };
  for (; i + kBlock <= logits_.size(); i += kBlock) {
    if (!(block_max(logits_.data() + i) > list_.front().logit)) continue;
    for (std::size_t at = i; at < i + kBlock; ++at) offer(at);
  }
  for (; i < logits_.size(); ++i) offer(i);
  std::sort_heap(list_.begin(), list_.end(), goes_before);
  is_list_ = true;
  n_sorted_ = n;
}

void Candidates::keep_top(std::size_t n) {
  if (n >= size()) return;
  if (!is_list_ && n <= kMaxHeap) return collect_top(n);
  sort_first(n);
  truncate(n);
}

void Candidates::set_only(const Candidate& candidate) {
  is_list_ = true;
  list_.assign(1, candidate);
  n_sorted_ = 1;
}

void Candidates::sort_first(std::size_t n) {
  list();
  n = std::min(n, list_.size());
  if (n <= n_sorted_) return;
  const auto begin = list_.begin() + static_cast<std::ptrdiff_t>(n_sorted_);
  const auto end = list_.begin() + static_cast<std::ptrdiff_t>(n);
  if (end != list_.end()) std::nth_element(begin, end, list_.end(), goes_before);
  std::sort(begin, end, goes_before);
  n_sorted_ = n;
}

const Candidate& Candidates::best_of_list() const {
  if (n_sorted_ > 0) return list_.front();
  return *std::min_element(list_.begin(), list_.end(), goes_before);
}

float Candidates::max_logit() {
  list();
  return best_of_list().logit;
}

void Candidates::normalise() {
  const float max = max_logit();
  double sum = 0.0;
  for (Candidate& candidate : list_) {
    // Where all are minus infinity, nothing tells them apart.
    candidate.probability = max == kLowest ? 1.0f : std::exp(candidate.logit - max);
    sum += static_cast<double>(candidate.probability);
  }
  for (Candidate& candidate : list_) {
    candidate.probability = static_cast<float>(static_cast<double>(candidate.probability) / sum);
  }
}

}  // namespace weft::engine
