#include "backend/cpu/attention_launch.h"

#include <algorithm>

namespace weft::cpu {

AttentionTiles::AttentionTiles(const Graph& graph, std::span<const ValueId> values)
    : values_(values.begin(), values.end()),
      rows_(graph.value(values[0]).shape[0]),
      table_width_(graph.value(values[2]).shape[1].factor),
      // The worst case: every row of another sequence than the row before.
      tiles_(static_cast<std::size_t>(rows_.value(graph.bounds()))) {}

bool AttentionTiles::serves(std::span<const ValueId> values) const {
  return std::equal(values.begin(), values.end(), values_.begin(), values_.end());
}

void AttentionTiles::bind(const Addresses& addresses) {
  sequences_ = addresses.plain<const std::int32_t>(values_[1]);
  extents_ = addresses.plain<const Extent>(values_[2]);
  counts_ = addresses.plain<const std::int32_t>(values_[3]);
}

void AttentionTiles::prepare(const StepInfo& step) {
  if (step_ == step.number) return;
  step_ = step.number;
  n_tiles_ = 0;
  const std::int64_t n_rows = rows_.value(step.symbols);
  for (std::int64_t row = 0; row < n_rows;) {
    const std::int32_t sequence = sequences_[row];
    std::int64_t end = row;
    while (end < n_rows && end - row < kAttentionRows && sequences_[end] == sequence) ++end;
    tiles_[n_tiles_++] = {row, static_cast<int>(end - row), extents_ + sequence * table_width_, counts_[sequence]};
    row = end;
  }
}

AttentionLaunch::AttentionLaunch(const Graph& graph, const Node& node, std::shared_ptr<AttentionTiles> tiles)
    : inputs_(node.inputs), output_(node.output), tiles_(std::move(tiles)) {
  const auto& op = *get_op<ops::Attention>(node);
  const ValueInfo& keys = graph.value(node.inputs[1]);
  const ValueInfo& values = graph.value(node.inputs[2]);
  args_.layout = {keys.dtype, values.dtype, static_cast<int>(keys.shape[1].factor),
                  static_cast<int>(keys.shape[2].factor), static_cast<int>(values.shape[2].factor)};
  args_.n_heads = op.n_heads;
  args_.q_stride = graph.value(node.inputs[0]).shape.columns();
  args_.out_stride = graph.value(node.output).shape.columns();
  args_.scale = op.scale;
  args_.softcap = op.softcap;
  args_.window = op.window;
  args_.causal = op.causal;
}

void AttentionLaunch::bind(const Addresses& addresses) {
  tiles_->bind(addresses);
  args_.q = addresses.plain<const float>(inputs_[0]);
  args_.k_cache = addresses.plain<const std::byte>(inputs_[1]);
  args_.v_cache = addresses.plain<const std::byte>(inputs_[2]);
  args_.positions = addresses.plain<const std::int32_t>(inputs_[3]);
  args_.out = addresses.plain<float>(output_);
}

std::int32_t AttentionLaunch::prepare(const StepInfo& step) {
  tiles_->prepare(step);
  return static_cast<std::int32_t>(tiles_->tiles().size()) * args_.layout.n_kv_heads;
}

void AttentionLaunch::run(std::int32_t task, const TaskContext& context) {
  const std::int32_t n_kv_heads = args_.layout.n_kv_heads;
  context.kernels.attention(args_, tiles_->tiles()[static_cast<std::size_t>(task / n_kv_heads)], task % n_kv_heads,
                            context.scratch);
}

std::string AttentionLaunch::describe(const Graph& graph) const { return "attention " + graph.value(output_).name; }

}  // namespace weft::cpu
