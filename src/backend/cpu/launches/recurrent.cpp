#include "backend/cpu/launches/recurrent.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/to_size.h"

namespace weft::cpu {
namespace {

/// Whole vectors and cache lines; a scan's state of these columns stays in the first-level cache.
constexpr std::int64_t kColumnsPerTask = 64;

template <typename T>
RecurrentLaunch::SlotInputs slot_inputs(const Node& node) {
  const auto in = named_inputs<T>(node);
  return {.state = in.state, .x = in.x, .from = in.from, .to = in.to};
}

}  // namespace

RecurrentLaunch::RecurrentLaunch(const Graph& graph, const Node& node, const SlotInputs& slots)
    : name_(weft::to_string(node.op)),
      slots_(slots),
      output_(node.output),
      n_rows_dim_(graph.value(slots.x).shape[0]) {
  const Shape& state = graph.value(slots.state).shape;
  n_state_rows_ = state[1].constant();
  n_columns_ = state[2].constant();
}

void RecurrentLaunch::bind(const Addresses& addresses) {
  state_ = addresses.plain<float>(slots_.state);
  x_ = addresses.plain<const float>(slots_.x);
  from_ = addresses.plain<const std::int32_t>(slots_.from);
  to_ = addresses.plain<const std::int32_t>(slots_.to);
  out_ = addresses.plain<float>(output_);
}

std::int32_t RecurrentLaunch::prepare(const StepInfo& step) {
  n_rows_ = n_rows_dim_.value(step.symbols);
  return n_rows_ > 0 ? static_cast<std::int32_t>((n_columns_ + kColumnsPerTask - 1) / kColumnsPerTask) : 0;
}

void RecurrentLaunch::run(std::int32_t task, const TaskContext& context) {
  const std::int64_t column = task * kColumnsPerTask;
  const auto state = [&](std::int32_t slot) { return state_ + slot * n_state_rows_ * n_columns_ + column; };
  RecurrentRow common;
  common.n = std::min(kColumnsPerTask, n_columns_ - column);
  common.stride = n_columns_;
  for (std::int64_t row = 0; row < n_rows_; ++row) {
    common.x = x_ + row * n_columns_ + column;
    common.from = from_[row] < 0 ? nullptr : state(from_[row]);
    common.to = state(to_[row]);
    common.out = out_ + row * n_columns_ + column;
    run_row(row, common, column, context.kernels);
  }
}

std::string RecurrentLaunch::describe(const Graph& graph) const {
  return std::string(name_) + " " + graph.value(output_).name;
}

void RecurrentLaunch::transpose(const MatrixTensor& matrix, std::vector<float>& out) {
  if (std::exchange(transposed_, &matrix) == &matrix) return;
  const PackedMatrix& packed = matrix.matrices()[0];
  WEFT_CHECK(packed.rows == n_columns_);
  out.resize(to_size(packed.rows * packed.columns));
  std::vector<float> row(to_size(packed.columns));
  for (std::int64_t r = 0; r < packed.rows; ++r) {
    unpack_packed_row(packed, r, row.data());
    for (std::int64_t c = 0; c < packed.columns; ++c) out[to_size(c * packed.rows + r)] = row[to_size(c)];
  }
}

ConvLaunch::ConvLaunch(const Graph& graph, const Node& node)
    : RecurrentLaunch(graph, node, slot_inputs<ops::ShortConv>(node)),
      inputs_(named_inputs<ops::ShortConv>(node)) {}

void ConvLaunch::bind(const Addresses& addresses) {
  RecurrentLaunch::bind(addresses);
  transpose(*addresses.matrix(inputs_.weight), weight_);
  bias_ = inputs_.bias != kNoValue ? addresses.plain<const float>(inputs_.bias) : nullptr;
}

std::size_t ConvLaunch::held_bytes() const {  // weight_, which binding makes.
  return to_size((n_state_rows_ + 1) * n_columns_) * sizeof(float);
}

void ConvLaunch::run_row(std::int64_t, const RecurrentRow& common, std::int64_t column,
                         const Kernels& kernels) {
  ConvRow row;
  static_cast<RecurrentRow&>(row) = common;
  row.weight = weight_.data() + column;
  row.bias = bias_ != nullptr ? bias_ + column : nullptr;
  row.n_taps = static_cast<int>(n_state_rows_) + 1;
  kernels.conv_row(row);
}

ScanLaunch::ScanLaunch(const Graph& graph, const Node& node)
    : RecurrentLaunch(graph, node, slot_inputs<ops::SelectiveScan>(node)),
      inputs_(named_inputs<ops::SelectiveScan>(node)) {
  const Shape& a = graph.value(inputs_.a).shape;
  if (a.rank() == 1) n_heads_ = a[0].constant();
  n_groups_ = graph.value(inputs_.b).shape.columns() / n_state_rows_;
}

void ScanLaunch::bind(const Addresses& addresses) {
  RecurrentLaunch::bind(addresses);
  dt_ = addresses.plain<const float>(inputs_.dt);
  b_ = addresses.plain<const float>(inputs_.b);
  c_ = addresses.plain<const float>(inputs_.c);
  if (n_heads_ > 0) {
    const auto* a = addresses.plain<const float>(inputs_.a);
    a_.assign(a, a + n_heads_);
  } else {
    transpose(*addresses.matrix(inputs_.a), a_);
  }
  skip_ = addresses.plain<const float>(inputs_.skip);
}

std::size_t ScanLaunch::held_bytes() const {  // a_, which binding makes.
  return to_size(n_heads_ > 0 ? n_heads_ : n_columns_ * n_state_rows_) * sizeof(float);
}

void ScanLaunch::run_row(std::int64_t row_index, const RecurrentRow& common, std::int64_t column,
                         const Kernels& kernels) {
  ScanRow row;
  static_cast<RecurrentRow&>(row) = common;
  row.n_state = static_cast<int>(n_state_rows_);
  row.b = b_ + row_index * n_groups_ * n_state_rows_;
  row.c = c_ + row_index * n_groups_ * n_state_rows_;
  if (n_heads_ == 0) {
    row.dt = dt_ + row_index * n_columns_ + column;
    row.a = a_.data() + column;
    row.skip = skip_ + column;
    return kernels.scan_row(row);
  }
  // The parts of heads in these columns.
  row.head = true;
  const std::int64_t head_columns = n_columns_ / n_heads_;
  for (std::int64_t done = 0; done < common.n; done += row.n) {
    const std::int64_t head = (column + done) / head_columns;
    const std::int64_t group = head / (n_heads_ / n_groups_);
    row.n = std::min((head + 1) * head_columns - (column + done), common.n - done);
    row.x = common.x + done;
    row.from = common.from != nullptr ? common.from + done : nullptr;
    row.to = common.to + done;
    row.out = common.out + done;
    row.dt = dt_ + row_index * n_heads_ + head;
    row.a = a_.data() + head;
    row.skip = skip_ + head;
    row.b = b_ + (row_index * n_groups_ + group) * n_state_rows_;
    row.c = c_ + (row_index * n_groups_ + group) * n_state_rows_;
    kernels.scan_row(row);
  }
}

}  // namespace weft::cpu
