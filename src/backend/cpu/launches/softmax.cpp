#include "backend/cpu/launches/softmax.h"

#include <algorithm>
#include <array>
#include <vector>

#include "base/to_size.h"

namespace weft::cpu {
namespace {

constexpr std::int64_t kSoftmaxLeastElements = 4096;
/// Lines that are copied together: enough for the memory's bandwidth, if they stay in the cache.
constexpr std::int64_t kLeastLines = 4, kMostLines = 64;
constexpr std::int64_t kNear = 320 * 1024;  // Elements.
/// Elements of them that are copied before the next: few enough to stay near, however far apart they are.
constexpr std::int64_t kElements = 8;
/// Between the copies of two lines, so that those do not fall into the same sets of a cache.
constexpr std::int64_t kApart = 16;

/// A view of where each line along the last axis begins.
View lines_of(const View& view) {
  std::vector<Dim> sizes;
  for (int i = 0; i + 1 < view.shape.rank(); ++i) sizes.push_back(view.shape[i]);
  return {view.base, Shape(sizes), view.offset, view.strides};
}

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
  shares_.set(n_rows_, kSoftmaxLeastElements / std::max<std::int64_t>(n_columns_, 1), step.n_threads);
  return shares_.n_tasks;
}

void SoftmaxLaunch::run(std::int32_t task, const TaskContext& context) {
  const std::int64_t begin = task * shares_.per_task;
  const std::int64_t end = std::min(begin + shares_.per_task, n_rows_);
  for (std::int64_t row = begin; row < end; ++row)
    context.kernels.softmax_row(x_ + row * n_columns_, n_columns_, out_ + row * n_columns_);
}

SoftmaxAcrossLaunch::SoftmaxAcrossLaunch(const Graph& graph, const View& x, const View& out)
    : x_lines_(lines_of(x)), out_lines_(lines_of(out)), size_dim_(x.shape.back()) {
  const auto last = to_size(x.shape.rank() - 1);
  x_stride_dim_ = x.strides[last];
  out_stride_dim_ = out.strides[last];
  most_ = size_dim_.value(graph.bounds());
  together_ = std::clamp(kNear / (most_ + kApart), kLeastLines, kMostLines);
}

void SoftmaxAcrossLaunch::bind(const Addresses& addresses) {
  x_ = addresses.plain<const float>(x_lines_.base);
  out_ = addresses.plain<float>(out_lines_.base);
}

std::int32_t SoftmaxAcrossLaunch::prepare(const StepInfo& step) {
  size_ = size_dim_.value(step.symbols);
  x_stride_ = x_stride_dim_.value(step.symbols);
  out_stride_ = out_stride_dim_.value(step.symbols);
  const std::array<StridedView, 2> views = {at_step(out_lines_, step.symbols),
                                            at_step(x_lines_, step.symbols)};
  lines_.set(views);
  const std::int64_t n = size_ > 0 ? lines_.n_elements() : 0;
  shares_.set((n + together_ - 1) / together_,
              kSoftmaxLeastElements / std::max<std::int64_t>(together_ * size_, 1), step.n_threads);
  return shares_.n_tasks;
}

std::size_t SoftmaxAcrossLaunch::scratch_bytes() const {
  return to_size(together_ * (most_ + kApart)) * sizeof(float);
}

void SoftmaxAcrossLaunch::run(std::int32_t task, const TaskContext& context) {
  const Kernels& kernels = context.kernels;
  auto* const rows = reinterpret_cast<float*>(context.scratch);
  const std::int64_t begin = task * shares_.per_task * together_;
  const std::int64_t end = std::min(begin + shares_.per_task * together_, lines_.n_elements());
  const std::int64_t row_stride = size_ + kApart;
  const std::int64_t out_next = lines_.run_stride(0), x_next = lines_.run_stride(1);
  lines_.for_each_run(begin, end, [&](const StridedLoops::Offsets& at, std::int64_t n_lines) {
    for (std::int64_t line = 0; line < n_lines; line += together_) {
      const std::int64_t n = std::min(together_, n_lines - line);
      const float* const x = x_ + at[1] + line * x_next;
      float* const out = out_ + at[0] + line * out_next;
      for (std::int64_t i = 0; i < size_; i += kElements) {
        const std::int64_t part = std::min(kElements, size_ - i);
        kernels.copy_block(x + i * x_stride_, x_next, x_stride_, n, part, part, rows + i, row_stride);
      }
      for (std::int64_t row = 0; row < n; ++row)
        kernels.softmax_row(rows + row * row_stride, size_, rows + row * row_stride);
      // Where the lines lie side by side, their elements do, too: rows of them are stored.
      for (std::int64_t i = 0; i < size_; i += kElements) {
        const std::int64_t part = std::min(kElements, size_ - i);
        if (out_next == 1) {
          kernels.copy_block(rows + i, 1, row_stride, part, n, n, out + i * out_stride_, out_stride_);
        } else {
          for (std::int64_t row = 0; row < n; ++row)
            kernels.copy_block(rows + row * row_stride + i, 1, 1, part, 1, 1,
                               out + row * out_next + i * out_stride_, out_stride_);
        }
      }
    }
  });
}

}  // namespace weft::cpu
