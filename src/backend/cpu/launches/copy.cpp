#include "backend/cpu/launches/copy.h"

#include <algorithm>
#include <array>

#include "base/to_size.h"

namespace weft::cpu {
namespace {

constexpr std::int64_t kCopyLeastElements = 16384;
/// Rows that are transposed together: a cache line of the input.
constexpr std::int64_t kBlockRows = 16;

}  // namespace

void StridedCopy::bind(const Addresses& addresses) {
  to_base_ = addresses.plain<float>(to_.base);
  from_base_ = addresses.plain<const float>(from_.base);
}

std::int32_t StridedCopy::prepare(const StepInfo& step) {
  std::array<StridedView, 2> views = {at_step(to_, step.symbols), at_step(from_, step.symbols)};
  loops_.set(views);
  turned_ = false;
  const std::int64_t n = loops_.n_elements();
  if (n > 0 && loops_.run_stride(1) > 1) {
    // The axis along which elements are read that lie next to each other, and the innermost one of the
    // result.
    const auto size = [&](int axis) { return views[0].sizes[to_size(axis)]; };
    const auto stride = [&](std::size_t view, int axis) { return views[view].strides[to_size(axis)]; };
    int near = -1, inner = -1;
    for (int i = 0; i < views[0].rank; ++i) {
      if (size(i) == 1) continue;
      if (stride(1, i) == 1) near = i;
      inner = i;
    }
    if (near >= 0 && near != inner && stride(0, inner) == 1) {
      turned_ = true;
      row_ = stride(1, near);
      column_ = stride(1, inner);
      to_row_ = stride(0, near);
      n_rows_ = size(near);
      n_columns_ = size(inner);
      n_blocks_ = (n_rows_ + kBlockRows - 1) / kBlockRows;
      for (StridedView& view : views)
        for (const int axis : {near, inner}) view.sizes[to_size(axis)] = 1;
      loops_.set(views);
      shares_.set(loops_.n_elements() * n_blocks_,
                  std::max<std::int64_t>(1, kCopyLeastElements / (kBlockRows * n_columns_)), step.n_threads);
      return shares_.n_tasks;
    }
  }
  shares_.set(n, kCopyLeastElements, step.n_threads);
  return shares_.n_tasks;
}

void StridedCopy::run(std::int32_t task, const Kernels& kernels) const {
  const std::int64_t begin = task * shares_.per_task;
  if (turned_) return run_turned(begin, begin + shares_.per_task, kernels);
  const std::int64_t end = std::min(begin + shares_.per_task, loops_.n_elements());
  const std::int64_t to_stride = loops_.run_stride(0), stride = loops_.run_stride(1);
  loops_.for_each_run(begin, end, [&](const StridedLoops::Offsets& at, std::int64_t n) {
    float* const to = to_base_ + at[0];
    const float* const from = from_base_ + at[1];
    if (to_stride == 1 && stride == 1) {
      std::copy(from, from + n, to);
    } else if (to_stride == 1 && stride == 0) {
      std::fill_n(to, n, *from);
    } else {
      kernels.copy_block(from, stride, 1, n, 1, 1, to, to_stride);
    }
  });
}

/// Blocks of rows, in the order of the places of the other axes.
void StridedCopy::run_turned(std::int64_t begin, std::int64_t end, const Kernels& kernels) const {
  end = std::min(end, loops_.n_elements() * n_blocks_);
  while (begin < end) {
    const std::int64_t place = begin / n_blocks_, first = begin % n_blocks_;
    const std::int64_t n = std::min(n_blocks_ - first, end - begin);
    loops_.for_each_run(place, place + 1, [&](const StridedLoops::Offsets& at, std::int64_t) {
      for (std::int64_t block = first; block < first + n; ++block) {
        const std::int64_t row = block * kBlockRows;
        kernels.copy_block(from_base_ + at[1] + row * row_, row_, column_,
                           std::min(kBlockRows, n_rows_ - row), n_columns_, n_columns_,
                           to_base_ + at[0] + row * to_row_, to_row_);
      }
    });
    begin += n;
  }
}

CopyLaunch::CopyLaunch(ValueId value, const View& from)
    : value_(value), copy_(plain_view(value, from.shape), from) {}

JoinLaunch::JoinLaunch(const Graph& graph, const Node& node, std::span<const View> parts)
    : name_(to_string(node.op)), output_(node.output) {
  const View out = plain_view(node.output, graph.value(node.output).shape);
  if (const auto* concat = get_op<ops::Concat>(node)) add_concat(*concat, out, parts);
  if (const auto* pad = get_op<ops::Pad>(node)) add_pad(*pad, out, parts[0]);
  first_task_.resize(copies_.size() + 1);
  fills_.resize(padding_.size());
}

void JoinLaunch::add_concat(const ops::Concat& op, const View& out, std::span<const View> parts) {
  const auto axis = to_size(op.axis == ops::Concat::kColumns ? out.shape.rank() - 1 : op.axis);
  Dim first = 0;
  for (const View& part : parts) {
    copies_.emplace_back(View{out.base, part.shape, first * out.strides[axis], out.strides}, part);
    first = first + part.shape[static_cast<int>(axis)];
  }
}

void JoinLaunch::add_pad(const ops::Pad& op, const View& out, const View& x) {
  value_ = op.value;
  Dim first = 0;
  std::vector<Dim> sizes;
  for (int i = 0; i < out.shape.rank(); ++i) sizes.push_back(out.shape[i]);
  // The elements before and after x along an axis, within the rest left by the axes before.
  for (int i = 0; i < out.shape.rank(); ++i) {
    const auto axis = to_size(i);
    const auto add = [&](const Dim& begin, std::int64_t n) {
      if (n == 0) return;
      std::vector<Dim> part = sizes;
      part[axis] = n;
      padding_.push_back({out.base, Shape(part), first + begin * out.strides[axis], out.strides});
    };
    add(0, op.before[axis]);
    add(x.shape[i] + op.before[axis], op.after[axis]);
    first = first + op.before[axis] * out.strides[axis];
    sizes[axis] = x.shape[i];
  }
  copies_.emplace_back(View{out.base, x.shape, first, out.strides}, x);
}

void JoinLaunch::bind(const Addresses& addresses) {
  out_ = addresses.plain<float>(output_);
  for (StridedCopy& copy : copies_) copy.bind(addresses);
}

/// After the tasks of copies, one fills the rest.
std::int32_t JoinLaunch::prepare(const StepInfo& step) {
  std::int32_t n = 0;
  for (std::size_t i = 0; i < copies_.size(); ++i) {
    first_task_[i] = n;
    n += copies_[i].prepare(step);
  }
  first_task_.back() = n;
  for (std::size_t i = 0; i < padding_.size(); ++i) {
    const StridedView view = at_step(padding_[i], step.symbols);
    fills_[i].set({&view, 1});
  }
  return n + (padding_.empty() ? 0 : 1);
}

void JoinLaunch::run(std::int32_t task, const TaskContext& context) {
  if (task >= first_task_.back()) {
    for (const StridedLoops& fill : fills_)
      fill.for_each_run(0, fill.n_elements(), [&](const StridedLoops::Offsets& at, std::int64_t n) {
        for (std::int64_t i = 0; i < n; ++i) out_[at[0] + i * fill.run_stride(0)] = value_;
      });
    return;
  }
  const auto copy =
      std::upper_bound(first_task_.begin(), first_task_.end() - 1, task) - first_task_.begin() - 1;
  copies_[to_size(copy)].run(task - first_task_[to_size(copy)], context.kernels);
}

std::string JoinLaunch::describe(const Graph& graph) const {
  return std::string(name_) + " " + graph.value(output_).name;
}

}  // namespace weft::cpu
