#include "backend/cpu/launches/ragged.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "base/to_size.h"

namespace weft::cpu {
namespace {

/// The rows from begin to end - 1 of n, as far as there are such rows.
Range within(std::int64_t begin, std::int64_t end, std::int64_t n) {
  begin = std::clamp<std::int64_t>(begin, 0, n);
  return {begin, std::clamp(end, begin, n)};
}

}  // namespace

RaggedAttentionLaunch::RaggedAttentionLaunch(const Graph& graph, const Node& node)
    : in_(named_inputs<ops::RaggedAttention>(node)),
      output_(node.output),
      n_rows_dim_(graph.value(in_.q).shape[0]),
      n_keys_dim_(graph.value(in_.k).shape[0]) {
  const auto& op = *get_op<ops::RaggedAttention>(node);
  n_heads_ = op.n_heads;
  k_dim_ = static_cast<int>(graph.value(in_.q).shape.columns() / n_heads_);
  // A state has its heads as a dimension of their own.
  const auto columns = [&](ValueId value) {
    const Shape& shape = graph.value(value).shape;
    return shape.rank() == 3 ? shape[1].constant() * shape[2].constant() : shape.columns();
  };
  n_kv_heads_ = static_cast<int>(columns(in_.k) / k_dim_);
  v_dim_ = static_cast<int>(columns(in_.v) / n_kv_heads_);
  scale_ = op.scale != 0.0f ? op.scale : 1.0f / std::sqrt(static_cast<float>(k_dim_));
}

void RaggedAttentionLaunch::bind(const Addresses& addresses) {
  q_ = addresses.plain<const float>(in_.q);
  k_ = addresses.plain<const float>(in_.k);
  v_ = addresses.plain<const float>(in_.v);
  begins_ = addresses.plain<const std::int32_t>(in_.begins);
  ends_ = addresses.plain<const std::int32_t>(in_.ends);
  out_ = addresses.plain<float>(output_);
}

std::int32_t RaggedAttentionLaunch::prepare(const StepInfo& step) {
  n_rows_ = n_rows_dim_.value(step.symbols);
  n_keys_ = n_keys_dim_.value(step.symbols);
  return static_cast<std::int32_t>((n_rows_ + kRaggedRows - 1) / kRaggedRows * n_heads_);
}

Range RaggedAttentionLaunch::keys_of(std::int64_t row) const {
  return within(begins_[row], ends_[row], n_keys_);
}

void RaggedAttentionLaunch::run(std::int32_t task, const TaskContext& context) {
  // The heads of a block one after another: they read neighbouring columns of the same rows.
  const int head = task % n_heads_, kv_head = head / (n_heads_ / n_kv_heads_);
  const std::int64_t block = task / n_heads_ * kRaggedRows;
  const std::int64_t end = std::min(block + kRaggedRows, n_rows_);
  RaggedArgs args;
  args.q_stride = std::int64_t{n_heads_} * k_dim_;
  args.k_stride = std::int64_t{n_kv_heads_} * k_dim_;
  args.v_stride = std::int64_t{n_kv_heads_} * v_dim_;
  args.out_stride = std::int64_t{n_heads_} * v_dim_;
  args.k_dim = k_dim_;
  args.v_dim = v_dim_;
  args.scale = scale_;
  std::array<std::int32_t, kRaggedRows> n_keys;
  args.n_keys = n_keys.data();
  for (std::int64_t row = block; row < end; row += args.n_rows) {
    const std::int64_t first = keys_of(row).begin;
    args.n_rows = 0;
    for (std::int64_t r = row; r < end && keys_of(r).begin == first; ++r)
      n_keys[to_size(args.n_rows++)] = static_cast<std::int32_t>(keys_of(r).end - first);
    args.q = q_ + row * args.q_stride + std::int64_t{head} * k_dim_;
    args.k = k_ + first * args.k_stride + std::int64_t{kv_head} * k_dim_;
    args.v = v_ + first * args.v_stride + std::int64_t{kv_head} * v_dim_;
    args.out = out_ + row * args.out_stride + std::int64_t{head} * v_dim_;
    context.kernels.ragged_attention(args, reinterpret_cast<float*>(context.scratch));
  }
}

std::size_t RaggedAttentionLaunch::scratch_bytes() const {
  return ragged_scratch_floats(k_dim_, v_dim_) * sizeof(float);
}

Work RaggedAttentionLaunch::work() const {
  Work work;
  for (std::int64_t row = 0; row < n_rows_; ++row)
    work.multiply_adds.f32 +=
        static_cast<double>(keys_of(row).end - keys_of(row).begin) * n_heads_ * (k_dim_ + v_dim_);
  return work;
}

std::string RaggedAttentionLaunch::describe(const Graph& graph) const {
  return "ragged_attention " + graph.value(output_).name;
}

void ragged_mean(const Kernels& kernels, const float* x, std::int64_t n_rows, std::int64_t stride,
                 std::int64_t begin, std::int64_t end, std::int64_t n, float* out) {
  const Range rows = within(begin, end, n_rows);
  std::memset(out, 0, to_size(n) * sizeof(float));
  if (rows.begin == rows.end) return;
  for (std::int64_t row = rows.begin; row < rows.end; ++row) kernels.add_row(out, x + row * stride, n, out);
  kernels.scale_row(out, 1.0f / static_cast<float>(rows.end - rows.begin), n, out);
}

RaggedMeanLaunch::RaggedMeanLaunch(const Graph& graph, const Node& node)
    : x_id_(node.inputs[0]),
      begins_id_(node.inputs[1]),
      ends_id_(node.inputs[2]),
      output_(node.output),
      n_means_dim_(graph.value(begins_id_).shape[0]),
      n_rows_dim_(graph.value(x_id_).shape[0]),
      n_columns_(graph.value(x_id_).shape.columns()) {}

void RaggedMeanLaunch::bind(const Addresses& addresses) {
  x_ = addresses.plain<const float>(x_id_);
  begins_ = addresses.plain<const std::int32_t>(begins_id_);
  ends_ = addresses.plain<const std::int32_t>(ends_id_);
  out_ = addresses.plain<float>(output_);
}

std::int32_t RaggedMeanLaunch::prepare(const StepInfo& step) {
  n_rows_ = n_rows_dim_.value(step.symbols);
  return static_cast<std::int32_t>(n_means_dim_.value(step.symbols));
}

void RaggedMeanLaunch::run(std::int32_t task, const TaskContext& context) {
  ragged_mean(context.kernels, x_, n_rows_, n_columns_, begins_[task], ends_[task], n_columns_,
              out_ + task * n_columns_);
}

std::string RaggedMeanLaunch::describe(const Graph& graph) const {
  return "ragged_mean " + graph.value(output_).name;
}

}  // namespace weft::cpu
