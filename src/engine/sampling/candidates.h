#pragma once
// The tokens that may still be drawn: at first all logits unchanged, later a list. Sampling steps that need
// few candidates never make a list of the whole vocabulary. Their order is defined in engine/sampling/best.h.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/sampling/best.h"
#include "weft/sampler.h"

namespace weft::engine {

/// NaN counts as minus infinity, plus infinity as the largest float.
float clean_logit(float logit);

/// The index of the largest value, the lowest among equals; 0 where all are NaN
/// or minus infinity. One pass.
std::size_t argmax(std::span<const float> values);

class Candidates {
 public:
  /// Does not allocate. Room for all n_vocab candidates is allocated when a list of them is first requested.
  explicit Candidates(std::size_t n_vocab) : n_vocab_(n_vocab) {}

  /// Starts over with the logits of a step, which are not copied and must stay
  /// until the next start().
  void start(std::span<const float> logits);
  /// Starts over with a copy of the logits in which forbidden tokens have minus infinity. `allowed` has a bit
  /// for each token, 32 a word.
  void start(std::span<const float> logits, std::span<const std::uint32_t> allowed);
  /// Starts over with the best logits of a step; only these can be drawn.
  void start(std::span<const Best> best);
  /// Likewise with the first n allowed ones of the best. False if there are fewer; then there is no list.
  bool start(std::span<const Best> best, std::size_t n, std::span<const std::uint32_t> allowed);
  /// A writable copy of the logits so far; only before there is a list.
  std::span<float> editable_logits();
  std::span<const float> logits() const { return logits_; }  ///< Only before there is a list.

  bool is_list() const { return is_list_; }
  /// Makes the list of all, in the order of ids, if there is none yet.
  std::span<Candidate> list();
  std::size_t size() const { return is_list_ ? list_.size() : logits_.size(); }

  void keep_top(std::size_t n);
  /// Keeps logits of at least `least`; the largest must be one of them.
  void keep_at_least(float least);
  /// Keeps the most probable candidates whose probabilities sum to p, sorted. Includes the one that reaches
  /// p.
  void keep_mass(double p);
  /// A list of one.
  void set_only(const Candidate& candidate);
  /// Sorts the list so that at least its first n are the best n. It sorts no more than was ever requested.
  void sort_first(std::size_t n);
  /// Drops all candidates after the first n; these must have been sorted.
  void truncate(std::size_t n) { list_.resize(n), n_sorted_ = std::min(n_sorted_, n); }
  /// Keeps candidates for which keep(candidate) is true, or the best one if there are none.
  template <class Keep>
  void keep_if(Keep keep) {
    list();
    const Candidate best = best_of_list();
    std::size_t n_kept = 0, n_sorted = 0;
    for (std::size_t i = 0; i < list_.size(); ++i) {
      if (!keep(list_[i])) continue;
      n_sorted += i < n_sorted_ ? 1 : 0;
      list_[n_kept++] = list_[i];
    }
    list_.resize(n_kept);
    n_sorted_ = n_sorted;
    if (list_.empty()) list_.push_back(best);
  }
  /// Call it after changing logits of the list by anything but an increasing function.
  void order_changed() { n_sorted_ = 0; }

  /// Sets the probabilities of the list (softmax of its logits).
  void normalise();
  float max_logit();

 private:
  const Candidate& best_of_list() const;
  void reserve_all() { list_.reserve(n_vocab_ + 1); }
  void collect_top(std::size_t n);
  bool cut_behind_mass(double p);
  // These work on the logits, before a list is made:
  void find_maxima();
  void collect_at_least(float least);
  double sum_of_weights() const;

  const std::size_t n_vocab_;
  std::span<const float> logits_;
  std::vector<float> copy_;
  // The largest logit, and of each whole block; empty until first used.
  std::vector<float> maxima_;
  float max_ = 0.0f;
  std::vector<Candidate> list_;
  bool is_list_ = false;
  std::size_t n_sorted_ = 0;
};

}  // namespace weft::engine
