#pragma once
// Pooling and scaling of images.
#include "backend/cpu/launches/launch.h"
#include "backend/cpu/launches/strided.h"
#include "backend/cpu/launches/window_axis.h"

namespace weft::cpu {

/// Tasks make blocks of rows of a plane's results, from a copy with the layout of convolutions.
class PoolLaunch final : public Launch {
 public:
  PoolLaunch(const Graph& graph, const Node& node);
  void bind(const Addresses& addresses) override;
  std::int32_t prepare(const StepInfo& step) override;
  void run(std::int32_t task, const TaskContext& context) override;
  std::size_t scratch_bytes() const override;
  std::string describe(const Graph& graph) const override { return "pool2d " + graph.value(output_).name; }

 private:
  std::int64_t block_floats(std::int64_t n_rows, std::int64_t n_columns) const;
  void divide(std::int64_t row, std::int64_t n_rows, const Kernels& kernels, float* out) const;

  ops::Pool2d op_;
  ValueId input_, output_;
  WindowAxis y_axis_, x_axis_;
  Dim planes_, height_, width_, out_height_, out_width_;
  std::int64_t out_h_bound_, out_w_bound_;
  const float* x_ = nullptr;
  float* out_ = nullptr;
  // Of this step.
  std::int64_t h_ = 0, w_ = 0, out_h_ = -1, out_w_ = -1, block_rows_ = 1, n_row_blocks_ = 0, n_blocks_ = 0;
  WindowLayout rows_, columns_;
  std::vector<std::int64_t> taps_;
  std::vector<float> counts_;  ///< By column: how many of each window means are of.
  Shares shares_;
};

/// Tasks make rows of results.
class ResizeLaunch final : public Launch {
 public:
  ResizeLaunch(const Graph& graph, const Node& node);
  void bind(const Addresses& addresses) override;
  std::int32_t prepare(const StepInfo& step) override;
  void run(std::int32_t task, const TaskContext& context) override;
  std::size_t scratch_bytes() const override { return scratch_floats_ * sizeof(float); }
  std::string describe(const Graph& graph) const override { return "resize2d " + graph.value(output_).name; }

 private:
  /// Where the results along a side come from: between two elements, and how far from the first.
  struct Side {
    std::vector<std::int32_t> from, to;
    std::vector<float> part;
    std::int64_t size = -1, out_size = -1;
  };
  void place(Side& side, std::int64_t size, std::int64_t out_size) const;

  ops::Resize2d op_;
  ValueId input_, output_;
  Dim planes_, height_, width_, out_height_, out_width_;
  std::size_t scratch_floats_ = 0;
  const float* x_ = nullptr;
  float* out_ = nullptr;
  Side rows_, columns_;
  std::int64_t n_rows_ = 0;
  Shares shares_;
};

}  // namespace weft::cpu
