#pragma once
// The results of a batch's items.
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/to_size.h"
#include "engine/sampling/log_sum_exp.h"
#include "weft/context.h"

namespace weft::engine {

/// Results by item of the batch: each item has the results that it requested. Memory is kept for the next
/// batch.
///
/// Logits may be stored in memory of the plan, which the next step overwrites; keep_logits() moves them.
/// Functions that read throw Error kInvalidArgument for an item without that result.
class BatchResults {
 public:
  /// At most `n_best` best tokens are requested per item, in at most `n_outputs` items at once.
  BatchResults(const ModelInfo& info, int n_outputs, int n_best);

  /// Starts a batch of `n_items` items, without results yet.
  void begin(int n_items);
  /// No item has results any more.
  void clear();

  void set_logits(int item, const float* row) { logits_[index(item)] = row; }
  /// Moves an item's logits, if it has any, to memory of its own. They stay there until the next begin().
  void keep_logits(int item);
  /// Returns room for the `n` best tokens of an item.
  std::span<Best> add_best(int item, int n);
  void set_log_sum(int item, const LogSumExp& sum) { log_sums_[index(item)] = sum; }
  /// Copies the embedding, which begins at `row`.
  void add_embedding(int item, const float* row);

  std::span<const float> logits(int item) const;
  std::span<const Best> best(int item) const;
  std::span<const float> embedding(int item) const;
  float log_sum_exp(int item) const { return log_sum(item).sum; }
  /// The logit of the token that the item named.
  float logit(int item) const;

 private:
  struct BestOf {
    std::size_t begin = 0;  // In best_.
    std::size_t n = 0;
  };
  static std::size_t index(int item) { return to_size(item); }
  void check_item(int item) const;
  const LogSumExp& log_sum(int item) const;

  std::size_t n_vocab_, n_embd_;
  std::vector<const float*> logits_;
  std::vector<std::unique_ptr<float[]>> kept_logits_;  // Rows do not move, so callers may hold one.
  std::size_t n_kept_ = 0;
  std::vector<BestOf> best_of_;
  std::vector<Best> best_;
  std::vector<std::optional<LogSumExp>> log_sums_;
  std::vector<int> embedding_of_;  // A row of embeddings_, or -1.
  std::vector<float> embeddings_;
};

}  // namespace weft::engine
