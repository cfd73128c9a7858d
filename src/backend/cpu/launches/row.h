#pragma once
// Row-wise nodes fused into chains: norm, scale, add, rope, cache write, quantise ... of one row after
// another. Values used only inside the chain are held in a thread's scratch memory.
#include <memory>
#include <variant>
#include <vector>

#include "backend/cpu/launches/launch.h"
#include "base/memory.h"

namespace weft::cpu {

/// cos and sin of every row's position, shared by all rope nodes of the same parameters.
class RopeTableLaunch final : public Launch {
 public:
  RopeTableLaunch(const ops::Rope& op, ValueId positions, ValueId factors, Dim rows, std::int64_t max_rows);

  bool serves(const ops::Rope& op, ValueId positions, ValueId factors) const;
  RopeTable row(std::int64_t r) const;

  void bind(const Addresses& addresses) override;
  std::int32_t prepare(const StepInfo& step) override;
  void run(std::int32_t task, const TaskContext& context) override;
  std::size_t held_bytes() const override { return table_.size(); }
  std::string describe(const Graph& graph) const override;

 private:
  ops::Rope op_;
  ValueId positions_id_;
  ValueId factors_id_;
  Dim rows_;
  base::Memory table_;
  const float* factors_ = nullptr;  // What the frequencies were made with.
  std::vector<double> frequencies_;
  double magnitude_ = 1.0;
  const std::int32_t* positions_ = nullptr;
  std::int64_t n_rows_ = 0;
};

/// Turns a value's rows into activations for quantised weights. Not an op of graphs: the plan adds it.
struct Quantise {
  static constexpr std::string_view kName = "quantise";
  Form form = Form::kQ8;
};

using RowOp =
    std::variant<ops::GetRows, ops::Override, ops::Norm, ops::Add, ops::Mul, ops::Scale, ops::Concat,
                 ops::Softcap, ops::Activate, ops::Softmax, ops::Glu, ops::Rope, ops::Hadamard,
                 ops::StoreCache, ops::TopK, ops::Best, ops::LogSumExp, ops::ExpertWeights, ops::SumExperts,
                 ops::Unary, ops::Clamp, ops::Binary, ops::Compare, ops::Where, ops::Unfold, Quantise>;

class RowLaunch final : public Launch {
 public:
  RowLaunch(const Graph& graph, Dim rows) : graph_(graph), rows_(rows) {}

  const Dim& rows() const { return rows_; }
  /// Appends a node. `rope` serves it if it is a rope node.
  void add(RowOp op, std::vector<ValueId> inputs, ValueId output, const RopeTableLaunch* rope = nullptr);
  /// Moves values that only the chain reads to scratch; call it once, when the chain is complete.
  void settle(const std::vector<bool>& needed_outside);

  void bind(const Addresses& addresses) override;
  std::int32_t prepare(const StepInfo& step) override;
  void run(std::int32_t task, const TaskContext& context) override;
  std::size_t scratch_bytes() const override { return scratch_bytes_; }
  std::string describe(const Graph& graph) const override;

 private:
  /// Where an operand's row lies: base + row * stride, base being this thread's scratch or an address.
  struct Operand {
    ValueId value = kNoValue;
    bool scratch = false;
    std::byte* base = nullptr;
    std::size_t offset = 0;  // In scratch.
    std::size_t stride = 0;  // Bytes from row to row; 0 for what all rows share.
  };
  struct Instruction {
    RowOp op;
    std::vector<Operand> in;
    Operand out;
    std::int64_t columns = 0;  // Of input 0's row (of the output's row for get_rows and sum_experts).
    const RopeTableLaunch* rope = nullptr;
    const MatrixTensor* table = nullptr;  // get_rows from a weight.
    std::int64_t n_in_rows = 0;           // In this step, in the input of unfold and get_rows.
    CacheLayout cache;
    int n_experts_used = 0;
    std::size_t scratch_offset = 0;  // Own temporary of expert_weights, best and log_sum_exp.
  };

  std::size_t row_stride(ValueId value) const;
  /// Of short rows: how many are computed at once. 1 where any op looks at rows.
  std::int64_t rows_at_once() const;
  /// `n_rows` adjacent rows; several are computed as one long row.
  void execute(const Instruction& instruction, std::int64_t row, std::int64_t n_rows,
               const TaskContext& context) const;

  const Graph& graph_;
  Dim rows_;
  std::vector<Instruction> instructions_;
  std::size_t scratch_bytes_ = 0;
  std::int64_t n_rows_ = 0;
  std::int64_t rows_per_task_ = 1;
  std::int64_t rows_at_once_ = 1;
};

/// Whether a node is row-wise (of an elementwise one: whether its operands are rows of its result's shape, or
/// one row for all), and the chain's domain: how many rows it makes.
std::optional<RowOp> as_row_op(const Graph& graph, const Node& node);
Dim row_domain(const Graph& graph, const Node& node);

}  // namespace weft::cpu
