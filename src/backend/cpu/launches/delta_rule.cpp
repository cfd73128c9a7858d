#include "backend/cpu/launches/delta_rule.h"

#include <algorithm>

#include "base/to_size.h"

namespace weft::cpu {
namespace {

/// Whole vectors and cache lines; the state of this many columns stays in the cache while rows use it.
constexpr std::int64_t kColumnsPerTask = 64;

}  // namespace

DeltaLaunch::DeltaLaunch(const Graph& graph, const Node& node)
    : inputs_(named_inputs<ops::DeltaRule>(node)),
      tiled_(get_op<ops::DeltaRule>(node)->tiled),
      output_(node.output),
      n_rows_dim_(graph.value(inputs_.v).shape[0]) {
  const auto columns = [&](ValueId value) { return graph.value(value).shape.columns(); };
  const Shape& state = graph.value(inputs_.state).shape;
  n_columns_ = state[2].constant();
  n_heads_ = columns(inputs_.v) / n_columns_;
  n_keys_ = state[1].constant() / n_heads_;
  n_groups_ = columns(inputs_.k) / n_keys_;
  n_decays_ = columns(inputs_.decay) / n_heads_;
  n_betas_ = columns(inputs_.beta) / n_heads_;
  n_parts_ = (n_columns_ + kColumnsPerTask - 1) / kColumnsPerTask;
}

void DeltaLaunch::bind(const Addresses& addresses) {
  const auto floats = [&](ValueId value) { return addresses.plain<const float>(value); };
  state_ = addresses.plain<float>(inputs_.state);
  q_ = floats(inputs_.q);
  k_ = floats(inputs_.k);
  v_ = floats(inputs_.v);
  decay_ = floats(inputs_.decay);
  beta_ = floats(inputs_.beta);
  removed_ = inputs_.removed != kNoValue ? floats(inputs_.removed) : nullptr;
  from_ = addresses.plain<const std::int32_t>(inputs_.from);
  to_ = addresses.plain<const std::int32_t>(inputs_.to);
  out_ = addresses.plain<float>(output_);
}

std::int32_t DeltaLaunch::prepare(const StepInfo& step) {
  n_rows_ = n_rows_dim_.value(step.symbols);
  return n_rows_ > 0 ? static_cast<std::int32_t>(n_heads_ * n_parts_) : 0;
}

std::size_t DeltaLaunch::scratch_bytes() const {
  return to_size(n_keys_ * std::min(kColumnsPerTask, n_columns_)) * sizeof(float);
}

DeltaRow DeltaLaunch::row_of(std::int64_t row, std::int64_t head, std::int64_t column) const {
  const std::int64_t group = tiled_ ? head % n_groups_ : head / (n_heads_ / n_groups_);
  const std::int64_t at = row * n_heads_ + head;
  DeltaRow result;
  result.q = q_ + (row * n_groups_ + group) * n_keys_;
  result.k = k_ + (row * n_groups_ + group) * n_keys_;
  result.v = v_ + at * n_columns_ + column;
  result.decay = decay_ + at * n_decays_;
  result.own_decays = n_decays_ == n_keys_ && n_keys_ > 1;
  result.beta = beta_ + at * n_betas_;
  if (removed_ != nullptr) result.removed = removed_ + at * n_keys_;
  result.out = out_ + at * n_columns_ + column;
  result.n_keys = static_cast<int>(n_keys_);
  return result;
}

void DeltaLaunch::run(std::int32_t task, const TaskContext& context) {
  const std::int64_t head = task / n_parts_, column = task % n_parts_ * kColumnsPerTask;
  const std::int64_t n = std::min(kColumnsPerTask, n_columns_ - column);
  const auto slot = [&](std::int32_t i) {
    return state_ + (i * n_heads_ + head) * n_keys_ * n_columns_ + column;
  };
  // The state stays in the scratch as long as the next row starts from it and stores it to the same slot.
  auto* const near = reinterpret_cast<float*>(context.scratch);
  bool is_near = false;
  for (std::int64_t r = 0; r < n_rows_; ++r) {
    DeltaRow row = row_of(r, head, column);
    row.n = n;
    row.from = is_near ? near : from_[r] < 0 ? nullptr : slot(from_[r]);
    row.from_stride = is_near ? n : n_columns_;
    is_near = r + 1 < n_rows_ && from_[r + 1] == to_[r] && to_[r + 1] == to_[r];
    row.to = is_near ? near : slot(to_[r]);
    row.to_stride = is_near ? n : n_columns_;
    context.kernels.delta_row(row);
  }
}

std::string DeltaLaunch::describe(const Graph& graph) const {
  return std::string(ops::DeltaRule::kName) + " " + graph.value(output_).name;
}

}  // namespace weft::cpu
