#include "backend/cpu/launches/log_sum.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "backend/cpu/launches/best.h"

namespace weft::cpu {
namespace {

constexpr float kLowest = -std::numeric_limits<float>::infinity();

static_assert(kNoLogSum == ops::LogSumExp::kNoRow);

std::int64_t parts_of(std::int64_t n_values) { return (n_values + kLogSumPart - 1) / kLogSumPart; }

}  // namespace

void write_log_sum(float log_sum, float picked, float* out) {
  out[0] = log_sum;
  out[1] = std::isnan(picked) ? kLowest : picked;
}

LogSums::LogSums(const Graph& graph, const Node* node) {
  if (node == nullptr) return;
  ids_id_ = node->inputs[1];
  const Shape& rows = graph.value(node->inputs[0]).shape;
  n_parts_ = parts_of(rows.columns());
  max_rows_ = rows.rows(graph.bounds());
  memory_ = base::Memory(static_cast<std::size_t>(max_rows_ * (2 * n_parts_ + 1)) * sizeof(float));
}

void LogSums::bind(const Addresses& addresses) {
  if (ids_id_ != kNoValue) ids_ = addresses.plain<const std::int32_t>(ids_id_);
}

void LogSums::begin_step(std::int64_t n_rows) {
  any_ = ids_ != nullptr &&
         std::any_of(ids_, ids_ + n_rows, [](std::int32_t id) { return id != ops::LogSumExp::kNoRow; });
  if (any_) std::fill_n(picked(), n_rows, kLowest);
}

void LogSums::ask(MatmulArgs& args) const {
  if (any_) args.log_sums = {ids_, largest(), sums(), n_parts_, picked()};
}

void LogSums::merge(const Kernels& kernels, std::int64_t row, float* out) const {
  if (ids_[row] == ops::LogSumExp::kNoRow) return write_log_sum(kLowest, kLowest, out);
  const std::int64_t at = row * n_parts_;
  write_log_sum(kernels.merge_log_sums(largest() + at, sums() + at, n_parts_), picked()[row], out);
}

LogSumLaunch::LogSumLaunch(const Graph& graph, const Node& node, std::shared_ptr<const Taken> taken)
    : taken_(std::move(taken)), out_id_(node.output), rows_(graph.value(node.output).shape.row_dim()) {}

void LogSumLaunch::bind(const Addresses& addresses) { out_ = addresses.plain<float>(out_id_); }

std::int32_t LogSumLaunch::prepare(const StepInfo& step) {
  n_rows_ = rows_.value(step.symbols);
  rows_per_task_ = std::max<std::int64_t>(1, n_rows_ / step.n_threads);
  return static_cast<std::int32_t>((n_rows_ + rows_per_task_ - 1) / rows_per_task_);
}

void LogSumLaunch::run(std::int32_t task, const TaskContext& context) {
  const std::int64_t end = std::min((task + 1) * rows_per_task_, n_rows_);
  for (std::int64_t row = task * rows_per_task_; row < end; ++row)
    taken_->log_sums.merge(context.kernels, row, out_ + 2 * row);
}

std::size_t LogSumLaunch::held_bytes() const { return taken_->log_sums.held_bytes(); }

std::string LogSumLaunch::describe(const Graph& graph) const {
  return "log_sum_merge -> " + graph.value(out_id_).name;
}

}  // namespace weft::cpu
