#include "backend/cpu/launches/dense_attention.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/to_size.h"

namespace weft::cpu {
namespace {

constexpr std::size_t kText = 0, kHead = 1, kRow = 2, kColumn = 3;

std::int64_t offset_of(const StridedView& view, std::int64_t text, std::int64_t head, std::int64_t row) {
  return view.offset + text * view.strides[kText] + head * view.strides[kHead] + row * view.strides[kRow];
}

}  // namespace

DenseAttentionViews dense_attention_views(const Graph& graph, const Node& node,
                                          std::span<const View> inputs) {
  const auto in = named_inputs<ops::DenseAttention>(node);
  DenseAttentionViews views = {.q = inputs[0],
                               .k = inputs[1],
                               .v = inputs[2],
                               .out = plain_view(node.output, graph.value(node.output).shape),
                               .sinks = in.sinks};
  if (in.bias != kNoValue) {
    views.bias = inputs[3];
    views.mask = graph.value(in.bias).dtype == DType::kI32;
  }
  return views;
}

DenseAttentionLaunch::DenseAttentionLaunch(const ops::DenseAttention& op, const DenseAttentionViews& views)
    : op_(op), views_(views) {
  const Shape &q = views.q.shape, &k = views.k.shape;
  if (views.bias) views_.bias = broadcast_view(*views.bias, {q[0], q[1], q[2], k[2]});
}

void DenseAttentionLaunch::bind(const Addresses& addresses) {
  q_base_ = addresses.plain<const float>(views_.q.base);
  k_base_ = addresses.plain<const float>(views_.k.base);
  v_base_ = addresses.plain<const float>(views_.v.base);
  out_base_ = addresses.plain<float>(views_.out.base);
  if (views_.bias) bias_base_ = addresses.plain<const std::byte>(views_.bias->base);
  if (views_.sinks != kNoValue) sinks_ = addresses.plain<const float>(views_.sinks);
}

std::int32_t DenseAttentionLaunch::prepare(const StepInfo& step) {
  q_ = at_step(views_.q, step.symbols);
  k_ = at_step(views_.k, step.symbols);
  v_ = at_step(views_.v, step.symbols);
  out_ = at_step(views_.out, step.symbols);
  if (views_.bias) bias_ = at_step(*views_.bias, step.symbols);
  n_texts_ = q_.sizes[kText];
  n_heads_ = q_.sizes[kHead];
  n_rows_ = q_.sizes[kRow];
  n_keys_ = k_.sizes[kRow];
  of_group_ = n_heads_ / k_.sizes[kHead];
  by_heads_ = n_rows_ < of_group_;
  // Rows of a block: of one head, or of one place.
  n_blocks_ = ((by_heads_ ? of_group_ : n_rows_) + kRaggedRows - 1) / kRaggedRows;
  return static_cast<std::int32_t>(n_texts_ * n_blocks_ *
                                   (by_heads_ ? n_heads_ / of_group_ * n_rows_ : n_heads_));
}

void DenseAttentionLaunch::run(std::int32_t task, const TaskContext& context) {
  const std::int64_t block = task % n_blocks_ * kRaggedRows, of_text = task / n_blocks_;
  const std::int64_t per_text = by_heads_ ? n_heads_ / of_group_ * n_rows_ : n_heads_;
  const std::int64_t text = of_text / per_text, which = of_text % per_text;
  const std::int64_t head = by_heads_ ? which / n_rows_ * of_group_ + block : which;
  const std::int64_t row = by_heads_ ? which % n_rows_ : block;
  const std::size_t along = by_heads_ ? kHead : kRow;
  RaggedArgs args;
  args.n_rows =
      static_cast<int>(std::min<std::int64_t>(kRaggedRows, (by_heads_ ? of_group_ : n_rows_) - block));
  args.k_dim = static_cast<int>(q_.sizes[kColumn]);
  args.v_dim = static_cast<int>(v_.sizes[kColumn]);
  args.scale = op_.scale != 0.0f ? op_.scale : 1.0f / std::sqrt(static_cast<float>(args.k_dim));
  args.softcap = op_.softcap;
  args.q = q_base_ + offset_of(q_, text, head, row);
  args.q_stride = q_.strides[along];
  args.k = k_base_ + offset_of(k_, text, head / of_group_, 0);
  args.k_stride = k_.strides[kRow];
  args.v = v_base_ + offset_of(v_, text, head / of_group_, 0);
  args.v_stride = v_.strides[kRow];
  args.out = out_base_ + offset_of(out_, text, head, row);
  args.out_stride = out_.strides[along];
  if (views_.bias) {
    const std::int64_t at = offset_of(bias_, text, head, row);
    if (views_.mask) {
      args.mask = reinterpret_cast<const std::int32_t*>(bias_base_) + at;
    } else {
      args.bias = reinterpret_cast<const float*>(bias_base_) + at;
    }
    args.bias_row = bias_.strides[along];
    args.bias_key = bias_.strides[kColumn];
  }
  if (sinks_ != nullptr) {
    args.sinks = sinks_ + head;
    args.sink_stride = by_heads_ ? 1 : 0;
  }
  std::array<std::int32_t, kRaggedRows> n_keys;
  for (std::int64_t r = 0; r < args.n_rows; ++r) {
    const std::int64_t place = by_heads_ ? row : row + r;
    n_keys[to_size(r)] = static_cast<std::int32_t>(op_.causal ? std::min(place + 1, n_keys_) : n_keys_);
  }
  args.n_keys = n_keys.data();
  context.kernels.ragged_attention(args, reinterpret_cast<float*>(context.scratch));
}

std::size_t DenseAttentionLaunch::scratch_bytes() const {
  return ragged_scratch_floats(static_cast<int>(views_.q.shape[3].constant()),
                               static_cast<int>(views_.v.shape[3].constant())) *
         sizeof(float);
}

Work DenseAttentionLaunch::work() const {
  const auto rows = static_cast<double>(n_texts_ * n_heads_ * n_rows_);
  const auto of_row = static_cast<double>(n_keys_ * (q_.sizes[kColumn] + v_.sizes[kColumn]));
  return {.multiply_adds = {.f32 = op_.causal ? rows * of_row / 2 : rows * of_row}};
}

}  // namespace weft::cpu
