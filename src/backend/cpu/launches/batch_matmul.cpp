#include "backend/cpu/launches/batch_matmul.h"

#include <algorithm>
#include <array>
#include <vector>

#include "base/to_size.h"

namespace weft::cpu {
namespace {

/// Columns of a block: enough to share the copied rows of a.
constexpr std::int64_t kColumnsOfBlock = 128;
/// Rows of blocks are multiples of this, which all kernels' tiles divide.
constexpr std::int64_t kRowUnit = 12;
static_assert(kProductRows % kRowUnit == 0);

/// A view of where each matrix begins.
View matrices_of(const View& view, const Shape& batch) {
  std::vector<Dim> sizes;
  for (int i = 0; i + 2 < view.shape.rank(); ++i) sizes.push_back(view.shape[i]);
  return broadcast_view({view.base, Shape(sizes), view.offset, view.strides}, batch);
}

const Dim& size_from_last(const View& view, int i) { return view.shape[view.shape.rank() - 1 - i]; }
const Dim& stride_from_last(const View& view, int i) {
  return view.strides[to_size(view.shape.rank() - 1 - i)];
}

}  // namespace

BatchMatmulLaunch::BatchMatmulLaunch(const Graph& graph, const Node& node, const View& a, const View& b)
    : output_(node.output),
      m_(size_from_last(a, 1)),
      n_(size_from_last(b, 0)),
      k_(size_from_last(a, 0)),
      a_row_(stride_from_last(a, 1)),
      a_column_(stride_from_last(a, 0)),
      b_row_(stride_from_last(b, 1)),
      b_column_(stride_from_last(b, 0)) {
  const View out = plain_view(node.output, graph.value(node.output).shape);
  std::vector<Dim> sizes;
  for (int i = 0; i + 2 < out.shape.rank(); ++i) sizes.push_back(out.shape[i]);
  const Shape batch(sizes);
  out_view_ = matrices_of(out, batch);
  a_view_ = matrices_of(a, batch);
  b_view_ = matrices_of(b, batch);
}

void BatchMatmulLaunch::bind(const Addresses& addresses) {
  a_ = addresses.plain<const float>(a_view_.base);
  b_ = addresses.plain<const float>(b_view_.base);
  out_ = addresses.plain<float>(output_);
}

std::int32_t BatchMatmulLaunch::prepare(const StepInfo& step) {
  const auto value = [&](const Dim& dim) { return dim.value(step.symbols); };
  const std::array<StridedView, 3> views = {at_step(out_view_, step.symbols), at_step(a_view_, step.symbols),
                                            at_step(b_view_, step.symbols)};
  matrices_.set(views);
  args_ = {.a_row = value(a_row_),
           .a_column = value(a_column_),
           .b_row = value(b_row_),
           .b_column = value(b_column_),
           .out_stride = value(n_),
           .m = value(m_),
           .n = value(n_),
           .k = value(k_)};
  // Blocks of equal height.
  const std::int64_t tall = std::max<std::int64_t>((args_.m + kProductRows - 1) / kProductRows, 1);
  rows_ = std::min((args_.m + tall * kRowUnit - 1) / (tall * kRowUnit) * kRowUnit, kProductRows);
  columns_ = kColumnsOfBlock;
  row_blocks_ = args_.m == 0 ? 0 : (args_.m + rows_ - 1) / rows_;
  column_blocks_ = (args_.n + columns_ - 1) / columns_;
  return static_cast<std::int32_t>(matrices_.n_elements() * row_blocks_ * column_blocks_);
}

void BatchMatmulLaunch::run(std::int32_t task, const TaskContext& context) {
  const std::int64_t of_matrix = row_blocks_ * column_blocks_;
  const std::int64_t matrix = task / of_matrix, block = task % of_matrix;
  const std::int64_t row = block / column_blocks_ * rows_, column = block % column_blocks_ * columns_;
  matrices_.for_each_run(matrix, matrix + 1, [&](const StridedLoops::Offsets& at, std::int64_t) {
    ProductArgs args = args_;
    args.m = std::min(rows_, args_.m - row);
    args.n = std::min(columns_, args_.n - column);
    args.a = a_ + at[1] + row * args.a_row;
    args.b = b_ + at[2] + column * args.b_column;
    args.out = out_ + at[0] + row * args.out_stride + column;
    context.kernels.product(args, reinterpret_cast<float*>(context.scratch));
  });
}

Work BatchMatmulLaunch::work() const {
  const auto of_one =
      static_cast<double>(args_.m) * static_cast<double>(args_.n) * static_cast<double>(args_.k);
  return {.multiply_adds = {.f32 = static_cast<double>(matrices_.n_elements()) * of_one}};
}

std::string BatchMatmulLaunch::describe(const Graph& graph) const {
  return "batch_matmul " + graph.value(output_).name;
}

}  // namespace weft::cpu
