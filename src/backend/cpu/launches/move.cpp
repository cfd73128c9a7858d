#include "backend/cpu/launches/move.h"

#include <cmath>

#include "backend/rope.h"
#include "base/to_size.h"

namespace weft::cpu {

MoveLaunch::MoveLaunch(const Graph& graph, const Node& node)
    : op_(*get_op<ops::MoveCells>(node)),
      inputs_(named_inputs<ops::MoveCells>(node)),
      output_(node.output),
      n_moves_dim_(graph.value(inputs_.from).shape[0]) {
  const ValueInfo& cache = graph.value(inputs_.cache);
  const int head_dim = static_cast<int>(cache.shape[2].constant());
  layout_ = {cache.dtype, cache.dtype, static_cast<int>(cache.shape[1].constant()), head_dim, head_dim};
}

void MoveLaunch::bind(const Addresses& addresses) {
  const auto& in = inputs_;
  cache_ = addresses.plain<std::byte>(in.cache);
  from_ = addresses.plain<const std::int32_t>(in.from);
  to_ = addresses.plain<const std::int32_t>(in.to);
  deltas_ = in.deltas != kNoValue ? addresses.plain<const std::int32_t>(in.deltas) : nullptr;
  const float* factors = in.factors != kNoValue ? addresses.plain<const float>(in.factors) : nullptr;
  if (!frequencies_.empty() && factors == factors_) return;
  factors_ = factors;
  frequencies_ = rope_frequencies(op_.rope, factors);
}

/// One task: moves may build on each other, so they run in order. Layers share the threads.
std::int32_t MoveLaunch::prepare(const StepInfo& step) {
  n_moves_ = n_moves_dim_.value(step.symbols);
  return n_moves_ > 0 ? 1 : 0;
}

std::size_t MoveLaunch::scratch_bytes() const {
  const int row = layout_.n_kv_heads * layout_.k_head_dim;
  return to_size(row + op_.rope.n_rot) * sizeof(float);
}

void MoveLaunch::run(std::int32_t, const TaskContext& context) {
  const Kernels& kernels = context.kernels;
  const int n_row = layout_.n_kv_heads * layout_.k_head_dim;
  auto* const row = reinterpret_cast<float*>(context.scratch);
  float* const cos = row + n_row;
  float* const sin = cos + op_.rope.n_rot / 2;
  const RopeTable table = {cos, sin, op_.rope.n_rot, op_.rope.neox};
  std::int32_t table_delta = 0;
  for (std::int64_t i = 0; i < n_moves_; ++i) {
    if (op_.role == CacheRole::kValues) {
      if (from_[i] != to_[i]) kernels.copy_v(layout_, from_[i], to_[i], cache_);
      continue;
    }
    if (op_.rope.n_rot == 0 || deltas_[i] == 0) {
      if (from_[i] != to_[i]) kernels.copy_k(layout_, from_[i], to_[i], cache_);
      continue;
    }
    if (deltas_[i] != table_delta) {
      table_delta = deltas_[i];
      for (std::size_t f = 0; f < frequencies_.size(); ++f) {
        cos[f] = static_cast<float>(std::cos(table_delta * frequencies_[f]));
        sin[f] = static_cast<float>(std::sin(table_delta * frequencies_[f]));
      }
    }
    kernels.load_k(layout_, cache_, from_[i], row);
    if (op_.hadamard > 0) kernels.hadamard_row(row, n_row, op_.hadamard, row);
    for (int h = 0; h < n_row; h += layout_.k_head_dim)
      kernels.rope_head(table, row + h, layout_.k_head_dim, row + h);
    if (op_.hadamard > 0) kernels.hadamard_row(row, n_row, op_.hadamard, row);
    kernels.store_k(layout_, row, to_[i], cache_);
  }
}

std::string MoveLaunch::describe(const Graph& graph) const {
  return "move_cells " + graph.value(output_).name;
}

}  // namespace weft::cpu
