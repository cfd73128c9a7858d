#pragma once
// What low-rank adapters add to a product's rows, where a graph writes it out: of rows y, those that have
// uses of experts become y + mean of (experts' matrix . (x * factor)) over their uses. One launch does that
// where y lies, and touches no other rows. Where no row has two uses, as when each text has one adapter, the
// products are added as they are made.
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "backend/cpu/launches/matmul.h"

namespace weft::cpu {

struct ExpertMeans {
  ValueId weight = kNoValue;   ///< {experts, outputs, inputs} F32, F16 or BF16
  ValueId x = kNoValue;        ///< {uses, 1, inputs}
  ValueId factors = kNoValue;  ///< {uses, 1}
  ValueId ids = kNoValue;      ///< {uses, 1}: the experts.
  ValueId begins = kNoValue;   ///< {rows}: the first use of each row ...
  ValueId ends = kNoValue;     ///< ... and the one behind its last.
  ValueId flags = kNoValue;    ///< {rows}: 0 where a row stays as it is.
  ValueId out = kNoValue;      ///< {rows, outputs}: y lies there before.
  NodeId last = kNoNode;       ///< The override that makes `out`.
  std::vector<NodeId> between;
};

/// What follows the product y, if all in between is read by the next alone: override(y, add(y,
/// ragged_mean(reshape(matmul_experts(weight, sum_experts(x, factors), ids)))), flags).
std::optional<ExpertMeans> expert_means(const Graph& graph, ValueId y,
                                        const std::function<std::span<const NodeId>(ValueId)>& users);

/// Which rows the uses of experts belong to: once a step, for all products of the same rows.
class UseRowsLaunch final : public Launch {
 public:
  UseRowsLaunch(const Graph& graph, const ExpertMeans& values, const ExpertGroupsLaunch* groups);
  bool serves(const ExpertMeans& values, const ExpertGroupsLaunch* groups) const;
  /// Whether each use belongs to a row that has no other.
  bool one_each() const { return one_each_; }
  /// Then the rows of an expert's uses, in the order of ExpertGroupsLaunch::slots.
  std::span<const std::int32_t> rows(std::int64_t expert) const;

  void bind(const Addresses& addresses) override;
  std::int32_t prepare(const StepInfo& step) override;
  void run(std::int32_t task, const TaskContext& context) override;
  std::size_t held_bytes() const override { return 2 * rows_.size() * sizeof(std::int32_t); }
  std::string describe(const Graph& graph) const override;

 private:
  bool find_rows();

  const ExpertGroupsLaunch* groups_;
  ValueId begins_id_, ends_id_, flags_id_;
  Dim rows_dim_, uses_dim_;
  std::vector<std::int32_t> rows_;     // By place among the slots.
  std::vector<std::int32_t> of_uses_;  // By use.
  const std::int32_t *begins_ = nullptr, *ends_ = nullptr, *flags_ = nullptr;
  std::int64_t n_rows_ = 0, n_uses_ = 0;
  bool one_each_ = false;
};

class ExpertMeansLaunch final : public Launch {
 public:
  ExpertMeansLaunch(const Graph& graph, const ExpertMeans& values, const ExpertGroupsLaunch* groups,
                    const UseRowsLaunch* rows);
  void bind(const Addresses& addresses) override;
  std::int32_t prepare(const StepInfo& step) override;
  void run(std::int32_t task, const TaskContext& context) override;
  Work work() const override;
  std::size_t scratch_bytes() const override { return end_; }
  std::string describe(const Graph& graph) const override;

 private:
  /// Panels, and the columns that they make.
  struct Part {
    std::int64_t panel, n_panels, column, n_columns;
  };
  Part part_of(std::int64_t begin, std::int64_t end) const;
  void multiply_expert(std::size_t expert, const Part& part, MatmulArgs args,
                       const TaskContext& context) const;
  void add_products(std::size_t expert, const Part& part, const TaskContext& context) const;
  void add_means(const Part& part, const TaskContext& context) const;

  ExpertMeans values_;
  const ExpertGroupsLaunch* groups_;
  const UseRowsLaunch* use_rows_;
  Dim rows_, uses_;
  std::int64_t n_inputs_, n_outputs_;
  // Scratch: what multiply takes, x times the factors, products and a mean.
  std::size_t weighted_at_, products_at_, mean_at_, end_;
  std::span<const PackedMatrix> weights_;
  const float *x_ = nullptr, *factors_ = nullptr;
  const std::int32_t *begins_ = nullptr, *ends_ = nullptr, *flags_ = nullptr;
  float* out_ = nullptr;
  std::int64_t n_rows_ = 0, n_uses_ = 0, panels_per_task_ = 1, tasks_of_expert_ = 1;
};

}  // namespace weft::cpu
