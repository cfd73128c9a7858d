#pragma once
// Attention over given keys (ops::DenseAttention), by the kernel of ragged.h. Tasks are blocks of rows of one
// head. If there are few rows, a block has the rows of all heads that read the same keys. A row's bits depend
// neither on other rows nor on the threads.
#include <optional>

#include "backend/cpu/launches/launch.h"
#include "backend/cpu/launches/strided.h"

namespace weft::cpu {

/// What is attended to, of four axes each. q, k and v may have any strides; columns lie side by
/// side.
struct DenseAttentionViews {
  View q, k, v, out;
  std::optional<View> bias = {};  ///< Of a shape that broadcasts to the scores'.
  bool mask = false;              ///< The bias is one.
  ValueId sinks = kNoValue;
};

class DenseAttentionLaunch final : public Launch {
 public:
  DenseAttentionLaunch(const ops::DenseAttention& op, const DenseAttentionViews& views);
  void bind(const Addresses& addresses) override;
  std::int32_t prepare(const StepInfo& step) override;
  void run(std::int32_t task, const TaskContext& context) override;
  std::size_t scratch_bytes() const override;
  Work work() const override;
  std::string describe(const Graph& graph) const override {
    return "dense_attention " + graph.value(views_.out.base).name;
  }

 private:
  ops::DenseAttention op_;
  DenseAttentionViews views_;  // The bias of the scores' shape.
  const float *q_base_ = nullptr, *k_base_ = nullptr, *v_base_ = nullptr, *sinks_ = nullptr;
  const std::byte* bias_base_ = nullptr;
  float* out_base_ = nullptr;
  StridedView q_, k_, v_, out_, bias_;  // Of this step.
  bool by_heads_ = false;               // A block has the rows of the heads of a group.
  std::int64_t n_texts_ = 0, n_heads_ = 0, of_group_ = 1, n_rows_ = 0, n_keys_ = 0, n_blocks_ = 0;
};

/// A node of DenseAttention, with its inputs as views.
DenseAttentionViews dense_attention_views(const Graph& graph, const Node& node, std::span<const View> inputs);

}  // namespace weft::cpu
