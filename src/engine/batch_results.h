#pragma once
// The results of a batch's items.
#include <algorithm>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "engine/sampling/log_sum_exp.h"
#include "weft/context.h"

namespace weft::engine {

/// By item of the batch; empty if there is no result. Memory is kept for the next batch.
struct BatchResults {
  struct BestOf {
    std::size_t begin = 0;  ///< In `best`.
    std::size_t n = 0;
  };
  std::vector<const float*> logits_of;
  /// Rows that are moved out of the plan's memory. They stay in place, so callers that hold a row can still
  /// read it.
  std::vector<std::unique_ptr<float[]>> kept_logits;
  std::size_t n_kept = 0;
  std::vector<BestOf> best_of;
  std::vector<Best> best;
  std::vector<std::optional<LogSumExp>> log_sums;
  std::vector<int> embedding_of;  ///< A row, or -1.
  std::vector<float> kept_embeddings;

  /// Moves an item's row, if it has one, to permanent memory.
  void keep_logits(int item, std::size_t n_vocab) {
    const float*& row = logits_of[static_cast<std::size_t>(item)];
    if (row == nullptr) return;
    if (n_kept == kept_logits.size()) kept_logits.push_back(std::make_unique_for_overwrite<float[]>(n_vocab));
    float* const kept = kept_logits[n_kept++].get();
    std::copy_n(row, n_vocab, kept);
    row = kept;
  }
  /// Room for the best tokens of an item.
  std::span<Best> add_best(int item, int n) {
    const BestOf of = {best.size(), static_cast<std::size_t>(n)};
    best_of[static_cast<std::size_t>(item)] = of;
    best.resize(of.begin + of.n);
    return std::span(best).subspan(of.begin, of.n);
  }

  /// Starts a batch of `n_items` items, without results yet.
  void begin(int n_items) {
    const auto n = static_cast<std::size_t>(n_items);
    logits_of.assign(n, nullptr);
    best_of.assign(n, {});
    log_sums.assign(n, {});
    best.clear();
    embedding_of.assign(n, -1);
    kept_embeddings.clear();
    n_kept = 0;
  }
  void clear() {
    logits_of.clear();
    best_of.clear();
    log_sums.clear();
    embedding_of.clear();
  }
};

}  // namespace weft::engine
