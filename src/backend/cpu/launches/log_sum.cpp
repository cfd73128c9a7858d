#include "backend/cpu/launches/log_sum.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "backend/cpu/launches/best.h"
#include "base/to_size.h"

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
  memory_ = base::Memory(to_size(max_rows_ * (2 * n_parts_ + 1)) * sizeof(float));
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

std::size_t LogSumLaunch::held_bytes() const { return taken().log_sums.held_bytes(); }

void LogSumLaunch::merge(std::int64_t row, const TaskContext& context, float* out) const {
  taken().log_sums.merge(context.kernels, row, out);
}

}  // namespace weft::cpu
