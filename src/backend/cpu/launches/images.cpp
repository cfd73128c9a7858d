#include "backend/cpu/launches/images.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/to_size.h"

namespace weft::cpu {
namespace {

/// Elements of results that are worth a task.
constexpr std::int64_t kImageLeastElements = 4096;
/// Floats of a block of pooling: within the first level of a cache.
constexpr std::int64_t kBlockFloats = 6 * 1024;

/// How many of a window's elements are inside.
std::int64_t n_inside(std::int64_t begin, std::int64_t n, std::int64_t size) {
  return std::max<std::int64_t>(std::min(begin + n, size) - std::max<std::int64_t>(begin, 0), 0);
}

}  // namespace

PoolLaunch::PoolLaunch(const Graph& graph, const Node& node)
    : op_(*get_op<ops::Pool2d>(node)),
      input_(node.inputs[0]),
      output_(node.output),
      y_axis_(convolution_axis(op_.kernel.h, op_.stride.h, op_.padding.h, 1)),
      x_axis_(convolution_axis(op_.kernel.w, op_.stride.w, op_.padding.w, 1)) {
  const Shape &x = graph.value(input_).shape, &result = graph.value(output_).shape;
  planes_ = x[0] * x[1];
  height_ = x[2];
  width_ = x[3];
  out_height_ = result[2];
  out_width_ = result[3];
  out_h_bound_ = out_height_.value(graph.bounds());
  out_w_bound_ = out_width_.value(graph.bounds());
}

std::int64_t PoolLaunch::block_floats(std::int64_t n_rows, std::int64_t n_columns) const {
  return size_of_rows(y_axis_, n_rows) * size_of_columns(x_axis_, n_columns);
}

std::size_t PoolLaunch::scratch_bytes() const {
  const std::int64_t most = std::max(std::min(kBlockFloats, block_floats(out_h_bound_, out_w_bound_)),
                                     block_floats(1, out_w_bound_));
  return to_size(most + kWindowSlack) * sizeof(float);
}

void PoolLaunch::bind(const Addresses& addresses) {
  x_ = addresses.plain<const float>(input_);
  out_ = addresses.plain<float>(output_);
}

std::int32_t PoolLaunch::prepare(const StepInfo& step) {
  const std::int64_t h = height_.value(step.symbols), w = width_.value(step.symbols);
  const std::int64_t out_h = out_height_.value(step.symbols), out_w = out_width_.value(step.symbols);
  if (h != h_ || w != w_ || taps_.empty()) {
    h_ = h;
    w_ = w;
    out_h_ = out_h;
    out_w_ = out_w;
    block_rows_ = 1;
    while (block_rows_ < out_h && block_floats(block_rows_ + 1, out_w) <= kBlockFloats) ++block_rows_;
    n_row_blocks_ = (out_h + block_rows_ - 1) / block_rows_;
    rows_ = lay_out_rows(y_axis_, block_rows_);
    columns_ = lay_out_columns(x_axis_, out_w);
    taps_ = places_of_taps(rows_, columns_, 1);
    counts_.clear();
    for (std::int64_t i = 0; i < out_w && !op_.count_padding; ++i)
      counts_.push_back(static_cast<float>(n_inside(i * op_.stride.w - op_.padding.w, op_.kernel.w, w)));
  }
  n_blocks_ = out_w == 0 ? 0 : planes_.value(step.symbols) * n_row_blocks_;
  const std::int64_t of_block = block_rows_ * std::max<std::int64_t>(out_w, 1);
  shares_.set(n_blocks_, kImageLeastElements / of_block, step.n_threads);
  return shares_.n_tasks;
}

void PoolLaunch::run(std::int32_t task, const TaskContext& context) {
  const bool largest = op_.kind == PoolKind::kMax;
  const float outside = largest ? -std::numeric_limits<float>::infinity() : 0.0f;
  WindowCopy copy = {.rows = rows_,
                     .columns = columns_,
                     .height = h_,
                     .width = w_,
                     .top = 0,
                     .left = x_axis_.origin,
                     .outside = outside};
  float* const copied = reinterpret_cast<float*>(context.scratch);
  WindowArgs args;
  args.x = copied;
  args.x_row = rows_.advance * columns_.size;
  args.taps = taps_.data();
  args.n_taps = static_cast<std::int64_t>(taps_.size());
  args.out_row = args.n_columns = out_w_;
  const std::int64_t begin = task * shares_.per_task, end = std::min(begin + shares_.per_task, n_blocks_);
  for (std::int64_t block = begin; block < end; ++block) {
    const std::int64_t plane = block / n_row_blocks_, row = block % n_row_blocks_ * block_rows_;
    copy.top = y_axis_.origin + row * y_axis_.step;
    copy_windows(copy, x_ + plane * h_ * w_, context.kernels, copied);
    args.n_rows = std::min(block_rows_, out_h_ - row);
    args.out = out_ + (plane * out_h_ + row) * out_w_;
    context.kernels.pool_windows(op_.kind, args);
    if (!largest) divide(row, args.n_rows, context.kernels, args.out);
  }
}

/// Sums to means.
void PoolLaunch::divide(std::int64_t row, std::int64_t n_rows, const Kernels& kernels, float* out) const {
  const auto all = static_cast<float>(op_.kernel.h * op_.kernel.w);
  if (op_.count_padding)
    return kernels.binary_row(BinaryKind::kDiv, {out, false}, {&all, true}, n_rows * out_w_, out);
  for (std::int64_t i = 0; i < n_rows; ++i) {
    float* const means = out + i * out_w_;
    const auto rows =
        static_cast<float>(n_inside((row + i) * op_.stride.h - op_.padding.h, op_.kernel.h, h_));
    kernels.binary_row(BinaryKind::kDiv, {means, false}, {counts_.data(), false}, out_w_, means);
    kernels.binary_row(BinaryKind::kDiv, {means, false}, {&rows, true}, out_w_, means);
  }
}

ResizeLaunch::ResizeLaunch(const Graph& graph, const Node& node)
    : op_(*get_op<ops::Resize2d>(node)), input_(node.inputs[0]), output_(node.output) {
  const Shape& x = graph.value(input_).shape;
  planes_ = x[0] * x[1];
  height_ = x[2];
  width_ = x[3];
  out_height_ = op_.height;
  out_width_ = op_.width;
  scratch_floats_ = to_size(width_.value(graph.bounds()));
}

void ResizeLaunch::bind(const Addresses& addresses) {
  x_ = addresses.plain<const float>(input_);
  out_ = addresses.plain<float>(output_);
}

void ResizeLaunch::place(Side& side, std::int64_t size, std::int64_t out_size) const {
  if (side.size == size && side.out_size == out_size) return;
  side.size = size;
  side.out_size = out_size;
  side.from.clear();
  side.to.clear();
  side.part.clear();
  for (std::int64_t i = 0; i < out_size; ++i) {
    // Twice the place, times the divisor: whole numbers, so that no place is rounded to its neighbour.
    std::int64_t twice = 0, divisor = out_size;
    if (op_.kind == ResizeKind::kNearest) {
      twice = 2 * (i * size / out_size) * divisor;
    } else if (op_.align_corners) {
      divisor = std::max<std::int64_t>(out_size - 1, 1);
      twice = out_size > 1 ? 2 * i * (size - 1) : 0;
    } else {
      twice = std::max<std::int64_t>((2 * i + 1) * size - out_size, 0);
    }
    const std::int64_t from = std::min(twice / (2 * divisor), std::max<std::int64_t>(size - 1, 0));
    side.from.push_back(static_cast<std::int32_t>(from));
    // Along a side that keeps its size, neighbours have no part in an element, infinite ones neither.
    const std::int64_t to = size == out_size ? from : std::min(from + 1, std::max<std::int64_t>(size - 1, 0));
    side.to.push_back(static_cast<std::int32_t>(to));
    side.part.push_back(static_cast<float>(static_cast<double>(twice - 2 * divisor * from) /
                                           (2.0 * static_cast<double>(divisor))));
  }
}

std::int32_t ResizeLaunch::prepare(const StepInfo& step) {
  const std::int64_t out_h = out_height_.value(step.symbols), out_w = out_width_.value(step.symbols);
  place(rows_, height_.value(step.symbols), out_h);
  place(columns_, width_.value(step.symbols), out_w);
  n_rows_ = out_w == 0 ? 0 : planes_.value(step.symbols) * out_h;
  shares_.set(n_rows_, kImageLeastElements / std::max<std::int64_t>(out_w, 1), step.n_threads);
  return shares_.n_tasks;
}

void ResizeLaunch::run(std::int32_t task, const TaskContext& context) {
  const Kernels& kernels = context.kernels;
  const std::int64_t h = rows_.size, w = columns_.size, out_h = rows_.out_size, out_w = columns_.out_size;
  float* const between = reinterpret_cast<float*>(context.scratch);
  const std::int64_t begin = task * shares_.per_task, end = std::min(begin + shares_.per_task, n_rows_);
  for (std::int64_t row = begin; row < end; ++row) {
    float* const out = out_ + row * out_w;
    if (h == 0 || w == 0) {
      std::fill_n(out, out_w, 0.0f);
      continue;
    }
    const auto y = to_size(row % out_h);
    const float* const plane = x_ + row / out_h * h * w;
    if (op_.kind == ResizeKind::kNearest) {
      kernels.gather_row(plane + rows_.from[y] * w, columns_.from.data(), out_w, out);
      continue;
    }
    kernels.scale_row(plane + rows_.from[y] * w, 1.0f - rows_.part[y], w, between);
    kernels.axpy_row(plane + rows_.to[y] * w, rows_.part[y], w, between);
    kernels.lerp_row(between, columns_.from.data(), columns_.to.data(), columns_.part.data(), out_w, out);
  }
}

}  // namespace weft::cpu
