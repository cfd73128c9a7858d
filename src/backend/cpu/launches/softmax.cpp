#include "backend/cpu/launches/softmax.h"

#include <algorithm>

namespace weft::cpu {
namespace {

constexpr std::int64_t kLeastElements = 4096;

}  // namespace

SoftmaxLaunch::SoftmaxLaunch(const Graph& graph, const Node& node)
    : input_(node.inputs[0]),
      output_(node.output),
      rows_(graph.value(output_).shape.row_dim()),
      columns_(graph.value(output_).shape.back()) {}

void SoftmaxLaunch::bind(const Addresses& addresses) {
  x_ = addresses.plain<const float>(input_);
  out_ = addresses.plain<float>(output_);
}

std::int32_t SoftmaxLaunch::prepare(const StepInfo& step) {
  n_rows_ = rows_.value(step.symbols);
  n_columns_ = columns_.value(step.symbols);
  shares_.set(n_rows_, kLeastElements / std::max<std::int64_t>(n_columns_, 1), step.n_threads);
  return shares_.n_tasks;
}

void SoftmaxLaunch::run(std::int32_t task, const TaskContext& context) {
  const std::int64_t begin = task * shares_.per_task;
  const std::int64_t end = std::min(begin + shares_.per_task, n_rows_);
  for (std::int64_t row = begin; row < end; ++row)
    context.kernels.softmax_row(x_ + row * n_columns_, n_columns_, out_ + row * n_columns_);
}

}  // namespace weft::cpu
