#pragma once
// Sums of e^x over a product's rows (ops::LogSumExp), computed while its tiles are. Each panel stores its
// part of a row, and at last the parts are merged in order.
//
// Log-probabilities come from a sum that is computed together with the best values. A token's is its logit
// less the row's log-sum-exp, so no row need be written for them. Each panel leaves its largest logit and its
// sum relative to that, and these are merged in order: the same bits however the work is cut.
#include <memory>
#include <utility>
#include <vector>

#include "backend/cpu/launches/launch.h"
#include "backend/cpu/launches/merge.h"
#include "base/memory.h"

namespace weft::cpu {

/// A row of the op's result.
void write_log_sum(float log_sum, float picked, float* out);

/// The parts of a step's rows.
class LogSums {
 public:
  /// `node` is null where none are wanted ever.
  LogSums(const Graph& graph, const Node* node);
  void bind(const Addresses& addresses);
  /// Runs before any task of a step.
  void begin_step(std::int64_t n_rows);
  bool any() const { return any_; }  ///< Wanted in the step, once it has begun.
  /// Says so to a kernel.
  void ask(MatmulArgs& args) const;
  /// Once all parts are there: a row of the op's result.
  void merge(const Kernels& kernels, std::int64_t row, float* out) const;
  std::size_t held_bytes() const { return memory_.size(); }

 private:
  ValueId ids_id_ = kNoValue;
  std::int64_t n_parts_ = 0;
  std::int64_t max_rows_ = 0;
  base::Memory memory_;  // [row][part] twice: LogSumArgs::largest, then sums; and [row] picked.
  const std::int32_t* ids_ = nullptr;
  bool any_ = false;

  float* largest() const { return reinterpret_cast<float*>(memory_.data()); }
  float* sums() const { return largest() + max_rows_ * n_parts_; }
  float* picked() const { return sums() + max_rows_ * n_parts_; }
};

/// Merges the parts.
class LogSumLaunch final : public MergeLaunch {
 public:
  LogSumLaunch(const Graph& graph, const Node& node, std::shared_ptr<const Taken> taken)
      : MergeLaunch(graph, node, "log_sum_merge", std::move(taken)) {}
  std::size_t held_bytes() const override;

 private:
  void merge(std::int64_t row, const TaskContext& context, float* out) const override;
};

}  // namespace weft::cpu
