#pragma once
// Products of matrices that the step has made, with strides, so that transposed ones cost nothing. Tasks make
// blocks of the results; which block an element is in does not show in its bits (kernels/product.inl).
#include "backend/cpu/launches/launch.h"
#include "backend/cpu/launches/strided.h"

namespace weft::cpu {

class BatchMatmulLaunch final : public Launch {
 public:
  BatchMatmulLaunch(const Graph& graph, const Node& node, const View& a, const View& b);
  void bind(const Addresses& addresses) override;
  std::int32_t prepare(const StepInfo& step) override;
  void run(std::int32_t task, const TaskContext& context) override;
  std::size_t scratch_bytes() const override { return kProductScratchFloats * sizeof(float); }
  Work work() const override;
  std::string describe(const Graph& graph) const override;

 private:
  ValueId output_;
  View out_view_, a_view_, b_view_;  // Without the matrices' axes: where each begins.
  Dim m_, n_, k_;
  Dim a_row_, a_column_, b_row_, b_column_;
  const float* a_ = nullptr;
  const float* b_ = nullptr;
  float* out_ = nullptr;
  StridedLoops matrices_;
  ProductArgs args_;  // Of one whole product.
  std::int64_t rows_ = 1, columns_ = 1, row_blocks_ = 0, column_blocks_ = 0;
};

}  // namespace weft::cpu
