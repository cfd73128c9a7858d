#pragma once
// The delta rule (ops::DeltaRule). Tasks share heads and columns of their states, and each takes the step's
// rows in order. So neither the cut of a batch nor the threads affect the results.
#include "backend/cpu/launches/launch.h"

namespace weft::cpu {

class DeltaLaunch final : public Launch {
 public:
  DeltaLaunch(const Graph& graph, const Node& node);
  void bind(const Addresses& addresses) override;
  std::int32_t prepare(const StepInfo& step) override;
  void run(std::int32_t task, const TaskContext& context) override;
  std::size_t scratch_bytes() const override;
  std::string describe(const Graph& graph) const override;

 private:
  /// Where its values of a row begin for a head.
  DeltaRow row_of(std::int64_t row, std::int64_t head, std::int64_t column) const;

  ops::DeltaRule::Inputs inputs_;
  bool tiled_;
  ValueId output_;
  Dim n_rows_dim_;
  std::int64_t n_rows_ = 0;
  std::int64_t n_heads_, n_groups_, n_keys_, n_columns_;  // Columns of a head's state.
  std::int64_t n_decays_, n_betas_;                       // Of a head.
  std::int64_t n_parts_;                                  // Tasks of a head.
  float* state_ = nullptr;
  const float *q_ = nullptr, *k_ = nullptr, *v_ = nullptr, *decay_ = nullptr, *beta_ = nullptr,
              *removed_ = nullptr;
  const std::int32_t *from_ = nullptr, *to_ = nullptr;
  float* out_ = nullptr;
};

}  // namespace weft::cpu
