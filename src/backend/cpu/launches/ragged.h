#pragma once
// Concatenated rows of several sequences: attention within each sequence, and means.
#include "backend/cpu/launches/launch.h"

namespace weft::cpu {

/// Tasks are blocks of rows, for each head. Which rows belong together is read where a task runs, so nodes
/// may make the indices.
class RaggedAttentionLaunch final : public Launch {
 public:
  RaggedAttentionLaunch(const Graph& graph, const Node& node);
  void bind(const Addresses& addresses) override;
  std::int32_t prepare(const StepInfo& step) override;
  void run(std::int32_t task, const TaskContext& context) override;
  std::size_t scratch_bytes() const override;
  Work work() const override;
  std::string describe(const Graph& graph) const override;

 private:
  Range keys_of(std::int64_t row) const;

  ops::RaggedAttention::Inputs in_;
  ValueId output_;
  Dim n_rows_dim_, n_keys_dim_;
  int n_heads_, n_kv_heads_, k_dim_, v_dim_;
  float scale_;
  std::int64_t n_rows_ = 0, n_keys_ = 0;
  const float *q_ = nullptr, *k_ = nullptr, *v_ = nullptr;
  const std::int32_t *begins_ = nullptr, *ends_ = nullptr;
  float* out_ = nullptr;
};

/// What ops::RaggedMean gives of rows [begin, end) of n_rows, of which `x` is the first and which lie
/// `stride` floats apart: n columns.
void ragged_mean(const Kernels& kernels, const float* x, std::int64_t n_rows, std::int64_t stride,
                 std::int64_t begin, std::int64_t end, std::int64_t n, float* out);

/// A task for each mean.
class RaggedMeanLaunch final : public Launch {
 public:
  RaggedMeanLaunch(const Graph& graph, const Node& node);
  void bind(const Addresses& addresses) override;
  std::int32_t prepare(const StepInfo& step) override;
  void run(std::int32_t task, const TaskContext& context) override;
  std::string describe(const Graph& graph) const override;

 private:
  ValueId x_id_, begins_id_, ends_id_, output_;
  Dim n_means_dim_, n_rows_dim_;
  std::int64_t n_columns_, n_rows_ = 0;
  const float* x_ = nullptr;
  const std::int32_t *begins_ = nullptr, *ends_ = nullptr;
  float* out_ = nullptr;
};

}  // namespace weft::cpu
