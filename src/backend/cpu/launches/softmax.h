#pragma once
// Softmax of rows whose length a step says, as the scores of its tokens with each other. Rows of a constant
// length are part of chains (row.h).
#include "backend/cpu/launches/launch.h"
#include "backend/cpu/launches/strided.h"

namespace weft::cpu {

class SoftmaxLaunch final : public Launch {
 public:
  SoftmaxLaunch(const Graph& graph, const Node& node);
  void bind(const Addresses& addresses) override;
  std::int32_t prepare(const StepInfo& step) override;
  void run(std::int32_t task, const TaskContext& context) override;
  std::string describe(const Graph& graph) const override { return "softmax " + graph.value(output_).name; }

 private:
  ValueId input_, output_;
  Dim rows_, columns_;
  const float* x_ = nullptr;
  float* out_ = nullptr;
  std::int64_t n_rows_ = 0, n_columns_ = 0;
  Shares shares_;
};

}  // namespace weft::cpu
