#include "engine/sampling/candidates.h"

#include <array>
#include <bit>
#include <cmath>
#include <limits>

#include "base/check.h"
#include "base/to_size.h"
#include "engine/sampling/log_sum_exp.h"

namespace weft::engine {
namespace {

// The largest of a block of logits; NaN counts as nothing. Several chains, so
// that it becomes vector instructions.
float block_max(const float* values) {
  constexpr std::size_t kLanes = 32;
  std::array<float, kLanes> lanes;
  lanes.fill(kLowest);
  for (std::size_t i = 0; i < kLogitBlock; i += kLanes) {
    for (std::size_t j = 0; j < kLanes; ++j) lanes[j] = values[i + j] > lanes[j] ? values[i + j] : lanes[j];
  }
  float result = kLowest;
  for (float lane : lanes) result = lane > result ? lane : result;
  return result;
}

constexpr std::size_t kBitsOfWord = 32;
constexpr auto kBitAt = [] {
  std::array<std::uint32_t, kBitsOfWord> bits{};
  for (std::size_t i = 0; i < kBitsOfWord; ++i) bits[i] = std::uint32_t{1} << i;
  return bits;
}();

// logits, or minus infinity where the bit is 0.
void mask(std::span<const float> logits, std::span<const std::uint32_t> allowed, float* to) {
  std::size_t i = 0;
  for (; i + kBitsOfWord <= logits.size(); i += kBitsOfWord) {
    const std::uint32_t word = allowed[i / kBitsOfWord];
    if (word == 0) {
      std::fill_n(to + i, kBitsOfWord, kLowest);
    } else if (word == ~std::uint32_t{0}) {
      std::copy_n(logits.data() + i, kBitsOfWord, to + i);
    } else {  // Without branches and shifts, so that it becomes vector instructions.
      for (std::size_t j = 0; j < kBitsOfWord; ++j) {
        const std::uint32_t keep = (word & kBitAt[j]) != 0 ? ~std::uint32_t{0} : 0;
        const std::uint32_t kept = std::bit_cast<std::uint32_t>(logits[i + j]) & keep;
        to[i + j] = std::bit_cast<float>(kept | (std::bit_cast<std::uint32_t>(kLowest) & ~keep));
      }
    }
  }
  for (; i < logits.size(); ++i)
    to[i] = (allowed[i / kBitsOfWord] >> i % kBitsOfWord & 1u) != 0 ? logits[i] : kLowest;
}

// A candidate's share, not normalised. If all are minus infinity, all shares are equal.
float weight(float logit, float max) { return max == kLowest ? 1.0f : std::exp(logit - max); }

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
  for (; i + kLogitBlock <= values.size(); i += kLogitBlock) {
    const float here = block_max(values.data() + i);
    if (here > best) {
      best = here;
      begin = i;
    }
  }
  // Within its block; the first value equal to it is the result.
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

void Candidates::start(std::span<const float> logits) {
  logits_ = logits;
  is_list_ = false;
  list_.clear();
  n_sorted_ = 0;
  maxima_.clear();
}

void Candidates::start(std::span<const Best> best) {
  is_list_ = true;
  list_.clear();
  for (const Best& one : best) list_.push_back({one.id, clean_logit(one.logit), 0.0f});
  n_sorted_ = list_.size();
}

bool Candidates::start(std::span<const Best> best, std::size_t n, std::span<const std::uint32_t> allowed) {
  start(std::span<const float>());
  for (const Best& one : best) {
    if (list_.size() == n) break;
    const auto id = to_size(one.id);
    if ((allowed[id / kBitsOfWord] >> id % kBitsOfWord & 1u) != 0)
      list_.push_back({one.id, clean_logit(one.logit), 0.0f});
  }
  is_list_ = list_.size() == n;
  n_sorted_ = is_list_ ? n : 0;
  return is_list_;
}

void Candidates::start(std::span<const float> logits, std::span<const std::uint32_t> allowed) {
  copy_.resize(logits.size());
  mask(logits, allowed, copy_.data());
  start(copy_);
}

std::span<float> Candidates::editable_logits() {
  WEFT_CHECK(!is_list_);
  if (logits_.data() != copy_.data()) {
    copy_.assign(logits_.begin(), logits_.end());
    logits_ = copy_;
  }
  maxima_.clear();
  return copy_;
}

std::span<Candidate> Candidates::list() {
  if (!is_list_) {
    is_list_ = true;
    reserve_all();
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
  list_.reserve(n);
  for (; i < n; ++i) list_.push_back({static_cast<Token>(i), clean_logit(logits_[i]), 0.0f});
  std::make_heap(list_.begin(), list_.end(), goes_before);
  const auto offer = [&](std::size_t at) {
    // Ids ascend, so an equal logit never replaces an earlier one.
    const float logit = clean_logit(logits_[at]);
    if (!(logit > list_.front().logit)) return;
    std::pop_heap(list_.begin(), list_.end(), goes_before);
    list_.back() = {static_cast<Token>(at), logit, 0.0f};
    std::push_heap(list_.begin(), list_.end(), goes_before);
  };
  for (; i + kLogitBlock <= logits_.size(); i += kLogitBlock) {
    if (!(block_max(logits_.data() + i) > list_.front().logit)) continue;
    for (std::size_t at = i; at < i + kLogitBlock; ++at) offer(at);
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

void Candidates::find_maxima() {
  if (!maxima_.empty()) return;
  max_ = kLowest;
  maxima_.reserve(n_vocab_ / kLogitBlock + 1);
  std::size_t i = 0;
  for (; i + kLogitBlock <= logits_.size(); i += kLogitBlock) {
    maxima_.push_back(block_max(logits_.data() + i));
    max_ = std::max(max_, maxima_.back());
  }
  float rest = kLowest;
  for (; i < logits_.size(); ++i) rest = logits_[i] > rest ? logits_[i] : rest;
  maxima_.push_back(rest);
  max_ = clean_logit(std::max(max_, rest));
}

// In the order of ids. Most logits are too low and are compared as vectors.
void Candidates::collect_at_least(float least) {
  constexpr std::size_t kFew = 16;
  find_maxima();
  reserve_all();
  list_.clear();
  const auto offer = [&](std::size_t i) {
    const float logit = clean_logit(logits_[i]);
    if (logit >= least) list_.push_back({static_cast<Token>(i), logit, 0.0f});
  };
  for (std::size_t block = 0; block < maxima_.size(); ++block) {
    if (clean_logit(maxima_[block]) < least) continue;
    std::size_t i = block * kLogitBlock;
    const std::size_t end = std::min(logits_.size(), i + kLogitBlock);
    for (; i + kFew <= end; i += kFew) {
      bool any = false;
      for (std::size_t j = 0; j < kFew; ++j) any |= !(logits_[i + j] < least);
      if (!any) continue;
      for (std::size_t j = 0; j < kFew; ++j) offer(i + j);
    }
    for (; i < end; ++i) offer(i);
  }
  is_list_ = true;
  n_sorted_ = 0;
}

double Candidates::sum_of_weights() const {
  if (max_ == kLowest) return static_cast<double>(logits_.size());
  return sum_of_exponentials(logits_, max_);
}

void Candidates::keep_at_least(float least) {
  if (!is_list_) return collect_at_least(least);
  keep_if([least](const Candidate& candidate) { return candidate.logit >= least; });
}

void Candidates::keep_mass(double p) {
  if (is_list_) {
    normalise();
    cut_behind_mass(p);
    return;
  }
  find_maxima();
  const double sum = sum_of_weights();
  // Logits near the largest have nearly all of the probability.
  for (float reach = 8.0f;; reach *= 1.25f) {
    collect_at_least(reach < 100.0f ? max_ - reach : kLowest);
    double mass = 0.0;
    for (Candidate& candidate : list_) {
      candidate.probability = static_cast<float>(static_cast<double>(weight(candidate.logit, max_)) / sum);
      mass += static_cast<double>(candidate.probability);
    }
    const bool all = list_.size() == logits_.size();
    if ((all || mass >= p) && (cut_behind_mass(p) || all)) return;
  }
}

// The list has probabilities. False if they do not sum to p.
bool Candidates::cut_behind_mass(double p) {
  double sum = 0.0;
  // Sorted in growing portions: most distributions reach p within the first
  // few.
  for (std::size_t portion = 64, i = 0; i < list_.size(); portion *= 4) {
    sort_first(portion);
    const std::size_t end = std::min(portion, list_.size());
    for (; i < end; ++i) {
      sum += static_cast<double>(list_[i].probability);
      if (sum >= p) return truncate(i + 1), true;
    }
  }
  return false;
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
  if (is_list_) return best_of_list().logit;
  find_maxima();
  return max_;
}

void Candidates::normalise() {
  list();
  const float max = max_logit();
  double sum = 0.0;
  for (Candidate& candidate : list_) {
    candidate.probability = weight(candidate.logit, max);
    sum += static_cast<double>(candidate.probability);
  }
  for (Candidate& candidate : list_) {
    candidate.probability = static_cast<float>(static_cast<double>(candidate.probability) / sum);
  }
}

}  // namespace weft::engine
