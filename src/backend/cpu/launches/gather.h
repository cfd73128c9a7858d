#pragma once
// Elements that indices name: taken along an axis, and stored or added there.
#include "backend/cpu/launches/launch.h"
#include "backend/cpu/launches/strided.h"

namespace weft::cpu {

class TakeAlongLaunch final : public Launch {
 public:
  TakeAlongLaunch(const Graph& graph, const Node& node, std::span<const View> inputs);
  void bind(const Addresses& addresses) override;
  std::int32_t prepare(const StepInfo& step) override;
  void run(std::int32_t task, const TaskContext& context) override;
  std::string describe(const Graph& graph) const override {
    return "take_along " + graph.value(output_).name;
  }

 private:
  ValueId output_;
  View out_view_, indices_view_, x_view_;  // With the output's shape: views of x at the axis' first element.
  Dim size_dim_, stride_dim_;              // Of x along the axis.
  const float* x_ = nullptr;
  const std::int32_t* indices_ = nullptr;
  float* out_ = nullptr;
  std::int64_t size_ = 0, stride_ = 0;
  StridedLoops loops_;
  Shares shares_;
};

/// Tasks share the other axes, and each takes the indices in order. So neither the threads nor the cut affect
/// the results.
class ScatterLaunch final : public Launch {
 public:
  ScatterLaunch(const Graph& graph, const Node& node, std::span<const View> inputs);
  void bind(const Addresses& addresses) override;
  std::int32_t prepare(const StepInfo& step) override;
  void run(std::int32_t task, const TaskContext& context) override;
  std::string describe(const Graph& graph) const override { return "scatter " + graph.value(output_).name; }

 private:
  void store(std::int64_t out, std::int64_t index, std::int64_t source) const;
  void store_run(const StridedLoops::Offsets& at, std::int64_t n, const Kernels& kernels) const;

  ops::Scatter op_;
  ValueId output_;
  bool ints_;
  Dim size_dim_, stride_dim_, n_indices_dim_;     // Along the axis.
  View out_all_, x_view_;                         // The axis first in each.
  View out_first_, indices_view_, source_view_;   // Of the source's shape.
  const float *x_ = nullptr, *source_ = nullptr;  // Or whole numbers.
  const std::int32_t* indices_ = nullptr;
  float* out_ = nullptr;
  std::int64_t size_ = 0, stride_ = 0, n_indices_ = 0, n_beside_ = 0;
  StridedLoops copies_, updates_;
  Shares shares_;
};

}  // namespace weft::cpu
