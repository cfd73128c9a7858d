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

/// Softmax along an axis of which the elements are apart in memory. Lines are copied together, so their bits
/// are the same as for contiguous rows.
class SoftmaxAcrossLaunch final : public Launch {
 public:
  /// Along the last axis of both views, which have one shape.
  SoftmaxAcrossLaunch(const Graph& graph, const View& x, const View& out);
  void bind(const Addresses& addresses) override;
  std::int32_t prepare(const StepInfo& step) override;
  void run(std::int32_t task, const TaskContext& context) override;
  std::size_t scratch_bytes() const override;
  std::string describe(const Graph& graph) const override {
    return "softmax_across " + graph.value(out_lines_.base).name;
  }

 private:
  View x_lines_, out_lines_;  // Without the last axis: where each line begins.
  Dim size_dim_, x_stride_dim_, out_stride_dim_;
  std::int64_t most_;      // Elements of a line.
  std::int64_t together_;  // Lines.
  const float* x_ = nullptr;
  float* out_ = nullptr;
  std::int64_t size_ = 0, x_stride_ = 0, out_stride_ = 0;
  StridedLoops lines_;
  Shares shares_;
};

}  // namespace weft::cpu
