#include "backend/cpu/launches/pictures.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace weft::cpu {
namespace {

/// Elements of results that are worth a task.
constexpr std::int64_t kLeastElements = 4096;

/// Rows begin at lines of a cache.
std::int64_t aligned_floats(std::int64_t n) { return (n + 15) / 16 * 16; }

}  // namespace

PoolLaunch::PoolLaunch(const Graph& graph, const Node& node)
    : op_(*get_op<ops::Pool2d>(node)), input_(node.inputs[0]), output_(node.output) {
  const Shape &x = graph.value(input_).shape, &result = graph.value(output_).shape;
  planes_ = x[0] * x[1];
  height_ = x[2];
  width_ = x[3];
  out_height_ = result[2];
  out_width_ = result[3];
  const std::vector<std::int64_t> bounds = graph.bounds();
  const std::int64_t of_remainder = out_width_.value(bounds) + (op_.kernel.w - 1) / op_.stride.w;
  scratch_floats_ = static_cast<std::size_t>(
      aligned_floats(width_.value(bounds)) + aligned_floats(out_width_.value(bounds)) +
      std::min(op_.stride.w, op_.kernel.w) * std::max<std::int64_t>(of_remainder, 0));
}

void PoolLaunch::bind(const Addresses& addresses) {
  x_ = addresses.plain<const float>(input_);
  out_ = addresses.plain<float>(output_);
}

std::int32_t PoolLaunch::prepare(const StepInfo& step) {
  h_ = height_.value(step.symbols);
  w_ = width_.value(step.symbols);
  out_h_ = out_height_.value(step.symbols);
  out_w_ = out_width_.value(step.symbols);
  n_rows_ = out_w_ == 0 ? 0 : planes_.value(step.symbols) * out_h_;
  const std::int64_t of_row = w_ * op_.kernel.h + out_w_ * op_.kernel.w;
  shares_.set(n_rows_, 4 * kLeastElements / std::max<std::int64_t>(of_row, 1), step.n_threads);
  return shares_.n_tasks;
}

void PoolLaunch::run(std::int32_t task, const TaskContext& context) {
  const Kernels& kernels = context.kernels;
  const bool largest = op_.kind == PoolKind::kMax;
  const float outside = largest ? -std::numeric_limits<float>::infinity() : 0.0f;
  const auto take = [&](float* to, const float* other, std::int64_t n) {
    if (largest) return kernels.binary_row(BinaryKind::kMaximum, {to, false}, {other, false}, n, to);
    kernels.add_row(to, other, n, to);
  };
  float* const tall = reinterpret_cast<float*>(context.scratch);
  float* const counts = tall + aligned_floats(w_);
  float* const apart = counts + aligned_floats(out_w_);
  const std::int64_t step = op_.stride.w;
  const std::int64_t of_remainder = out_w_ + (op_.kernel.w - 1) / step;
  // How many columns of each window are picture.
  const auto inside = [](std::int64_t begin, std::int64_t n, std::int64_t size) {
    return std::max<std::int64_t>(std::min(begin + n, size) - std::max<std::int64_t>(begin, 0), 0);
  };
  if (!largest)
    for (std::int64_t i = 0; i < out_w_; ++i)
      counts[i] = static_cast<float>(op_.count_padding ? op_.kernel.w
                                                       : inside(i * step - op_.padding.w, op_.kernel.w, w_));
  const std::int64_t begin = task * shares_.per_task, end = std::min(begin + shares_.per_task, n_rows_);
  if (h_ == 0 || w_ == 0) {
    std::fill(out_ + begin * out_w_, out_ + end * out_w_, outside);
    return;
  }
  for (std::int64_t row = begin; row < end; ++row) {
    const float* const plane = x_ + row / out_h_ * h_ * w_;
    const std::int64_t top = row % out_h_ * op_.stride.h - op_.padding.h;
    const std::int64_t first = std::max<std::int64_t>(top, 0), last = std::min(top + op_.kernel.h, h_);
    kernels.window_row(plane + first * w_, w_, 0, 1, w_, outside, tall);
    for (std::int64_t y = first + 1; y < last; ++y) take(tall, plane + y * w_, w_);
    // Columns of one remainder by the stride lie side by side.
    for (std::int64_t remainder = 0; remainder < std::min(step, op_.kernel.w); ++remainder)
      kernels.window_row(tall, w_, remainder - op_.padding.w, step, of_remainder, outside,
                         apart + remainder * of_remainder);
    float* const out = out_ + row * out_w_;
    kernels.window_row(apart, out_w_, 0, 1, out_w_, outside, out);
    for (std::int64_t x = 1; x < op_.kernel.w; ++x)
      take(out, apart + x % step * of_remainder + x / step, out_w_);
    if (largest) continue;
    kernels.binary_row(BinaryKind::kDiv, {out, false}, {counts, false}, out_w_, out);
    const auto rows = static_cast<float>(op_.count_padding ? op_.kernel.h : last - first);
    kernels.binary_row(BinaryKind::kDiv, {out, false}, {&rows, true}, out_w_, out);
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
  scratch_floats_ = static_cast<std::size_t>(width_.value(graph.bounds()));
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
    side.to.push_back(static_cast<std::int32_t>(std::min(from + 1, std::max<std::int64_t>(size - 1, 0))));
    side.part.push_back(static_cast<float>(static_cast<double>(twice - 2 * divisor * from) /
                                           (2.0 * static_cast<double>(divisor))));
  }
}

std::int32_t ResizeLaunch::prepare(const StepInfo& step) {
  const std::int64_t out_h = out_height_.value(step.symbols), out_w = out_width_.value(step.symbols);
  place(rows_, height_.value(step.symbols), out_h);
  place(columns_, width_.value(step.symbols), out_w);
  n_rows_ = out_w == 0 ? 0 : planes_.value(step.symbols) * out_h;
  shares_.set(n_rows_, kLeastElements / std::max<std::int64_t>(out_w, 1), step.n_threads);
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
    const auto y = static_cast<std::size_t>(row % out_h);
    const float* const plane = x_ + row / out_h * h * w;
    // Infinities beside an element do not touch it where nothing is between them.
    if (op_.kind == ResizeKind::kNearest || (h == out_h && w == out_w)) {
      kernels.gather_row(plane + rows_.from[y] * w, columns_.from.data(), out_w, out);
      continue;
    }
    kernels.scale_row(plane + rows_.from[y] * w, 1.0f - rows_.part[y], w, between);
    kernels.axpy_row(plane + rows_.to[y] * w, rows_.part[y], w, between);
    kernels.lerp_row(between, columns_.from.data(), columns_.to.data(), columns_.part.data(), out_w, out);
  }
}

}  // namespace weft::cpu
