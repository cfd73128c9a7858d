#pragma once
// The additions of low-rank adapters to a product's rows, where a graph has them as ops. Rows y = W x with
// uses of experts become y + mean of (B[expert] . (A[expert] . x * factor)) over their uses. One launch makes
// the products with A and the factors. The products with B are added to the tiles of y while these are made
// (MatmulArgs::low_rank). So they cost neither a phase nor a pass over y, and B is loaded while the processor
// is busy with W.
#include <array>
#include <functional>
#include <map>
#include <span>
#include <vector>

#include "backend/cpu/launches/launch.h"

namespace weft::cpu {

class ExpertGroupsLaunch;

/// Whether a value is there when a node is made; none always is.
bool is_made_before(const Graph& graph, ValueId value, NodeId node);

/// The values of an addition; kNoValue where there is none.
struct LowRankValues {
  ValueId a = kNoValue;        ///< {experts, rank, inputs} F32, F16 or BF16
  ValueId b = kNoValue;        ///< {experts, outputs, rank}, likewise.
  ValueId x = kNoValue;        ///< {rows, inputs}
  ValueId rows = kNoValue;     ///< {uses}: the row of x.
  ValueId ids = kNoValue;      ///< {uses, 1}: the expert.
  ValueId factors = kNoValue;  ///< {uses, 1}
  ValueId begins = kNoValue;   ///< {rows}: the first use of each row ...
  ValueId ends = kNoValue;     ///< ... and the end of its uses.
  ValueId flags = kNoValue;    ///< {rows}: 0 where a row stays as it is.
  ValueId low = kNoValue;      ///< {uses, rank}: A x times the factor.

  bool used() const { return b != kNoValue; }
  /// Whether all values that select the additions are computed before `node`. Weights always are.
  bool are_made_before(const Graph& graph, NodeId node) const;
  /// Those that say which rows use what.
  std::array<ValueId, 5> choices() const { return {rows, ids, begins, ends, flags}; }
};

/// What follows a product, and is part of its launch or of the one before.
struct LowRank {
  LowRankValues values;
  ValueId out = kNoValue;       ///< y with the additions.
  ValueId gathered = kNoValue;  ///< x's rows, which others may read as well.
  std::vector<NodeId> nodes;    ///< All but what gathers.
};

/// All of a graph, by y. `users` are the nodes that read a value.
std::map<ValueId, LowRank> find_low_ranks(const Graph& graph,
                                          const std::function<std::span<const NodeId>(ValueId)>& users);

/// Which rows use which experts, in a form that kernels read: once a step, for all products of the same rows.
class UsesLaunch final : public Launch {
 public:
  UsesLaunch(const Graph& graph, const LowRankValues& values, const ExpertGroupsLaunch* groups);
  bool serves(const LowRankValues& values, const ExpertGroupsLaunch* groups) const;

  std::int64_t n_uses() const { return n_uses_; }
  /// By row; empty where it stays as it is.
  const UseRange* of_rows() const { return of_rows_.data(); }
  /// All rows; rows with the same first expert are next to each other.
  const std::int32_t* order() const { return order_.data(); }
  /// Experts that are used, and of each the rows of x, in the order of ExpertGroupsLaunch::slots.
  std::span<const std::int32_t> experts() const { return {experts_.data(), n_experts_used_}; }
  std::span<const std::int32_t> rows(std::int64_t expert) const;
  const ExpertGroupsLaunch& groups() const { return *groups_; }
  const LowRankValues& values() const { return values_; }

  void bind(const Addresses& addresses) override;
  std::int32_t prepare(const StepInfo& step) override;
  void run(std::int32_t task, const TaskContext& context) override;
  std::size_t held_bytes() const override;
  std::string describe(const Graph& graph) const override;

 private:
  const ExpertGroupsLaunch* groups_;
  LowRankValues values_;
  Dim rows_dim_, uses_dim_;
  std::vector<UseRange> of_rows_;
  std::vector<std::int32_t> order_, x_rows_, experts_, begin_;
  const std::int32_t *x_row_of_ = nullptr, *ids_ = nullptr, *begins_ = nullptr, *ends_ = nullptr,
                     *flags_ = nullptr;
  std::int64_t n_rows_ = 0, n_uses_ = 0;
  std::size_t n_experts_used_ = 0;
};

/// The products with A, times the factors.
class LowRankLaunch final : public Launch {
 public:
  LowRankLaunch(const Graph& graph, const LowRankValues& values, const UsesLaunch* uses);
  void bind(const Addresses& addresses) override;
  std::int32_t prepare(const StepInfo& step) override;
  void run(std::int32_t task, const TaskContext& context) override;
  Work work() const override;
  std::size_t scratch_bytes() const override { return scratch_bytes_; }
  std::string describe(const Graph& graph) const override;

 private:
  LowRankValues values_;
  const UsesLaunch* uses_;
  Dim uses_dim_;
  std::int64_t rank_;
  std::size_t scratch_bytes_;
  std::span<const PackedMatrix> experts_;
  const float *x_ = nullptr, *factors_ = nullptr;
  float* low_ = nullptr;
  std::int64_t panels_per_task_ = 1, panel_tasks_ = 1;
};

}  // namespace weft::cpu
