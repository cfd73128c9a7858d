#pragma once
// Recurrent layers: short convolutions and selective scans. Tasks share the columns, and each takes the
// step's rows in order, so neither the cut of a batch nor the threads show in the results.
#include <vector>

#include "backend/cpu/launches/launch.h"

namespace weft::cpu {

/// What the two have in common: the state's slots, x, and tasks over columns.
class RecurrentLaunch : public Launch {
 public:
  /// `slots` are the inputs that all recurrent ops have.
  struct SlotInputs {
    ValueId state, x, from, to;
  };
  RecurrentLaunch(const Graph& graph, const Node& node, const SlotInputs& slots);
  void bind(const Addresses& addresses) override;
  std::int32_t prepare(const StepInfo& step) override;
  void run(std::int32_t task, const TaskContext& context) override;
  std::string describe(const Graph& graph) const override;

 protected:
  virtual void run_row(std::int64_t row, const RecurrentRow& common, std::int64_t column,
                       const Kernels& kernels) = 0;
  /// A matrix {columns, n} of weights as [n][columns], for kernels that take columns side by side.
  void transpose(const MatrixTensor& matrix, std::vector<float>& out);

  std::string_view name_;
  std::int64_t n_columns_ = 0;
  std::int64_t n_state_rows_ = 0;

 private:
  SlotInputs slots_;
  const MatrixTensor* transposed_ = nullptr;  // Binding other tensors does it no second time.
  ValueId output_;
  Dim n_rows_dim_;
  std::int64_t n_rows_ = 0;
  float* state_ = nullptr;
  const float* x_ = nullptr;
  const std::int32_t* from_ = nullptr;
  const std::int32_t* to_ = nullptr;
  float* out_ = nullptr;
};

class ConvLaunch final : public RecurrentLaunch {
 public:
  ConvLaunch(const Graph& graph, const Node& node);
  void bind(const Addresses& addresses) override;
  std::size_t held_bytes() const override;

 private:
  void run_row(std::int64_t row, const RecurrentRow& common, std::int64_t column,
               const Kernels& kernels) override;

  ops::ShortConv::Inputs inputs_;
  std::vector<float> weight_;
  const float* bias_ = nullptr;
};

class ScanLaunch final : public RecurrentLaunch {
 public:
  ScanLaunch(const Graph& graph, const Node& node);
  void bind(const Addresses& addresses) override;
  std::size_t held_bytes() const override;

 private:
  void run_row(std::int64_t row, const RecurrentRow& common, std::int64_t column,
               const Kernels& kernels) override;

  ops::SelectiveScan::Inputs inputs_;
  std::int64_t n_heads_ = 0;  // 0: each column has its own dt, a and skip.
  std::int64_t n_groups_ = 1;
  std::vector<float> a_;
  const float* dt_ = nullptr;
  const float* b_ = nullptr;
  const float* c_ = nullptr;
  const float* skip_ = nullptr;
};

}  // namespace weft::cpu
