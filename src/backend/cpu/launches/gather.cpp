#include "backend/cpu/launches/gather.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/to_size.h"

namespace weft::cpu {
namespace {

constexpr std::int64_t kGatherLeastElements = 8192;
/// The least number of neighbours for a task of a scatter: one cache line.
constexpr std::int64_t kLeastBeside = 16;

/// A view as one of that shape which stays at the first element of an axis.
View at_first(const View& view, const Shape& shape, int axis) {
  View result = view;
  result.shape = shape;
  result.strides[to_size(axis)] = 0;
  return result;
}

View axis_first(const View& view, int axis) {
  std::vector<Dim> sizes = {view.shape[axis]};
  View result = {view.base, {}, view.offset, {}};
  result.strides[0] = view.strides[to_size(axis)];
  for (int i = 0; i < view.shape.rank(); ++i) {
    if (i == axis) continue;
    result.strides[sizes.size()] = view.strides[to_size(i)];
    sizes.push_back(view.shape[i]);
  }
  result.shape = Shape(sizes);
  return result;
}

void copy_run(const float* from, std::int64_t from_stride, float* to, std::int64_t to_stride, std::int64_t n,
              const Kernels& kernels) {
  if (from_stride == 1 && to_stride == 1) {
    std::memcpy(to, from, to_size(n) * sizeof(float));
  } else {
    kernels.copy_block(from, from_stride, 1, n, 1, 1, to, to_stride);
  }
}

}  // namespace

TakeAlongLaunch::TakeAlongLaunch(const Graph& graph, const Node& node, std::span<const View> inputs)
    : output_(node.output), out_view_(plain_view(node.output, graph.value(node.output).shape)) {
  const int axis = get_op<ops::TakeAlong>(node)->axis;
  indices_view_ = inputs[1];
  x_view_ = at_first(inputs[0], out_view_.shape, axis);
  size_dim_ = inputs[0].shape[axis];
  stride_dim_ = inputs[0].strides[to_size(axis)];
}

void TakeAlongLaunch::bind(const Addresses& addresses) {
  x_ = addresses.plain<const float>(x_view_.base);
  indices_ = addresses.plain<const std::int32_t>(indices_view_.base);
  out_ = addresses.plain<float>(output_);
}

std::int32_t TakeAlongLaunch::prepare(const StepInfo& step) {
  size_ = size_dim_.value(step.symbols);
  stride_ = stride_dim_.value(step.symbols);
  const std::array<StridedView, 3> views = {
      at_step(out_view_, step.symbols), at_step(indices_view_, step.symbols), at_step(x_view_, step.symbols)};
  loops_.set(views);
  shares_.set(loops_.n_elements(), kGatherLeastElements, step.n_threads);
  return shares_.n_tasks;
}

void TakeAlongLaunch::run(std::int32_t task, const TaskContext& context) {
  const std::int64_t begin = task * shares_.per_task;
  const std::int64_t end = std::min(begin + shares_.per_task, loops_.n_elements());
  if (size_ == 0) {
    std::memset(out_ + begin, 0, to_size(end - begin) * sizeof(float));
    return;
  }
  const std::int64_t out_stride = loops_.run_stride(0), index_stride = loops_.run_stride(1),
                     x_stride = loops_.run_stride(2);
  const auto place = [&](std::int64_t i) {
    return std::clamp<std::int64_t>(indices_[i], 0, size_ - 1) * stride_;
  };
  loops_.for_each_run(begin, end, [&](const StridedLoops::Offsets& at, std::int64_t n) {
    float* const out = out_ + at[0];
    if (index_stride == 0)
      return copy_run(x_ + at[2] + place(at[1]), x_stride, out, out_stride, n, context.kernels);
    for (std::int64_t i = 0; i < n; ++i)
      std::memcpy(out + i * out_stride, x_ + at[2] + i * x_stride + place(at[1] + i * index_stride),
                  sizeof(float));
  });
}

ScatterLaunch::ScatterLaunch(const Graph& graph, const Node& node, std::span<const View> inputs)
    : op_(*get_op<ops::Scatter>(node)),
      output_(node.output),
      ints_(graph.value(node.output).dtype == DType::kI32) {
  const View out = plain_view(node.output, graph.value(node.output).shape);
  size_dim_ = out.shape[op_.axis];
  stride_dim_ = out.strides[to_size(op_.axis)];
  n_indices_dim_ = inputs[1].shape[op_.axis];
  out_all_ = axis_first(out, op_.axis);
  x_view_ = axis_first(inputs[0], op_.axis);
  out_first_ = axis_first(at_first(out, inputs[1].shape, op_.axis), op_.axis);
  indices_view_ = axis_first(inputs[1], op_.axis);
  source_view_ = axis_first(inputs[2], op_.axis);
}

void ScatterLaunch::bind(const Addresses& addresses) {
  x_ = addresses.plain<const float>(x_view_.base);
  indices_ = addresses.plain<const std::int32_t>(indices_view_.base);
  source_ = addresses.plain<const float>(source_view_.base);
  out_ = addresses.plain<float>(output_);
}

std::int32_t ScatterLaunch::prepare(const StepInfo& step) {
  const auto view = [&](const View& v) { return at_step(v, step.symbols); };
  size_ = size_dim_.value(step.symbols);
  stride_ = stride_dim_.value(step.symbols);
  n_indices_ = n_indices_dim_.value(step.symbols);
  const std::array<StridedView, 2> all = {view(out_all_), view(x_view_)};
  const std::array<StridedView, 3> own = {view(out_first_), view(indices_view_), view(source_view_)};
  copies_.set(all);
  updates_.set(own);
  n_beside_ = size_ > 0 ? copies_.n_elements() / size_ : 0;
  const std::int64_t least = kGatherLeastElements / std::max<std::int64_t>(size_ + n_indices_, 1);
  shares_.set(n_beside_, std::max(least, kLeastBeside), step.n_threads);
  return shares_.n_tasks;
}

void ScatterLaunch::run(std::int32_t task, const TaskContext& context) {
  const std::int64_t begin = task * shares_.per_task;
  const std::int64_t end = std::min(begin + shares_.per_task, n_beside_);
  // If the task has all the other axes, elements are one run.
  const auto for_each_run = [&](const StridedLoops& loops, std::int64_t n, auto f) {
    if (end - begin == n_beside_) return loops.for_each_run(0, n * n_beside_, f);
    for (std::int64_t i = 0; i < n; ++i) loops.for_each_run(i * n_beside_ + begin, i * n_beside_ + end, f);
  };
  for_each_run(copies_, size_, [&](const StridedLoops::Offsets& at, std::int64_t n) {
    copy_run(x_ + at[1], copies_.run_stride(1), out_ + at[0], copies_.run_stride(0), n, context.kernels);
  });
  for_each_run(updates_, n_indices_,
               [&](const StridedLoops::Offsets& at, std::int64_t n) { store_run(at, n, context.kernels); });
}

void ScatterLaunch::store_run(const StridedLoops::Offsets& at, std::int64_t n, const Kernels& kernels) const {
  const std::int64_t out_stride = updates_.run_stride(0), index_stride = updates_.run_stride(1),
                     source_stride = updates_.run_stride(2);
  // A row of neighbours that go to neighbours.
  if (index_stride == 0 && out_stride == 1 && source_stride == 1 && !(ints_ && op_.add)) {
    const std::int32_t index = indices_[at[1]];
    if (index < 0 || index >= size_) return;
    float* const out = out_ + at[0] + index * stride_;
    if (op_.add) return kernels.add_row(out, source_ + at[2], n, out);
    return copy_run(source_ + at[2], 1, out, 1, n, kernels);
  }
  for (std::int64_t i = 0; i < n; ++i)
    store(at[0] + i * out_stride, indices_[at[1] + i * index_stride], at[2] + i * source_stride);
}

void ScatterLaunch::store(std::int64_t out, std::int64_t index, std::int64_t source) const {
  if (index < 0 || index >= size_) return;
  float* const to = out_ + out + index * stride_;
  if (!op_.add) {
    std::memcpy(to, source_ + source, sizeof(float));
  } else if (ints_) {
    std::uint32_t a = 0, b = 0;
    std::memcpy(&a, to, sizeof(a));
    std::memcpy(&b, source_ + source, sizeof(b));
    a += b;
    std::memcpy(to, &a, sizeof(a));
  } else {
    *to += source_[source];
  }
}

}  // namespace weft::cpu
