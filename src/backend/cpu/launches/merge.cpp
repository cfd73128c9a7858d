#include "backend/cpu/launches/merge.h"

#include <algorithm>
#include <utility>

namespace weft::cpu {

MergeLaunch::MergeLaunch(const Graph& graph, const Node& node, const char* name,
                         std::shared_ptr<const Taken> taken)
    : name_(name),
      taken_(std::move(taken)),
      out_id_(node.output),
      rows_(graph.value(node.output).shape.row_dim()),
      columns_(graph.value(node.output).shape.columns()) {}

void MergeLaunch::bind(const Addresses& addresses) { out_ = addresses.plain<float>(out_id_); }

std::int32_t MergeLaunch::prepare(const StepInfo& step) {
  n_rows_ = rows_.value(step.symbols);
  rows_per_task_ = std::max<std::int64_t>(1, n_rows_ / step.n_threads);
  return static_cast<std::int32_t>((n_rows_ + rows_per_task_ - 1) / rows_per_task_);
}

void MergeLaunch::run(std::int32_t task, const TaskContext& context) {
  const std::int64_t end = std::min((task + 1) * rows_per_task_, n_rows_);
  for (std::int64_t row = task * rows_per_task_; row < end; ++row) merge(row, context, out_ + row * columns_);
}

std::string MergeLaunch::describe(const Graph& graph) const {
  return std::string(name_) + " -> " + graph.value(out_id_).name;
}

}  // namespace weft::cpu
