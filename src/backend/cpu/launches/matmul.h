#pragma once
// Matrix products with the nodes fused into them: bias, gate and activation, residual.
#include <algorithm>
#include <memory>
#include <vector>

#include "backend/cpu/launches/best.h"
#include "backend/cpu/launches/launch.h"
#include "backend/cpu/launches/low_rank.h"
#include "backend/cpu/launches/quantised_output.h"
#include "base/memory.h"
#include "base/to_size.h"

namespace weft::cpu {

/// The values of a fused product; kNoValue where there is none.
struct MatmulValues {
  ValueId weight = kNoValue;
  ValueId bias = kNoValue;
  ValueId gate = kNoValue;
  ValueId gate_bias = kNoValue;
  LowRankValues low_rank, gate_low_rank;  ///< Of the same rows and uses.
  Activation activation = Activation::kNone;
  ValueId x = kNoValue;
  ValueId residual = kNoValue;
  float softcap = 0.0f;  ///< Only where the best are taken. 0: off.
  ValueId out = kNoValue;
};

/// The kernel, for weights that are not packed too, of which it packs a panel at a time. The kernel sees the
/// same bytes as it would in a packed matrix, so the results are the same.
void multiply(const TaskContext& context, const MatmulArgs& args, Range panels, Range columns);
/// What it takes of a task's scratch, from its beginning.
std::size_t multiply_scratch_bytes(const Graph& graph, ValueId weight);

class MatmulLaunch final : public Launch {
 public:
  /// With `taken`, the product goes there instead of to the output, unless the step is screened (screen.h).
  /// `uses`: the uses of the additions, if there are any; not with `taken`.
  MatmulLaunch(const Graph& graph, const MatmulValues& values, std::shared_ptr<Taken> taken = nullptr,
               const UsesLaunch* uses = nullptr);
  bool make_form(Form form) override;
  void bind(const Addresses& addresses) override;
  std::int32_t prepare(const StepInfo& step) override;
  bool prepares_each_step() const override { return taken_ != nullptr || quantised_.used(); }
  bool computes() const override;
  void run(std::int32_t task, const TaskContext& context) override;
  void run_all(std::int32_t begin, std::int32_t end, const TaskContext& context) override;
  Work work() const override;
  std::size_t scratch_bytes() const override { return scratch_bytes_; }
  std::size_t held_bytes() const override { return quantised_.held_bytes(); }
  std::span<const std::byte> weights_from(std::int32_t task) const override;
  std::string describe(const Graph& graph) const override;

 private:
  void multiply_panels(const MatmulArgs& args, Range panels, Range columns, const TaskContext& context) const;

  MatmulValues values_;
  std::shared_ptr<Taken> taken_;
  const UsesLaunch* uses_;
  Dim rows_, uses_dim_;
  std::int64_t max_rows_, n_outputs_;
  // In a task's scratch: the place for packing experts that are stored as in the file, and the end.
  std::size_t experts_at_, gate_experts_at_, scratch_bytes_;
  bool can_screen_;
  MatmulArgs args_;
  LowRankArgs bound_low_rank_, bound_gate_low_rank_;
  QuantisedOutput quantised_;
  std::int64_t n_columns_ = 0, n_uses_ = 0;  // Of this step.
  std::int64_t panels_per_task_ = 1;
  std::int64_t columns_per_task_ = 1;
  std::int64_t panel_tasks_ = 1;
};

/// Sorts the rows of a step by the expert that they go to.
class ExpertGroupsLaunch final : public Launch {
 public:
  ExpertGroupsLaunch(const Graph& graph, ValueId ids, std::int64_t n_experts);
  ValueId ids() const { return ids_id_; }
  std::int64_t n_experts() const { return static_cast<std::int64_t>(begin_.size()) - 1; }
  /// Experts of a row.
  std::int64_t n_used() const { return n_used_; }

  /// Slots (row * n_used + choice) of expert e, in order, and the rows that they come from.
  std::span<const std::int32_t> slots(std::int64_t expert) const { return part(slots_, expert); }
  std::span<const std::int32_t> rows(std::int64_t expert) const { return part(slot_rows_, expert); }
  /// The experts with slots, in order; and the largest number of experts in a step with n_rows rows.
  std::span<const std::int32_t> active() const { return active_; }
  std::int64_t most_active(std::int64_t n_rows) const { return std::min(n_experts(), n_rows * n_used_); }

  void bind(const Addresses& addresses) override;
  std::int32_t prepare(const StepInfo& step) override;
  void run(std::int32_t task, const TaskContext& context) override;
  std::size_t held_bytes() const override {
    return (begin_.size() + 2 * slots_.size() + active_.capacity()) * sizeof(std::int32_t);
  }
  std::string describe(const Graph& graph) const override;

 private:
  std::span<const std::int32_t> part(const std::vector<std::int32_t>& of, std::int64_t expert) const {
    const auto e = to_size(expert);
    const auto begin = to_size(begin_[e]);
    return {of.data() + begin, to_size(begin_[e + 1]) - begin};
  }

  ValueId ids_id_;
  Dim rows_;
  std::int32_t n_used_;
  std::vector<std::int32_t> begin_, slots_, slot_rows_, active_;
  const std::int32_t* ids_ = nullptr;
  std::int64_t n_rows_ = 0;
};

class MatmulExpertsLaunch final : public Launch {
 public:
  MatmulExpertsLaunch(const Graph& graph, const MatmulValues& values, const ExpertGroupsLaunch* groups);
  bool make_form(Form form) override;
  void bind(const Addresses& addresses) override;
  std::int32_t prepare(const StepInfo& step) override;
  bool prepares_each_step() const override { return quantised_.used(); }
  bool computes() const override { return computes_; }
  void run(std::int32_t task, const TaskContext& context) override;
  void run_all(std::int32_t begin, std::int32_t end, const TaskContext& context) override;
  Work work() const override;
  std::size_t scratch_bytes() const override { return scratch_bytes_; }
  std::size_t held_bytes() const override { return quantised_.held_bytes(); }
  std::string describe(const Graph& graph) const override;

 private:
  void multiply_expert(std::int64_t expert, Range panels, const TaskContext& context);

  MatmulValues values_;
  const ExpertGroupsLaunch* groups_;
  bool x_per_slot_;  // x has a row for each choice, not one for each row.
  Dim rows_;
  std::int64_t n_experts_, n_outputs_;
  std::size_t scratch_bytes_;
  MatmulArgs args_;
  QuantisedOutput quantised_;  // A block for each expert.
  std::span<const PackedMatrix> weights_, gates_;
  std::int64_t panels_per_task_ = 1;
  std::int64_t panel_tasks_ = 1;  // Of an expert.
  bool computes_ = false;
};

}  // namespace weft::cpu
